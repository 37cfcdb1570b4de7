//! Facts about a connection, which CLIENT LIST shows: what it has said about
//! itself, and what was under way when it was looked at last.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use bpfdb::WrittenKeys;

use super::subscribed::{Mail, Subscribed};
use crate::settings::Durability;

/// Of so many that the daemon got and the kernel might have answered, the first are trials.
const PERIOD: u32 = 256;
const TRIALS: u32 = 8;

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
    /// Neither that nor the one to this command, which says so.
    Skip,
}

#[derive(Debug)]
pub(crate) struct ConnectionInfo {
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
    /// Number of the database that SELECT has chosen.
    pub(crate) database: usize,
    /// Name of the command that the daemon executed last.
    pub(crate) command: &'static str,
    /// The subcommand of that, as the client wrote it.
    pub(crate) subcommand: Vec<u8>,
    /// May it do more than authenticate?
    pub(crate) authenticated: bool,
    pub(crate) replies: ReplyMode,
    /// What CLIENT REPLY has chosen inside MULTI … EXEC, from the reply after EXEC's on.
    pub(crate) replies_from_next: Option<ReplyMode>,
    /// Not to be closed for the sake of memory.
    pub(crate) no_evict: bool,
    pub(crate) no_touch: bool,
    /// What the client has chosen; `None`: what the server's setting says.
    pub(crate) durability: Option<Durability>,
    /// The replies that wait to be sent tell of commits up to this timestamp, which must be
    /// durable first.
    pub(crate) hold: u64,
    /// Something that was executed since replies were held back last was for a synchronous
    /// client, be it none any more: its replies wait.
    pub(crate) was_sync: bool,
    /// A command is executed that exposes keys which it does not name.
    pub(crate) tells_of_all: bool,
    /// What it has subscribed to.
    pub(crate) subscribed: Subscribed,
    /// What it has published, and received, that is not sent yet.
    pub(crate) mail: Mail,
    /// Keys that it has written in the transaction that is open, if a client waited for any key then.
    pub(crate) written: WrittenKeys,
    /// The reply to the request is about subscriptions: no reply to CLIENT REPLY OFF, but a push.
    pub(crate) is_pushed: bool,
    /// It is shown every request: MONITOR.
    pub(crate) is_monitor: bool,
    /// Set by a command after which the connection is closed.
    pub(crate) close: bool,
    /// Only the daemon answers requests like the one executed last. Where there was one
    /// there are more: the connection stays with the daemon.
    pub(crate) needs_daemon: bool,
    /// Since the last trial of [`Self::is_request_refused_often`].
    pub(crate) was_handed_back: bool,
    /// No program sees its socket, which is plain TCP or Unix-domain.
    pub(crate) is_plain: bool,
    /// How often something was received from it.
    pub(crate) receipts: u64,
    /// Transactions executed here that the kernel might have executed.
    refused: u32,
    /// Bytes kept of requests, and of replies.
    pub(crate) input: usize,
    pub(crate) output: usize,
    /// When it was looked at last.
    pub(crate) waiting: Waiting,
    /// At the end of its last time slice.
    pub(crate) begun: Begun,
}

/// What was under way at one moment, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Of requests that are not answered.
    pub(crate) requests: usize,
    /// Of replies that were not sent.
    pub(crate) replies: usize,
}

/// What the executor of a connection has begun for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Begun {
    /// A request waits for the end of CLIENT PAUSE.
    pub(crate) paused: bool,
    /// Its command waits for keys.
    pub(crate) blocked: bool,
    /// The client has begun a transaction, and not ended it; as of when it was looked at last.
    pub(crate) transaction: bool,
    /// Commands that wait for EXEC; `None`: there was no MULTI.
    pub(crate) queued: Option<usize>,
    /// Bytes that these take.
    pub(crate) queue_memory: usize,
    /// Keys that EXEC must find as they were, and the bytes that they take.
    pub(crate) watched: usize,
    pub(crate) watched_memory: usize,
}

impl ConnectionInfo {
    pub(crate) fn new(id: u64, fd: RawFd, peer: Address, local: Address) -> Self {
        let now = Instant::now();
        let is_plain = matches!(local, Address::Unix(_));
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
            database: 0,
            command: "NULL",
            subcommand: Vec::new(),
            authenticated: false,
            replies: ReplyMode::On,
            replies_from_next: None,
            no_evict: false,
            no_touch: false,
            durability: None,
            hold: 0,
            was_sync: false,
            tells_of_all: false,
            subscribed: Subscribed::default(),
            mail: Mail::default(),
            written: WrittenKeys::default(),
            is_pushed: false,
            is_monitor: false,
            close: false,
            needs_daemon: false,
            was_handed_back: false,
            is_plain,
            receipts: 0,
            refused: 0,
            input: 0,
            output: 0,
            waiting: Waiting::default(),
            begun: Begun::default(),
        }
    }

    /// The word behind the name of a command that has subcommands.
    pub(crate) fn note_subcommand(&mut self, words: &[Vec<u8>]) {
        if let [word] = words {
            self.subcommand.clone_from(word);
        }
    }

    /// Forgets what the client has said about itself.
    pub(crate) fn reset(&mut self) {
        self.name = Vec::new();
        self.database = 0;
        self.authenticated = false;
        // As in Redis, a reply that is to be skipped is skipped.
        if self.replies != ReplyMode::SkipNext {
            self.replies = ReplyMode::On;
        }
        self.no_evict = false;
        self.no_touch = false;
        self.durability = None;
    }

    /// What it is replied next must be durable up to this timestamp.
    pub(crate) fn hold_until(&mut self, timestamp: u64) {
        self.hold = self.hold.max(timestamp);
    }

    /// May the kernel answer it? Not while only the daemon knows that it must authenticate,
    /// or which replies it wants; nor if no program sees its socket; nor where the kernel would hand
    /// over every request. Nor may it send anything while messages may be pushed, which are between two
    /// replies then, or while only the daemon can send what its transaction has published, or serve the
    /// clients that wait for what it has written.
    pub(crate) fn may_be_handed_back(&self) -> bool {
        self.authenticated
            && self.replies == ReplyMode::On
            && !self.needs_daemon
            && !self.is_plain
            && !self.subscribed.is_any()
            && !self.is_monitor
            && !self.mail.has_staged()
            && self.written.is_empty()
            && self.durability != Some(Durability::Sync)
    }

    /// One more transaction came to the daemon that the kernel might have executed. Are
    /// they so many that something about them must be beyond it, which the daemon does
    /// not see? Then the connection stays, with another trial now and then.
    pub(crate) fn is_refused_often(&mut self) -> bool {
        self.refused = self.refused.wrapping_add(1);
        self.refused % PERIOD >= TRIALS
    }

    /// The same of a request. A trial counts if the kernel has had the connection: a client that is fast may
    /// send the next request before it is handed back.
    pub(crate) fn is_request_refused_often(&mut self) -> bool {
        let is_trial = self.refused % PERIOD < TRIALS;
        if std::mem::take(&mut self.was_handed_back) || !is_trial {
            return self.is_refused_often();
        }
        false
    }

    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.local, Address::Unix(_))
    }

    /// Bytes that it makes the daemon keep.
    pub(crate) fn memory(&self) -> usize {
        let names = [&self.name, &self.library_name, &self.library_version];
        let names: usize = names.into_iter().map(Vec::capacity).sum();
        let messages = self.subscribed.memory() + self.mail.memory() + self.written.memory();
        let begun = self.begun.queue_memory + self.begun.watched_memory;
        self.input + self.output + begun + messages + names
    }
}
