//! The session's transaction: its begin and its end, and the operations that wait for the next one.

use super::{LOG_TRIES, Operation, Session};
use crate::{Status, abi};

impl Session {
    /// Timestamp of the read-only transaction that is open, or was last: it sees the commits
    /// up to that.
    pub fn snapshot(&self) -> u64 {
        let session = self.own_state();
        // SAFETY: points into the mapping of the sessions.
        unsafe { (&raw const (*session).snapshot).read_volatile() }
    }

    pub fn begin(&mut self) -> Result<(), Status> {
        self.single(&Operation::Begin).map(drop)
    }

    pub fn begin_read_only(&mut self) -> Result<(), Status> {
        self.single(&Operation::BeginReadOnly).map(drop)
    }

    /// Begins a transaction with the next operation that has a result. Until
    /// [`Session::commit`] or [`Session::rollback`], one of which must follow,
    /// [`Session::set`] and [`Session::set_entry`] wait as well: they succeed, and
    /// their Error is that of the operation that is executed next. After an Error
    /// of `commit` the transaction is rolled back.
    pub fn begin_deferred(&mut self) -> Result<(), Status> {
        self.catch_up()?;
        self.deferred.open(abi::BPFDB_TXN_WRITE);
        self.later(&Operation::Begin)
    }

    /// The same for a read-only transaction.
    pub fn begin_read_only_deferred(&mut self) -> Result<(), Status> {
        self.catch_up()?;
        self.deferred.open(abi::BPFDB_TXN_READ);
        self.later(&Operation::BeginReadOnly)
    }

    /// Commits. [`Status::RolledBack`] if an earlier Error had failed the
    /// transaction; [`Status::LogFull`] if the log had no room for it, also after some time;
    /// [`Status::LogClosed`] if the engine is read-only. Each time it is over.
    pub fn commit(&mut self) -> Result<(), Status> {
        let mut outcome = self.try_commit();
        for _ in 0..LOG_TRIES {
            if outcome != Err(Status::LogFull) || !self.await_room(Status::LogFull) {
                break;
            }
            outcome = self.try_commit();
        }
        if outcome.is_err_and(Status::is_refused_by_log) {
            self.rollback()?;
        }
        outcome
    }

    /// The same, but the transaction stays open after [`Status::LogFull`] and
    /// [`Status::LogClosed`], and no caller waits.
    pub fn try_commit(&mut self) -> Result<(), Status> {
        if let Err(status) = self.stop_keeping() {
            self.rollback()?;
            return Err(status);
        }
        let waited = self.deferred.is_open();
        let known = self.deferred.close();
        if !known && self.deferred.len() <= 1 {
            // Nothing but BEGIN.
            let refused = self.deferred.refused();
            self.deferred.forget();
            return refused;
        }
        self.read_cache.clear();
        let outcome = self.single(&Operation::Commit).map(drop);
        self.settle_all();
        // What waited has failed, and COMMIT was not executed.
        if outcome.is_err_and(|status| waited && !status.is_refused_by_log()) {
            self.deferred.forget();
            self.end_for_certain()?;
        }
        if outcome.is_err_and(|status| !status.is_refused_by_log()) {
            self.note_rollback();
        }
        outcome
    }

    pub fn rollback(&mut self) -> Result<(), Status> {
        self.note_rollback();
        let known = self.deferred.close();
        self.deferred.forget();
        self.read_cache.clear();
        self.kept.clear();
        if known {
            self.end_by_rollback()
        } else {
            Ok(())
        }
    }

    /// Executes what waits, and lets nothing wait from now on: the transaction stays
    /// open, and the handle may be used for others until [`Session::resume`]. After an
    /// Error [`Session::rollback`] must follow.
    pub fn suspend(&mut self) -> Result<(), Status> {
        self.stop_keeping()?;
        self.flush()?;
        self.read_cache.clear();
        self.deferred.close();
        Ok(())
    }

    /// The open transaction is used, although it executes no operation just now: it has not been idle
    /// ([`Options::idle_limit`](crate::Options::idle_limit)).
    pub fn touch(&mut self) {
        let now = self.engine.inner.memory.coarse_now();
        // SAFETY: points into the mapping of the sessions. The kernel reads the time whole, and looks at it
        // again when it has the session.
        unsafe { (&raw mut (*self.own_state()).last_active).write_volatile(now) };
    }

    /// Goes on with the open transaction that was suspended: operations may wait again.
    pub fn resume(&mut self) {
        self.deferred.reopen();
    }

    /// Executes what waits; its Error, if there is one.
    pub fn flush(&mut self) -> Result<(), Status> {
        self.send_kept()?;
        self.flush_waiting()
    }

    /// The same but for writes that are kept.
    pub(super) fn flush_waiting(&mut self) -> Result<(), Status> {
        self.catch_up()?;
        self.deferred.refused()?;
        if self.deferred.len() == 0 {
            return Ok(());
        }
        self.submit().map_err(|_| Status::BadRequest)?;
        self.waited()
    }
}
