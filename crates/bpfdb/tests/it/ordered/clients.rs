//! Several clients of one table.

use crate::common;

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bpfdb::{ConflictCause, Engine, OrderedTable, Session, Status, ValueType, abi, prefix_range};

use super::{Model, Numbers, all, engine, is_passing, key, table};

/// Keyspace of the nodes of all indexes.
const NODES: usize = abi::BPFDB_KEYSPACE_NODES as usize;

/// Sessions of one engine, and a table in which every other number from 0 to 4000 is a row.
struct Two {
    engine: Engine,
    table: OrderedTable,
    one: Session,
    two: Session,
}

fn two() -> Two {
    let engine = engine();
    let table = table(&engine);
    let (mut one, two) = (engine.session(), engine.session());
    let one_session = one.as_mut().expect("session");
    for number in (0..4_000).step_by(2) {
        table.set(one_session, &key(number), b"v").expect("set");
    }
    Two {
        engine,
        table,
        one: one.expect("session"),
        two: two.expect("session"),
    }
}

impl Two {
    fn scan_by_one(&mut self, from: u64, to: u64) -> usize {
        let rows = self.table.scan(&mut self.one, key(from)..key(to), 1000);
        rows.expect("scan").rows.len()
    }
}

#[test]
fn nothing_comes_or_goes_in_a_range_that_was_scanned() {
    let mut two_clients = two();
    // Not one row is in it.
    two_clients.one.begin().expect("begin");
    assert_eq!(two_clients.scan_by_one(1_001, 1_002), 0);
    let Two {
        table, one, two, ..
    } = &mut two_clients;
    assert_eq!(
        table.set(two, &key(1_001), b"phantom"),
        Err(Status::Conflict)
    );
    let cause = two.last_conflict().map(|conflict| conflict.cause);
    assert_eq!(cause, Some(ConflictCause::Read));
    assert_eq!(table.delete(two, &key(1_000)), Err(Status::Conflict));
    two.begin().expect("begin");
    assert_eq!(
        table.set(two, &key(1_001), b"phantom"),
        Err(Status::Conflict)
    );
    two.rollback().expect("rollback");
    // A value may change that was not read, and far from there rows come and go.
    table.set(two, &key(1_000), b"changed").expect("set");
    table.set(two, &key(3_001), b"far").expect("set");
    assert!(table.delete(two, &key(3_001)).expect("delete"));
    // The transaction that has scanned may write there.
    table.set(one, &key(1_001), b"mine").expect("set");
    assert_eq!(two_clients.scan_by_one(1_000, 1_003), 3);
    two_clients.one.commit().expect("commit");
    let Two { table, two, .. } = &mut two_clients;
    assert!(table.delete(two, &key(1_001)).expect("delete"));
}

#[test]
fn two_that_scan_cannot_both_insert() {
    let Two {
        table,
        mut one,
        mut two,
        ..
    } = two();
    for session in [&mut one, &mut two] {
        session.begin().expect("begin");
        let found = table.scan(session, prefix_range(b"a"), 10).expect("scan");
        assert!(found.rows.is_empty());
    }
    assert_eq!(table.set(&mut one, b"a one", b"v"), Err(Status::Conflict));
    one.rollback().expect("rollback");
    table
        .set(&mut two, b"a two", b"v")
        .expect("no other one has read it by now");
    two.commit().expect("commit");
}

#[test]
fn a_scan_does_not_wait_and_passes_over_nothing() {
    let mut two_clients = two();
    let Two { table, two, .. } = &mut two_clients;
    two.begin().expect("begin");
    table.set(two, &key(1_001), b"not yet").expect("set");
    table.set(two, &key(2_000), b"another value").expect("set");
    // A snapshot has what was committed.
    two_clients.one.begin_read_only().expect("begin");
    assert_eq!(two_clients.scan_by_one(1_000, 1_003), 2);
    let Two {
        engine,
        table,
        one,
        two,
    } = &mut two_clients;
    // A scan that would have to know what becomes of it.
    let mut third = engine.session().expect("session");
    for range in [1_000..1_003, 2_000..2_001] {
        third.begin().expect("begin");
        let range = key(range.start)..key(range.end);
        assert_eq!(table.scan(&mut third, range, 10), Err(Status::Conflict));
        third.rollback().expect("rollback");
    }
    two.commit().expect("commit");
    let in_snapshot = table.scan(one, key(1_000)..key(1_003), 10).expect("scan");
    assert_eq!(in_snapshot.rows.len(), 2);
    one.commit().expect("commit");
    // Without a transaction it is a snapshot of now.
    assert_eq!(two_clients.scan_by_one(1_000, 1_003), 3);
}

#[test]
fn a_snapshot_is_scanned_while_the_table_is_rebuilt() {
    let mut two_clients = two();
    two_clients.one.begin_read_only().expect("begin");
    let Two { table, two, .. } = &mut two_clients;
    for number in 0..4_000 {
        match number % 2 {
            0 => assert!(table.delete(two, &key(number)).expect("delete")),
            _ => table.set(two, &key(number), b"new").expect("set"),
        }
    }
    assert_eq!(two_clients.scan_by_one(0, 1_000), 500);
    let Two {
        table, one, two, ..
    } = &mut two_clients;
    assert_eq!(all(table, one, 100).expect("scan").len(), 2_000);
    assert_eq!(all(table, two, 100).expect("scan").len(), 2_000);
    one.commit().expect("commit");
}

/// At most one row of a group: a client that finds none inserts one, and one that finds it deletes it. The rows of all
/// groups lie in few leaves.
#[test]
fn groups_never_have_two_rows() {
    const GROUPS: usize = 12;
    let engine = engine();
    let table = table(&engine);
    let (stop, inserted, conflicts) =
        (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..3 {
            let (engine, table) = (&engine, &table);
            let (stop, inserted, conflicts) = (&stop, &inserted, &conflicts);
            scope.spawn(move || {
                let _stop = common::Stop(stop);
                let mut session = engine.session().expect("session");
                let mut numbers = Numbers(number);
                let mut pauses = Numbers(number + 100);
                let mut turn = |session: &mut Session| -> Result<bool, Status> {
                    let group = format!("group {:02} ", numbers.next(GROUPS));
                    session.begin()?;
                    let found = table.scan(session, prefix_range(group.as_bytes()), 10)?;
                    // Others come in between, now and then.
                    if numbers.next(4) == 0 {
                        thread::yield_now();
                    }
                    match &found.rows[..] {
                        [] => table.set(session, format!("{group}{number}").as_bytes(), b"v")?,
                        [(key, _)] => assert!(table.delete(session, key)?),
                        rows => panic!("{rows:?}"),
                    }
                    session.commit()?;
                    Ok(found.rows.is_empty())
                };
                while !stop.load(Ordering::Relaxed) {
                    match turn(&mut session) {
                        Ok(is_new) => {
                            inserted.fetch_add(is_new.into(), Ordering::Relaxed);
                        }
                        Err(status) => {
                            assert!(is_passing(status), "{status}");
                            conflicts.fetch_add(1, Ordering::Relaxed);
                            give_way(&mut session, &mut pauses);
                        }
                    }
                }
            });
        }
        let _stop = common::Stop(&stop);
        let mut session = engine.session().expect("session");
        let goes_on = || {
            let few = inserted.load(Ordering::Relaxed) < 200;
            let no_conflict = conflicts.load(Ordering::Relaxed) == 0;
            (few || no_conflict) && !stop.load(Ordering::Relaxed)
        };
        while goes_on() {
            // All pages are of one moment.
            session.begin_read_only().expect("begin");
            let rows = all(&table, &mut session, 7).expect("scan");
            session.commit().expect("commit");
            let mut groups: Vec<_> = rows.keys().map(|key| &key[..8]).collect();
            groups.dedup();
            assert_eq!(groups.len(), rows.len(), "{rows:?}");
        }
    });
}

/// Ends a transaction that has failed, and pauses: else all clients would be in each other's way again.
fn give_way(session: &mut Session, pauses: &mut Numbers) {
    loop {
        match session.rollback() {
            // A COMMIT that has failed has ended the transaction.
            Ok(()) | Err(Status::WrongState) => break,
            // The reaper is inside.
            Err(Status::SessionBusy) => {}
            Err(other) => panic!("rollback: {other}"),
        }
    }
    let pause = pauses.next(1_000) as u64;
    thread::sleep(Duration::from_micros(pause));
}

/// A scan reads many rows in one call. The first is too long for that, and the second one's lock fails the transaction:
/// that is why the scan fails, not what the transaction is then.
#[test]
fn a_scan_that_meets_a_lock_behind_a_long_row_is_a_conflict() {
    let engine = engine();
    let table = table(&engine);
    let (mut one, mut two) = (
        engine.session().expect("session"),
        engine.session().expect("session"),
    );
    table.set(&mut one, b"a", &[b'v'; 5_000]).expect("set");
    table.set(&mut one, b"b", b"v").expect("set");
    two.begin().expect("begin");
    let locked = table.get_for_update(&mut two, b"b");
    assert_eq!(locked, Ok(Some(b"v".to_vec())));
    one.begin().expect("begin");
    assert_eq!(table.scan::<&[u8]>(&mut one, .., 10), Err(Status::Conflict));
    one.rollback().expect("rollback");
    // Nor is it the first row's type, which fails no transaction.
    let typed = one.set_typed(&table.stored(b"a"), ValueType::HASH, b"typed", None);
    typed.expect("set");
    one.begin().expect("begin");
    assert_eq!(table.scan::<&[u8]>(&mut one, .., 10), Err(Status::Conflict));
    one.rollback().expect("rollback");
    two.rollback().expect("rollback");
    assert_eq!(
        table.scan::<&[u8]>(&mut one, .., 10),
        Err(Status::WrongType)
    );
    table.set(&mut one, b"a", &[b'v'; 5_000]).expect("set");
    one.begin().expect("begin");
    let rows = table.scan::<&[u8]>(&mut one, .., 10).expect("scan").rows;
    assert_eq!(rows.len(), 2);
    one.commit().expect("commit");
}

/// Threads change rows of their own, which lie among those of the others, in transactions: each knows what a scan
/// must find of them.
#[test]
fn scans_of_many_clients_find_what_is_there() {
    const CLIENTS: usize = 4;
    /// Transactions of each client that were committed and changed a row; and rows that it has at the end, so
    /// that all of them together are in several leaves.
    const CHANGES: usize = 250;
    const ROWS: usize = 60;
    let engine = engine();
    let table = table(&engine);
    let models: Vec<Model> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (engine, table) = (&engine, &table);
                scope.spawn(move || {
                    let mut session = engine.session().expect("session");
                    let mut numbers = Numbers(client as u64 + 50);
                    let mut pauses = Numbers(client as u64 + 150);
                    let mut model = Model::new();
                    let mut changes = 0;
                    for turn in 0.. {
                        if changes >= CHANGES && model.len() >= ROWS {
                            break;
                        }
                        let mut changed = model.clone();
                        let is_kept = numbers.next(4) > 0;
                        let outcome =
                            change(table, &mut session, client, &mut numbers, &mut changed)
                                .and_then(|()| match is_kept {
                                    true => session.commit(),
                                    false => session.rollback(),
                                });
                        match outcome {
                            Ok(()) if is_kept => {
                                changes += usize::from(model != changed);
                                model = changed;
                            }
                            Ok(()) => {}
                            Err(status) => {
                                let when = format!("client {client}, turn {turn}");
                                assert!(is_passing(status), "{when}: {status}");
                                give_way(&mut session, &mut pauses);
                            }
                        }
                    }
                    model
                })
            })
            .collect();
        let joined = clients
            .into_iter()
            .map(|client| client.join().expect("no failure"));
        joined.collect()
    });
    let mut session = engine.session().expect("session");
    let expected: Model = models.into_iter().flatten().collect();
    assert!(expected.len() >= CLIENTS * ROWS);
    let leaves = engine.stats().expect("figures").keyspaces[NODES];
    assert!(leaves > 2, "{leaves} nodes");
    assert_eq!(all(&table, &mut session, 100), Ok(expected));
}

fn change(
    table: &OrderedTable,
    session: &mut Session,
    client: usize,
    numbers: &mut Numbers,
    model: &mut Model,
) -> Result<(), Status> {
    const OWN: usize = 400;
    let is_own = |key: &[u8]| key.last() == Some(&(client as u8));
    session.begin()?;
    for _ in 0..1 + numbers.next(4) {
        let mut key = format!("{:04}", numbers.next(OWN)).into_bytes();
        key.push(client as u8);
        match numbers.next(6) {
            0..3 => {
                let value = vec![b'v'; numbers.next(100)];
                table.set(session, &key, &value)?;
                model.insert(key, value);
            }
            3 => {
                let was = table.delete(session, &key)?;
                assert_eq!(was, model.remove(&key).is_some());
            }
            _ => {
                let found = table.scan(session, key.clone().., 20)?;
                let own = found.rows.iter().filter(|(key, _)| is_own(key));
                let end = found.next.map_or(Bound::Unbounded, Bound::Excluded);
                let expected = model.range((Bound::Included(key), end));
                assert!(own.map(|(key, value)| (key, value)).eq(expected));
            }
        }
    }
    Ok(())
}
