//! bpfdb: a transactional database that lives in the Linux kernel as verified
//! eBPF programs. This crate is its user-space side.
//!
//! ```no_run
//! let engine = bpfdb::Engine::create(&bpfdb::Options::default())?;
//! let mut session = engine.session()?;
//!
//! session.begin()?;
//! let stock = session.get_for_update(b"apples")?.unwrap_or_default();
//! session.set(b"apples", &[stock, b"+1".to_vec()].concat())?;
//! session.commit()?; // all of it, or an Error and none of it
//! # Ok::<(), bpfdb::Error>(())
//! ```
//!
//! Other eBPF programs use the same engine: their object includes
//! `bpfdb/bpfdb.bpf.h` and is handed to [`Engine::adopt`] before it is loaded.

pub mod abi;
pub mod architecture;
mod checkpoint;
mod claim;
mod clock;
mod cold;
pub mod commands;
mod conflict;
mod database_order;
mod deoptimisation;
mod driver;
mod emptying;
mod engine;
mod error;
pub mod figures;
mod holders;
mod keyspace;
mod later;
mod layout;
mod locks;
mod log;
mod mapped;
mod maps;
mod memory;
pub mod mounts;
pub mod objects;
mod operators;
mod options;
mod ordered;
mod program;
mod random;
mod scan;
mod session;
mod stats;
mod status;
mod tier;
mod time;
mod value_type;
mod victims;

pub use checkpoint::{CheckpointPass, OtherRecord};
pub use claim::Claim;
pub use cold::{COLD_GRAIN, ColdPlace, ColdRead, ColdValues, Demotion, RunUse};
pub use conflict::{Conflict, ConflictCause};
pub use database_order::DatabaseOrder;
pub use deoptimisation::{DEOPTIMISATIONS, Deoptimisation};
pub use emptying::{Emptier, Emptying, InVain};
pub use engine::{Engine, Joining};
pub use error::{Error, Result};
pub use keyspace::{
    Database, FUNCTIONS_KEY, Keyspace, Keyspaces, is_of_ordered_table, is_reserved,
};
pub use later::LaterProgram;
pub use locks::{LockHolder, LockMode, LockSearch};
pub use log::{
    LargeRef, Log, LogGate, LogGateState, LogHome, LogValue, LogWrite, PinnedLog, Sealed, Writes,
};
pub use maps::{engine_exists, first_missing_pin, pinned_memory};
pub use memory::cgroups as memory_cgroups;
pub use memory::grace::Grace;
pub use options::{Options, SEGMENT_SIZE, log_rings};
pub use ordered::{OrderedTable, Rows, prefix_range};
pub use program::{Program, find as find_program, open_object};
pub use scan::scan_region;
pub use session::{
    Batch, Change, ChangeNotes, Entry, Head, Operation, Reads, Session, WatchToken, WrittenKeys,
};
pub use stats::{Class, Observer, Stats, slot_size};
pub use status::Status;
pub use tier::Demoter;
pub use value_type::ValueType;
pub use victims::{
    Access, Evicted, Hand, MemoryMissing, Sample, Sampled, Shortage, Tracking, Victim,
};
