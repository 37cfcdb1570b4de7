//! Programs of other crates, which a session runs in its buffer.

use std::sync::atomic::{Ordering, fence};
use std::thread;

use super::submit::{BUSY_PAUSE, BUSY_TRIES};
use super::{LOG_TRIES, PENDING_TRIES, ROOM, Session};
use crate::Status;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::program::Program;

impl Session {
    /// Is it a session of this engine, as this handle or a clone of it has it? Programs that
    /// another handle has adopted do not know the session's buffer, even if the engine is the
    /// same.
    pub fn is_of(&self, engine: &Engine) -> bool {
        self.engine.is_same(engine)
    }

    /// Runs a program of an object that [`Engine::adopt_with_buffers`] was given, with the
    /// number of the session and that of its buffer as arguments. Before, `request` goes to the
    /// beginning of the buffer. Returns what the program returned, and the buffer,
    /// `BPFDB_IO_SIZE` bytes, as the program left it.
    ///
    /// The program may execute operators in the session. It leaves no transaction open.
    ///
    /// # Errors
    /// [`Status::WrongState`] within a transaction, also in one that was begun by
    /// [`Session::begin_deferred`]: nothing was executed. [`Error::Invalid`] if the request is
    /// longer than the buffer. [`Error::System`] if the kernel does not run the program.
    pub fn run_in_buffer(&mut self, program: &Program, request: &[&[u8]]) -> Result<(u32, &[u8])> {
        if self.deferred.is_open() || self.in_transaction() {
            return Err(Error::Engine(Status::WrongState));
        }
        self.read_cache.clear();
        self.fill_buffer(request)?;
        fence(Ordering::SeqCst);
        let code = program.run(&[u64::from(self.index), u64::from(self.io)])?;
        Ok((code, self.buffer_at(0, ROOM)))
    }

    fn fill_buffer(&mut self, request: &[&[u8]]) -> Result<()> {
        if request.iter().map(|part| part.len()).sum::<usize>() > ROOM {
            return Err(Error::Invalid("the request has no room".into()));
        }
        let mut at = 0;
        for part in request {
            // SAFETY: inside the buffer, as was checked above; no program of this session runs.
            unsafe {
                let to = self.buffer.0.add(at);
                part.as_ptr().copy_to_nonoverlapping(to, part.len());
            }
            at += part.len();
        }
        Ok(())
    }

    /// Waits for what an operator lacked that such a program has executed: memory that is being
    /// added, room in the log, the session. True: try again. False: it is none of these, or was
    /// tried for long enough, or the session [never waits](Session::never_wait); memory was
    /// asked for then. `attempt` counts from 0.
    pub fn await_passing(&self, status: Status, attempt: u32) -> bool {
        match status {
            Status::MemoryPending => attempt < PENDING_TRIES && self.await_room(status),
            Status::LogFull => attempt < LOG_TRIES && self.await_room(status),
            Status::SessionBusy if self.may_wait() && attempt < BUSY_TRIES => {
                thread::sleep(BUSY_PAUSE);
                true
            }
            _ => false,
        }
    }
}
