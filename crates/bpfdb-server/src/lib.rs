//! The network front end of bpfdb in user space.
//!
//! The kernel answers what it can (`bpf/net`); this crate does the rest:
//!
//! - [`Server::start`] loads and attaches the programs and listens;
//! - it accepts connections, which already have a session by then;
//! - it answers the requests that the kernel hands over, on the same session,
//!   and gives the connection back (`client.rs`; the protocol with the kernel
//!   is told in `bpf/net/connection.bpf.h`);
//! - it takes everything down again.
//!
//! ```text
//! server.rs        one thread, one epoll; who is ready
//! admission.rs     beginning and end of connections
//! housekeeping.rs  once a second: idle, slow and greedy connections
//! counted.rs       what the kernel counted, since when
//! instance.rs      settings, statistics, what was slow
//! settings/        every setting, once
//! metrics.rs       for Prometheus, in a thread of its own
//! unix.rs          the Unix-domain socket
//! client.rs     one connection: bytes in, bytes out, whose turn it is
//! request.rs    bytes to requests
//! commands/     requests to operators: one file per command
//! state.rs      what a connection has begun
//! pause.rs      CLIENT PAUSE: what waits
//! reply.rs      outcomes to bytes
//! programs.rs   the programs and their maps
//! cgroup.rs     where they are attached
//! workers.rs    the kernel's threads that run them, and their priority
//! ```

mod admission;
mod authentication;
mod cgroup;
mod client;
mod clients;
mod commands;
mod connections;
mod counted;
mod dump;
mod error;
mod extended;
mod glob;
mod housekeeping;
mod inline;
mod instance;
mod integer;
mod latency;
mod metrics;
mod pause;
mod poll;
mod programs;
mod reply;
mod request;
mod server;
pub mod settings;
mod slowlog;
mod socket;
mod state;
mod statistics;
mod stopper;
mod turn;
mod unix;
mod workers;

pub use commands::page as commands_page;
pub use error::{Error, Result};
pub use server::{Options, Server};
pub use stopper::Stopper;

#[doc(hidden)]
pub mod testing {
    //! For the tests of this crate.
    pub use crate::reply::{Protocol, Replies};
    pub use crate::request::{Parser, Step};
}
