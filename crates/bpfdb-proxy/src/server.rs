//! A connection to a database.

use std::os::fd::OwnedFd;
use std::time::Instant;

use bytes::BytesMut;

use crate::auth::login::Login;
use crate::auth::secrets::Whose;
use crate::awaited::{Awaited, Expected, Own};
use crate::io::poll::Interest;
use crate::io::slab::Id;
use crate::io::stream::Stream;
use crate::parameters::Parameters;
use crate::settings::Host;
use crate::statements::ServerStatements;
use crate::traffic;
use crate::wire::framing::Framing;

#[derive(Debug)]
pub(crate) enum Stage {
    Connecting,
    /// It was asked for TLS: its answer of one byte is awaited.
    AskedTls,
    LogsIn(Box<Login>),
    Ready,
}

/// A question about the password of a user.
#[derive(Debug)]
pub(crate) struct Lookup {
    pub(crate) client: Id,
    pub(crate) whose: Whose,
    /// From the first row; empty: the user is known, and has no password.
    pub(crate) found: Option<String>,
    pub(crate) has_failed: bool,
}

/// Does the server wait for data?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Copying {
    #[default]
    No,
    /// By a simple query.
    Simple,
    /// By an extended one: it ignores each Sync until the end of the data.
    Extended,
}

/// Outside a transaction block, in one, in a failed one: as ReadyForQuery says it.
pub(crate) const IDLE: u8 = b'I';

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) socket: Stream,
    pub(crate) interest: Interest,
    pub(crate) since: Instant,
    pub(crate) opened: Instant,
    /// Replies that the kernel had brought when it was looked at last.
    pub(crate) replies: u64,
    /// It has refused to do without TLS before.
    pub(crate) wants_tls: bool,
    pub(crate) pool: u32,
    /// Where it is.
    pub(crate) host: Host,
    pub(crate) stage: Stage,
    /// From it.
    pub(crate) input: BytesMut,
    /// To it.
    pub(crate) output: BytesMut,
    pub(crate) framing: Framing,
    /// The message that `framing` is in goes to no client.
    pub(crate) discards: bool,
    pub(crate) client: Option<Id>,
    pub(crate) expected: Awaited,
    /// Messages of the batch that is sent that have an answer each.
    pub(crate) asks: usize,
    /// Those that have come since the last ReadyForQuery.
    pub(crate) answers: usize,
    pub(crate) copying: Copying,
    /// Data were sent since it has said so.
    pub(crate) has_data: bool,
    pub(crate) status: u8,
    /// An unknown SET was done since the last ReadyForQuery.
    pub(crate) has_set: bool,
    /// How many replies are to come, or which statements it has, is not certain: it is not given on.
    pub(crate) unsure: bool,
    /// A portal may be open whose statement the kernel would not have brought.
    pub(crate) has_portal: bool,
    /// It has refused a statement of ours: its session is not as it must be.
    pub(crate) refused: Option<Own>,
    /// What it is asked, if it is.
    pub(crate) lookup: Option<Lookup>,
    pub(crate) parameters: Parameters,
    /// As they were when it logged in.
    pub(crate) first: Parameters,
    pub(crate) statements: ServerStatements,
    pub(crate) key: (i32, i32),
    /// Requests to cancel that are under way: a next client must not be hit.
    pub(crate) cancels: u32,
    /// In the kernel; `None`: the programs do not know it.
    pub(crate) slot: Option<u32>,
    /// The kernel has begun to bring its stream: where that is is not known here yet.
    pub(crate) resumes: bool,
    /// It was free in the kernel, and has said something without being asked.
    pub(crate) speaks: bool,
    /// It is closed when it is free.
    pub(crate) retires: bool,
    /// It says nothing more; what it has said waits for a client that does not take it.
    pub(crate) has_ended: bool,
    /// When the request came whose reply is awaited, and the first of the transaction: ns of the monotonic
    /// clock; 0: none.
    pub(crate) asked: u64,
    pub(crate) begun: u64,
}

impl Server {
    pub(crate) fn new(socket: OwnedFd, pool: u32, host: Host) -> Self {
        Self {
            socket: socket.into(),
            interest: Interest {
                readable: false,
                writable: true,
            },
            since: Instant::now(),
            opened: Instant::now(),
            replies: 0,
            wants_tls: false,
            pool,
            host,
            stage: Stage::Connecting,
            input: BytesMut::new(),
            output: BytesMut::new(),
            framing: Framing::default(),
            discards: false,
            client: None,
            expected: Awaited::default(),
            asks: 0,
            answers: 0,
            copying: Copying::No,
            has_data: false,
            status: IDLE,
            has_set: false,
            unsure: false,
            has_portal: false,
            refused: None,
            lookup: None,
            parameters: Parameters::default(),
            first: Parameters::default(),
            statements: ServerStatements::default(),
            key: (0, 0),
            cancels: 0,
            slot: None,
            resumes: false,
            speaks: false,
            retires: false,
            has_ended: false,
            asked: 0,
            begun: 0,
        }
    }

    /// Is there something that its socket has not taken?
    pub(crate) fn has_output(&self) -> bool {
        !self.output.is_empty() || self.socket.has_unsent()
    }

    /// It gets a part of a request: the first one, of the transaction as well, if this is not known yet.
    pub(crate) fn begin(&mut self) {
        if self.asked == 0 {
            self.asked = traffic::now();
        }
        if self.begun == 0 {
            self.begun = self.asked;
        }
    }

    /// What it gets now has an answer: how many messages of its batch before have one, too.
    pub(crate) fn ask(&mut self) -> usize {
        self.asks += 1;
        self.asks - 1
    }

    /// Is what it is at a statement of the proxy's own?
    pub(crate) fn is_prepared(&self) -> bool {
        matches!(self.expected.front(), Some(Expected::Own(_)))
    }

    /// Has everything been answered, outside a transaction block?
    pub(crate) fn is_quiet(&self) -> bool {
        self.expected.is_empty()
            && self.status == IDLE
            && self.framing.is_between()
            && self.input.is_empty()
            && self.output.is_empty()
    }

    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready)
    }
}
