//! Cold values: those whose bytes are in files (docs/tier.md). The engine knows where they are; who
//! reads the files tells the engine of it ([`crate::Engine::set_cold_values`]).

use std::fmt;
use std::sync::Arc;

use crate::{Status, abi};

/// Entries of a file begin at multiples of this, in bytes.
pub const COLD_GRAIN: u64 = abi::BPFDB_LOG_GRAIN as u64;

/// Where the bytes of a cold value are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ColdPlace {
    /// Number of the file, from 1: no other file of this engine ever has it.
    pub run: u64,
    /// Of the entry in the file, bytes: a multiple of [`COLD_GRAIN`], less than 64 GiB.
    pub offset: u64,
    /// CRC-32C of the entry.
    pub checksum: u32,
}

impl ColdPlace {
    /// `None`: the value is in memory.
    pub(crate) fn of(place: abi::bpfdb_place) -> Option<Self> {
        (place.run != 0).then(|| Self {
            run: place.run,
            offset: u64::from(place.offset) * COLD_GRAIN,
            checksum: place.checksum,
        })
    }

    pub(crate) fn in_engine(self) -> abi::bpfdb_place {
        abi::bpfdb_place {
            run: self.run,
            offset: (self.offset / COLD_GRAIN) as u32,
            checksum: self.checksum,
        }
    }
}

/// A value that is to become cold, as it was read.
#[derive(Clone, Copy, Debug)]
pub struct Demotion<'a> {
    /// The stored key.
    pub key: &'a [u8],
    /// Of a large or cold value (`OtherRecord::id`); 0: it is neither.
    pub id: u64,
    /// Of a value without an id: it was read in a pass of this epoch, or of an earlier one.
    pub epoch: u64,
    /// Bytes: from 17.
    pub len: u64,
    pub to: ColdPlace,
}

/// Reads cold values. It is called by whichever thread needs one, and must not use the engine.
pub trait ColdValues: fmt::Debug + Send + Sync {
    /// The value of the record with this stored key, `len` bytes: what was written there for this key
    /// and no other, or an error.
    ///
    /// # Errors
    /// [`Status::TierCorrupt`], [`Status::TierUnavailable`].
    fn fetch(&self, key: &[u8], len: u64, place: ColdPlace) -> Result<Vec<u8>, Status>;

    /// Begins to read what [`Self::fetch`] would read for this session, without waiting for the disk. As long as
    /// the read is there others that want the same join it. `None`: too much is being read.
    fn begin(
        &self,
        _key: &[u8],
        _len: u64,
        _place: ColdPlace,
        _session: u32,
    ) -> Option<Arc<dyn ColdRead>> {
        None
    }

    /// Whether the value, which was just read, is to be in memory from now on.
    fn admits(&self, key: &[u8], len: u64) -> bool;

    /// It is in memory now.
    fn promoted(&self);

    /// It is admitted, but was read by a transaction, and a swap needs a record that is not locked:
    /// [`crate::Demoter::promote`] can do it later.
    fn wanted(&self, key: &[u8]);
}

/// A read of a cold value that goes on beside whoever has begun it.
pub trait ColdRead: fmt::Debug + Send + Sync {
    /// What it has brought, as [`ColdValues::fetch`]; `None`: it is under way.
    fn outcome(&self) -> Option<&Result<Vec<u8>, Status>>;

    /// Has it ended, be it with an error?
    fn is_over(&self) -> bool {
        self.outcome().is_some()
    }
}

/// What versions have in one file of cold values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunUse {
    pub values: u64,
    /// Of these values.
    pub bytes: u64,
}
