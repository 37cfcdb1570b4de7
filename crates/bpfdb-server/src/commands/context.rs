//! The context of a command: server, session, connection, replies.

use std::time::{Duration, Instant};

use bpfdb::{Engine, Session, Status};
use bpfdb_values::run::Malformed;

use super::job::Job;
use super::transaction::MultiState;
use crate::connection::info::ConnectionInfo;
use crate::connection::table::{ConnectionTable, Room};
use crate::instance::Instance;
use crate::protocol::reply::{self, Replies};

/// What a command works with.
pub(crate) struct Context<'a> {
    pub(crate) engine: &'a Engine,
    /// Directed at the connection's session.
    pub(crate) session: &'a mut Session,
    pub(crate) replies: &'a mut Replies,
    pub(crate) connection: &'a mut ConnectionInfo,
    /// What the connection has queued and watches.
    pub(crate) multi: &'a mut MultiState,
    pub(crate) instance: &'a mut Instance,
    /// The other connections.
    pub(crate) others: &'a mut ConnectionTable,
    /// What a command leaves to be done.
    pub(crate) job: Option<Box<dyn Job>>,
    /// When that is to go on, if not at once.
    pub(crate) rests_until: Option<Instant>,
    /// No other client is served before it is done: there is nothing to wait for.
    pub(crate) at_once: bool,
    /// EXEC executes it.
    pub(crate) is_of_block: bool,
    /// A script executes it.
    pub(crate) is_of_script: bool,
}

impl Context<'_> {
    /// The command goes on in steps; other connections are served between them.
    pub(crate) fn go_on_with(&mut self, job: impl Job + 'static) {
        self.job = Some(Box::new(job));
    }

    /// For a command that exposes others' data without naming keys: a synchronous client waits until
    /// all of it is durable. Not while the log takes nothing: an operator must be able to see that.
    pub(crate) fn tells_of_all(&mut self) {
        if self.instance.log.refusal().is_none() {
            self.connection.tells_of_all = true;
        }
    }

    /// Why the log has refused a write, if it takes none: the reply. Then another try does not help.
    pub(crate) fn refusal(&self, status: Status) -> Option<Vec<u8>> {
        let refusal = status
            .is_refused_by_log()
            .then(|| self.instance.log.refusal());
        refusal.flatten().map(String::into_bytes)
    }

    /// The client is synchronous from now on, perhaps: replies before in its pipeline count
    /// too; unless that could be for ever.
    pub(crate) fn hold_own_replies(&mut self) {
        let is_sync = self.instance.is_sync(self.connection.durability);
        if is_sync && self.instance.log.refusal().is_none() {
            self.connection.hold_until(self.engine.now());
        }
    }

    /// The command goes on after this time. No thread waits here for it: others are served.
    pub(crate) fn rest(&mut self, time: Duration) {
        self.rests_until = Some(Instant::now() + time);
    }

    /// For a command that the kernel answers in its plain form: says whether this request
    /// was one that only the daemon answers. Such a connection stays with the daemon.
    pub(crate) fn set_needs_daemon(&mut self, needs: bool) {
        self.connection.needs_daemon = needs;
    }

    /// The same for a command whose replies go somewhere else first.
    pub(crate) fn with_replies<'b>(&'b mut self, replies: &'b mut Replies) -> Context<'b> {
        Context {
            engine: self.engine,
            session: &mut *self.session,
            replies,
            connection: &mut *self.connection,
            multi: &mut *self.multi,
            instance: &mut *self.instance,
            others: &mut *self.others,
            job: None,
            rests_until: None,
            at_once: false,
            is_of_block: self.is_of_block,
            is_of_script: self.is_of_script,
        }
    }

    /// Adds something to what is to be sent to another connection, as far as that may wait.
    pub(crate) fn push(&mut self, index: u32, bytes: &[u8]) {
        push_to(self.engine, self.instance, self.others, index, bytes);
    }

    /// Bytes of messages that may wait for this client itself while it is being served. One for which
    /// there are more is closed.
    pub(crate) fn own_most(&self) -> u64 {
        hard_limit(self.instance, self.connection)
    }

    /// Goes over to the database of this number. False: clients cannot choose it.
    pub(crate) fn select(&mut self, number: usize) -> bool {
        let Some(database) = self.instance.databases.get(number) else {
            return false;
        };
        self.connection.database = number;
        self.session.set_database(database);
        true
    }

    /// Has the client queued commands since MULTI?
    pub(crate) fn is_queuing(&self) -> bool {
        self.multi.queue.is_some()
    }
}

/// [`Context::push`] to any connection of the table.
pub(crate) fn push_to(
    engine: &Engine,
    instance: &Instance,
    connections: &mut ConnectionTable,
    index: u32,
    bytes: &[u8],
) {
    let Some(other) = connections.get(index) else {
        return;
    };
    let most = hard_limit(instance, &other.info);
    let all = instance.settings.max_client_memory;
    let all = all.limit(engine.memory_limit());
    let all = all.map_or(u64::MAX, |all| all.saturating_add(PUSHED_BEYOND));
    connections.push(index, bytes, Room { most, all });
}

/// Bytes beyond the limit for all clients together that one request may push. At its end those with the
/// most are closed until they keep to the limit; a message to very many must not take much more
/// before.
const PUSHED_BEYOND: u64 = 64 << 20;

fn hard_limit(instance: &Instance, connection: &ConnectionInfo) -> u64 {
    match instance.output_limit(connection).hard.bytes() {
        0 => u64::MAX,
        hard => hard,
    }
}

/// Why a statement has no other reply. A command that fails with a text has
/// changed nothing.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    Engine(Status),
    /// A value beyond the limit, refused before the engine saw it.
    TooLong,
    Text(Vec<u8>),
    /// The process has not kept what it reads: it is tried again when that was fetched
    /// ([`PageCache`](crate::instance::page_cache::PageCache)).
    NotFetched,
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        match status {
            // A mistake of the command alone: nothing of the engine has failed.
            Status::WrongType => Self::Text(reply::wrong_type().to_vec()),
            status => Self::Engine(status),
        }
    }
}

impl From<bpfdb::Error> for Failure {
    fn from(error: bpfdb::Error) -> Self {
        match error {
            bpfdb::Error::Engine(status) => status.into(),
            error => format!("ERR {error}").into(),
        }
    }
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        format!("ERR {malformed}").into()
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Text(text.into_bytes())
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Self {
        Self::Text(text.as_bytes().to_vec())
    }
}

pub(crate) type Outcome = Result<(), Failure>;
