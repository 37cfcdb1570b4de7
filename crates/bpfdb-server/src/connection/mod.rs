//! One connection as the daemon sees it: its socket, the bytes that came and that are to be
//! sent, and whether kernel or daemon answers it.
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
//! ordinary way, also while replies wait to be sent: a client may write all of its
//! requests before it reads the first reply. Limits on what waits (`server/housekeeping.rs`)
//! end the connection; nothing else does.
//!
//! What becomes of its requests is the executor's business (`executor/`).

pub(crate) mod info;
mod output;
pub(crate) mod subscribed;
pub(crate) mod table;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use bpfdb::Database;
use bpfdb_tier::{Parked, Seat, Tier};

use self::info::ConnectionInfo;
use self::output::Output;
use crate::io::poll::{Interest, Source};
use crate::io::socket;
use crate::kernel::connections::KernelConnections;
use crate::protocol::reply::Replies;
use crate::protocol::request::{Limits, Parser, Step};
use crate::stats::statistics::Statistics;

/// Bytes of the send buffer beside which the kernel answers (`send_queue_is_long`,
/// `bpf/net/socket.bpf.h`).
const ANSWERED_BESIDE: usize = bpfdb::abi::BPFDB_SEND_BUFFER as usize / 2;

/// Bytes of the send buffer that are taken when the daemon stops to fill it while the kernel's worker
/// has something for it. More than two thirds: else the socket would be writable all the time, and the daemon would try
/// again and again.
const SENT_BESIDE_WORKER: usize = bpfdb::abi::BPFDB_SEND_BUFFER as usize / 4 * 3;

/// Bytes of memory that an empty buffer may keep.
const BUFFER_KEPT: usize = 4096;

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

/// What came of an attempt to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// Nothing is there.
    Nothing,
    /// The client has ended its stream, and its last bytes are still on their way from
    /// the kernel's worker to the daemon.
    Late,
    /// The client has ended its stream.
    End,
    /// Bytes; with whether they were all that was there.
    Bytes { all: bool },
}

// One for each session is kept ready.
const _: () = assert!(size_of::<Option<Connection>>() <= 752);

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    /// Of its session, and of its entry in the kernel's map.
    pub(crate) index: u32,
    /// The kernel's number of the socket: no other connection ever has it.
    pub(crate) cookie: u64,
    pub(crate) state: State,
    /// The events that it waits for now.
    pub(crate) interest: Interest,
    pub(crate) info: ConnectionInfo,
    pub(crate) replies: Replies,
    parser: Parser,
    /// Bytes received here, ever.
    consumed: u64,
    output: Output,
    /// Bytes sent here, ever.
    replied: u64,
    /// For Draining: what was waiting when it was looked at last, and how
    /// often it did not change.
    waiting: u64,
    unchanged: u32,
    /// Bytes must still come, but no event will tell when.
    late: bool,
    /// What is to be sent waits until it is durable.
    is_held: bool,
    /// Messages were pushed, and no attempt was made to send them yet.
    has_pushed: bool,
    /// Messages were dropped, since more than the hard limit waits: it is to be closed.
    is_overfull: bool,
    /// The client has sent more meanwhile: it is not read before that was sent.
    is_pressed: bool,
    /// Since when more than the soft limit of replies waits.
    pub(crate) slow_since: Option<Instant>,
    /// Where the kernel may park a request.
    seat: Option<Seat>,
    /// The kernel's count of its activity when it was looked at last.
    seen: u64,
}

impl Connection {
    /// Through TCP it begins in the kernel, else in the daemon.
    pub(crate) fn new(socket: OwnedFd, index: u32, info: ConnectionInfo) -> Self {
        let is_unix = info.is_unix();
        let state = if is_unix {
            State::Daemon
        } else {
            State::Kernel
        };
        Self {
            socket,
            index,
            cookie: info.id,
            state,
            interest: Interest {
                readable: is_unix,
                ended: !is_unix,
                ..Interest::default()
            },
            info,
            replies: Replies::default(),
            parser: Parser::default(),
            consumed: 0,
            output: Output::default(),
            replied: 0,
            waiting: 0,
            unchanged: 0,
            late: false,
            is_held: false,
            has_pushed: false,
            is_overfull: false,
            is_pressed: false,
            slow_since: None,
            seat: None,
            seen: 0,
        }
    }

    pub(crate) fn source(&self) -> Source {
        Source::Connection(self.index, self.cookie as u32)
    }

    // ---- Kernel or daemon ----------------------------------------------------------

    /// Takes the connection over, if the kernel leaves it to the daemon. A record that says so may be stale: the
    /// daemon has learned of it in another way meanwhile, and has given the connection back.
    pub(crate) fn take_over(&mut self, kernel: &KernelConnections) {
        let is_begun = self.state == State::Kernel || self.state == State::Draining;
        if is_begun && self.is_daemons(kernel) {
            self.state = State::Daemon;
        }
    }

    /// Does the kernel leave it to the daemon? So it stays until the daemon gives it back.
    fn is_daemons(&self, kernel: &KernelConnections) -> bool {
        // In this order: what `arrived` says is this connection's, if the cookie still is.
        let is_daemon = kernel.arrived(self.index).is_daemon();
        is_daemon && kernel.has_cookie(self.index, self.cookie)
    }

    /// Lets the kernel answer again, unless something has arrived that is not answered, or the
    /// client has not read so much that the kernel would give the connection to the daemon again:
    /// behind a full send buffer it could not even do that (`room_to_send`).
    pub(crate) fn hand_back(
        &mut self,
        kernel: &KernelConnections,
        watches: bool,
        database: Database,
    ) {
        let queued = socket::queued(self.socket.as_fd());
        if queued.is_ok_and(|bytes| bytes > ANSWERED_BESIDE) {
            return;
        }
        kernel.set_protocol(self.index, self.replies.protocol());
        kernel.set_watching(self.index, watches);
        kernel.set_database(self.index, database);
        // What comes next was not looked at.
        kernel.set_patient(self.index, true);
        if kernel.hand_back(self.index, self.consumed, self.replied) {
            self.state = State::Kernel;
            self.info.was_handed_back = true;
        }
    }

    /// Has the kernel answer what is asked for next, if that is in a file: gives the connection a seat if it has none yet.
    /// Before it is handed back.
    pub(crate) fn sit_down(&mut self, kernel: &KernelConnections, tier: &Tier) {
        if self.info.is_unix() {
            return;
        }
        if self.seat.is_none() {
            self.seat = tier.seat(self.socket.as_fd(), self.index, self.cookie);
            let number = self.seat.as_ref().map(Seat::number);
            kernel.set_seat(self.index, number);
        }
        if let Some(seat) = &self.seat {
            seat.encourage();
        }
    }

    /// A request that the kernel has parked waits for too long: the daemon has the connection if it is the daemon's now.
    pub(crate) fn take_overdue(&self, kernel: &KernelConnections) {
        if self.seat.as_ref().is_some_and(Seat::claim) {
            kernel.take(self.index);
        }
    }

    /// Nothing is parked or sent any more without the daemon: the connection is about to be closed.
    pub(crate) fn stand_up(&self, kernel: &KernelConnections) {
        if let Some(seat) = &self.seat {
            if kernel.has_cookie(self.index, self.cookie) {
                kernel.set_seat(self.index, None);
            }
            seat.give_up();
        }
    }

    /// Data that arrived before the connection was accepted waits until
    /// the kernel is made to look at it.
    pub(crate) fn wake(&self) -> io::Result<()> {
        socket::announce_arrived(self.socket.as_fd())
    }

    /// Was the connection reset? Then its transaction may be rolled back already,
    /// and replies are not read.
    pub(crate) fn is_gone(&self, kernel: &KernelConnections) -> bool {
        !self.info.is_unix() && kernel.arrived(self.index).is_closed()
    }

    /// Has the client ended its stream, or the connection, as far as the kernel knows? Also while
    /// there is more to be received.
    pub(crate) fn has_ended(&self) -> bool {
        socket::has_ended(self.socket.as_fd())
    }

    /// What to do with it when there is nothing left to execute.
    pub(crate) fn next(&self) -> Next {
        if self.state == State::Closing {
            Next::Close
        } else {
            Next::Keep
        }
    }

    // ---- Requests ------------------------------------------------------------------

    pub(crate) fn begin_service(&mut self) {
        self.late = false;
        self.info.active = Instant::now();
    }

    /// Takes in what has arrived, up to the length of the buffer.
    pub(crate) fn receive(
        &mut self,
        buffer: &mut [u8],
        kernel: &KernelConnections,
        statistics: &Statistics,
    ) -> io::Result<Received> {
        if let Some(parked) = self.receive_parked(kernel, statistics) {
            return Ok(parked);
        }
        Ok(match socket::receive(self.socket.as_fd(), buffer)? {
            None => Received::Nothing,
            Some(0) if self.waiting(kernel) > 0 => {
                self.late = true;
                Received::Late
            }
            Some(0) => Received::End,
            Some(got) => {
                statistics.numbers.input_bytes.add(got as u64);
                self.received(&buffer[..got], kernel);
                Received::Bytes {
                    all: got < buffer.len(),
                }
            }
        })
    }

    /// What the kernel has parked came before all that is in the socket. While its reply is being sent nothing is taken
    /// in, so that nothing else is sent.
    fn receive_parked(
        &mut self,
        kernel: &KernelConnections,
        statistics: &Statistics,
    ) -> Option<Received> {
        match self.seat.as_ref()?.take() {
            Parked::Nothing => None,
            Parked::Sending => {
                self.late = true;
                Some(Received::Late)
            }
            Parked::Request(bytes) => {
                statistics.numbers.input_bytes.add(bytes.len() as u64);
                kernel.end_parking(self.index);
                self.received(&bytes, kernel);
                Some(Received::Bytes { all: false })
            }
        }
    }

    fn received(&mut self, bytes: &[u8], kernel: &KernelConnections) {
        self.parser.feed(bytes);
        self.info.receipts += 1;
        self.consumed += bytes.len() as u64;
        if !self.info.is_unix() {
            kernel.set_consumed(self.index, self.consumed);
        }
    }

    /// Bytes that arrived and are not taken in.
    fn waiting(&self, kernel: &KernelConnections) -> u64 {
        if self.info.is_unix() {
            return 0;
        }
        kernel.waiting(self.index, self.consumed)
    }

    /// Lets the kernel queue more than usual while a long argument is under way. One is not
    /// over while much of what follows it is under way, either.
    pub(crate) fn update_patience(&self, kernel: &KernelConnections) {
        if !self.info.is_unix() {
            let much = u64::from(bpfdb::abi::BPFDB_UNANSWERED_MAX);
            let patient = self.parser.is_long() || self.waiting(kernel) > much;
            kernel.set_patient(self.index, patient);
        }
    }

    /// Tells the kernel whether values may be read for the client before it asks for them, and in which database. Not when
    /// the kernel has the connection, and may have ended it.
    pub(crate) fn update_prefetch(
        &self,
        kernel: &KernelConnections,
        may_prefetch: bool,
        database: Database,
    ) {
        if !self.info.is_unix() && self.state == State::Daemon {
            kernel.set_may_prefetch(self.index, may_prefetch);
            kernel.set_database(self.index, database);
        }
    }

    /// The next request of what was received.
    pub(crate) fn next_step(&mut self, limits: Limits) -> Step {
        self.parser.next_step(limits)
    }

    /// Has no request begun that is not complete?
    pub(crate) fn is_between_requests(&self) -> bool {
        self.parser.is_idle()
    }

    // ---- Replies -------------------------------------------------------------------

    /// Moves the replies to what is to be sent.
    pub(crate) fn queue_replies(&mut self) {
        self.output.push(self.replies.take());
    }

    /// Adds a message to what is to be sent, behind whole replies. True if it is the first one since
    /// the last attempt to send. Beyond `most` bytes it is kept no more: the connection is to be closed.
    fn push(&mut self, bytes: &[u8], most: u64) -> bool {
        if self.state != State::Daemon || self.is_overfull {
            return false;
        }
        self.is_overfull = (self.unsent() + bytes.len()) as u64 > most;
        if !self.is_overfull {
            self.output.push_copy(bytes);
            self.info.output = self.output.memory();
        }
        !std::mem::replace(&mut self.has_pushed, true)
    }

    /// Were messages dropped for it?
    pub(crate) fn is_overfull(&self) -> bool {
        self.is_overfull
    }

    /// Sends what was pushed.
    pub(crate) fn send_pushed(
        &mut self,
        kernel: &KernelConnections,
        statistics: &Statistics,
        durable: u64,
    ) -> io::Result<()> {
        self.has_pushed = false;
        if self.is_overfull {
            return Ok(());
        }
        self.flush(kernel, statistics, durable)
    }

    /// Until when its replies are held back, if they are.
    pub(crate) fn held_until(&self) -> Option<u64> {
        self.is_held.then_some(self.info.hold)
    }

    /// The client has sent more while its replies are held back. Without this there would be
    /// two system calls for each reply that is, to stop listening and to begin again.
    pub(crate) fn press(&mut self) {
        self.is_pressed = true;
    }

    /// What is held back will never be durable: it is dropped, and the client gets the reason.
    pub(crate) fn give_up_held(&mut self, why: &str) {
        self.is_held = false;
        self.info.hold = 0;
        if !self.output.clear() {
            self.replies.error(why);
            self.queue_replies();
        }
        self.state = State::Closing;
    }

    /// Bytes of replies that wait for the client to read.
    pub(crate) fn unsent(&self) -> usize {
        self.output.len()
    }

    pub(crate) fn is_unsent(&self) -> bool {
        self.unsent() > 0
    }

    /// May more requests be executed, although replies wait? Not if they wait for the log, which
    /// more requests would have them wait for longer; and not of a client that is not
    /// `admitted`: what is kept for it takes the place of others' replies.
    pub(crate) fn takes_more(&self, admitted: bool) -> bool {
        !self.is_unsent() || (admitted && self.state == State::Daemon && !self.is_held)
    }

    /// Sends as much as the client takes, when everything that it exposes is `durable`.
    pub(crate) fn flush(
        &mut self,
        kernel: &KernelConnections,
        statistics: &Statistics,
        durable: u64,
    ) -> io::Result<()> {
        self.is_held = self.is_unsent() && self.info.hold > durable;
        if self.is_held {
            return Ok(());
        }
        self.is_pressed = false;
        while self.is_unsent() {
            let some = self.output.next().len().min(self.room_to_send(kernel)?);
            if some == 0 {
                return Ok(());
            }
            match socket::send(self.socket.as_fd(), &self.output.next()[..some])? {
                Some(sent) => {
                    self.output.advance(sent);
                    statistics.numbers.output_bytes.add(sent as u64);
                    self.replied += sent as u64;
                }
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Bytes that may be sent now. The worker can bring the daemon nothing while the send buffer is
    /// full (`tcp_bpf_sendmsg` of the kernel asks for room first), and then everything that arrives
    /// would wait behind it, where it does not make TCP slow the client down.
    fn room_to_send(&self, kernel: &KernelConnections) -> io::Result<usize> {
        if self.info.is_unix() || kernel.worker_is_idle(self.index) {
            return Ok(usize::MAX);
        }
        let queued = socket::queued(self.socket.as_fd())?;
        Ok(SENT_BESIDE_WORKER.saturating_sub(queued))
    }

    // ---- Between two rounds of service ---------------------------------------------

    /// The events to wait for; `reads` says whether more requests may be read.
    pub(crate) fn wanted(&self, reads: bool, admitted: bool) -> Interest {
        let unsent = self.is_unsent();
        let blocked = unsent && (!admitted || (self.is_held && self.is_pressed));
        Interest {
            readable: reads && self.state == State::Daemon && !blocked && !self.late,
            writable: unsent && !self.is_held,
            ended: self.state == State::Kernel,
        }
    }

    /// Gives back the memory that is not in use, and takes note of what is; with
    /// the bytes of requests that the executor keeps.
    pub(crate) fn trim(&mut self, executor: usize) {
        self.parser.trim(BUFFER_KEPT);
        self.info.input = self.parser.memory() + executor;
        self.info.output = self.output.memory();
    }

    /// Takes note if it has been active since it was looked at last.
    pub(crate) fn look_at_activity(&mut self, kernel: &KernelConnections, now: Instant) {
        if self.info.is_unix() {
            return;
        }
        let activity = kernel.activity(self.index);
        if activity != self.seen {
            self.seen = activity;
            self.info.active = now;
        }
    }

    /// Must it be looked at again without an event?
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
    pub(crate) fn is_drained(&mut self, kernel: &KernelConnections) -> bool {
        const OFTEN: u32 = 5;
        let waiting = kernel.waiting(self.index, self.consumed);

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
        self.unchanged >= OFTEN && kernel.is_assembling(self.index, waiting)
    }
}
