//! What the data takes of its pages, and what they keep for data to come.
//!
//! Programs count no slots: that would be a shared line written by every SET. The
//! slabs' own numbers of free slots are added up when a caller asks, a page in a
//! nanosecond or two.

use crate::abi;
use crate::mapped::Mapped;

const PAGE: u64 = abi::BPFDB_PAGE_SIZE as u64;
const CELL: u64 = abi::BPFDB_CELL_SIZE as u64;
/// Pages of the index are split when they are 4/5 full. So an index that only ever grew
/// is never less than 2/5 full, and its records take all of it; what is emptier keeps
/// room of records that were deleted.
const LEAST_FILL: (u64, u64) = (2, 5);
/// Records of a page of the index, at most.
const CELLS: u64 = abi::BPFDB_CELLS_PER_PAGE as u64;
/// Two pages of the index with this many records each can be merged: MERGE_FILL in
/// bpf/storage/merge.bpf.h, of both together.
const MERGEABLE: u64 = CELLS / 8;
/// Classes of slots: every grain, then four to a doubling, then parts of a page.
const SHORT_CLASSES: u32 = 7;
const MIDDLE_CLASSES: u32 = 20;

/// A size class and how full it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Class {
    /// Bytes of one slot.
    pub size: u32,
    pub pages: u64,
    pub slots: u64,
    pub used: u64,
    /// Pages without a used slot.
    pub empty: u64,
}

impl Class {
    /// As class_size() in bpf/storage/slab.bpf.h.
    pub(crate) fn numbered(number: u32) -> Self {
        let grain = abi::BPFDB_GRAIN;
        let middle = number.saturating_sub(SHORT_CLASSES);
        let size = if number < SHORT_CLASSES {
            (number + 2) * grain
        } else if middle < MIDDLE_CLASSES {
            ((5 + middle % 4) * 32) << (middle / 4)
        } else {
            let slots = abi::BPFDB_CLASSES - number;
            abi::BPFDB_PAGE_SIZE / slots / grain * grain
        };
        Self {
            size,
            ..Self::default()
        }
    }

    /// Slots of one page.
    fn capacity(&self) -> u64 {
        PAGE / u64::from(self.size)
    }

    /// Bytes that the used slots take, with their share of what a page leaves over.
    fn memory_used(&self) -> u64 {
        self.used * PAGE / self.capacity()
    }
}

/// Slots in use of a page of slots.
pub(crate) fn slots_used(slab: &abi::bpfdb_slab) -> u64 {
    let class = Class::numbered(slab.class_.into());
    let free = slab.word >> abi::BPFDB_SLAB_FREE_SHIFT & abi::BPFDB_SLAB_FREE_MASK;
    class.capacity().saturating_sub(free)
}

/// Of one moment only if the engine is quiet.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    pub(crate) classes: Vec<Class>,
    /// Cells of the index that are in use.
    pub(crate) records: u64,
    pub(crate) index_pages: u64,
    /// Of these, pages that could be merged with their like.
    pub(crate) index_pages_sparse: u64,
    /// Bytes of the index that its records take.
    pub(crate) index_used: u64,
}

impl Usage {
    /// Of the pages handed out so far.
    pub(crate) fn take(state: &abi::bpfdb_engine, slabs: &Mapped<abi::bpfdb_slab>) -> Self {
        let mut usage = Self {
            classes: (0..abi::BPFDB_CLASSES).map(Class::numbered).collect(),
            records: 0,
            index_pages: 0,
            index_pages_sparse: 0,
            index_used: 0,
        };
        // Page 0 is never handed out.
        for page in 1..(state.pages_taken.value as usize).min(slabs.len()) {
            usage.add(&slabs.read(page));
        }
        usage.subtract_spares(&state.spares);
        // There is no index of less than a page.
        usage.index_used = usage.index_used.max(PAGE.min(usage.index_pages * PAGE));
        usage
    }

    fn add(&mut self, slab: &abi::bpfdb_slab) {
        if u32::from(slab.class_) == abi::BPFDB_PAGE_INDEX {
            self.add_index_page(slab.word);
        } else if let Some(class) = self.classes.get_mut(usize::from(slab.class_)) {
            let free = slab.word >> abi::BPFDB_SLAB_FREE_SHIFT & abi::BPFDB_SLAB_FREE_MASK;
            let slots = class.capacity();
            class.pages += 1;
            class.slots += slots;
            class.used += slots.saturating_sub(free);
            class.empty += u64::from(free >= slots);
        }
    }

    /// `word`: the number of records; but for the moment in which records move, or a page becomes one
    /// of the index: then it is less than none, or the number of something else.
    fn add_index_page(&mut self, word: u64) {
        let records = match word {
            records @ ..=CELLS => records,
            _ => 0,
        };
        let (of, least) = LEAST_FILL;
        self.records += records;
        self.index_pages += 1;
        self.index_pages_sparse += u64::from(records <= MERGEABLE);
        self.index_used += (records * CELL * least / of).min(PAGE);
    }

    /// What a shard of processors keeps ready is free, though its slab does not say so.
    fn subtract_spares(&mut self, spares: &[abi::bpfdb_spares]) {
        for shard in spares {
            for (class, &slot) in self.classes.iter_mut().zip(&shard.slots) {
                class.used = class.used.saturating_sub(u64::from(slot != 0));
            }
        }
    }

    /// Bytes that the data takes.
    pub(crate) fn memory_used(&self) -> u64 {
        let slots: u64 = self.classes.iter().map(Class::memory_used).sum();
        slots + self.index_used
    }

    /// Bytes of the slots that each class should have free, one for each `share` that it uses, and has
    /// not, beyond what so many free pages would give.
    pub(crate) fn missing(&self, pages_left: u64, share: u64) -> u64 {
        let of = |class: &Class| {
            let free = class.slots.saturating_sub(class.used);
            (class.used / share).saturating_sub(free) * u64::from(class.size)
        };
        let missing: u64 = self.classes.iter().map(of).sum();
        missing.saturating_sub(pages_left * PAGE)
    }

    /// Pages that could be given back.
    pub(crate) fn pages_idle(&self) -> u64 {
        self.pages_empty() + self.index_pages_sparse.saturating_sub(1)
    }

    fn pages_empty(&self) -> u64 {
        self.classes.iter().map(|class| class.empty).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage() -> Usage {
        Usage {
            classes: (0..abi::BPFDB_CLASSES).map(Class::numbered).collect(),
            records: 0,
            index_pages: 0,
            index_pages_sparse: 0,
            index_used: 0,
        }
    }

    fn index_page(records: u64) -> abi::bpfdb_slab {
        abi::bpfdb_slab {
            class_: abi::BPFDB_PAGE_INDEX as u8,
            word: records,
            ..Default::default()
        }
    }

    fn slab(class: u8, free: u64) -> abi::bpfdb_slab {
        abi::bpfdb_slab {
            class_: class,
            word: free << abi::BPFDB_SLAB_FREE_SHIFT,
            ..Default::default()
        }
    }

    #[test]
    fn classes_are_those_of_the_slab_allocator() {
        let sizes: Vec<u32> = (0..abi::BPFDB_CLASSES)
            .map(|number| Class::numbered(number).size)
            .collect();
        assert_eq!(sizes[..9], [32, 48, 64, 80, 96, 112, 128, 160, 192]);
        assert_eq!(sizes[26..29], [4096, 4368, 4672]);
        assert_eq!(sizes[39..], [21_840, 32_768, 65_536]);
        assert!(sizes.is_sorted());
    }

    #[test]
    fn full_pages_are_used_and_empty_ones_are_kept() {
        let mut full = usage();
        full.add(&index_page(820));
        full.add(&index_page(410));
        for class in 0..abi::BPFDB_CLASSES {
            full.add(&slab(class as u8, 0));
        }
        let pages = 2 + u64::from(abi::BPFDB_CLASSES);
        assert_eq!(full.memory_used(), pages * PAGE);
        assert_eq!(full.pages_idle(), 0);

        let mut empty = usage();
        for number in 0..4 {
            empty.add(&index_page(number));
        }
        empty.add(&slab(0, 2048));
        empty.add(&slab(41, 1));
        assert!(empty.memory_used() < PAGE / 64);
        assert_eq!(empty.pages_idle(), 3 + 2);
    }
}
