//! The tests of this crate that need nothing private: one program, a module for each subject.

mod admission;
mod certificates;
mod configuration;
mod console;
mod drivers;
mod failover;
mod invariants;
mod limits;
mod metrics;
mod mirroring;
mod passwords;
mod pooling;
mod postgres;
mod protocol;
mod proxy;
mod relay;
mod service;
mod session;
mod shutdown;
mod streams;
mod succession;
mod takeover;
mod timeouts;
mod tls;
mod vanishing;
mod wire;
