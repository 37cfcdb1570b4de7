//! The checker of histories: what it finds, and what is no violation.

use bpfdb_model::history::Access::{self, Read, Write};
use bpfdb_model::history::{Transaction, Workload};
use bpfdb_model::{Anomaly, check};

/// Transactions that all overlap.
fn parallel(accesses: &[&[Access]]) -> Vec<Transaction> {
    let transaction = |(client, accesses): (usize, &&[Access])| Transaction {
        client,
        began: 0,
        ended: 100,
        committed: true,
        accesses: accesses.to_vec(),
    };
    accesses.iter().enumerate().map(transaction).collect()
}

/// One after the other.
fn serial(accesses: &[&[Access]]) -> Vec<Transaction> {
    let mut history = parallel(accesses);
    for (i, t) in history.iter_mut().enumerate() {
        (t.began, t.ended) = (10 * i as u64, 10 * i as u64 + 5);
    }
    history
}

fn found(history: &[Transaction]) -> Option<Anomaly> {
    check(Workload::Lists, history)
        .err()
        .map(|violation| violation.anomaly)
}

fn found_in_registers(history: &[Transaction]) -> Option<Anomaly> {
    check(Workload::Registers, history)
        .err()
        .map(|violation| violation.anomaly)
}

#[test]
fn a_serial_history_is_serializable() {
    let history = serial(&[
        &[Read(1, vec![]), Write(1, 10)],
        &[Read(1, vec![10]), Write(1, 11), Read(1, vec![10, 11])],
        &[Read(1, vec![10, 11]), Read(2, vec![])],
    ]);
    assert_eq!(found(&history), None);
    assert_eq!(found_in_registers(&history), None);
}

#[test]
fn a_transaction_in_doubt_of_order_is_no_violation() {
    // The reader overlaps the writers and may be placed between them.
    let history = parallel(&[
        &[Read(1, vec![]), Write(1, 10)],
        &[Read(1, vec![10]), Write(1, 11)],
        &[Read(1, vec![10])],
    ]);
    assert_eq!(found(&history), None);
}

#[test]
fn stale_read_is_a_cycle_with_real_time() {
    let history = serial(&[
        &[Read(1, vec![]), Write(1, 10)],
        &[Read(1, vec![])],
        &[Read(1, vec![10])],
    ]);
    assert_eq!(found(&history), Some(Anomaly::G2));
    assert_eq!(found_in_registers(&history), Some(Anomaly::G2));
}

#[test]
fn write_skew_is_g2() {
    let history = parallel(&[
        &[Read(1, vec![]), Read(2, vec![]), Write(1, 10)],
        &[Read(1, vec![]), Read(2, vec![]), Write(2, 20)],
        &[Read(1, vec![10]), Read(2, vec![20])],
    ]);
    assert_eq!(found(&history), Some(Anomaly::G2));
    assert_eq!(found_in_registers(&history), Some(Anomaly::G2));
}

#[test]
fn read_skew_is_g2() {
    let history = parallel(&[
        &[Read(1, vec![]), Write(1, 10), Read(2, vec![]), Write(2, 20)],
        &[Read(1, vec![]), Read(2, vec![20])],
        &[Read(1, vec![10])],
    ]);
    assert_eq!(found(&history), Some(Anomaly::G2));
}

#[test]
fn the_read_only_anomaly_is_g2() {
    // Fekete, O'Neil, O'Neil: x and y are accounts; the batch (#1) read
    // both before the deposit (#0); the report (#2) saw only the deposit.
    let mut history = parallel(&[
        &[Read(2, vec![]), Write(2, 20)],
        &[Read(1, vec![]), Read(2, vec![]), Write(1, 10)],
        &[Read(1, vec![]), Read(2, vec![20])],
        &[Read(1, vec![10]), Read(2, vec![20])],
    ]);
    assert_eq!(found(&history), Some(Anomaly::G2));
    history.remove(2);
    assert_eq!(found(&history), None);
}

#[test]
fn crossed_writes_are_g0() {
    let history = parallel(&[
        &[Write(1, 10), Write(2, 20)],
        &[Write(1, 11), Write(2, 21)],
        &[Read(1, vec![10, 11]), Read(2, vec![21, 20])],
    ]);
    assert_eq!(found(&history), Some(Anomaly::G0));
}

#[test]
fn crossed_reads_are_g1c() {
    let history = parallel(&[
        &[Write(1, 10), Read(2, vec![20])],
        &[Write(2, 20), Read(1, vec![10])],
    ]);
    assert_eq!(found(&history), Some(Anomaly::G1c));
    assert_eq!(found_in_registers(&history), Some(Anomaly::G1c));
}

#[test]
fn aborted_and_intermediate_reads() {
    let mut history = parallel(&[&[Write(1, 10)], &[Read(1, vec![10])]]);
    history[0].committed = false;
    assert_eq!(found(&history), Some(Anomaly::G1aAbortedRead));

    let history = parallel(&[&[Write(1, 10), Write(1, 11)], &[Read(1, vec![10])]]);
    assert_eq!(found(&history), Some(Anomaly::G1bIntermediateRead));
}

#[test]
fn lost_and_impossible_values() {
    let history = serial(&[
        &[Read(1, vec![]), Write(1, 10)],
        &[Read(1, vec![]), Write(1, 11)],
        &[Read(1, vec![11])],
    ]);
    assert_eq!(found(&history), Some(Anomaly::LostWrite));
    let history = parallel(&[&[Read(1, vec![99])]]);
    assert_eq!(found(&history), Some(Anomaly::Garbage));
    let history = parallel(&[
        &[Write(1, 10)],
        &[Write(1, 11)],
        &[Read(1, vec![10, 11])],
        &[Read(1, vec![11, 10])],
    ]);
    assert_eq!(found(&history), Some(Anomaly::Incompatible));
}

#[test]
fn a_key_that_changes_within_a_transaction() {
    let history = parallel(&[&[Write(1, 10)], &[Read(1, vec![]), Read(1, vec![10])]]);
    assert_eq!(found(&history), Some(Anomaly::Internal));
    let history = parallel(&[&[Write(1, 10), Read(1, vec![])]]);
    assert_eq!(found(&history), Some(Anomaly::Internal));
}

#[test]
fn blind_writes_are_ordered_by_real_time() {
    let history = serial(&[
        &[Write(1, 10)],
        &[Write(1, 11)],
        &[Read(1, vec![11])],
        &[Read(1, vec![10])],
    ]);
    assert_eq!(found_in_registers(&history), Some(Anomaly::G0));
}
