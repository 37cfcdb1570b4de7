//! Outcomes and replies; functions that are replaced while they are called.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bpfdb::{DEOPTIMISATIONS, Status, abi};

use bpfdb_procedures::embedded::Published;

use super::{ADD, Calls, library, number};

const INCREMENT: &str =
    "redis.call('INCRBY', keys[1], args[1]) return redis.call('INCRBY', keys[2], args[1])";

fn reason(outcome: u32) -> &'static str {
    DEOPTIMISATIONS[(outcome - abi::BPFDB_DEOPTIMISATION_FIRST) as usize].name
}

#[test]
fn a_call_commits_or_leaves_nothing() {
    let mut calls = Calls::new(INCREMENT);
    let mut session = calls.session();
    for expected in 1..5 {
        assert_eq!(calls.run("calls_add", &[]), 0);
        assert_eq!(number(&mut session, b"task"), expected);
        assert_eq!(number(&mut session, b"both"), expected);
    }
    // Another transaction has a key.
    session.begin().expect("it begins");
    session.set(b"both", b"100").expect("it is set");
    assert_eq!(calls.run("calls_add", &[]), Status::Conflict.code());
    session.commit().expect("it commits");
    assert_eq!(number(&mut session, b"task"), 4);

    let text = library(&[("add", "redis.call('SET', keys[1], '9') return 1 / 0")]);
    calls
        .published
        .publish(&text, &[(ADD, "add")])
        .expect("published");
    assert_eq!(reason(calls.run("calls_add", &[])), "fraction");
    assert_eq!(number(&mut session, b"task"), 4);
    calls.assert_all_frames_are_free();
    assert_eq!(calls.engine.stats().expect("figures").transactions, 0);
}

#[test]
fn texts_go_there_and_back() {
    let calls = Calls::new(INCREMENT);
    let text: Vec<u8> = (1..65).collect();
    calls.put("calls_text", &text);
    for len in [0, 1, 7, 8, 16, 17, 63, 64] {
        assert_eq!(calls.run("calls_echo", &[len]), len as u32);
        let came = calls.take("calls_text", 1);
        assert_eq!(came[..len as usize], text[..len as usize]);
    }
    // Longer than a call may have: it is not made.
    for len in [28 * 1024 + 1, 1 << 31] {
        assert_eq!(calls.run("calls_echo", &[len]) as i32, -2);
    }
    calls.assert_all_frames_are_free();
}

/// Whoever publishes after another one goes on with what is there.
#[test]
fn another_publisher_leaves_what_is_there() {
    const OTHER: u32 = 3;
    let mut calls = Calls::new(INCREMENT);
    calls.published = Published::new(&calls.engine, &calls.object, "calls_add").expect("another");
    let text = library(&[("other", "return 1 / 0")]);
    let publish = calls.published.publish(&text, &[(OTHER, "other")]);
    publish.expect("published");
    assert_eq!(calls.run("calls_add", &[]), 0);
    assert_eq!(reason(calls.run("calls_any", &[OTHER.into()])), "fraction");
    calls.published.withdraw(&[ADD]).expect("withdrawn");
    assert_eq!(reason(calls.run("calls_add", &[])), "missed");
}

#[test]
fn a_function_that_nobody_published_is_missed() {
    let calls = Calls::new(INCREMENT);
    for function in [0, 3, 63, 64, 1 << 31] {
        assert_eq!(reason(calls.run("calls_any", &[function])), "missed");
    }
    // Published, but it wants arguments.
    assert_eq!(reason(calls.run("calls_any", &[ADD.into()])), "type");
    calls.assert_all_frames_are_free();
}

/// Every call runs one of the functions that were published, never none, and never another's.
#[test]
fn functions_are_replaced_while_they_are_called() {
    let mut calls = Calls::new(INCREMENT);
    let (stop, session) = (AtomicBool::new(false), calls.sessions[0]);
    let program = calls.program("calls_add");
    let called = thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let mut called = 0;
            while !stop.load(Ordering::Relaxed) {
                let outcome = program.run(&[session.into()]).expect("it runs");
                assert_eq!(outcome, 0, "call {called}");
                called += 1;
            }
            called
        });
        for round in 0..6 {
            let body = format!("{INCREMENT} + {round}");
            // Other functions have its number in the program, in turns.
            let names: &[&str] = if round % 2 == 0 {
                &["add"]
            } else {
                &["x", "add"]
            };
            let functions: Vec<(&str, &str)> = names
                .iter()
                .map(|&name| (name, if name == "x" { "return 1 / 0" } else { &*body }))
                .collect();
            calls
                .published
                .publish(&library(&functions), &[(ADD, "add")])
                .expect("published");
        }
        stop.store(true, Ordering::Relaxed);
        caller.join().expect("calls")
    });
    let mut session = calls.session();
    assert_eq!(number(&mut session, b"task"), called);
    assert_eq!(number(&mut session, b"both"), called);
}
