//! Work that COMMIT and ROLLBACK of a transaction with many locks leave to be done.
//!
//! The transaction is decided, and others see it so. But one operator releases
//! `BPFDB_LOCKS_STEP` locks, so the rest of them is released in steps:
//!
//! ```text
//!  COMMIT ──► committed, FINISHING ──settle──► FINISHING ──settle──► … ──► NONE
//! ```
//!
//! Until then the session executes nothing else that writes, and its keys are locked.

use super::{Operation, Session};
use crate::{Status, abi};

impl Session {
    /// Has COMMIT or ROLLBACK left locks to be released in steps?
    pub fn is_releasing(&self) -> bool {
        let session = self.own_state();
        // SAFETY: points into the mapping of the sessions.
        let (state, next) = unsafe {
            (
                (&raw const (*session).state).read_volatile(),
                (&raw const (*session).release_next).read_volatile(),
            )
        };
        u32::from(state) == abi::BPFDB_TXN_FINISHING && next != 0
    }

    /// One more of these steps, less than a millisecond. For sessions that
    /// [never wait](Session::never_wait): others make all of them at the end of
    /// [`Session::commit`] and [`Session::rollback`].
    ///
    /// # Errors
    /// [`Status::MemoryPending`]: there is more to be done; [`Status::SessionBusy`]: the reaper
    /// does it just now.
    pub fn settle(&mut self) -> Result<(), Status> {
        self.submit_one(&Operation::Settle)
    }

    /// All steps, if the session may wait. A step that finds its session busy is made by the
    /// reaper.
    pub(super) fn settle_all(&mut self) {
        while self.may_wait() && self.is_releasing() {
            match self.settle() {
                Ok(()) | Err(Status::MemoryPending | Status::SessionBusy) => {}
                Err(_) => return,
            }
        }
    }

    /// Executes one operation, once.
    fn submit_one(&mut self, operation: &Operation<'_>) -> Result<(), Status> {
        let place = self.append(operation, 0, 0)?;
        self.submit().map_err(|_| Status::BadRequest)?;
        self.waited()?;
        let status = self.status(place);
        if status.is_error() {
            Err(status)
        } else {
            Ok(())
        }
    }
}
