//! How a server is started.

use std::net::SocketAddr;
use std::sync::Arc;

use bpfdb_durability::Durability;
use bpfdb_tier::Tier;

use super::{ConfigFile, LogLevel, Settings};

/// What [`Server::start`](crate::Server::start) is told.
#[derive(Clone, Debug)]
pub struct Options {
    pub settings: Settings,
    /// What the settings were read from: for CONFIG REWRITE.
    pub file: Option<ConfigFile>,
    /// Called when CONFIG SET changes what is logged.
    pub set_log_level: fn(LogLevel),
    /// The engine's log; `None`: it has none, and nothing is durable.
    pub log: Option<Arc<Durability>>,
    /// The engine's cold values; `None`: all are in memory.
    pub tier: Option<Arc<Tier>>,
    /// What the engine was given besides before the start; `None`: nothing.
    pub loaded: Option<Loaded>,
}

/// What a file had, for INFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub keys: u64,
    /// That were left out.
    pub expired: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            file: None,
            set_log_level: |_| {},
            log: None,
            tier: None,
            loaded: None,
        }
    }
}

impl Options {
    /// All as it is by default, but the address; port 0: any.
    pub fn at(address: SocketAddr) -> Self {
        let settings = Settings {
            bind: address.ip(),
            port: address.port(),
            ..Settings::default()
        };
        Self {
            settings,
            ..Self::default()
        }
    }
}
