//! What a connection has said about itself, and what it has begun.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use bpfdb::WatchToken;

use crate::commands::Queue;

/// What a watched key may take.
const WATCHED: usize = bpfdb::abi::BPFDB_KEY_MAX as usize + 64;

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Inet(SocketAddr),
    /// The path that is listened on.
    Unix(Rc<PathBuf>),
}

/// As Redis writes it.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "{}:0", path.display()),
        }
    }
}

/// CLIENT REPLY: whether replies are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReplyMode {
    #[default]
    On,
    Off,
    /// That to the next command is not.
    SkipNext,
}

#[derive(Debug)]
pub(crate) struct ConnectionState {
    /// For CLIENT ID.
    pub(crate) id: u64,
    pub(crate) peer: Address,
    pub(crate) local: Address,
    pub(crate) fd: RawFd,
    pub(crate) since: Instant,
    /// When it was last seen to do something.
    pub(crate) active: Instant,
    pub(crate) name: Vec<u8>,
    pub(crate) library_name: Vec<u8>,
    pub(crate) library_version: Vec<u8>,
    /// Name of the command that was executed last in user space.
    pub(crate) command: &'static str,
    /// May it do more than authenticate?
    pub(crate) authenticated: bool,
    pub(crate) replies: ReplyMode,
    /// Not to be closed for the sake of memory.
    pub(crate) no_evict: bool,
    pub(crate) no_touch: bool,
    /// What waits for EXEC, after MULTI.
    pub(crate) queue: Option<Queue>,
    /// Keys that EXEC must find as they were.
    pub(crate) watched: Vec<(Vec<u8>, WatchToken)>,
    /// Set by a command after which the connection is closed.
    pub(crate) close: bool,
    /// The kernel does not answer what was executed last.
    pub(crate) slow: bool,
    /// How often something was received from it.
    pub(crate) receipts: u64,
    /// Transactions executed here that the kernel might have executed.
    refused: u32,
    /// Bytes kept of requests, and of replies.
    pub(crate) input: usize,
    pub(crate) output: usize,
    /// When it was looked at last.
    pub(crate) waiting: Waiting,
}

/// What was under way at one moment, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Of requests that nobody has answered.
    pub(crate) requests: usize,
    /// Of replies that were not sent.
    pub(crate) replies: usize,
}

impl ConnectionState {
    pub(crate) fn new(id: u64, fd: RawFd, peer: Address, local: Address) -> Self {
        let now = Instant::now();
        Self {
            id,
            peer,
            local,
            fd,
            since: now,
            active: now,
            name: Vec::new(),
            library_name: Vec::new(),
            library_version: Vec::new(),
            command: "NULL",
            authenticated: false,
            replies: ReplyMode::On,
            no_evict: false,
            no_touch: false,
            queue: None,
            watched: Vec::new(),
            close: false,
            slow: false,
            receipts: 0,
            refused: 0,
            input: 0,
            output: 0,
            waiting: Waiting::default(),
        }
    }

    /// Forgets everything but who is at the other end.
    pub(crate) fn reset(&mut self) {
        self.name = Vec::new();
        self.authenticated = false;
        self.replies = ReplyMode::On;
        self.no_evict = false;
        self.no_touch = false;
        self.queue = None;
        self.watched = Vec::new();
    }

    /// May the kernel answer it? Not while only the daemon knows what it has
    /// begun, or that it must authenticate.
    pub(crate) fn may_be_handed_back(&self) -> bool {
        self.authenticated && self.queue.is_none() && self.replies == ReplyMode::On
    }

    /// One more transaction came to the daemon that the kernel might have executed. Are
    /// they so many that something about them must be beyond it, which the daemon does
    /// not see? Then the connection stays, with another trial now and then.
    pub(crate) fn is_refused_often(&mut self) -> bool {
        const TRIALS: u32 = 8;
        const PERIOD: u32 = 256;
        self.refused = self.refused.wrapping_add(1);
        self.refused % PERIOD >= TRIALS
    }

    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.local, Address::Unix(_))
    }

    /// Bytes that it makes the daemon keep.
    pub(crate) fn memory(&self) -> usize {
        let queued = self.queue.as_ref().map_or(0, Queue::memory);
        self.input + self.output + queued + self.watched.len() * WATCHED
    }
}
