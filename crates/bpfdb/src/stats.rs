//! What the engine holds and what it has done.

use std::mem::MaybeUninit;

use libbpf_rs::{MapCore, MapFlags};

use std::path::Path;

use crate::abi;
use crate::error::{Result, bpf, system};
use crate::mapped::Mapped;
use crate::maps::{Maps, STATE};

/// A size class and how full it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Class {
    /// Bytes of one slot.
    pub size: u32,
    pub pages: u64,
    pub slots: u64,
    pub used: u64,
}

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
#[derive(Clone, Debug)]
pub struct Stats {
    /// Cells in use: records, deleted ones that snapshots still see, and
    /// placeholders of locked absent keys.
    pub records: u64,
    /// Versions older than the newest one of their record.
    pub history_versions: u64,
    /// Versions with an expiry: those of records, of snapshots, and of open
    /// transactions; expired ones until they are removed.
    pub expiring: u64,
    pub index_pages: u64,
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
    pub(crate) fn take(
        maps: &Maps,
        state: &abi::bpfdb_engine,
        slabs: &Mapped<abi::bpfdb_slab>,
        sessions: &Mapped<abi::bpfdb_session>,
    ) -> Result<Self> {
        let mut stats = Self {
            records: 0,
            history_versions: state.versions.value,
            expiring: state.expiring.value,
            index_pages: state.index_pages.value,
            pages_taken: state.pages_taken.value,
            pages_free: state.pages_free_count.value,
            segments: state.segments.value,
            segments_max: state.segments_limit.value,
            classes: (0..abi::BPFDB_CLASSES).map(Class::numbered).collect(),
            sessions: 0,
            transactions: 0,
            snapshots: state.snapshots.active & u64::from(u32::MAX),
            locks: 0,
            clock: state.clock.value,
            gets_found: 0,
            gets_missed: 0,
            counters: counters(maps)?,
        };
        stats.add_pages(slabs);
        stats.add_spares(&state.spares);
        stats.add_sessions(sessions);
        Ok(stats)
    }

    fn add_pages(&mut self, slabs: &Mapped<abi::bpfdb_slab>) {
        // Page 0 is never handed out.
        for page in 1..(self.pages_taken as usize).min(slabs.len()) {
            let slab = slabs.read(page);
            if u32::from(slab.class_) == abi::BPFDB_PAGE_INDEX {
                self.records += slab.word;
            } else if let Some(class) = self.classes.get_mut(usize::from(slab.class_)) {
                let free = slab.word >> abi::BPFDB_SLAB_FREE_SHIFT & abi::BPFDB_SLAB_FREE_MASK;
                let slots = u64::from(abi::BPFDB_PAGE_SIZE / class.size);
                class.pages += 1;
                class.slots += slots;
                class.used += slots.saturating_sub(free);
            }
        }
    }

    /// What a shard of processors keeps ready is free, though its slab does not say so.
    fn add_spares(&mut self, spares: &[abi::bpfdb_spares]) {
        for shard in spares {
            for (class, &slot) in self.classes.iter_mut().zip(&shard.slots) {
                class.used = class.used.saturating_sub(u64::from(slot != 0));
            }
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

    /// Bytes of memory in use by index and slabs, free slots included.
    pub fn memory_used(&self) -> u64 {
        let in_use = self.pages_taken.saturating_sub(1 + self.pages_free);
        in_use * u64::from(abi::BPFDB_PAGE_SIZE)
    }

    /// Bytes that were added to the engine so far.
    pub fn memory_added(&self) -> u64 {
        self.segments * crate::options::SEGMENT_SIZE
    }
}

impl Class {
    fn numbered(number: u32) -> Self {
        Self {
            size: if number % 2 == 1 { 48 } else { 32 } << (number / 2),
            ..Self::default()
        }
    }
}

impl abi::bpfdb_counters {
    /// Redis commands that the kernel answered.
    pub fn requests_fast(&self) -> u64 {
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
        return slot_size(table) + len / PAGE * PAGE + tail_size(len % PAGE);
    }
    (0..abi::BPFDB_CLASSES)
        // The last but one is not used: bpf/storage/slab.bpf.h.
        .filter(|&number| number != abi::BPFDB_CLASSES - 2)
        .map(|number| Class::numbered(number).size as usize)
        .find(|&size| size >= len)
        .unwrap_or(0)
}

/// What is left of a large value has a slot of its own, however short it is.
fn tail_size(len: usize) -> usize {
    if len == 0 {
        0
    } else {
        slot_size(len.max(abi::BPFDB_INLINE_MAX as usize + 1))
    }
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
        let sizes = [0, 16, 17, 32, 33, 1000, 65_536].map(slot_size);
        assert_eq!(sizes, [0, 0, 32, 32, 48, 1024, 65_536]);
        assert_eq!([32_768, 32_769].map(slot_size), [32_768, 65_536]);
        // Table and pieces.
        assert_eq!(slot_size(65_537), 48 + 65_536 + 32);
        assert_eq!(slot_size(512 << 20), 65_536 + (512 << 20));
    }

    #[test]
    fn classes_are_those_of_the_slab_allocator() {
        let sizes: Vec<u32> = (0..abi::BPFDB_CLASSES)
            .map(|number| Class::numbered(number).size)
            .collect();
        assert_eq!(sizes[..5], [32, 48, 64, 96, 128]);
        assert_eq!(sizes.last(), Some(&65536));
    }
}
