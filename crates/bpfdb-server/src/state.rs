//! What a connection has said about itself, and what it has begun.

use bpfdb::WatchToken;

use crate::commands::Queue;

#[derive(Debug)]
pub(crate) struct ConnectionState {
    /// For CLIENT ID.
    pub(crate) id: u64,
    pub(crate) name: Vec<u8>,
    /// May it do more than authenticate?
    pub(crate) authenticated: bool,
    /// What waits for EXEC, after MULTI.
    pub(crate) queue: Option<Queue>,
    /// Keys that EXEC must find as they were.
    pub(crate) watched: Vec<(Vec<u8>, WatchToken)>,
    /// Set by a command after which the connection is closed.
    pub(crate) close: bool,
}

impl ConnectionState {
    pub(crate) fn new(id: u64) -> Self {
        Self {
            id,
            name: Vec::new(),
            authenticated: true,
            queue: None,
            watched: Vec::new(),
            close: false,
        }
    }

    /// Forgets everything but who it is.
    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.id);
    }

    /// May the kernel answer it? Not while only the daemon knows what it has
    /// begun, or that it must authenticate.
    pub(crate) fn may_be_handed_back(&self) -> bool {
        self.authenticated && self.queue.is_none()
    }
}
