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
//! ```text
//! tools/    check, copy, cut a log, make its control file anew
//! write/    how a group becomes durable
//! read/     where a log ends, which commits count
//! disk/     what is asked of a disk, and which are there; which process may write
//! format/   the bytes
//! ```
//!
//! A file uses those of its own folder and of the folders below it. Only the trait of a disk
//! (`disk/mod.rs`) and its buffers lie below `format/`; `crates/bpfdb-tests/tests/it/layers/rules.rs`
//! has the order of all files.
//!
//! | to know … | read |
//! |---|---|
//! | the bytes | [`control`], [`segment`], [`batch`], [`record`] |
//! | what is asked of a disk, and which are there | [`disk`], [`Directory`], `simulation` |
//! | which process may write | [`Owner`] |
//! | how a group becomes durable | [`LogWriter`], with the rules in `write/writer.rs`; the other files of `write/` |
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

// Tests count allocations.
#![cfg_attr(not(test), forbid(unsafe_code))]
#![cfg_attr(test, deny(unsafe_code))]

pub mod disk;
mod error;
mod format;
mod read;
mod tools;
mod write;

pub use disk::buffer::AlignedBuffer;
pub use disk::directory::{Directory, DirectoryFile};
pub use disk::owner::{Holder, Owner, make_folders};
pub use disk::queue::{CompletedWrite, QueuedWrite, ThreadQueue, WriteQueue};
#[cfg(feature = "simulation")]
pub use disk::simulation;
pub use disk::{Disk, DiskFile};
pub use error::{Corrupt, Failure, LogError, Result};
pub use format::form::{INLINE_MAX, ValueType};
pub use format::layout::{BLOCK, CHECKPOINT_VERSION, Invalid, LogId, RunId, VERSION};
pub use format::moment::Moment;
pub use format::place::{NoPlace, Place};
pub use format::{batch, checkpoint, control, record, segment};
pub use read::follow::Follower;
pub use read::reader;
pub use read::recovered::{LargeValue, RecoveredCommit};
pub use read::recovery::{LogEnd, Recovery};
pub use read::retained::{Beginning, Beginnings};
pub use read::until::Until;
pub use tools::check::{
    DurableReport, FilesReport, Report, RetainedReport, RunReport, SegmentReport, check,
    check_and_tell, check_retained,
};
pub use tools::copy::{Copied, copy_until};
pub use tools::cut::Cut;
pub use tools::lost::Lost;
pub use tools::rebuild::Rebuilt;
pub use write::open::{give_up_before, settle};
pub use write::writer::{Batch, Durable, LogWriter, Options, Start};

// The tests that need nothing private, in the program of the unit tests: one program less is linked.
#[cfg(all(test, feature = "simulation"))]
extern crate self as bpfdb_log;
#[cfg(all(test, feature = "simulation"))]
#[path = "../tests/it/main.rs"]
mod it;
