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

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use bpfdb::{Engine, Session};

use crate::clients::Clients;
use crate::commands::{self, Context, Group, Remainder, Running};
use crate::connections::Connections;
use crate::instance::Instance;
use crate::poll::{Interest, Source};
use crate::reply::Replies;
use crate::request::{Limits, Parser, Request, Step};
use crate::socket;
use crate::state::ConnectionState;
use crate::turn::Turn;

/// Memory that an empty buffer may keep.
const BUFFER_KEPT: usize = 4096;
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

/// What serving a connection takes.
pub(crate) struct Tools<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) session: &'a mut Session,
    pub(crate) kernel: &'a Connections,
    pub(crate) instance: &'a mut Instance,
    /// The others.
    pub(crate) clients: &'a mut Clients,
    pub(crate) buffer: &'a mut [u8],
}

// One for each session is kept ready.
const _: () = assert!(size_of::<Option<Client>>() <= 832);

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) socket: OwnedFd,
    pub(crate) index: u32,
    pub(crate) cookie: u64,
    pub(crate) state: State,
    pub(crate) interest: Interest,
    pub(crate) connection: ConnectionState,
    parser: Parser,
    /// A request that waits for the end of CLIENT PAUSE.
    held: Option<Request>,
    /// What the parser gave already, before it is asked for more.
    ahead: VecDeque<Step>,
    /// What is left of a long command.
    running: Option<Running>,
    /// Its turn was over before all that it sent was executed.
    unfinished: bool,
    /// Bytes received here, ever.
    consumed: u64,
    replies: Replies,
    output: Vec<u8>,
    sent: usize,
    /// Bytes sent here, ever.
    replied: u64,
    /// For Draining: what was waiting when it was looked at last, and how
    /// often it did not change.
    waiting: u64,
    unchanged: u32,
    /// Bytes must still come, but nothing tells when.
    late: bool,
    /// Since when more than the soft limit of replies waits.
    pub(crate) slow_since: Option<Instant>,
    /// Bytes that had arrived when it was looked at last.
    seen: u64,
}

impl Client {
    /// Through TCP it begins in the kernel, else here.
    pub(crate) fn new(socket: OwnedFd, index: u32, connection: ConnectionState) -> Self {
        let is_unix = connection.is_unix();
        let state = if is_unix {
            State::Daemon
        } else {
            State::Kernel
        };
        Self {
            socket,
            index,
            cookie: connection.id,
            state,
            interest: Interest {
                readable: is_unix,
                ended: !is_unix,
                ..Interest::default()
            },
            connection,
            parser: Parser::default(),
            held: None,
            ahead: VecDeque::new(),
            running: None,
            unfinished: false,
            consumed: 0,
            replies: Replies::default(),
            output: Vec::new(),
            sent: 0,
            replied: 0,
            waiting: 0,
            unchanged: 0,
            late: false,
            slow_since: None,
            seen: 0,
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
            readable: self.state == State::Daemon
                && !unsent
                && !self.late
                && !self.is_held_up()
                && !self.unfinished,
            writable: unsent,
            ended: self.state == State::Kernel,
        }
    }

    /// Data that arrived before the connection was accepted waits until
    /// somebody makes the kernel look at it.
    pub(crate) fn nudge(&self) -> io::Result<()> {
        socket::announce_arrived(self.socket.as_fd())
    }

    /// Is a request of it not executed yet? Those behind it wait.
    fn is_held_up(&self) -> bool {
        self.held.is_some() || self.running.is_some()
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.held.is_some()
    }

    /// Has it work that waits for nobody? Not for the client to read either: others
    /// may wait for the end of it.
    pub(crate) fn is_busy(&self) -> bool {
        self.running.is_some() || self.unfinished
    }

    /// Until when it need not be served, if it has work that waits for a time.
    pub(crate) fn rests_until(&self) -> Option<Instant> {
        self.running.as_ref().and_then(Running::rests_until)
    }

    fn received(&mut self, bytes: &[u8], connections: &Connections) {
        self.parser.feed(bytes);
        self.connection.receipts += 1;
        self.consumed += bytes.len() as u64;
        if !self.connection.is_unix() {
            connections.set_consumed(self.index, self.consumed);
        }
    }

    /// Bytes that arrived and that nobody has taken in.
    fn waiting(&self, connections: &Connections) -> u64 {
        if self.connection.is_unix() {
            return 0;
        }
        connections.waiting(self.index, self.consumed)
    }

    /// Reads, executes and replies until there is nothing to do.
    pub(crate) fn serve(&mut self, tools: &mut Tools<'_>) -> io::Result<Next> {
        tools.session.redirect(self.index);
        self.late = false;
        self.unfinished = false;
        self.connection.active = Instant::now();
        let turn = Turn::begin();
        let mut rounds = 0..ROUNDS;
        // What came last was all there was: if there is more by now, it is told.
        let mut drained = false;
        let mut received = false;
        loop {
            let more = self.execute(tools, turn);
            // Before, nobody knows what is on its way.
            if received && !self.connection.is_unix() {
                // Nor is a long argument over while much of what follows is on its way.
                let waiting = self.waiting(tools.kernel);
                let patient =
                    self.parser.is_long() || waiting > u64::from(bpfdb::abi::BPFDB_UNANSWERED_MAX);
                tools.kernel.set_patient(self.index, patient);
            }
            self.flush(tools.instance)?;
            if self.is_unsent() {
                return Ok(Next::Keep);
            }
            if more && turn.is_over() {
                self.unfinished = true;
                return Ok(Next::Keep);
            }
            if more {
                continue;
            }
            if self.is_held_up() {
                return Ok(Next::Keep);
            }
            if self.state != State::Daemon {
                return Ok(self.next());
            }
            if rounds.next().is_none() || turn.is_over() {
                // All that was received is answered; if there is more, it is
                // told again.
                return Ok(Next::Keep);
            }
            if drained {
                self.hand_back(tools);
                return Ok(Next::Keep);
            }
            match socket::receive(self.socket.as_fd(), tools.buffer)? {
                Some(0) if self.waiting(tools.kernel) > 0 => {
                    // The client has ended its stream, and the last bytes of it
                    // are still on their way from the kernel's worker to us.
                    self.late = true;
                    return Ok(Next::Keep);
                }
                Some(0) => self.state = State::Closing,
                Some(got) => {
                    tools.instance.statistics.input_bytes.add(got as u64);
                    self.received(&tools.buffer[..got], tools.kernel);
                    received = true;
                    drained = got < tools.buffer.len();
                }
                None => {
                    self.hand_back(tools);
                    return Ok(Next::Keep);
                }
            }
        }
    }

    /// Lets the kernel answer again, if nothing is begun here. Not behind a
    /// request that it does not answer: where there was one there are more, and
    /// each would come here by way of the kernel's worker.
    fn hand_back(&mut self, tools: &Tools<'_>) {
        let known = tools.instance.admits(&self.connection);
        if !known
            || tools.instance.keeps_connections()
            || self.connection.slow
            || !self.is_idle()
            || !self.connection.may_be_handed_back()
        {
            return;
        }
        let connections = tools.kernel;
        connections.set_protocol(self.index, self.replies.protocol());
        connections.set_watching(self.index, !self.connection.watched.is_empty());
        // Nobody has looked at what comes next.
        connections.set_patient(self.index, true);
        if connections.hand_back(self.index, self.consumed, self.replied) {
            self.state = State::Kernel;
        }
    }

    /// Is all that was received executed, and no request begun?
    fn is_idle(&self) -> bool {
        self.parser.is_idle() && self.ahead.is_empty()
    }

    fn next(&self) -> Next {
        if self.state == State::Closing {
            Next::Close
        } else {
            Next::Keep
        }
    }

    /// Executes what the parser has, but not more than may wait to be sent, and one
    /// step of a long command; true if there may be more.
    fn execute(&mut self, tools: &mut Tools<'_>, turn: Turn) -> bool {
        let mut more = true;
        if self.is_gone(tools.kernel) {
            self.running = None;
        }
        if let Some(running) = self.running.take() {
            self.go_on(tools, running);
            more = !self.is_held_up();
            // CLIENT KILL of itself: what it sent behind that is not executed.
            if self.connection.close {
                self.state = State::Closing;
            }
        }
        while more && self.state == State::Daemon && turn.has_room(self.replies.len()) {
            if self.is_gone(tools.kernel) {
                self.state = State::Closing;
                break;
            }
            more = match self.next_step(tools) {
                Step::More => false,
                Step::Broken(text) => {
                    self.replies.error(text);
                    self.connection.close = true;
                    true
                }
                Step::Request(request) => match self.gather(tools, request) {
                    Ok(group) => self.answer_group(tools, group, turn),
                    Err(request) => self.answer(tools, request),
                },
            };
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

    /// One step of a long command, if its time has come.
    fn go_on(&mut self, tools: &mut Tools<'_>, running: Running) {
        let mut context = self.context(tools);
        match running.held_by_pause(&context) {
            Ok(request) => self.held = Some(request),
            Err(running) => self.running = running.go_on(&mut context),
        }
    }

    /// Was the connection reset? Then its transaction may be rolled back already,
    /// and nobody reads replies.
    fn is_gone(&self, connections: &Connections) -> bool {
        !self.connection.is_unix() && connections.arrived(self.index).is_closed()
    }

    fn next_step(&mut self, tools: &Tools<'_>) -> Step {
        let held = self.held.take().map(Step::Request);
        held.or_else(|| self.ahead.pop_front())
            .unwrap_or_else(|| self.parser.next_step(self.limits(tools.instance)))
    }

    /// A request with those that have come behind it and can be executed with it; or the
    /// request, if that is all.
    fn gather(&mut self, tools: &mut Tools<'_>, request: Request) -> Result<Group, Request> {
        if self.is_idle() {
            return Err(request);
        }
        let mut group = Group::begin(&self.context(tools), request)?;
        while !group.is_full() {
            let refused = match self.next_step(tools) {
                Step::More => break,
                Step::Request(request) => match group.join(request) {
                    Ok(()) => continue,
                    Err(request) => Step::Request(request),
                },
                broken => broken,
            };
            self.ahead.push_front(refused);
            break;
        }
        group.alone()
    }

    /// Executes requests, or what of them can be executed now; true if all of them were.
    fn answer_group(&mut self, tools: &mut Tools<'_>, group: Group, turn: Turn) -> bool {
        let Remainder { running, requests } = group.execute(&mut self.context(tools), turn);
        for request in requests.into_iter().rev() {
            self.ahead.push_front(Step::Request(request));
        }
        self.running = running;
        self.running.is_none()
    }

    /// Executes a request, or what of it can be executed now; true if all of it was.
    fn answer(&mut self, tools: &mut Tools<'_>, request: Request) -> bool {
        let mut context = self.context(tools);
        if commands::is_paused(&context, &request) {
            self.held = Some(request);
            return false;
        }
        self.running = commands::execute(&mut context, request);
        self.running.is_none()
    }

    fn context<'a>(&'a mut self, tools: &'a mut Tools<'_>) -> Context<'a> {
        Context {
            engine: tools.engine,
            session: &mut *tools.session,
            replies: &mut self.replies,
            connection: &mut self.connection,
            instance: &mut *tools.instance,
            clients: &mut *tools.clients,
            job: None,
            rests_until: None,
            at_once: false,
        }
    }

    /// A stranger may say little before it has said who it is.
    fn limits(&self, instance: &Instance) -> Limits {
        if !instance.admits(&self.connection) {
            return Limits::UNKNOWN_CLIENT;
        }
        Limits::of_bulk(instance.settings.max_bulk.bytes())
    }

    /// Bytes of replies that wait for the client to read.
    pub(crate) fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    fn is_unsent(&self) -> bool {
        self.unsent() > 0
    }

    fn flush(&mut self, instance: &Instance) -> io::Result<()> {
        while self.is_unsent() {
            match socket::send(self.socket.as_fd(), &self.output[self.sent..])? {
                Some(sent) => {
                    self.sent += sent;
                    instance.statistics.output_bytes.add(sent as u64);
                    self.replied += sent as u64;
                }
                None => return Ok(()),
            }
        }
        self.output.clear();
        self.sent = 0;
        Ok(())
    }

    /// Gives back the memory that is not in use between two rounds of service,
    /// and takes note of what is.
    pub(crate) fn trim(&mut self) {
        self.parser.trim(BUFFER_KEPT);
        if self.output.is_empty() && self.output.capacity() > BUFFER_KEPT {
            self.output = Vec::new();
        }
        let held = self.held.as_ref().map_or(0, Request::memory);
        let running = self.running.as_ref().map_or(0, Running::memory);
        let ahead: usize = self.ahead.iter().map(Step::memory).sum();
        self.connection.input = self.parser.memory() + held + running + ahead;
        self.connection.output = self.output.capacity();
    }

    /// Has it been active since it was looked at last?
    pub(crate) fn look_at_activity(&mut self, connections: &Connections, now: Instant) {
        if self.connection.is_unix() {
            return;
        }
        let activity = connections.activity(self.index);
        if activity != self.seen {
            self.seen = activity;
            self.connection.active = now;
        }
    }

    pub(crate) fn describe(&self) -> String {
        commands::describe(&self.connection, self.replies.protocol())
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
