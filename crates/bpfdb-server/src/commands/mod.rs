//! The commands. Each has a file of its own, in the folder of its group, which
//! says everything about it ([`Command`]) and runs it. Adding one means adding
//! its file and naming it in the folder's `mod.rs`; CONTRIBUTING.md walks through it.
//!
//! ```text
//! definition.rs   what is said about a command
//! table.rs        from a request to its command
//! event.rs        what events of keys follow from what a command has done
//! keyspace_events.rs  how they are published
//! context.rs      what a command is given
//! invoke.rs       runs a command once, and counts it
//! job.rs          commands that are executed in steps
//! atomic.rs       the transaction in which a command runs
//! update.rs       one key that is read and written back
//! in_slices.rs    work in one transaction, in steps
//! many.rs         values of many keys at one moment
//! collection.rs   hashes, lists, sets and sorted sets, read and written
//! large/          those of many elements, in pages
//! look_up.rs      elements of collections that are looked up, by what the process has kept of large ones
//! scanning.rs     SCAN of keys and of collections
//! picking.rs      elements picked at random
//! chance.rs       random choice
//! attempts.rs     how often something is tried again
//! cold.rs         commands that meet values in files
//! time_slice.rs   how long one connection is served before others
//! monitor.rs      what others are shown of a request
//! blocking.rs     commands that wait for keys
//! conflict.rs     the error of a client that met a lock
//! arguments.rs    what arguments mean
//! pop_arguments.rs   arguments of LMPOP and ZMPOP
//! expiry.rs       when a value expires
//! syntax.rs       how a definition writes down its arguments
//! help.rs         the replies to HELP
//! page.rs         docs/commands.md
//! ```
//!
//! [`Command`]: definition::Command

mod arguments;
pub(crate) mod atomic;
pub(crate) mod attempts;
mod blocking;
mod chance;
mod cluster;
pub(crate) mod cold;
mod collection;
pub(crate) mod conflict;
mod connection;
pub(crate) mod context;
pub(crate) mod definition;
mod event;
mod expiry;
mod geo;
mod hash;
mod help;
mod hyperloglog;
mod in_slices;
pub(crate) mod invoke;
pub(crate) mod job;
mod keys;
pub(crate) mod keyspace_events;
pub(crate) mod large;
mod list;
pub(crate) mod look_up;
mod many;
mod many_writes;
pub(crate) mod monitor;
mod page;
mod picking;
mod pop_arguments;
pub(crate) mod publish;
mod scanning;
mod scripting;
mod server;
mod set;
mod sorted_set;
mod stream;
mod string;
mod syntax;
pub(crate) mod table;
pub(crate) mod time_slice;
mod transaction;
mod update;

pub use page::{MISSING, page};
pub(crate) use transaction::{MultiState, Queue};

use self::context::{Context, Failure, Outcome};

/// What most commands need.
mod prelude {
    pub(super) use super::context::{Context, Failure, Outcome};
    pub(super) use super::definition::{
        Batching, Category, Command, Flag, Group, KeyFlag, KeyFlags, Keys,
    };
    pub(super) use super::event::{Events, Misses, Told};
    pub(super) use super::job::{Job, Progress};
}
