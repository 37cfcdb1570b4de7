//! Ordered tables: rows come and go with their index, and a range that was scanned stays what it is.

mod clients;
mod figures;
mod programs;

use crate::common;

use std::collections::BTreeMap;
use std::ops::Bound;

use bpfdb::prefix_range;
use bpfdb::{Engine, Options, OrderedTable, Rows, Session, Status, ValueType, abi};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn engine() -> Engine {
    let options = Options {
        memory_limit: 128 << 20,
        max_sessions: 64,
        ordered_tables: 2,
        ..Options::default()
    };
    Engine::create(&options).expect("the engine starts")
}

fn table(engine: &Engine) -> OrderedTable {
    engine.ordered_table(1).expect("it is declared")
}

struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % below
    }
}

/// All rows, scanned in steps of `limit`.
fn all(table: &OrderedTable, session: &mut Session, limit: usize) -> Result<Model, Status> {
    let (mut rows, mut start) = (Model::new(), Vec::new());
    loop {
        let page = table.scan(session, start.clone().., limit)?;
        assert!(page.rows.len() <= limit && page.rows.is_sorted());
        let first = page.rows.first().map(|(key, _)| key.clone());
        assert!(first.is_none_or(|first| first >= start));
        rows.extend(page.rows);
        match page.next {
            None => return Ok(rows),
            Some(next) => start = next,
        }
    }
}

fn is_passing(status: Status) -> bool {
    matches!(
        status,
        Status::Conflict
            | Status::MemoryPending
            | Status::RolledBack
            | Status::SessionBusy
            | Status::VersionsFull
    )
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

#[test]
fn rows_are_scanned_in_their_order() {
    let engine = engine();
    let (table, other) = (table(&engine), engine.ordered_table(0).expect("declared"));
    let mut session = engine.session().expect("session");

    assert_eq!(
        table.scan::<&[u8]>(&mut session, .., 10),
        Ok(Rows::default())
    );
    for key in ["b", "a", "ab", "", "c", "\u{ff}"] {
        let value = format!("value of {key}");
        table
            .set(&mut session, key.as_bytes(), value.as_bytes())
            .expect("set");
        other
            .set(&mut session, key.as_bytes(), b"other")
            .expect("set");
    }
    session.set(b"aa", b"in no table").expect("set");
    assert!(table.delete(&mut session, b"c").expect("deleted"));
    assert!(!table.delete(&mut session, b"c").expect("not there"));

    let mut keys = |range: (Bound<&[u8]>, Bound<&[u8]>), limit| {
        let found = table
            .scan::<&[u8]>(&mut session, range, limit)
            .expect("scan");
        let key = |(key, value): (Vec<u8>, Vec<u8>)| {
            assert_eq!(value, [&b"value of "[..], &key].concat());
            String::from_utf8(key).expect("text")
        };
        let next = found
            .next
            .map(|next| String::from_utf8(next).expect("text"));
        (found.rows.into_iter().map(key).collect::<Vec<_>>(), next)
    };
    use Bound::{Excluded, Included, Unbounded};
    assert_eq!(
        keys((Unbounded, Unbounded), 9).0,
        ["", "a", "ab", "b", "\u{ff}"]
    );
    assert_eq!(
        keys((Included(b"a"), Included(b"b")), 9).0,
        ["a", "ab", "b"]
    );
    assert_eq!(keys((Excluded(b"a"), Excluded(b"b")), 9).0, ["ab"]);
    assert_eq!(keys((Included(b"c"), Excluded(b"d")), 9).0, [""; 0]);
    // A range that ends before it begins.
    assert_eq!(keys((Included(b"b"), Excluded(b"a")), 9).0, [""; 0]);
    let page = keys((Unbounded, Unbounded), 2);
    assert_eq!(page, (vec![String::new(), "a".into()], Some("a\0".into())));
    assert_eq!(keys((Included(b"a\0"), Unbounded), 2).0, ["ab", "b"]);
    assert_eq!(keys((Included(b"b"), Unbounded), 2).1, None);
    assert_eq!(
        keys((Included(b"b"), Unbounded), 0),
        (vec![], Some("b".into()))
    );
    let found = table
        .scan(&mut session, prefix_range(b"a"), 9)
        .expect("scan");
    assert_eq!(found.rows.len(), 2);
    assert_eq!(prefix_range(b"a\xff\xff").1, Excluded(b"b".to_vec()));
    assert_eq!(prefix_range(b"\xff").1, Unbounded);

    let stats = engine.stats().expect("figures");
    assert_eq!(stats.keyspaces[table.keyspace().number()], 5);
    assert_eq!(stats.keyspaces[other.keyspace().number()], 6);
}

#[test]
fn only_declared_tables_are_there() {
    let engine = engine();
    assert!(engine.ordered_table(1).is_ok());
    let error = engine
        .ordered_table(2)
        .expect_err("not declared")
        .to_string();
    assert!(
        error.contains("created with 2") && error.contains("at most 8"),
        "{error}"
    );
    let many = Options {
        ordered_tables: 9,
        ..common::options()
    };
    let error = Engine::create(&many).expect_err("too many").to_string();
    assert!(
        error.contains("ordered tables is 9, must be 0 to 8"),
        "{error}"
    );
}

/// What is written to rows by other operators cannot part the table from its index.
#[test]
fn rows_come_and_go_with_their_index_only() {
    let engine = engine();
    let table = table(&engine);
    let mut session = engine.session().expect("session");
    table.set(&mut session, b"row", b"1").expect("set");
    let (row, new) = (table.stored(b"row"), table.stored(b"new"));

    assert_eq!(session.set(&new, b"2"), Err(Status::NotIndexed));
    assert_eq!(session.delete(&row), Err(Status::NotIndexed));
    assert_eq!(
        session.set_entry(&row, b"2", Some(4_000_000_000_000)),
        Err(Status::NotIndexed)
    );
    session
        .set(&row, b"2")
        .expect("it is there before and behind");
    for write in 0..3 {
        session.begin().expect("begin");
        let refused = match write {
            0 => session.set(&new, b"3"),
            1 => session.delete(&row).map(drop),
            _ => {
                table.set(&mut session, b"new", b"3").expect("set");
                session.delete(&new).map(drop)
            }
        };
        assert_eq!(refused, Err(Status::NotIndexed));
        assert_eq!(session.commit(), Err(Status::RolledBack));
    }
    // A deletion that is pending takes the entry; what replaces it would have none.
    let large = vec![b'v'; 40_000];
    for write in 0..3 {
        session.begin().expect("begin");
        assert_eq!(table.delete(&mut session, b"row"), Ok(true));
        let refused = match write {
            0 => session.set(&row, b"3"),
            1 => session.set_typed(&row, ValueType::HASH, b"typed", None),
            _ => session.set(&row, &large),
        };
        assert_eq!(refused, Err(Status::NotIndexed));
        assert_eq!(session.commit(), Err(Status::RolledBack));
    }
    session.begin_deferred().expect("begin");
    assert_eq!(table.delete(&mut session, b"row"), Ok(true));
    session.set(&row, b"3").expect("it waits");
    assert_eq!(session.commit(), Err(Status::NotIndexed));
    // With the index it comes back.
    session.begin().expect("begin");
    assert_eq!(table.delete(&mut session, b"row"), Ok(true));
    table.set(&mut session, b"row", b"2").expect("set");
    session.set(&row, b"2").expect("it is there by now");
    session.commit().expect("commit");
    let long = vec![b'k'; OrderedTable::KEY_MAX + 1];
    assert_eq!(
        table.set(&mut session, &long, b"v"),
        Err(Status::KeyTooLarge)
    );
    session.begin().expect("begin");
    assert_eq!(
        table.set(&mut session, &long, b"v"),
        Err(Status::KeyTooLarge)
    );
    assert_eq!(session.commit(), Err(Status::RolledBack));
    table
        .set(&mut session, &long[1..], b"v")
        .expect("the longest key");
    let rows = all(&table, &mut session, 10).expect("scan");
    let expected = [
        (long[1..].to_vec(), b"v".to_vec()),
        (b"row".to_vec(), b"2".to_vec()),
    ];
    assert_eq!(rows, Model::from(expected));
}

/// Nodes are the index's alone: no other operator gives one another value.
#[test]
fn nodes_are_written_by_their_index_only() {
    let engine = engine();
    let table = table(&engine);
    let mut session = engine.session().expect("session");
    table.set(&mut session, b"row", b"1").expect("set");
    // Of table 1, level 0, with the first fence.
    let mut leaf = table.stored(b"");
    *leaf.last_mut().expect("a prefix") = abi::BPFDB_KEYSPACE_NODES as u8;
    leaf.extend([table.number() as u8, 0]);
    let bytes = session.get(&leaf).expect("read").expect("a leaf");
    assert_eq!(session.set(&leaf, &bytes), Err(Status::NotIndexed));
    assert_eq!(session.delete(&leaf), Err(Status::NotIndexed));
    // A key that is too long is none of them, whatever the key before it was.
    assert_eq!(session.get(&leaf), Ok(Some(bytes.clone())));
    assert_eq!(session.set(&[0; 513], b"v"), Err(Status::KeyTooLarge));
    session.begin().expect("begin");
    table.set(&mut session, b"another", b"1").expect("set");
    assert_eq!(session.set(&leaf, &bytes), Err(Status::NotIndexed));
    assert_eq!(session.commit(), Err(Status::RolledBack));
    assert_eq!(all(&table, &mut session, 10).expect("scan").len(), 1);
}

/// Random transactions, of which some are rolled back, against a map.
#[test]
fn a_table_is_what_a_map_is() {
    let engine = engine();
    let table = table(&engine);
    let mut session = engine.session().expect("session");
    let mut numbers = Numbers(1);
    let mut model = Model::new();
    for round in 0..1_500 {
        let in_transaction = numbers.next(3) > 0;
        let mut changed = model.clone();
        if in_transaction {
            session.begin().expect("begin");
        }
        for _ in 0..numbers.next(12) {
            // First it grows, then it shrinks.
            let grows = numbers.next(1_500) > round;
            let key = format!(
                "{:0width$}",
                numbers.next(2_000),
                width = 1 + numbers.next(2) * 40
            );
            let key = key.into_bytes();
            let len = if numbers.next(40) == 0 {
                40_000
            } else {
                numbers.next(300)
            };
            let value = vec![b'v'; len];
            match numbers.next(10) {
                0..4 if grows => {
                    table.set(&mut session, &key, &value).expect("set");
                    changed.insert(key, value);
                }
                0..7 => {
                    let there = changed.range(key.clone()..).next();
                    let key = there.map_or(key, |(key, _)| key.clone());
                    let was = table.delete(&mut session, &key).expect("delete");
                    assert_eq!(was, changed.remove(&key).is_some());
                }
                7 => {
                    let found = table.get(&mut session, &key).expect("get");
                    assert_eq!(found.as_ref(), changed.get(&key));
                }
                _ => {
                    let limit = 1 + numbers.next(50);
                    let found = table
                        .scan(&mut session, key.clone().., limit)
                        .expect("scan");
                    let expected: Vec<_> = changed.range(key..).take(limit).collect();
                    assert!(
                        found
                            .rows
                            .iter()
                            .map(|(key, value)| (key, value))
                            .eq(expected)
                    );
                }
            }
        }
        if in_transaction && numbers.next(4) == 0 {
            session.rollback().expect("rollback");
            continue;
        }
        if in_transaction {
            session.commit().expect("commit");
        }
        model = changed;
    }
    assert_eq!(all(&table, &mut session, 100), Ok(model.clone()));
    for key in model.keys() {
        assert!(table.delete(&mut session, key).expect("deleted"));
    }
    assert_eq!(all(&table, &mut session, 100), Ok(Model::new()));
    engine.sweep().expect("swept");
    let stats = engine.stats().expect("figures");
    // The first node of each level, and the height.
    assert!(stats.records <= 4, "{} records are left", stats.records);
}

#[test]
fn a_table_without_memory_stays_whole() {
    let engine = Engine::create(&Options {
        memory_limit: 32 << 20,
        ordered_tables: 2,
        ..Options::default()
    });
    let engine = engine.expect("the engine starts");
    let table = table(&engine);
    let mut session = engine.session().expect("session");
    let mut numbers = Numbers(3);
    let (mut model, value) = (Model::new(), vec![b'v'; 20_000]);
    let refused = loop {
        let key = numbers.next(1 << 30).to_be_bytes().to_vec();
        match table.set(&mut session, &key, &value) {
            Ok(()) => model.insert(key, value.clone()),
            Err(status) => break status,
        };
    };
    assert_eq!(refused, Status::OutOfMemory);
    assert!(model.len() > 500);
    assert_eq!(all(&table, &mut session, 50), Ok(model.clone()));
    // What frees memory succeeds.
    for key in model.keys() {
        assert_eq!(table.delete(&mut session, key), Ok(true));
    }
    table
        .set(&mut session, b"again", &value)
        .expect("there is room");
    assert_eq!(all(&table, &mut session, 50).expect("scan").len(), 1);
}
