//! The commands. Each has a file of its own, in the folder of its group, which
//! says everything about it ([`Command`]) and runs it. Adding one means adding
//! its file and naming it in the folder's `mod.rs`.
//!
//! ```text
//! definition.rs   what is said about a command
//! table.rs        from a request to its command
//! execute.rs      may it run, must it wait for EXEC, is it tried again
//! job.rs          commands that are executed in slices
//! atomic.rs       the transaction in which a command runs
//! arguments.rs    what arguments mean
//! expiry.rs       when a value expires
//! group.rs        requests of a pipeline in one transaction
//! help.rs         the replies to HELP
//! update.rs       one key that is read and written back
//! many.rs         values of many keys at one moment
//! page.rs         docs/commands.md
//! syntax.rs       how a definition writes down its arguments
//! ```

mod arguments;
mod atomic;
mod connection;
mod definition;
mod execute;
mod expiry;
mod group;
mod help;
mod job;
mod keys;
mod many;
mod page;
mod server;
mod string;
mod syntax;
mod table;
mod transaction;
mod update;

use std::time::{Duration, Instant};

use bpfdb::{Engine, Session, Status};

pub(crate) use connection::describe;
pub(crate) use execute::{execute, is_paused};
pub(crate) use group::{Group, Remainder};
pub(crate) use job::{Job, Running};
pub use page::page;
pub(crate) use server::Parameters;
pub(crate) use table::names;
pub(crate) use transaction::queue::Queue;

use crate::clients::Clients;
use crate::instance::Instance;
use crate::reply::Replies;
use crate::state::ConnectionState;

/// Longest reply to one command, bytes: one value of the longest, and more.
const REPLY_MAX: usize = 640 << 20;

/// What most commands need.
mod prelude {
    pub(super) use super::definition::{Category, Command, Flag, Group, Grouped, KeyFlags, Keys};
    pub(super) use super::job::{Job, Progress};
    pub(super) use super::{Context, Failure, Outcome};
}

/// What a command works with.
pub(crate) struct Context<'a> {
    pub(crate) engine: &'a Engine,
    /// Directed at the connection's session.
    pub(crate) session: &'a mut Session,
    pub(crate) replies: &'a mut Replies,
    pub(crate) connection: &'a mut ConnectionState,
    pub(crate) instance: &'a mut Instance,
    /// The other connections.
    pub(crate) clients: &'a mut Clients,
    /// What a command leaves to be done.
    pub(crate) job: Option<Box<dyn Job>>,
    /// When that is to go on, if not at once.
    pub(crate) rests_until: Option<Instant>,
    /// Nobody else is served before it is done: there is nobody to wait for.
    pub(crate) at_once: bool,
}

impl Context<'_> {
    /// The command goes on in steps.
    fn later(&mut self, job: impl Job + 'static) {
        self.job = Some(Box::new(job));
    }

    /// The command goes on after a while. Nobody waits here for it: others are served.
    fn rest(&mut self, time: Duration) {
        self.rests_until = Some(Instant::now() + time);
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
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Engine(status)
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
