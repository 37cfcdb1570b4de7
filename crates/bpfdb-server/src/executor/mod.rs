//! Executes the requests of a connection while the daemon has it: one by one, or together
//! where a pipeline allows it, each in time slices, so that other connections are served
//! in between.
//!
//! ```text
//!  Connection ── bytes ──► Parser ──► pending ──► Batch, or one request ──► replies
//!                                        ▲               │
//!                                        │               ├─► paused_request: CLIENT PAUSE
//!                                        └─ unexecuted ──┴─► running: goes on in steps, or waits
//! ```
//!
//! ```text
//! request.rs   may it run, must it wait for EXEC, is it tried again
//! batch.rs     requests of a pipeline in one transaction
//! running.rs   a command that goes on in steps, between its steps; or that waits for keys
//! awaited.rs   values in files that are being read
//! ```
//!
//! The executors lie beside the connections, in the server, by the same index: a command may
//! look at all connections (CLIENT LIST), but at no executor.

mod awaited;
mod batch;
mod request;
mod running;

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::Instant;

use bpfdb::{Database, Engine, Session, Status};

use self::awaited::Awaited;
use self::batch::{Batch, Unexecuted};
use self::running::Running;
use crate::commands::MultiState;
use crate::commands::atomic;
use crate::commands::context::Context;
use crate::commands::time_slice::TimeSlice;
use crate::connection::info::{Begun, ConnectionInfo};
use crate::connection::table::ConnectionTable;
use crate::connection::{Connection, Next, Received, State};
use crate::instance::Instance;
use crate::kernel::connections::KernelConnections;
use crate::protocol::request::{Limits, Request, Step};

/// Rounds of receiving and executing before others are served.
const ROUNDS: u32 = 16;

// One for each session is kept ready.
const _: () = assert!(size_of::<Executor>() <= 320);

/// What serving a connection takes.
pub(crate) struct ServeContext<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) session: &'a mut Session,
    pub(crate) kernel: &'a KernelConnections,
    pub(crate) instance: &'a mut Instance,
    /// The other connections.
    pub(crate) others: &'a mut ConnectionTable,
    /// To receive into.
    pub(crate) buffer: &'a mut [u8],
}

/// May more requests of it be executed?
fn takes_more(connection: &Connection, instance: &Instance) -> bool {
    connection.takes_more(instance.admits(&connection.info))
}

/// From here on the session is the connection's, in the database that its client has chosen.
fn direct(connection: &Connection, server: &mut ServeContext<'_>) {
    server.session.redirect(connection.index);
    let database = database_of(&connection.info, server.instance);
    server.session.set_database(database);
}

/// The engine's database with the keys that the client names.
fn database_of(connection: &ConnectionInfo, instance: &Instance) -> Database {
    let chosen = instance.databases.get(connection.database);
    chosen.expect("SELECT refuses a number that no database has")
}

/// What of a connection's requests is begun, and not yet done.
#[derive(Debug, Default)]
pub(crate) struct Executor {
    /// Waits for the end of CLIENT PAUSE, which few do.
    paused_request: Option<Box<Request>>,
    /// What the parser gave already; comes before what it gives next.
    pending: VecDeque<Step>,
    /// A command that goes on in steps.
    running: Option<Running>,
    /// Its time slice was over before all that it received was executed.
    yielded: bool,
    multi: MultiState,
    /// While the locks of a transaction that has ended are released in steps: what meets one of
    /// them waits.
    releasing: Option<Rc<()>>,
    /// Values in files that the next requests need.
    awaited: Option<Box<Awaited>>,
}

impl Executor {
    /// Receives, executes and replies until there is nothing to do, or others must be served.
    pub(crate) fn serve(
        &mut self,
        connection: &mut Connection,
        server: &mut ServeContext<'_>,
    ) -> io::Result<Next> {
        direct(connection, server);
        connection.begin_service();
        self.yielded = false;
        // What waits to be sent comes first: what is executed now may have to wait longer.
        self.flush(connection, server)?;
        let slice = TimeSlice::begin();
        // Whether the client reads or not: others wait for these locks.
        let released = self.release(server, slice);
        if !released {
            // What it has sent behind its COMMIT is received already: no event comes for it.
            self.yielded = true;
            return Ok(Next::Keep);
        }
        if !takes_more(connection, server.instance) && self.running.is_none() {
            return Ok(Next::Keep);
        }
        let mut rounds = 0..ROUNDS;
        let mut received = None;
        loop {
            let more = self.execute(connection, server, slice);
            let may_prefetch = server.instance.may_prefetch(&connection.info);
            let database = database_of(&connection.info, server.instance);
            connection.update_prefetch(server.kernel, may_prefetch, database);
            // Before anything is received it is not known what is on its way.
            if received.is_some() {
                connection.update_patience(server.kernel);
            }
            self.flush(connection, server)?;
            if !takes_more(connection, server.instance) {
                return Ok(Next::Keep);
            }
            if more {
                // Clients that wait for what was written are served before anything else is executed.
                if slice.is_over() || server.instance.has_to_serve_waiters() {
                    self.yielded = true;
                    return Ok(Next::Keep);
                }
                continue;
            }
            if self.is_held_up() {
                return Ok(Next::Keep);
            }
            if connection.state != State::Daemon {
                return Ok(connection.next());
            }
            if rounds.next().is_none() || slice.is_over() {
                // All that was received is answered; if there is more, there is an event.
                return Ok(Next::Keep);
            }
            if received == Some(Received::Bytes { all: true }) {
                // What came last was all there was.
                self.hand_back(connection, server);
                return Ok(Next::Keep);
            }
            let got =
                connection.receive(server.buffer, server.kernel, &server.instance.statistics)?;
            match got {
                Received::Nothing => {
                    self.hand_back(connection, server);
                    return Ok(Next::Keep);
                }
                Received::Late => return Ok(Next::Keep),
                Received::End => connection.state = State::Closing,
                Received::Bytes { .. } => received = Some(got),
            }
        }
    }

    fn flush(&self, connection: &mut Connection, server: &ServeContext<'_>) -> io::Result<()> {
        let instance = &server.instance;
        connection.flush(server.kernel, &instance.statistics, instance.log.durable())
    }

    /// Lets the kernel answer again, if nothing is begun here and nothing waits to be sent, and if
    /// the last request was not one that only the daemon answers: each of those would come here by way of the
    /// kernel's worker.
    fn hand_back(&self, connection: &mut Connection, server: &ServeContext<'_>) {
        if server.instance.admits(&connection.info)
            && !server.instance.keeps_connections()
            && connection.info.may_be_handed_back()
            && self.multi.queue.is_none()
            && self.has_executed_all(connection)
            && !connection.is_unsent()
        {
            let database = database_of(&connection.info, server.instance);
            // The kernel leaves a GET to the daemon for a value in a file as a rule.
            if let Some(tier) = &server.instance.tier
                && server.instance.settings.tier_kernel_gets
                && connection.info.command == "get"
            {
                connection.sit_down(server.kernel, tier);
            }
            connection.hand_back(server.kernel, !self.multi.watched.is_empty(), database);
        }
    }

    /// Is all that was received executed, and no request begun?
    fn has_executed_all(&self, connection: &Connection) -> bool {
        connection.is_between_requests() && self.pending.is_empty()
    }

    // ---- One time slice ------------------------------------------------------------

    /// Executes what was received, but not more than may wait to be sent, and one
    /// step of a long command; true if there may be more.
    fn execute(
        &mut self,
        connection: &mut Connection,
        server: &mut ServeContext<'_>,
        slice: TimeSlice,
    ) -> bool {
        let mut more = true;
        if connection.is_gone(server.kernel) {
            self.running = None;
        }
        if !self.release(server, slice) {
            connection.queue_replies();
            return true;
        }
        if let Some(running) = self.running.take() {
            self.go_on(connection, server, running);
            self.note_reads(server.session);
            more = !self.is_held_up();
            // CLIENT KILL of itself: what it sent after that is not executed.
            close_if_told(connection);
        }
        note_written(connection, server);
        while more
            && connection.state == State::Daemon
            && slice.has_room(connection.replies.len())
            && !server.instance.has_to_serve_waiters()
        {
            if connection.is_gone(server.kernel) {
                connection.state = State::Closing;
                break;
            }
            more = self.execute_next(connection, server, slice);
            self.note_reads(server.session);
            close_if_told(connection);
            note_written(connection, server);
        }
        // A command that goes on has replied nothing: what its client has received by it comes before
        // what others send meanwhile.
        let received = connection.info.mail.take_received();
        connection.replies.append(&received);
        self.hold(connection, server);
        connection.queue_replies();
        more && connection.state == State::Daemon || server.session.is_releasing()
    }

    /// The locks that a long transaction of this connection has left to be released, for as long as
    /// the slice lasts. True if none are left.
    fn release(&mut self, server: &mut ServeContext<'_>, slice: TimeSlice) -> bool {
        while server.session.is_releasing() {
            if self.releasing.is_none() {
                self.releasing = server.instance.long_block();
            }
            let step = server.session.settle();
            if slice.is_over() || !matches!(step, Ok(()) | Err(Status::MemoryPending)) {
                break;
            }
        }
        let done = !server.session.is_releasing();
        if done {
            self.releasing = None;
        }
        done
    }

    /// What a reply to a synchronous client exposes must be durable first, also if it has ceased to be
    /// one meanwhile.
    fn hold(&self, connection: &mut Connection, server: &ServeContext<'_>) {
        let info = &mut connection.info;
        if info.was_sync || server.instance.is_sync(info.durability) {
            info.hold_until(server.session.depends());
            if info.tells_of_all {
                info.hold_until(server.engine.now());
            }
        }
        info.tells_of_all &= self.running.is_some();
        info.was_sync &= self.running.is_some();
    }

    /// One request, or some together; true if there may be more.
    fn execute_next(
        &mut self,
        connection: &mut Connection,
        server: &mut ServeContext<'_>,
        slice: TimeSlice,
    ) -> bool {
        match self.next_step(connection, server.instance) {
            Step::More => false,
            Step::Broken(text) => {
                connection.replies.error(text);
                connection.info.close = true;
                true
            }
            Step::Request(request) => match self.gather(connection, server, request) {
                Ok(batch) => self.answer_batch(connection, server, batch, slice),
                Err(request) => self.answer(connection, server, request),
            },
        }
    }

    /// One step of a long command, if its time has come.
    fn go_on(
        &mut self,
        connection: &mut Connection,
        server: &mut ServeContext<'_>,
        running: Running,
    ) {
        if self.is_reading() {
            self.running = Some(running);
            return;
        }
        let leaves_cold = self
            .awaited
            .as_ref()
            .is_none_or(|awaited| awaited.may_follow());
        let mut context = self.context(connection, server);
        match running.held_by_pause(&mut context) {
            Ok(request) => self.paused_request = Some(Box::new(request)),
            Err(running) => self.running = running.go_on(&mut context, leaves_cold),
        }
    }

    /// Takes the reads that have begun for what was executed. What those before have brought is there until others take
    /// their place, or nothing is left to be executed.
    fn note_reads(&mut self, session: &mut Session) {
        let reads = session.take_cold_reads();
        match &mut self.awaited {
            None if reads.is_empty() => return,
            awaited => awaited
                .get_or_insert_default()
                .note(reads, self.running.as_ref().map(Running::keys_done)),
        }
        if self.running.is_none() && self.pending.is_empty() {
            self.awaited = None;
        }
    }

    fn next_step(&mut self, connection: &mut Connection, instance: &Instance) -> Step {
        let paused = self
            .paused_request
            .take()
            .map(|paused| Step::Request(*paused));
        paused
            .or_else(|| self.pending.pop_front())
            .unwrap_or_else(|| connection.next_step(limits(&connection.info, instance)))
    }

    /// A request with those that have come after it and can be executed with it; or the
    /// request, if that is all.
    fn gather(
        &mut self,
        connection: &mut Connection,
        server: &mut ServeContext<'_>,
        request: Request,
    ) -> Result<Batch, Request> {
        if self.has_executed_all(connection) {
            return Err(request);
        }
        let mut batch = Batch::begin(&self.context(connection, server), request)?;
        while !batch.is_full() {
            let refused = match self.next_step(connection, server.instance) {
                Step::More => break,
                Step::Request(request) => match batch.join(request) {
                    Ok(()) => continue,
                    Err(request) => Step::Request(request),
                },
                broken => broken,
            };
            self.pending.push_front(refused);
            break;
        }
        batch.alone()
    }

    /// Executes requests, or what of them can be executed now; true if all of them were.
    fn answer_batch(
        &mut self,
        connection: &mut Connection,
        server: &mut ServeContext<'_>,
        batch: Batch,
        slice: TimeSlice,
    ) -> bool {
        let Unexecuted { running, requests } =
            batch.execute(&mut self.context(connection, server), slice);
        for request in requests.into_iter().rev() {
            self.pending.push_front(Step::Request(request));
        }
        self.running = running;
        self.running.is_none()
    }

    /// Executes a request, or what of it can be executed now; true if all of it was.
    fn answer(
        &mut self,
        connection: &mut Connection,
        server: &mut ServeContext<'_>,
        request: Request,
    ) -> bool {
        let mut context = self.context(connection, server);
        if request::is_paused(&mut context, &request) {
            self.paused_request = Some(Box::new(request));
            return false;
        }
        self.running = request::execute(&mut context, request);
        self.running.is_none()
    }

    fn context<'a>(
        &'a mut self,
        connection: &'a mut Connection,
        server: &'a mut ServeContext<'_>,
    ) -> Context<'a> {
        // Before each request: the one before it may have been CLIENT DURABILITY.
        let info = &mut connection.info;
        info.was_sync |= server.instance.is_sync(info.durability);
        server.session.keep_depends(info.was_sync);
        server
            .session
            .note_written(server.instance.waiting.len() > 0);
        server.session.note_changes(server.instance.change_notes());
        Context {
            engine: server.engine,
            session: &mut *server.session,
            replies: &mut connection.replies,
            connection: &mut connection.info,
            multi: &mut self.multi,
            instance: &mut *server.instance,
            others: &mut *server.others,
            job: None,
            rests_until: None,
            at_once: false,
            is_of_block: false,
            is_of_script: false,
        }
    }

    /// The command that waits for keys is to go on.
    pub(crate) fn wake(&mut self) {
        if let Some(running) = &mut self.running {
            running.wake();
        }
    }

    /// One step of a command that was woken. What has come behind it has its turn later: others
    /// that wait come before.
    pub(crate) fn serve_woken(
        &mut self,
        connection: &mut Connection,
        server: &mut ServeContext<'_>,
    ) -> io::Result<Next> {
        direct(connection, server);
        connection.begin_service();
        if connection.is_gone(server.kernel) {
            self.give_up();
            connection.state = State::Closing;
            return Ok(connection.next());
        }
        if let Some(running) = self.running.take() {
            self.go_on(connection, server, running);
            self.note_reads(server.session);
        }
        note_written(connection, server);
        self.hold(connection, server);
        connection.queue_replies();
        self.flush(connection, server)?;
        self.yielded |= self.running.is_none();
        Ok(Next::Keep)
    }

    /// Nothing that is begun goes on: its connection is to be closed.
    pub(crate) fn give_up(&mut self) {
        self.running = None;
        self.paused_request = None;
        self.pending.clear();
        self.yielded = false;
        self.releasing = None;
        self.awaited = None;
    }

    // ---- Between two time slices ---------------------------------------------------

    /// Is a request of it not executed yet? Those after it wait.
    fn is_held_up(&self) -> bool {
        self.paused_request.is_some() || self.running.is_some()
    }

    /// Does a request of it wait for the end of CLIENT PAUSE?
    pub(crate) fn is_paused(&self) -> bool {
        self.paused_request.is_some()
    }

    /// Does its command wait for keys?
    pub(crate) fn is_blocked(&self) -> bool {
        self.running.as_ref().is_some_and(Running::is_blocked)
    }

    /// Are values read that it needs?
    fn is_reading(&self) -> bool {
        self.awaited
            .as_ref()
            .is_some_and(|awaited| awaited.is_reading())
    }

    /// Has it all values that it waited for?
    pub(crate) fn has_read(&self) -> bool {
        self.awaited.is_some() && !self.is_reading()
    }

    /// Has it work that waits for nothing? Not for the client to read either: others
    /// may wait for the end of it.
    pub(crate) fn is_busy(&self) -> bool {
        self.has_work() && !self.is_reading() || self.releasing.is_some()
    }

    /// The same, or work that waits for values which are being read: all of it is done, also for a client that waits for
    /// no reply.
    pub(crate) fn has_work(&self) -> bool {
        self.running.as_ref().is_some_and(Running::is_busy)
            || self.yielded
            || self.releasing.is_some()
    }

    /// May more requests be read for it?
    pub(crate) fn reads(&self) -> bool {
        !self.is_held_up() && !self.yielded
    }

    /// Until when it need not be served, if it has work that waits for a time.
    pub(crate) fn rests_until(&self) -> Option<Instant> {
        self.running.as_ref().and_then(Running::rests_until)
    }

    /// Gives back what memory is not in use, and lets others see what is begun.
    pub(crate) fn trim(&self, connection: &mut Connection) {
        connection.trim(self.memory());
        connection.info.begun = Begun {
            blocked: self.is_blocked(),
            ..self.multi.summary(self.is_paused())
        };
    }

    /// Bytes of requests that it keeps.
    fn memory(&self) -> usize {
        let paused = self
            .paused_request
            .as_ref()
            .map_or(0, |paused| paused.memory());
        let running = self.running.as_ref().map_or(0, Running::memory);
        let pending: usize = self.pending.iter().map(Step::memory).sum();
        paused + running + pending
    }
}

/// Keys that were written, for the clients that wait for them, if that is committed; what is not is looked at
/// again after the next request.
fn note_written(connection: &mut Connection, server: &mut ServeContext<'_>) {
    let written = &mut connection.info.written;
    if server.session.has_written() {
        written.append(server.session.take_written());
    }
    if !written.is_empty() && !atomic::is_open(server.session) {
        server.instance.waiting.note(&std::mem::take(written));
        // Who waits is likely to wait again. The kernel would leave the next push to the daemon, too, by way of
        // its worker.
        connection.info.needs_daemon |= server.instance.has_to_serve_waiters();
    }
}

fn close_if_told(connection: &mut Connection) {
    if connection.info.close {
        connection.state = State::Closing;
    }
}

/// A client may send little before it has authenticated.
fn limits(connection: &ConnectionInfo, instance: &Instance) -> Limits {
    if !instance.admits(connection) {
        return Limits::UNKNOWN_CLIENT;
    }
    Limits::of_bulk(instance.settings.max_bulk.bytes())
}
