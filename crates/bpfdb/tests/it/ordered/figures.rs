//! How long rows and scans take.

use std::time::Instant;

use super::{engine, table};

/// The figures of docs/decisions/0044-ordered-tables.md.
#[test]
#[ignore = "figures, not a test"]
fn what_rows_and_scans_take() {
    const ROWS: u64 = 100_000;
    let engine = engine();
    let table = table(&engine);
    let mut session = engine.session().expect("session");
    let value = [b'v'; 100];
    // All numbers, in an order that is none.
    let key = |prefix: &str, number: u64| {
        let number = number * 48_271 % 100_003;
        format!("{prefix}{number:012}").into_bytes()
    };
    let report = |what: &str, times: u64, begun: Instant| {
        let each = begun.elapsed().as_nanos() as u64 / times;
        println!("{what}: {each} ns each, {} a second", 1_000_000_000 / each);
    };
    let begun = Instant::now();
    for number in 0..ROWS {
        session.set(&key("", number), &value).expect("set");
    }
    report("SET of a new key in no table", ROWS, begun);
    let memory = engine.stats().expect("figures").memory_used();
    let begun = Instant::now();
    for number in 0..ROWS {
        table
            .set(&mut session, &key("", number), &value)
            .expect("set");
    }
    report("a new row", ROWS, begun);
    let used = engine.stats().expect("figures").memory_used() - memory;
    println!("memory of a row with a value of 100: {} bytes", used / ROWS);
    let begun = Instant::now();
    for number in 0..ROWS {
        table
            .set(&mut session, &key("", number), &value)
            .expect("set");
    }
    report("a row that is there", ROWS, begun);
    for limit in [1, 100, 1_000] {
        let begun = Instant::now();
        for number in 0..2_000 {
            let start = key("", number);
            assert!(
                !table
                    .scan(&mut session, start.., limit)
                    .expect("scan")
                    .rows
                    .is_empty()
            );
        }
        report(&format!("a scan of {limit}"), 2_000, begun);
    }
    let begun = Instant::now();
    for number in 0..ROWS {
        assert!(
            table
                .delete(&mut session, &key("", number))
                .expect("deleted")
        );
    }
    report("a row that goes", ROWS, begun);
}
