//! MULTI of a connection: queued commands and watched keys.

use super::queue::Queue;
use super::watched::WatchedKeys;
use crate::connection::info::Begun;

#[derive(Debug, Default)]
pub(crate) struct MultiState {
    /// What waits for EXEC; `None`: there was no MULTI.
    pub(crate) queue: Option<Queue>,
    /// Keys that EXEC must find as they were.
    pub(crate) watched: WatchedKeys,
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
            watched_memory: self.watched.memory(),
        }
    }

    /// A command was refused that should have been queued: EXEC executes nothing.
    pub(crate) fn poison(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.poison();
        }
    }
}
