//! The Redis-compatible server: its programs in the kernel (`bpf/net`) answer what they can,
//! and this crate, the daemon, does the rest, on the same sessions.
//!
//! Each folder may use those below it and no other (`crates/bpfdb-tests/tests/it/layers`):
//!
//! ```text
//! server/       one thread, one epoll: connections that are ready, that begin and end
//! executor/     the requests of one connection: one by one, in batches, in time slices
//! commands/     one file per command, in the folder of its group
//! instance/     what the daemon knows about itself: settings, users, pauses
//! scripting/    scripts, functions and procedures, between their calls: states of Lua, compiler
//! connection/   one connection: its socket, bytes in and out, whether kernel or daemon answers it
//! tables/       tables that clients ask: their threads, and what waits for these
//! stats/        what is counted and measured; INFO's and Prometheus's source
//! kernel/       the programs, where they are attached, the state that both sides share
//! protocol/     bytes to requests, replies to bytes
//! io/           epoll, sockets
//! settings/     every setting, in one list
//! values/       numbers, patterns, dumps: what the bytes of a value mean
//! ```
//!
//! [`Server::start`] loads and attaches the programs and listens; [`Server::run`] serves. A
//! connection has its session before it is accepted. ARCHITECTURE.md follows one request
//! through these folders, and `bpf/net/connection.bpf.h` has the protocol by which kernel and
//! daemon hand a connection to each other.

mod commands;
mod connection;
mod error;
mod eviction;
mod executor;
mod instance;
mod io;
mod kernel;
mod protocol;
mod scripting;
mod server;
pub mod settings;
mod stats;
mod tables;
mod values;

pub use commands::page as commands_page;
pub use error::{Error, Result};
pub use io::stopper::Stopper;
pub use kernel::apart::ProgramLoader;
pub use server::{FrontEnd, Server};
pub use settings::{Loaded, Options};
pub use stats::front_end::figures;
pub use stats::rows::page::page as metrics_page;

#[doc(hidden)]
pub mod testing {
    //! For the tests of this crate.
    pub use crate::commands::MISSING;
    pub use crate::protocol::reply::{Protocol, Replies};
    pub use crate::protocol::request::{Parser, Step};
}
