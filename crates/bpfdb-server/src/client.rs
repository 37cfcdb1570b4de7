//! One connection as the daemon sees it.
//!
//! ```text
//!            handover                     everything answered
//!   Kernel ───────────► Daemon ─────────────────────────────► Kernel
//!     │ client ends       │ protocol error, QUIT, client ends
//!     ▼                   ▼
//!   Draining ──────────► Closing: what is to be sent is sent, then closed
//!     the kernel has answered all, or cannot
//! ```
//!
//! Kernel: nothing to read here, and no wake-ups. Daemon: requests come in the
//! ordinary way; while replies cannot be sent, none are read, and TCP slows the
//! client down.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use bpfdb::{Engine, Session};

use crate::commands::{self, Context};
use crate::connections::Connections;
use crate::poll::{Interest, Source};
use crate::reply::Replies;
use crate::request::{Parser, Step};
use crate::socket;
use crate::state::ConnectionState;

/// Replies that may wait to be sent before no more requests are executed.
const OUTPUT_MAX: usize = 1 << 20;
/// Rounds of reading and executing before others have their turn.
const ROUNDS: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Kernel,
    Daemon,
    Draining,
    Closing,
}

/// What the server is to do with a connection after it was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Keep,
    Close,
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) socket: OwnedFd,
    pub(crate) index: u32,
    pub(crate) cookie: u64,
    pub(crate) state: State,
    pub(crate) interest: Interest,
    connection: ConnectionState,
    parser: Parser,
    /// Bytes received here, ever.
    consumed: u64,
    replies: Replies,
    output: Vec<u8>,
    sent: usize,
    /// For Draining: what was waiting when it was looked at last, and how
    /// often it did not change.
    waiting: u64,
    unchanged: u32,
    /// Bytes must still come, but nothing tells when.
    late: bool,
}

impl Client {
    pub(crate) fn new(socket: OwnedFd, index: u32, cookie: u64) -> Self {
        Self {
            socket,
            index,
            cookie,
            state: State::Kernel,
            interest: Interest {
                ended: true,
                ..Interest::default()
            },
            connection: ConnectionState::new(cookie),
            parser: Parser::default(),
            consumed: 0,
            replies: Replies::default(),
            output: Vec::new(),
            sent: 0,
            waiting: 0,
            unchanged: 0,
            late: false,
        }
    }

    pub(crate) fn source(&self) -> Source {
        Source::Connection(self.index, self.cookie as u32)
    }

    /// The kernel handed the connection over.
    pub(crate) fn take_over(&mut self) {
        if self.state == State::Kernel || self.state == State::Draining {
            self.state = State::Daemon;
        }
    }

    /// What the connection waits for now.
    pub(crate) fn wanted(&self) -> Interest {
        let unsent = self.is_unsent();
        Interest {
            readable: self.state == State::Daemon && !unsent && !self.late,
            writable: unsent,
            ended: self.state == State::Kernel,
        }
    }

    /// Data that arrived before the connection was accepted waits until
    /// somebody asks for it: that makes the kernel look at it.
    pub(crate) fn nudge(&mut self, connections: &Connections) -> io::Result<()> {
        let mut buffer = [0; 4096];
        if let Some(got @ 1..) = socket::receive(self.socket.as_fd(), &mut buffer)? {
            self.take_over();
            self.received(&buffer[..got], connections);
        }
        Ok(())
    }

    fn received(&mut self, bytes: &[u8], connections: &Connections) {
        self.parser.feed(bytes);
        self.consumed += bytes.len() as u64;
        connections.set_consumed(self.index, self.consumed);
    }

    /// Reads, executes and replies until there is nothing to do.
    pub(crate) fn serve(
        &mut self,
        engine: &Engine,
        session: &mut Session,
        connections: &Connections,
        buffer: &mut [u8],
    ) -> io::Result<Next> {
        session.redirect(self.index);
        self.late = false;
        let mut rounds = 0..ROUNDS;
        loop {
            let more = self.execute(engine, session);
            self.flush()?;
            if self.is_unsent() {
                return Ok(Next::Keep);
            }
            if more {
                continue;
            }
            if self.state != State::Daemon {
                return Ok(self.next());
            }
            if rounds.next().is_none() {
                // All that was received is answered; if there is more, it is
                // told again.
                return Ok(Next::Keep);
            }
            match socket::receive(self.socket.as_fd(), buffer)? {
                Some(0) if connections.waiting(self.index, self.consumed) > 0 => {
                    // The client has ended its stream, and the last bytes of it
                    // are still on their way from the kernel's worker to us.
                    self.late = true;
                    return Ok(Next::Keep);
                }
                Some(0) => self.state = State::Closing,
                Some(got) => self.received(&buffer[..got], connections),
                None => {
                    self.hand_back(connections);
                    return Ok(Next::Keep);
                }
            }
        }
    }

    /// Lets the kernel answer again, if nothing is begun here.
    fn hand_back(&mut self, connections: &Connections) {
        if !self.parser.is_idle() || !self.connection.may_be_handed_back() {
            return;
        }
        connections.set_protocol(self.index, self.replies.protocol());
        if connections.hand_back(self.index, self.consumed) {
            self.state = State::Kernel;
        }
    }

    fn next(&self) -> Next {
        if self.state == State::Closing {
            Next::Close
        } else {
            Next::Keep
        }
    }

    /// Executes what the parser has, but not more than may wait to be sent;
    /// true if there may be more.
    fn execute(&mut self, engine: &Engine, session: &mut Session) -> bool {
        let mut more = true;
        while more && self.state == State::Daemon && self.replies.len() < OUTPUT_MAX {
            match self.parser.next_step() {
                Step::More => more = false,
                Step::Broken(text) => {
                    self.replies.error(text);
                    self.connection.close = true;
                }
                Step::Request(request) => commands::execute(
                    &mut Context {
                        engine,
                        session,
                        replies: &mut self.replies,
                        connection: &mut self.connection,
                    },
                    request,
                ),
            }
            if self.connection.close {
                self.state = State::Closing;
            }
        }
        if self.output.is_empty() {
            self.output = self.replies.take();
        } else {
            self.output.extend_from_slice(&self.replies.take());
        }
        more && self.state == State::Daemon
    }

    fn is_unsent(&self) -> bool {
        self.sent < self.output.len()
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.is_unsent() {
            match socket::send(self.socket.as_fd(), &self.output[self.sent..])? {
                Some(sent) => self.sent += sent,
                None => return Ok(()),
            }
        }
        self.output.clear();
        self.sent = 0;
        Ok(())
    }

    /// Must it be looked at again without being told?
    pub(crate) fn wants_another_look(&self) -> bool {
        self.state == State::Draining || self.late
    }

    /// The client will send nothing more, and the kernel answers what it sent.
    pub(crate) fn drain(&mut self) {
        if self.state == State::Kernel {
            self.state = State::Draining;
        }
    }

    /// Has the kernel answered all that it will answer? Asked again and again.
    pub(crate) fn is_drained(&mut self, connections: &Connections) -> bool {
        const OFTEN: u32 = 5;
        let waiting = connections.waiting(self.index, self.consumed);

        if waiting == 0 {
            return true;
        }
        self.unchanged = if waiting == self.waiting {
            self.unchanged + 1
        } else {
            0
        };
        self.waiting = waiting;
        // Half a request, whose rest will not come.
        self.unchanged >= OFTEN && connections.is_assembling(self.index)
    }
}
