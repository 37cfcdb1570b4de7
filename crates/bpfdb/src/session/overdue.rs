//! What must become of a transaction, and could not: the session was busy, because the reaper was inside and had
//! no processor.
//!
//! ```text
//!  an index is half changed ──fail_transaction──► FAILED: COMMIT rolls back
//!                                  └──SESSION_BUSY──► overdue ──next operation──► FAILED, then the operation
//! ```
//!
//! Nothing is executed in between, so no COMMIT is: an operation that finds the session busy still is
//! SESSION_BUSY itself.

use super::{Operation, Session};
use crate::{Status, abi};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    /// The open transaction is to fail: what it has written is half of a change.
    Failure,
    /// It was begun by a call that has returned, and is to be rolled back.
    Rollback,
}

impl Session {
    /// Fails the open transaction: COMMIT will roll it back. If the session is busy, that is done before anything else.
    pub(crate) fn fail_transaction(&mut self) {
        self.overdue = Some(Overdue::Failure);
        // Else the next operation gets the Error.
        let _ = self.catch_up();
    }

    /// A call that has begun a transaction for itself returns. If it could not end it, that is done before
    /// anything else.
    pub(crate) fn leave_no_transaction(&mut self) {
        let _ = self.end_for_certain();
    }

    /// Rolls the open transaction back, if there is one, of which the caller takes that it is over: at the latest
    /// before the next operation.
    ///
    /// # Errors
    /// [`Status::SessionBusy`]: that is overdue; [`Status::TimedOut`] if it had expired.
    pub(super) fn end_for_certain(&mut self) -> Result<(), Status> {
        if !self.in_transaction() {
            return Ok(());
        }
        // It need not fail before.
        self.overdue = None;
        let outcome = self.end_by_rollback();
        if outcome == Err(Status::SessionBusy) {
            self.overdue = Some(Overdue::Rollback);
        }
        outcome
    }

    /// Does what is overdue.
    ///
    /// # Errors
    /// [`Status::SessionBusy`]: it is still overdue.
    pub(crate) fn catch_up(&mut self) -> Result<(), Status> {
        let Some(overdue) = self.overdue.take() else {
            return Ok(());
        };
        let outcome = match overdue {
            // The engine refuses the key, which is an Error in the transaction.
            Overdue::Failure => {
                let key = [0; abi::BPFDB_KEY_MAX as usize + 1];
                self.single(&Operation::Set(&key, &[])).map(drop)
            }
            Overdue::Rollback => self.end_by_rollback(),
        };
        // Any other outcome says that the transaction has failed, or is there no more.
        if outcome == Err(Status::SessionBusy) {
            self.overdue = Some(overdue);
            return outcome;
        }
        debug_assert!(
            outcome.is_err() || overdue == Overdue::Rollback,
            "the key is too long"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, Options};

    /// As if the reaper were inside, or had left.
    fn set_busy(session: &Session, busy: u32) {
        // SAFETY: points into the mapping of the sessions; no operator runs.
        unsafe { (&raw mut (*session.own_state()).busy).write_volatile(busy) };
    }

    fn session() -> Session {
        let engine = Engine::create(&Options::default()).expect("the engine starts");
        engine.session().expect("a session")
    }

    #[test]
    fn a_transaction_that_is_to_fail_is_not_committed() {
        let mut session = session();
        for by_batch in [false, true] {
            session.begin().expect("begin");
            session.set(b"half", b"of a change").expect("set");
            set_busy(&session, abi::BPFDB_BUSY_INSIDE);
            session.fail_transaction();
            assert_eq!(session.commit(), Err(Status::SessionBusy));
            set_busy(&session, abi::BPFDB_BUSY_FREE);
            let outcome = match by_batch {
                false => session.commit(),
                true => {
                    let outcomes = session.batch(&[Operation::Commit], 0).expect("it fits");
                    outcomes[0].clone().map(drop)
                }
            };
            assert_eq!(outcome, Err(Status::RolledBack));
            assert_eq!(session.get(b"half"), Ok(None));
        }
    }

    #[test]
    fn a_transaction_that_is_to_fail_can_be_rolled_back() {
        let mut session = session();
        session.begin().expect("begin");
        session.set(b"half", b"of a change").expect("set");
        set_busy(&session, abi::BPFDB_BUSY_INSIDE);
        session.fail_transaction();
        set_busy(&session, abi::BPFDB_BUSY_FREE);
        assert_eq!(session.rollback(), Ok(()));
        // The next one is another.
        session.begin().expect("begin");
        session.set(b"whole", b"1").expect("set");
        assert_eq!(session.commit(), Ok(()));
    }

    #[test]
    fn a_commit_that_says_that_it_is_over_leaves_nothing_open() {
        let mut session = session();
        session.begin_deferred().expect("begin");
        session.set(b"half", b"of a change").expect("set");
        session.flush().expect("set");
        set_busy(&session, abi::BPFDB_BUSY_INSIDE);
        session.fail_transaction();
        assert_eq!(session.commit(), Err(Status::SessionBusy));
        set_busy(&session, abi::BPFDB_BUSY_FREE);
        session.begin_deferred().expect("begin");
        session.set(b"whole", b"1").expect("set");
        assert_eq!(session.commit(), Ok(()));
        assert_eq!(session.get(b"half"), Ok(None));
        assert_eq!(session.get(b"whole"), Ok(Some(b"1".to_vec())));
    }

    #[test]
    fn reads_of_one_moment_come_behind_what_is_overdue() {
        let mut session = session();
        session.set(b"a", b"1").expect("set");
        for prefetches in [false, true] {
            session.begin().expect("begin");
            session.set(b"a", b"2").expect("set");
            set_busy(&session, abi::BPFDB_BUSY_INSIDE);
            session.leave_no_transaction();
            set_busy(&session, abi::BPFDB_BUSY_FREE);
            let reads = [Operation::Get(b"a")];
            let outcome = match prefetches {
                false => session.read_at_one_moment(&reads, 16).map(drop),
                true => session.prefetch(&reads),
            };
            assert_eq!(outcome, Ok(()));
            assert_eq!(session.get(b"a"), Ok(Some(b"1".to_vec())));
            session.clear_read_cache();
        }
    }

    #[test]
    fn nothing_joins_a_transaction_that_was_left_open() {
        let mut session = session();
        session.begin().expect("begin");
        session.set(b"left", b"1").expect("set");
        set_busy(&session, abi::BPFDB_BUSY_INSIDE);
        session.leave_no_transaction();
        assert_eq!(session.set(b"a", b"1"), Err(Status::SessionBusy));
        set_busy(&session, abi::BPFDB_BUSY_FREE);
        assert_eq!(session.set(b"a", b"1"), Ok(()));
        assert!(!session.in_transaction());
        assert_eq!(session.get(b"a"), Ok(Some(b"1".to_vec())));
        assert_eq!(session.get(b"left"), Ok(None));
    }
}
