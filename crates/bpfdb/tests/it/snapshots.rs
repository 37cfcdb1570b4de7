//! Snapshots one after the other, beside writers.

use crate::common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bpfdb::{Engine, Operation, Session};

/// Accounts, and what each has at first.
const ACCOUNTS: u64 = 100;
const BALANCE: u64 = 1000;
const WRITERS: u64 = 2;
const SNAPSHOTS: u32 = 1000;

fn balance(session: &mut Session, account: u64) -> u64 {
    let value = session.get(&account.to_ne_bytes()).expect("GET");
    number(&value.expect("an account"))
}

fn number(value: &[u8]) -> u64 {
    u64::from_ne_bytes(value.try_into().expect("a number"))
}

fn set(session: &mut Session, account: u64, balance: u64) {
    let (account, balance) = (account.to_ne_bytes(), balance.to_ne_bytes());
    session.set(&account, &balance).expect("no SET is refused");
}

/// Moves money between two accounts of this writer's own, until it is over; how often.
fn transfer(engine: &Engine, writer: u64, over: &AtomicBool) -> u64 {
    let mut session = engine.session().expect("session");
    let own = ACCOUNTS / WRITERS;
    let mut transfers = 0;
    while !over.load(Ordering::Relaxed) {
        let [from, to] = [transfers * 7, transfers * 7 + 1].map(|n| writer * own + n % own);
        session.begin().expect("BEGIN");
        let balances = [from, to].map(|account| balance(&mut session, account));
        let amount = balances[0].min(transfers % 10);
        set(&mut session, from, balances[0] - amount);
        set(&mut session, to, balances[1] + amount);
        session.commit().expect("no COMMIT is refused");
        transfers += 1;
    }
    transfers
}

/// The sum of all accounts, in the transaction that is open.
fn sum(session: &mut Session) -> u64 {
    let keys: Vec<[u8; 8]> = (0..ACCOUNTS).map(u64::to_ne_bytes).collect();
    let operations: Vec<Operation> = keys.iter().map(|key| Operation::Get(key)).collect();
    let outcomes = session.batch(&operations, 8).expect("a batch");
    let found = |outcome: Result<Option<Vec<u8>>, _>| outcome.expect("GET").expect("an account");
    outcomes
        .into_iter()
        .map(|outcome| number(&found(outcome)))
        .sum()
}

/// One snapshot runs all the time: each begins before the one before it ends.
#[test]
fn a_thousand_reports_have_one_sum_and_refuse_no_writer() {
    let engine = common::engine();
    let mut running = engine.session().expect("session");
    let mut next = engine.session().expect("session");
    for account in 0..ACCOUNTS {
        set(&mut running, account, BALANCE);
    }
    let over = AtomicBool::new(false);
    let transfers: u64 = thread::scope(|scope| {
        let (engine, over) = (&engine, &over);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || transfer(engine, writer, over)))
            .collect();
        // The writers are made to end, whatever happens here.
        let reports = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            running.begin_read_only().expect("BEGIN");
            for _ in 0..SNAPSHOTS {
                next.begin_read_only().expect("BEGIN");
                assert_eq!(sum(&mut running), ACCOUNTS * BALANCE);
                running.commit().expect("COMMIT");
                std::mem::swap(&mut running, &mut next);
            }
            running.commit().expect("COMMIT");
        }));
        over.store(true, Ordering::Relaxed);
        let ended = writers.into_iter().map(|writer| writer.join());
        let transfers = ended.map(|writer| writer.expect("a writer"));
        let transfers = transfers.sum();
        if let Err(panic) = reports {
            std::panic::resume_unwind(panic);
        }
        transfers
    });
    assert!(transfers > 0, "nothing was written");
    let stats = engine.stats().expect("stats");
    assert_eq!((stats.snapshots, stats.counters.snapshots_revoked), (0, 0));
}
