//! A pooling proxy before PostgreSQL.
//!
//! Clients log in at the proxy, and share a few connections to the database: each has one for as long as
//! a transaction takes. What is here is right on its own; for clients and databases of this machine,
//! programs in the kernel (`bpf/pg`) do the same within the `send()` of either end, and leave to this
//! what they cannot follow ([decision 30](../../../docs/decisions/0030-proxy.md)).
//!
//! | module | |
//! |---|---|
//! | [`settings`] | what can be set |
//! | [`config`] | files of PgBouncer, and settings that change while the proxy runs |
//! | `hba` | rules of admission |
//! | `wire` | the protocol: where messages begin, and those that the proxy makes |
//! | `auth` | authentication of clients; logging in at servers |
//! | `parameters`, `statements` | what a session has that its client relies on |
//! | `traffic` | what goes through, counted |
//! | `mirror` | what clients send, sent to a second database |
//! | `client`, `server`, `pool` | the state of each |
//! | `awaited` | what a server has not answered yet |
//! | `takeover` | what a proxy hands to its successor |
//! | `kernel` | the programs, and the memory that they share with this process |
//! | `metrics` | what a scraper is told |
//! | `proxy` | the event loop, and what it does |

mod auth;
mod awaited;
mod client;
pub mod config;
mod error;
mod hba;
mod io;
mod kernel;
mod metrics;
mod mirror;
mod names;
mod parameters;
mod pool;
mod proxy;
mod server;
pub mod settings;
mod statements;
mod takeover;
mod traffic;
mod wire;

pub use error::{Error, Result};
pub use proxy::{Proxy, Stopper};
