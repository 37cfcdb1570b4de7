//! Makes an engine durable: what its commits leave in the rings of the log goes to files, and a
//! new engine gets back what they have.
//!
//! ```text
//! programs ──► rings (pinned with the engine) ──Feed──► LogWriter ──► files
//! index    ──► CheckpointPass ──Checkpoints──► CheckpointWriter ────► files
//! engine   ◄── restore ◄── CheckpointReader, then Recovery ◄───────── files
//! ```
//!
//! Invariants, beside those of decision 18:
//!
//! 1. Room in a ring is given up when its records are durable, not before. So an engine that
//!    outlives its owner has what the files do not have.
//! 2. An engine's memory says which run of which log it is, from the moment when it has all
//!    that the log had. So a server that finds an engine and a directory knows whether the one goes on
//!    with the other, has nothing to do with it, or must be recovered from it.
//!    Of two copies of one log the engine belongs to that which reaches at least as far as the
//!    rings have given up their records.
//!    While the disk has no space for the first segment of a new run, no run has begun and nothing
//!    is written: then the engine has what the files have, and the server that finds it drops it.
//! 3. The clock of a recovered engine is later than every timestamp in the log, be it of a
//!    commit that does not count.

mod budget;
mod checkpoint;
mod durability;
mod error;
mod feed;
mod groups;
mod home;
mod in_order;
mod load;
mod opening;
mod pace;
mod restore;
mod shared;
mod value_type;
mod waiters;
mod wall;
mod writer;

pub use checkpoint::{
    CheckpointDone, CheckpointOptions, CheckpointProgress, CheckpointStatus, Phase,
    RetentionOptions, RetentionStatus,
};
pub use durability::{Durability, Options};
pub use error::{Error, Result};
pub use home::{Lack, lack_of_files};
pub use restore::{RecoveryProgress, Restored};
pub use shared::{Figures, State};

// The tests that need nothing private, in the program of the unit tests: one program less is linked.
#[cfg(test)]
extern crate self as bpfdb_durability;
#[cfg(test)]
#[path = "../tests/it/main.rs"]
mod it;
