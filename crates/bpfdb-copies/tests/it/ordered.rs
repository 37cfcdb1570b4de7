//! Ordered tables: copies have none of their rows, and leave those alone that are there.

use crate::it::common;

use std::collections::BTreeMap;

use bpfdb::{Engine, OrderedTable, Session, is_of_ordered_table};
use bpfdb_copies::{Error, Existing, Format, Snapshot};
use common::engine::{all, dumped, file, keys, load, set_all};
use common::{FORMS, collect, written};

/// So many rows that the index has several nodes.
const ROWS: u32 = 400;

fn engine() -> (Engine, OrderedTable) {
    let engine = Engine::create(&bpfdb::Options {
        memory_limit: 128 << 20,
        ordered_tables: 1,
        ..bpfdb::Options::default()
    });
    let engine = engine.expect("an engine");
    let table = engine.ordered_table(0).expect("declared");
    (engine, table)
}

fn row(number: u32) -> ([u8; 4], Vec<u8>) {
    (number.to_be_bytes(), format!("row {number}").into_bytes())
}

fn fill(table: &OrderedTable, session: &mut Session) {
    for (key, value) in (0..ROWS).map(row) {
        table.set(session, &key, &value).expect("set");
    }
}

/// The table has its rows, and takes others.
fn assert_whole(table: &OrderedTable, session: &mut Session) {
    let found = table.scan::<&[u8]>(session, .., usize::MAX).expect("scan");
    let rows = (0..ROWS).map(row).map(|(key, value)| (key.to_vec(), value));
    assert!(found.rows.into_iter().eq(rows));
    for number in ROWS..2 * ROWS {
        let (key, value) = row(number);
        table.set(session, &key, &value).expect("set");
    }
    for number in ROWS..2 * ROWS {
        assert_eq!(table.delete(session, &row(number).0), Ok(true));
    }
}

#[test]
fn copies_have_no_rows_and_leave_rows_alone() {
    let (engine, table) = engine();
    let mut session = engine.session().expect("a session");
    let data = keys(0, 1000);
    set_all(&engine, &data);
    fill(&table, &mut session);
    assert!(all(&engine) == data);
    let snapshot = Snapshot::take(&engine).expect("a snapshot");
    assert_eq!(snapshot.header().keys, 1000);
    drop(snapshot);
    for form in FORMS {
        let copy = dumped(&engine, form);
        let (found, contents) = collect(&copy).expect("whole");
        assert!(found == data, "{form:?}");
        assert_eq!(contents.keys, 1000, "{form:?}");
        // Rows have come and gone since then.
        let (key, value) = row(7);
        assert_eq!(table.delete(&mut session, &key), Ok(true));
        let (_folder, path) = file(&copy);
        for existing in [Existing::Replace, Existing::Flush] {
            let loaded = load(&engine, &path, existing).expect("loaded");
            assert_eq!(loaded.written, 1000, "{form:?}, {existing:?}");
            assert!(all(&engine) == data, "{form:?}, {existing:?}");
        }
        table.set(&mut session, &key, &value).expect("set");
        assert_whole(&table, &mut session);
    }
}

/// Those of a copy would be without their index, or an index without its rows.
#[test]
fn a_file_with_rows_is_refused_before_anything_is_done() {
    let (engine, table) = engine();
    let mut session = engine.session().expect("a session");
    let old = keys(0, 10);
    set_all(&engine, &old);
    fill(&table, &mut session);
    let mut ordered = Vec::new();
    let mut cursor = 0;
    loop {
        let (next, keys) = session.scan(cursor, 500).expect("scanned");
        ordered.extend(keys.into_iter().filter(|key| is_of_ordered_table(key)));
        match next {
            0 => break,
            next => cursor = next,
        }
    }
    let mut data: BTreeMap<_, _> = keys(10, 100);
    for key in ordered {
        let value = session.get(&key).expect("read").expect("there");
        data.insert(key, (value, None));
    }
    for form in [Format::Jsonl, Format::Binary] {
        let (_folder, path) = file(&written(form, &data, usize::MAX));
        for existing in [Existing::Flush, Existing::Replace, Existing::Refuse] {
            match load(&engine, &path, existing) {
                Err(Error::Refused(why)) => assert!(why.contains("ordered tables"), "{why}"),
                other => panic!("{form:?}, {existing:?}: {other:?}"),
            }
        }
        assert!(all(&engine) == old);
        assert_whole(&table, &mut session);
    }
}
