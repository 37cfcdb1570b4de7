//! Programs in the kernel that scan tables.

use crate::common;

use bpfdb::Status;
use bpfdb::objects::EXAMPLES;
use libbpf_rs::{Object, ProgramInput};

use super::key;

fn run(object: &Object, program: &str, arguments: &[u64]) -> i32 {
    let program = bpfdb::find_program(object, program).expect("the program");
    program.run(arguments).expect("run") as i32
}

/// All rows of a range, by the programs of the object `ordered`: how many; the transaction stays open.
fn scan_by_program(object: &Object, writes: bool, from: u64, to: u64) -> Result<u64, i32> {
    let counted = |rows: i32| u64::try_from(rows).map_err(|_| -rows);
    let mut rows = counted(run(object, "range_begin", &[0, writes.into(), from, to]))?;
    loop {
        match counted(run(object, "range_next", &[from + rows]))? {
            0 => return Ok(rows),
            more => rows += more,
        }
    }
}

#[test]
fn programs_scan_ranges_and_lock_them() {
    // Not so many that their locks are released in steps.
    const ROWS: u64 = 900;
    let engine = common::engine();
    let table = engine.ordered_table(0).expect("declared");
    let object = common::load(&engine, "ordered");
    let mut session = engine.session().expect("session");
    for number in (0..ROWS).rev() {
        let value = number.to_ne_bytes();
        table.set(&mut session, &key(number), &value).expect("set");
    }
    let end = |object: &Object| assert_eq!(run(object, "range_end", &[]), 0);
    for writes in [false, true] {
        for (from, to) in [
            (0, ROWS),
            (0, 1),
            (17, 18),
            (300, 300),
            (200, 811),
            (ROWS, ROWS + 9),
        ] {
            let rows = scan_by_program(&object, writes, from, to);
            assert_eq!(rows, Ok(to.min(ROWS) - from.min(ROWS)), "{from} to {to}");
            end(&object);
        }
    }
    // A snapshot is in no writer's way, and stays what it is.
    assert_eq!(scan_by_program(&object, false, 0, 10), Ok(10));
    assert!(table.delete(&mut session, &key(5)).expect("deleted"));
    end(&object);
    table
        .set(&mut session, &key(5), &5_u64.to_ne_bytes())
        .expect("set");

    // A transaction that may write does, in the leaves that it has seen.
    assert_eq!(scan_by_program(&object, true, ROWS, ROWS + 9), Ok(0));
    let phantom = ROWS + 1;
    let refused = table.set(&mut session, &key(phantom), &phantom.to_ne_bytes());
    assert_eq!(refused, Err(Status::Conflict));
    assert!(table.delete(&mut session, &key(5)).expect("far from there"));
    end(&object);
    table
        .set(&mut session, &key(phantom), &phantom.to_ne_bytes())
        .expect("set");

    // What is not decided is in its way.
    session.begin().expect("begin");
    table
        .set(&mut session, &key(ROWS), &ROWS.to_ne_bytes())
        .expect("set");
    let conflict = Status::Conflict.code() as i32;
    assert_eq!(
        scan_by_program(&object, true, ROWS, ROWS + 9),
        Err(conflict)
    );
    end(&object);
    session.commit().expect("commit");
    assert_eq!(scan_by_program(&object, true, ROWS, ROWS + 9), Ok(2));
    end(&object);
}

/// The example of docs/ordered-tables.md.
#[test]
fn packets_of_blocked_ranges_are_dropped() {
    const XDP_DROP: u32 = 1;
    const XDP_PASS: u32 = 2;
    let engine = common::engine();
    let table = engine.ordered_table(0).expect("declared");
    let example = EXAMPLES.iter().find(|object| object.name == "block_ranges");
    let object = common::open(&engine, example.expect("embedded").bytes, "block_ranges");
    let object = object.load().expect("it loads");
    let send = |source: u32| {
        let mut packet = vec![0; 64];
        packet[12..14].copy_from_slice(&[0x08, 0x00]);
        packet[14] = 0x45;
        packet[26..30].copy_from_slice(&source.to_be_bytes());
        let input = ProgramInput {
            data_in: Some(&packet),
            ..Default::default()
        };
        let program = object
            .progs_mut()
            .find(|program| program.name() == "block_ranges");
        program
            .expect("program")
            .test_run(input)
            .expect("run")
            .return_value
    };
    assert_eq!(send(0x0a00_0001), XDP_PASS);
    let mut session = engine.session().expect("session");
    // 10.0.n.16 to 10.0.n.31, in one transaction.
    let (first, last) = (|n: u32| 0x0a00_0010 | n << 8, |n: u32| 0x0a00_001f | n << 8);
    session.begin().expect("begin");
    for n in 0..500 {
        let (first, last) = (first(n).to_be_bytes(), last(n).to_be_bytes());
        table.set(&mut session, &last, &first).expect("set");
    }
    assert_eq!(send(first(7)), XDP_PASS);
    session.commit().expect("commit");
    for n in [0, 7, 250, 499] {
        assert_eq!(
            [send(first(n) - 1), send(last(n) + 1)],
            [XDP_PASS; 2],
            "{n}"
        );
        assert_eq!(
            [send(first(n)), send(first(n) + 3), send(last(n))],
            [XDP_DROP; 3],
            "{n}"
        );
    }
    assert!(
        table
            .delete(&mut session, &last(7).to_be_bytes())
            .expect("deleted")
    );
    assert_eq!([send(first(7)), send(first(8))], [XDP_PASS, XDP_DROP]);
    assert_eq!(send(0x0b00_0000), XDP_PASS);
}
