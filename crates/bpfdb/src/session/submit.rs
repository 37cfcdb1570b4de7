//! Has the kernel execute the requests in a session's buffer.

use std::sync::atomic::{Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};

use super::{Operation, Session};
use crate::{Status, abi, error};

/// Attempts of a request that finds its session busy.
pub(super) const BUSY_TRIES: u32 = abi::BPFDB_SESSION_TRIES;
/// What it waits before each: the reaper has the session, and perhaps no processor.
pub(super) const BUSY_PAUSE: Duration = Duration::from_micros(100);

/// How long what belongs to a transaction, and finds its session busy, is tried again, also if the session
/// may not wait or not: a processor that is taken away comes back within some milliseconds.
const TRANSACTION_PATIENCE: Duration = Duration::from_millis(20);

impl Session {
    /// Rolls the open transaction back. Left open, it would be taken for one that the next user of
    /// the session has begun: so this tries again for some time even if the session
    /// [never waits](Session::never_wait).
    ///
    /// # Errors
    /// [`Status::SessionBusy`], and the transaction stays open; [`Status::TimedOut`] if it had
    /// expired.
    pub(super) fn end_by_rollback(&mut self) -> Result<(), Status> {
        let begun = Instant::now();
        loop {
            match self.single(&Operation::Rollback) {
                Err(Status::SessionBusy) if begun.elapsed() < TRANSACTION_PATIENCE => {
                    thread::yield_now();
                }
                outcome => {
                    self.settle_all();
                    return outcome.map(drop);
                }
            }
        }
    }

    /// Executes the requests from the beginning of the buffer on; how many were executed.
    pub(super) fn submit(&mut self) -> error::Result<usize> {
        self.submit_from(0)
    }

    /// Executes the request at `start` of the buffer, and those that follow it; how many
    /// were executed.
    ///
    /// No other thread runs operators of this session, but for a moment the reaper may be inside
    /// it, to end an idle transaction or what a COMMIT had to leave. Nothing is executed
    /// meanwhile, so the request is tried again. One that never gets in is
    /// [`Status::SessionBusy`], and the last: what follows may
    /// belong to the same transaction.
    pub(super) fn submit_from(&mut self, start: usize) -> error::Result<usize> {
        let begun = Instant::now();
        let (mut at, mut done, mut attempts) = (start, 0, 0);
        loop {
            let code = self.run_from(at)?;
            let executed = (code & !abi::BPFDB_RUN_BUSY) as usize;
            done += executed;
            if code & abi::BPFDB_RUN_BUSY == 0 {
                return Ok(done);
            }
            at = self.following(at, executed);
            if self.may_wait() && attempts < BUSY_TRIES {
                attempts += 1;
                thread::sleep(BUSY_PAUSE);
            } else if self.in_transaction() && begun.elapsed() < TRANSACTION_PATIENCE {
                // What came before in it cannot be done again: so this is, at once.
                thread::yield_now();
            } else {
                return Ok(done + 1);
            }
        }
    }

    fn run_from(&mut self, start: usize) -> error::Result<u32> {
        fence(Ordering::SeqCst);
        let call = match evicts(self.header(start).operation) {
            true => abi::BPFDB_DRIVER_EVICTION_REQUESTS,
            false => abi::BPFDB_DRIVER_REQUESTS,
        };
        self.engine.inner.driver.run(
            call,
            &[u64::from(self.index), u64::from(self.io), start as u64],
        )
    }

    /// Where the request lies that comes `count` behind that at `start`.
    fn following(&self, start: usize, count: usize) -> usize {
        (0..count).fold(start, |at, _| self.header(at).next as usize)
    }

    fn header(&self, at: usize) -> abi::bpfdb_request {
        assert!(at < super::ROOM, "within the buffer");
        // SAFETY: `put` wrote requests from there on, and the buffer has a pad.
        unsafe {
            self.buffer
                .0
                .add(at)
                .cast::<abi::bpfdb_request>()
                .read_unaligned()
        }
    }
}

/// Is it one of `BPFDB_EVICTION_OPERATOR_LIST`? A batch has no others then.
fn evicts(operation: u32) -> bool {
    let operator = operation % (1 << abi::BPFDB_OF_TYPE_SHIFT);
    (abi::BPFDB_COUNTED_OPERATIONS + 1..abi::BPFDB_EVICTION_OPERATIONS).contains(&operator)
}
