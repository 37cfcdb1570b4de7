//! Copies of bpfdb's data in files.
//!
//! ```text
//! engine ──Snapshot──► keys and values ──► Writer ──► file: JSON lines, binary, Redis's (RDB)
//! engine ◄──Loader──── keys and values ◄── read ◄──── file, verified before
//! ```
//!
//! A copy has all keys as they were at one moment. A reader of one finds out whether it is
//! whole: each form has an end, without which it is cut, and checksums. `docs/copies.md` says
//! how copies are used, `docs/formats/dump.md` has the two forms of our own byte by byte, and
//! [`rdb`] that of Redis as far as it is known here.
//!
//! ```no_run
//! use bpfdb_copies::{load_rdb, save_rdb};
//! # fn main() -> Result<(), bpfdb_copies::Error> {
//! let engine = bpfdb::Engine::create(&bpfdb::Options::default())?;
//! let loaded = load_rdb(&engine, "/var/lib/redis/dump.rdb".as_ref())?;
//! println!("{} keys, and {} had expired", loaded.written, loaded.expired);
//! save_rdb(&engine, "/var/backups/bpfdb.rdb".as_ref())?;
//! # Ok(())
//! # }
//! ```

mod binary;
mod collection;
mod crc64;
mod dump;
mod error;
mod file;
mod format;
mod header;
mod jsonl;
mod large;
mod limits;
mod loader;
pub mod rdb;
mod restore;
mod sink;
mod snapshot;
mod source;
mod writer;

/// Redis's files have numbers in this form too.
pub use bpfdb_values::integer;
pub use dump::{Dumped, dump_file, dump_to, save_rdb};
pub use error::{Error, Result};
pub use file::NewFile;
pub use format::{Format, read};
pub use header::Header;
pub use jsonl::{JsonEntries, json_entries};
pub use loader::Loaded;
pub use restore::{Existing, Options, VerifiedCopy, load_rdb};
pub use sink::{Choice, Contents, Key, LongKey, Nowhere, Sink};
pub use snapshot::{Progress, Snapshot};
pub use writer::Writer;

// The tests that need nothing private, in the program of the unit tests: one program less is linked.
#[cfg(test)]
extern crate self as bpfdb_copies;
#[cfg(test)]
#[path = "../tests/it/main.rs"]
mod it;
