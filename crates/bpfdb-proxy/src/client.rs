//! A client's connection.

use std::net::IpAddr;
use std::time::Instant;

use bytes::BytesMut;

use crate::auth::client::Asked;
use crate::io::poll::Interest;
use crate::io::slab::Id;
use crate::io::stream::Stream;
use crate::mirror::{Mirrored, Shadow};
use crate::parameters::Parameters;
use crate::pool::Key;
use crate::settings::{AuthType, PoolMode};
use crate::statements::ClientNames;
use crate::wire::assignment::Assignment;
use crate::wire::framing::Framing;
use crate::wire::hint::{Beyond, Hint};

/// How far a client has come.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Its first packet is awaited.
    Startup,
    /// The database is asked for what it keeps of its password; then it is asked itself, by this way.
    LooksUp {
        pool: u32,
        way: AuthType,
    },
    /// An answer about its password is awaited; what it was asked is taken out while it is looked at.
    Proves(Option<Asked>),
    /// Admitted; until its pool has had a server it is not known what to greet it with.
    Greeted,
    Ready,
}

/// What an operator may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Everything.
    Admin,
    /// Look.
    Stats,
}

/// What a client is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It has no request, and no transaction.
    #[default]
    Nothing,
    /// It waits for a server, which has a limit of its own.
    Waits,
    Query,
    /// Its transaction is open, or its batch, and the server has nothing to do.
    StandsStill,
}

/// As it was seen last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) doing: Doing,
    /// Changes with each request and each reply.
    pub(crate) count: u64,
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) socket: Stream,
    /// Where it is; `None`: it came by a Unix socket.
    pub(crate) address: Option<IpAddr>,
    pub(crate) interest: Interest,
    pub(crate) since: Instant,
    pub(crate) stage: Stage,
    /// From it.
    pub(crate) input: BytesMut,
    /// To it.
    pub(crate) output: BytesMut,
    pub(crate) framing: Framing,
    /// It has asked for TLS, and for another encryption.
    pub(crate) asked_for_tls: bool,
    pub(crate) asked_for_gss: bool,
    /// The message that `framing` is in goes nowhere.
    pub(crate) discards: bool,
    /// By which it cancels, with the secret; 0: it is not greeted yet.
    pub(crate) number: i32,
    pub(crate) secret: i32,
    pub(crate) user: String,
    /// What is known of its password, until it is admitted.
    pub(crate) secret_kept: Option<String>,
    /// The pool that it asks for, until it is admitted.
    pub(crate) wanted: Option<Key>,
    pub(crate) pool: Option<u32>,
    pub(crate) mode: PoolMode,
    /// Whose session it has now.
    pub(crate) server: Option<Id>,
    /// When it began to wait for one, if it does.
    pub(crate) waits: Option<Instant>,
    /// It was told that it waits.
    pub(crate) knows_it_waits: bool,
    pub(crate) parameters: Parameters,
    pub(crate) names: ClientNames,
    /// Bytes that it has had kept to undo what it has said of names since that was looked at.
    pub(crate) unlooked: usize,
    /// Messages of an extended query have come, and no Sync behind them.
    pub(crate) is_open: bool,
    /// Of the texts since it got its server.
    pub(crate) hint: Option<Hint>,
    /// The text of the message that `framing` is in goes on.
    pub(crate) beyond: Option<Beyond>,
    /// What it has asked for is this, and nothing else.
    pub(crate) assigns: Option<Assignment>,
    /// It keeps its server: the session has state.
    pub(crate) pinned: bool,
    /// So many servers in a row have refused its parameters.
    pub(crate) unfit: u32,
    /// The kernel has brought a Parse of its unnamed statement: so many ReadyForQuery messages are to come until it
    /// is known what has become of it.
    pub(crate) parses_there: usize,
    /// In the kernel; `None`: the programs do not know it.
    pub(crate) slot: Option<u32>,
    /// The kernel serves it.
    pub(crate) is_away: bool,
    /// Since when it has been seen to wait there.
    pub(crate) waits_there: Option<Instant>,
    /// What is to be sent is the last of it: it ends when it has taken that. Since when it has taken nothing.
    pub(crate) ends: Option<Instant>,
    /// ReadyForQuery messages to it through the process.
    pub(crate) answered: u64,
    /// What it was at when it was looked at last, and since when.
    pub(crate) seen: Seen,
    pub(crate) seen_since: Instant,
    /// Bytes to it and from it, ever: how the kernel knows that none is under way.
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Copies of its requests that have come from the kernel.
    pub(crate) copies: u32,
    /// Its transactions of which the kernel had no room for copies, as far as that is known here.
    pub(crate) lost: u32,
    /// What it sends to a mirror.
    pub(crate) mirrored: Mirrored,
    /// It has no connection: it sends to a mirror what another client has sent.
    pub(crate) shadow: Option<Shadow>,
    /// It was another proxy's.
    pub(crate) is_adopted: bool,
    /// It is at the console.
    pub(crate) console: Option<Role>,
    /// When it has sent its last request this way, ns of the monotonic clock; 0: none.
    pub(crate) asked: u64,
}

impl Client {
    pub(crate) fn new(socket: impl Into<Stream>, address: Option<IpAddr>, secret: i32) -> Self {
        Self {
            address,
            socket: socket.into(),
            interest: Interest::READ,
            since: Instant::now(),
            stage: Stage::Startup,
            input: BytesMut::new(),
            output: BytesMut::new(),
            framing: Framing::default(),
            asked_for_tls: false,
            asked_for_gss: false,
            discards: false,
            number: 0,
            secret,
            user: String::new(),
            secret_kept: None,
            wanted: None,
            pool: None,
            mode: PoolMode::default(),
            server: None,
            waits: None,
            knows_it_waits: false,
            parameters: Parameters::default(),
            names: ClientNames::default(),
            unlooked: 0,
            is_open: false,
            hint: None,
            beyond: None,
            assigns: None,
            pinned: false,
            unfit: 0,
            parses_there: 0,
            slot: None,
            is_away: false,
            waits_there: None,
            ends: None,
            answered: 0,
            seen: Seen::default(),
            seen_since: Instant::now(),
            sent: 0,
            received: 0,
            copies: 0,
            lost: 0,
            mirrored: Mirrored::default(),
            shadow: None,
            is_adopted: false,
            console: None,
            asked: 0,
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready)
    }

    /// Is it between two requests, as far as its own bytes say?
    pub(crate) fn is_between(&self) -> bool {
        !self.is_open && self.framing.is_between()
    }

    /// Is there something that its socket has not taken?
    pub(crate) fn has_output(&self) -> bool {
        !self.output.is_empty() || self.socket.has_unsent()
    }

    /// The next piece of a message: of its text, if it has one that goes on.
    pub(crate) fn look_beyond(&mut self, piece: &[u8]) {
        if let (Some(beyond), Some(hint)) = (&mut self.beyond, &mut self.hint) {
            hint.calls_session |= beyond.calls_session(piece);
        }
    }

    /// Of a request that is sent, or a part of one.
    pub(crate) fn hint(&mut self, hint: Hint) {
        (self.assigns, self.beyond) = (None, None);
        self.hint = Some(self.hint.map_or(hint, |before| before.and(hint)));
    }
}
