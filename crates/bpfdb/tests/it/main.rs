//! The tests of this crate that need nothing private: one program, a module for each subject.

mod budgets;
mod busy_writer;
mod checkpoint;
mod common;
mod conflict;
mod continuation;
mod contributing;
mod deferred;
mod example;
mod expiry;
mod grace;
mod hash;
mod knobs;
mod large;
mod limit;
mod log;
mod log_interrupted;
mod memory;
mod must_fail;
mod ordering;
mod owner;
mod scan;
mod session;
mod session_open;
mod stacks;
mod watch;
