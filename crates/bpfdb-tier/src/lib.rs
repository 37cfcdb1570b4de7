//! Cold values: those that memory has no room for are in files of the data directory, their keys,
//! locks and timestamps stay in the engine (docs/tier.md; docs/decisions/0034-cold-values.md).
//!
//! ```text
//! engine ──CheckpointPass──► victims ──► RunWriter ──► tier/run-… (flushed)
//!    ▲                                        │
//!    └────────── Demoter::demote ◄── places ──┘
//! session finds a cold value ──► RunValues (ColdValues) ──► a thread of Reads ──► tier/run-…, checked
//! ```
//!
//! Invariants
//!
//! 1. A value is written, flushed, and its run is in the manifest, before the engine is told of its
//!    place. So there is no place without bytes.
//! 2. A value is believed if key, length, run, place and checksum are those that the engine names. Else
//!    it is an error of that key.
//! 3. A run is part of the engine's memory, not of what is durable: log and checkpoints have every
//!    value. A new engine begins without runs; one that outlived its server finds them by the manifest.
//! 4. A run goes when no version names it: first from the manifest, then from the disk.
//! 5. When a run cannot be written, the engine goes on without giving values to it.
//!
//! ```text
//! format/     bytes of runs and of the manifest
//! bell.rs     what rings in memory of programs have in common
//! park.rs     requests that the kernel answers when their value was read
//! prefetch.rs what the kernel has read before it is asked for
//! reads.rs    reads that go on beside the server's thread
//! runs.rs     the files that there are; reading one value
//! writer.rs   appending values to a run
//! check.rs    reading all of them
//! values.rs   the engine's side of reading: which values come back to memory
//! victims.rs  which values go
//! compact/    reading runs of which little is live, and rewriting that
//! demoter.rs  one batch; rewriting by keys
//! tier.rs     the thread
//! ```

mod abi;
mod bell;
mod check;
mod compact;
mod demoter;
mod figures;
pub mod format;
mod park;
mod prefetch;
mod reads;
mod runs;
#[cfg(test)]
mod tests;
mod tier;
mod values;
mod victims;
mod writer;

pub use check::{Checked, check};
pub use compact::{CompactionError, Compactor, Rewritten};
#[doc(hidden)]
pub use demoter::ByKeys;
pub use figures::{Counts, Figures, Found};
pub use park::{ParkFigures, ParkMaps, Parked, Seat, create_seats};
pub use prefetch::{PrefetchFigures, PrefetchMaps, create_reads};
pub use runs::{FOLDER, MANIFEST, Runs, run_name};
pub use tier::{Options, Tier};
pub use values::RunValues;
pub use writer::{NewValue, RunWriter};

// The tests that need nothing private, in the program of the unit tests: one program less is linked.
#[cfg(test)]
extern crate self as bpfdb_tier;
#[cfg(test)]
#[path = "../tests/it/main.rs"]
mod it;
