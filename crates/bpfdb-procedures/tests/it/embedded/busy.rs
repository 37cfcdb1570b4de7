//! Somebody else is in the caller's session, as the reaper is at times, and stays.

use bpfdb::Status;

use super::{Calls, number};
use crate::it::common::visitor::{LONG, Visitor};

const ROUNDS: usize = 3;

/// He rolls back what the call could not end, and the next call finds a session like any other.
#[test]
fn a_call_that_cannot_end_its_transaction_leaves_nothing() {
    let calls = Calls::new(LONG);
    let visitor = Visitor::new(&calls.engine, calls.sessions[0]);
    let (mut added, mut undone) = (0, 0);
    while undone < ROUNDS {
        let outcome = visitor.during(|| {
            let outcome = calls.run("calls_add", &[]);
            added += u64::from(outcome == 0);
            outcome
        });
        if visitor.leave() {
            assert_eq!(outcome, Status::SessionBusy.code());
            undone += 1;
        }
        assert_eq!(calls.run("calls_add", &[]), 0);
        added += 1;
    }
    let mut session = calls.session();
    assert_eq!(number(&mut session, b"task"), added);
    assert_eq!(number(&mut session, b"both"), added);
    calls.assert_all_frames_are_free();
    assert_eq!(calls.engine.stats().expect("figures").transactions, 0);
}
