//! MULTI of a connection: queued commands and watched keys.

use bpfdb::{Database, WatchToken};

use super::queue::Queue;
use crate::connection::info::Begun;

/// Bytes that a watched key may take.
const WATCHED: usize = bpfdb::abi::BPFDB_KEY_MAX as usize + 64;

/// A key that EXEC must find as it was.
#[derive(Debug)]
pub(crate) struct Watched {
    /// Of the engine.
    pub(crate) database: Database,
    pub(crate) key: Vec<u8>,
    pub(crate) token: WatchToken,
    /// How often databases had been exchanged: one more time, and the client means another key.
    pub(crate) swaps: u64,
}

#[derive(Debug, Default)]
pub(crate) struct MultiState {
    /// What waits for EXEC; `None`: there was no MULTI.
    pub(crate) queue: Option<Queue>,
    /// Keys that EXEC must find as they were.
    pub(crate) watched: Vec<Watched>,
}

impl MultiState {
    /// For commands that look at the connection; `paused`: a request of it waits for the end of
    /// CLIENT PAUSE.
    pub(crate) fn summary(&self, paused: bool) -> Begun {
        Begun {
            paused,
            blocked: false,
            transaction: false,
            queued: self.queue.as_ref().map(Queue::len),
            queue_memory: self.queue.as_ref().map_or(0, Queue::memory),
            watched: self.watched.len(),
            watched_memory: self.watched.len() * WATCHED,
        }
    }

    /// A command was refused that should have been queued: EXEC executes nothing.
    pub(crate) fn poison(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.poison();
        }
    }
}
