//! The reaper is in a session at times, and may have no processor there.

use std::thread;
use std::time::Duration;

use bpfdb::{Status, abi};
use bpfdb_procedures::inside::{Failure, Reply};

use super::{compiler, engine, failure, library, number};
use crate::it::common::visitor::{LONG, Visitor};

const ROUNDS: usize = 3;
/// Longer than a call tries to end its transaction, shorter than user space waits.
const STAY: Duration = Duration::from_millis(20);

/// He is there before the call: nothing is executed.
#[test]
fn a_session_that_stays_busy_says_so() {
    let engine = engine();
    let mut session = engine.session().expect("a session");
    session.never_wait();
    let library = library(
        &compiler(&engine),
        &[("f", "return redis.call('INCR', keys[1])")],
    );
    engine.occupy_session(session.index(), true);
    let outcome = library.call(&mut session, "f", &[b"n"], &[]);
    assert_eq!(failure(outcome), Failure::Engine(Status::SessionBusy));
    engine.occupy_session(session.index(), false);
    let reply = library.call(&mut session, "f", &[b"n"], &[]);
    assert_eq!(reply.expect("a reply"), Reply::Integer(1));
}

/// The visitor is there when the call ends: it is rolled back when it leaves, and the next one finds a
/// session like any other.
#[test]
fn a_call_that_cannot_end_its_transaction_leaves_nothing() {
    let engine = engine();
    let mut session = engine.session().expect("a session");
    session.never_wait();
    let library = library(&compiler(&engine), &[("f", LONG)]);
    let visitor = Visitor::new(&engine, session.index());
    let (mut added, mut undone) = (0, 0);
    while undone < ROUNDS {
        let outcome = visitor.during(|| {
            let outcome = library.call(&mut session, "f", &[b"m", b"n"], &[b"1"]);
            added += u64::from(outcome.is_ok());
            outcome
        });
        // It is no transaction of the caller's.
        assert_eq!(session.state(), abi::BPFDB_TXN_NONE);
        if visitor.leave() {
            assert_eq!(failure(outcome), Failure::Engine(Status::SessionBusy));
            undone += 1;
        }
        let reply = library.call(&mut session, "f", &[b"m", b"n"], &[b"1"]);
        reply.expect("a reply");
        added += 1;
    }
    assert_eq!(number(&mut session, b"m"), Some(added));
    assert_eq!(number(&mut session, b"n"), Some(added));
}

/// One that may wait is executed when the visitor has left.
#[test]
fn a_call_waits_until_the_reaper_has_left() {
    let engine = engine();
    let mut session = engine.session().expect("a session");
    let library = library(&compiler(&engine), &[("f", LONG)]);
    let visitor = Visitor::new(&engine, session.index());
    let mut added = 0;
    for _ in 0..ROUNDS {
        thread::scope(|scope| {
            let visit = scope.spawn(|| {
                visitor.enter();
                thread::sleep(STAY);
                visitor.leave();
            });
            while !visit.is_finished() {
                let reply = library.call(&mut session, "f", &[b"m", b"n"], &[b"1"]);
                reply.expect("a reply");
                added += 1;
            }
        });
    }
    assert_eq!(number(&mut session, b"m"), Some(added));
    assert_eq!(number(&mut session, b"n"), Some(added));
}
