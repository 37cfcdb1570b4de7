//! The files of bpfdb's log: what is in them, how they are written, and what they mean after a
//! crash. User space only; where the records come from is not this crate's business.
#![forbid(unsafe_code)]

pub mod batch;
mod buffer;
pub mod control;
mod directory;
pub mod disk;
mod error;
mod layout;
mod open;
mod owner;
mod plan;
pub mod reader;
pub mod record;
mod recovery;
pub mod segment;
#[cfg(feature = "simulation")]
pub mod simulation;
mod spares;
mod writer;

pub use buffer::AlignedBuffer;
pub use directory::{Directory, DirectoryFile};
pub use disk::{Disk, DiskFile};
pub use error::{Corrupt, Failure, LogError, Result};
pub use layout::{BLOCK, Invalid, LogId, VERSION};
pub use owner::Owner;
pub use recovery::{LargeValue, LogEnd, RecoveredCommit, Recovery};
pub use writer::{Batch, Durable, LogWriter, Options, Start};
