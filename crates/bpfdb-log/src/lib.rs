//! The files of bpfdb's log: what is in them, how they are written, and what they mean after a
//! crash. The format is `docs/formats/log.md`.
//!
//! A log is a sequence of **batches** in **segments** of equal size. A batch makes an **epoch**
//! durable: all commits with a timestamp up to it are in the batch and in those before. A **run**
//! is the life of the engine's memory; after its loss the next run goes on behind the last epoch
//! that is whole, and says so by its **cut**.
//!
//! ```text
//! run 1                                      │ run 2: cut 7
//! segment 1            segment 2             │ segment 3
//! ┌────────┬─────┬─────┬────────┬─────┬─ ─ ─ ┼────────┬─────┬─────┬─────────────
//! │ header │ ≤ 3 │ ≤ 5 │ header │ ≤ 7 │ torn │ header │ ≤ 9 │ ≤ 12│ not written
//! └────────┴─────┴─────┴────────┴─────┴─ ─ ─ ┴────────┴─────┴─────┴─────────────
//! ```
//!
#![cfg_attr(feature = "simulation", doc = "```")]
#![cfg_attr(not(feature = "simulation"), doc = "```ignore")]
//! use bpfdb_log::record::{Entry, Value, encode_commit};
//! use bpfdb_log::simulation::SimulatedDisk;
//! use bpfdb_log::{Batch, LogWriter, Options, Recovery, Start};
//!
//! // Directory::own(path), outside of tests.
//! let disk = SimulatedDisk::new(1);
//! let options = Options { segment_size: 1 << 16, batch_size: 1 << 14, spares: 1 };
//! let end = Recovery::new(disk.clone(), 0)?.finish()?;
//! let mut log = LogWriter::open(disk.clone(), &end, Start::NewRun, 0, options)?;
//!
//! let mut records = Vec::new();
//! let entry = Entry { key: b"a", value: Value::Inline(b"1"), expires: None };
//! encode_commit(3, &[entry], &mut records);
//! log.append(Batch { epoch: 3, positions: &[], wall: 0, records: &records, record_count: 1 })?;
//!
//! // Whatever happens now, the commit is there.
//! let disk = disk.lose_power();
//! let commits: Vec<_> = Recovery::new(disk, 0)?.collect::<Result<_, _>>()?;
//! assert_eq!(commits[0].timestamp, 3);
//! # Ok::<_, bpfdb_log::LogError>(())
//! ```
//!
//! # Where to read
//!
//! | to know … | read |
//! |---|---|
//! | the bytes | [`control`], [`segment`], [`batch`], [`record`] |
//! | what is asked of a disk, and which are there | [`disk`], [`Directory`], `simulation` |
//! | who may write | [`Owner`] |
//! | how a group becomes durable | [`LogWriter`], with the rules in `writer.rs`; `open.rs`, `plan.rs`, `spares.rs`, `beginning.rs` |
//! | where a log ends, and when it is corrupt | [`reader`] |
//! | which commits count | [`Recovery`] |
//! | what of a growing log is durable | [`Follower`] |
//! | how a log is recovered to a point in time | [`Until`], [`copy_until`] |
//! | what is retained for that, besides what a start needs | [`Beginnings`] |
//! | how recovery is spared the log from its beginning | [`checkpoint`] |
//! | what a directory has | [`check()`] |
//! | how a corrupt log is cut | [`Cut`] |
//! | how a control file is made anew | [`Rebuilt`] |
//!
//! The crate knows nothing of the engine: where records come from, and what is done with those that
//! are recovered, is the business of others.

#![forbid(unsafe_code)]

pub mod batch;
mod beginning;
mod buffer;
mod check;
pub mod checkpoint;
pub mod control;
mod copy;
mod cut;
mod directory;
pub mod disk;
mod error;
mod folders;
mod follow;
mod form;
mod layout;
mod lost;
mod moment;
mod open;
mod owner;
mod place;
mod plan;
pub mod reader;
mod rebuild;
pub mod record;
mod recovered;
mod recovery;
mod retained;
pub mod segment;
#[cfg(feature = "simulation")]
pub mod simulation;
mod spares;
mod until;
mod writer;

pub use buffer::AlignedBuffer;
pub use check::{
    DurableReport, FilesReport, Report, RetainedReport, RunReport, SegmentReport, check,
    check_and_tell, check_retained,
};
pub use copy::{Copied, copy_until};
pub use cut::Cut;
pub use directory::{Directory, DirectoryFile};
pub use disk::{Disk, DiskFile};
pub use error::{Corrupt, Failure, LogError, Result};
pub use follow::Follower;
pub use form::{INLINE_MAX, ValueType};
pub use layout::{BLOCK, CHECKPOINT_VERSION, Invalid, LogId, RunId, VERSION};
pub use lost::Lost;
pub use moment::Moment;
pub use open::{give_up_before, settle};
pub use owner::{Holder, Owner, make_folders};
pub use place::{NoPlace, Place};
pub use rebuild::Rebuilt;
pub use recovered::{LargeValue, RecoveredCommit};
pub use recovery::{LogEnd, Recovery};
pub use retained::{Beginning, Beginnings};
pub use until::Until;
pub use writer::{Batch, Durable, LogWriter, Options, Start};
