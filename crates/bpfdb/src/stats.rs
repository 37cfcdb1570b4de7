//! What the engine holds and what it has done.

use std::mem::MaybeUninit;

use libbpf_rs::{MapCore, MapFlags};

use std::path::Path;

use crate::abi;
use crate::error::{Result, bpf, system};
use crate::keyspace::{Database, Keyspace};
use crate::mapped::Mapped;
use crate::maps::{Maps, STATE};
pub use crate::memory::usage::Class;
use crate::memory::usage::Usage;

/// Looks at a pinned engine without becoming part of it: loads nothing, changes
/// nothing, works beside its daemon or without one.
#[derive(Debug)]
pub struct Observer {
    maps: Maps,
    state: Mapped<abi::bpfdb_engine>,
    slabs: Mapped<abi::bpfdb_slab>,
    sessions: Mapped<abi::bpfdb_session>,
}

impl Observer {
    /// Of the engine that was pinned in `folder`.
    pub fn open(folder: &Path) -> Result<Self> {
        let maps = Maps::open(folder)?;
        Ok(Self {
            state: Mapped::new(maps.fd(STATE), 1, size_of::<abi::bpfdb_engine>())
                .map_err(system("map the engine's state"))?,
            slabs: maps.mapped("slabs", maps.config.pages_max)?,
            sessions: maps.mapped("sessions", maps.config.sessions)?,
            maps,
        })
    }

    pub fn stats(&self) -> Result<Stats> {
        Stats::take(&self.maps, &self.state.read(0), &self.slabs, &self.sessions)
    }

    /// The configuration that the engine was created with.
    pub fn config(&self) -> abi::bpfdb_config {
        self.maps.config
    }
}

/// Gauges, and counters since the engine was created. Taken while the engine
/// runs: figures of one moment only if it is quiet.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Cells in use: records, deleted ones that snapshots still see, and
    /// placeholders of locked absent keys.
    pub records: u64,
    /// Those of them that are in a keyspace of its own, by its number.
    pub keyspaces: [u64; Keyspace::COUNT],
    /// Versions older than the newest one of their record.
    pub history_versions: u64,
    /// Versions with an expiry: those of records, of snapshots, and of open
    /// transactions; expired ones until they are removed.
    pub expiring: u64,
    pub index_pages: u64,
    memory_used: u64,
    pub pages_taken: u64,
    pub pages_free: u64,
    pub segments: u64,
    /// Most that may be in use: the memory limit.
    pub segments_max: u64,
    pub classes: Vec<Class>,
    pub sessions: u64,
    pub transactions: u64,
    pub snapshots: u64,
    /// Locks held by open transactions.
    pub locks: u64,
    pub clock: u64,
    /// GETs that found a value, and that did not.
    pub gets_found: u64,
    pub gets_missed: u64,
    pub counters: abi::bpfdb_counters,
}

impl Stats {
    /// Figures of an engine without data, with one size class: for lists of what there is.
    pub fn sample() -> Self {
        Self {
            classes: vec![Class {
                pages: 1,
                ..Class::numbered(0)
            }],
            ..Self::default()
        }
    }

    /// Records of a Redis database: as [`Stats::records`] of its keys alone. Placeholders of database
    /// 0 and records of embedded programs are among those of database 0.
    pub fn records_of(&self, database: Database) -> u64 {
        match database.keyspace() {
            Some(keyspace) => self.keyspaces[keyspace.number()],
            None => {
                let others: u64 = self.keyspaces.iter().sum();
                let empty_key = self.keyspaces[Keyspace::EMPTY_KEY.number()];
                self.records.saturating_sub(others - empty_key)
            }
        }
    }

    pub(crate) fn take(
        maps: &Maps,
        state: &abi::bpfdb_engine,
        slabs: &Mapped<abi::bpfdb_slab>,
        sessions: &Mapped<abi::bpfdb_session>,
    ) -> Result<Self> {
        let usage = Usage::take(state, slabs);
        let mut stats = Self {
            records: usage.records,
            keyspaces: state.keyspaces,
            memory_used: usage.memory_used(),
            history_versions: state.versions.value,
            expiring: state.expiring.value,
            index_pages: state.index_pages.value,
            pages_taken: state.pages_taken.value,
            pages_free: state.pages_free_count.value,
            segments: state.segments.value,
            segments_max: state.segments_limit.value,
            classes: usage.classes,
            sessions: 0,
            transactions: 0,
            snapshots: state.snapshots.active & u64::from(u32::MAX),
            locks: 0,
            clock: state.clock.value,
            gets_found: 0,
            gets_missed: 0,
            counters: counters(maps)?,
        };
        stats.add_sessions(sessions);
        stats.subtract_ready(sessions, maps.config.versions);
        Ok(stats)
    }

    /// The aux block that a session keeps ready is free, though its slab does not say so.
    fn subtract_ready(&mut self, sessions: &Mapped<abi::bpfdb_session>, versions: u32) {
        let versions = versions as usize * size_of::<abi::bpfdb_version>();
        let size = std::mem::offset_of!(abi::bpfdb_aux, history) + versions;
        let ready = (0..sessions.len()).filter(|&index| sessions.read(index).spare_aux != 0);
        let mut classes = self.classes.iter_mut();
        if let Some(class) = classes.find(|class| class.size as usize >= size) {
            class.used = class.used.saturating_sub(ready.count() as u64);
        }
    }

    fn add_sessions(&mut self, sessions: &Mapped<abi::bpfdb_session>) {
        for index in 0..sessions.len() {
            let session = sessions.read(index);
            self.sessions += u64::from(session.in_use != 0);
            self.transactions += u64::from(session.state != abi::BPFDB_TXN_NONE as u8);
            self.locks += u64::from(session.lock_count);
            self.gets_found += session.gets_found;
            self.gets_missed += session.gets_missed;
            let sums = self.counters.operations.iter_mut();
            for (sum, count) in sums.zip(session.operations) {
                *sum += count;
            }
        }
    }

    /// Slots in use, of all classes.
    pub fn slots_used(&self) -> u64 {
        self.classes.iter().map(|class| class.used).sum()
    }

    /// Bytes that the data takes: the slots in use, and the index as far as its records
    /// fill it.
    pub fn memory_used(&self) -> u64 {
        self.memory_used
    }

    /// Bytes of all pages that are not free. A write is refused when there are no more,
    /// whatever of them is used.
    pub fn memory_held(&self) -> u64 {
        let in_use = self.pages_taken.saturating_sub(1 + self.pages_free);
        in_use * u64::from(abi::BPFDB_PAGE_SIZE)
    }

    /// Bytes of these that no data takes: free slots, and room in the index. They serve
    /// data of the same size, and go back to the free pages when whole pages are empty
    /// for a while.
    pub fn memory_kept(&self) -> u64 {
        self.memory_held().saturating_sub(self.memory_used)
    }

    /// Bytes that were added to the engine so far.
    pub fn memory_added(&self) -> u64 {
        self.segments * crate::options::SEGMENT_SIZE
    }
}

impl abi::bpfdb_counters {
    /// What the Redis front end counts.
    pub const fn redis(&self) -> &abi::bpfdb_redis_counters {
        const _: () = assert!(
            size_of::<abi::bpfdb_redis_counters>()
                <= size_of::<[u64; abi::BPFDB_FRONT_END_COUNTERS as usize]>()
        );
        // SAFETY: both consist of u64 only, and there are enough of them: see above.
        unsafe { &*self.front_end.as_ptr().cast() }
    }
}

impl abi::bpfdb_redis_counters {
    /// Redis commands that the kernel answered.
    pub fn requests_by_kernel(&self) -> u64 {
        self.commands.iter().sum()
    }
}

/// Bytes of the slots that a key or value of this length takes; 0 if it lies in
/// the record's cell.
pub fn slot_size(len: usize) -> usize {
    const PAGE: usize = abi::BPFDB_PAGE_SIZE as usize;
    if len <= abi::BPFDB_INLINE_MAX as usize {
        return 0;
    }
    if len > abi::BPFDB_VALUE_MAX as usize {
        let table = size_of::<abi::bpfdb_large>() + len / PAGE * size_of::<u32>();
        return of_class(table) + len / PAGE * PAGE + rest_size(len % PAGE);
    }
    of_class(len)
}

/// Bytes of the slots that hold what the pages of a large value leave.
fn rest_size(len: usize) -> usize {
    const PIECE: usize = abi::BPFDB_PIECE_SIZE as usize;
    match len {
        0 => 0,
        1..=PIECE => of_class(len),
        _ => PIECE + of_class(len - PIECE),
    }
}

fn of_class(len: usize) -> usize {
    (0..abi::BPFDB_CLASSES)
        .map(|number| Class::numbered(number).size as usize)
        .find(|&size| size >= len)
        .unwrap_or(0)
}

pub(crate) fn counters(maps: &Maps) -> Result<abi::bpfdb_counters> {
    let per_processor = maps
        .handle("counters")?
        .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
        .map_err(bpf("read the counters"))?
        .unwrap_or_default();
    const WORDS: usize = size_of::<abi::bpfdb_counters>() / 8;
    let mut sums = [0u64; WORDS];

    for bytes in per_processor {
        for (sum, word) in sums.iter_mut().zip(bytes.chunks_exact(8)) {
            *sum += u64::from_ne_bytes(word.try_into().expect("eight bytes"));
        }
    }
    let mut counters = MaybeUninit::<abi::bpfdb_counters>::uninit();
    // SAFETY: the structure consists of u64 only, WORDS of them.
    unsafe {
        counters.as_mut_ptr().cast::<[u64; WORDS]>().write(sums);
        Ok(counters.assume_init())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_of_the_next_class() {
        let sizes = [0, 16, 17, 32, 33, 100, 1000, 32_768].map(slot_size);
        assert_eq!(sizes, [0, 0, 32, 32, 48, 112, 1024, 32_768]);
        // Table and pieces.
        assert_eq!(slot_size(40_000), 64 + 32_768 + 7280);
        assert_eq!(slot_size(65_536), 80 + 65_536);
        assert_eq!(slot_size(65_537), 80 + 65_536 + 32);
        assert_eq!(slot_size(100_000), 80 + 65_536 + 32_768 + 1792);
        assert_eq!(slot_size(512 << 20), 65_536 + (512 << 20));
    }
}
