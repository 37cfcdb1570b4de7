//! The files of a simulated disk: what programs see, what is on the platter, and what is between.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::random::Random;
use crate::format::layout::BLOCK;

/// A disk writes so many bytes wholly or not at all.
pub(super) const SECTOR: usize = 512;

#[derive(Clone, Debug)]
struct Write {
    offset: usize,
    bytes: Vec<u8>,
}

impl Write {
    fn apply(&self, to: &mut Vec<u8>) {
        let end = self.offset + self.bytes.len();
        to.resize(to.len().max(end), 0);
        to[self.offset..end].copy_from_slice(&self.bytes);
    }

    fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.bytes.len()
    }

    fn is_in(&self, range: &Range<usize>) -> bool {
        let own = self.range();
        range.start <= own.start && own.end <= range.end
    }

    fn touches(&self, range: &Range<usize>) -> bool {
        let own = self.range();
        own.start < range.end && range.start < own.end
    }

    fn sectors(&self) -> Vec<Self> {
        let offsets = (self.offset..).step_by(SECTOR);
        let sectors = offsets.zip(self.bytes.chunks(SECTOR));
        sectors
            .map(|(offset, bytes)| Self {
                offset,
                bytes: bytes.to_vec(),
            })
            .collect()
    }

    /// The part of it that is on the platter after power loss.
    fn land(&self, fate: Fate, random: &mut Random, to: &mut Vec<u8>) {
        let sectors = self.bytes.len().div_ceil(SECTOR);
        let whole = random.below(sectors as u64 + 1) as usize;
        for (n, sector) in self.bytes.chunks(SECTOR).enumerate() {
            let lands = match fate {
                Fate::Lands => true,
                Fate::Vanishes => false,
                Fate::Prefix => n < whole,
                Fate::Torn => random.once_in(2),
            };
            if lands {
                let offset = self.offset + n * SECTOR;
                let bytes = sector.to_vec();
                Self { offset, bytes }.apply(to);
            }
        }
    }
}

/// What becomes of a write that was not flushed when power is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Lands,
    Vanishes,
    Prefix,
    Torn,
}

impl Fate {
    fn draw(random: &mut Random) -> Self {
        match random.below(4) {
            0 => Self::Lands,
            1 => Self::Vanishes,
            2 => Self::Prefix,
            _ => Self::Torn,
        }
    }
}

/// A file without its name.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    /// What programs see.
    pub(super) seen: Vec<u8>,
    platter: Vec<u8>,
    pending: Vec<Write>,
    /// Sectors whose flush failed: no later flush speaks for them, unless they are written again.
    limbo: Vec<Write>,
    allocated: usize,
    /// Numbers of blocks that cannot be read.
    spoiled: BTreeSet<usize>,
}

impl Inode {
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        let write = Write {
            offset,
            bytes: bytes.to_vec(),
        };
        write.apply(&mut self.seen);
        self.spoiled
            .retain(|block| !write.touches(&(block * BLOCK..(block + 1) * BLOCK)));
        self.pending.push(write);
    }

    /// Makes durable what was written to the sectors of a range, and nothing else.
    pub(super) fn flush(&mut self, range: Range<usize>) {
        for write in self.take_pending(&range) {
            write.apply(&mut self.platter);
            let range = write.range();
            self.limbo.retain(|sector| !sector.is_in(&range));
        }
    }

    pub(super) fn fail_to_flush(&mut self, range: Range<usize>) {
        let writes = self.take_pending(&range);
        self.limbo
            .extend(writes.iter().flat_map(|write| write.sectors()));
    }

    /// The writes to the sectors of a range. Of those that are there in part, the rest stays, by
    /// sectors.
    fn take_pending(&mut self, range: &Range<usize>) -> Vec<Write> {
        let mut taken = Vec::new();
        for write in std::mem::take(&mut self.pending) {
            if write.is_in(range) {
                taken.push(write);
            } else if write.touches(range) {
                let (inside, outside) = write
                    .sectors()
                    .into_iter()
                    .partition::<Vec<_>, _>(|sector| sector.is_in(range));
                taken.extend(inside);
                self.pending.extend(outside);
            } else {
                self.pending.push(write);
            }
        }
        taken
    }

    /// A block that cannot be read until it is written again.
    pub(super) fn spoil(&mut self, offset: usize) {
        self.spoiled.insert(offset / BLOCK);
    }

    pub(super) fn is_spoiled(&self, offset: usize, len: usize) -> bool {
        let blocks = offset / BLOCK..(offset + len).div_ceil(BLOCK);
        self.spoiled.range(blocks).next().is_some()
    }

    pub(super) fn allocate(&mut self, size: usize) {
        self.allocated = self.allocated.max(size);
    }

    /// Space that it takes, in bytes.
    pub(super) fn space(&self) -> usize {
        self.allocated.max(self.seen.len())
    }

    pub(super) fn flip(&mut self, offset: usize, bit: u8) {
        self.seen[offset] ^= 1 << bit;
        self.platter[offset] ^= 1 << bit;
    }

    fn lose_power(&mut self, mood: Mood, random: &mut Random) {
        let mut writes = std::mem::take(&mut self.limbo);
        writes.append(&mut self.pending);
        if random.once_in(3) {
            random.shuffle(&mut writes);
        }
        for write in writes {
            write.land(mood.fate(random), random, &mut self.platter);
        }
        self.seen.clone_from(&self.platter);
    }
}

/// How lucky one power loss is. Without it, everything or nothing would be rare.
#[derive(Clone, Copy, Debug)]
enum Mood {
    AllLands,
    AllVanishes,
    Mixed,
}

impl Mood {
    fn draw(random: &mut Random) -> Self {
        match random.below(4) {
            0 => Self::AllLands,
            1 => Self::AllVanishes,
            _ => Self::Mixed,
        }
    }

    fn fate(self, random: &mut Random) -> Fate {
        match self {
            Self::AllLands => Fate::Lands,
            Self::AllVanishes => Fate::Vanishes,
            Self::Mixed => Fate::draw(random),
        }
    }
}

/// A name that appears, disappears, or both at once.
#[derive(Clone, Debug)]
struct Change {
    from: Option<String>,
    to: Option<String>,
    inode: usize,
}

impl Change {
    fn is_in(&self, folder: &str) -> bool {
        let names = self.from.iter().chain(&self.to);
        names.into_iter().any(|name| folder_of(name) == folder)
    }

    fn apply(&self, names: &mut Names) {
        if let Some(from) = &self.from
            && names.get(from) == Some(&self.inode)
        {
            names.remove(from);
        }
        if let Some(to) = &self.to {
            names.insert(to.clone(), self.inode);
        }
    }
}

type Names = BTreeMap<String, usize>;

pub(super) fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// All files.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    pub(super) inodes: Vec<Inode>,
    /// What programs see.
    pub(super) names: Names,
    platter: Names,
    pending: Vec<Change>,
}

impl Files {
    fn change(&mut self, from: Option<&str>, to: Option<&str>, inode: usize) {
        let change = Change {
            from: from.map(str::to_owned),
            to: to.map(str::to_owned),
            inode,
        };
        change.apply(&mut self.names);
        self.pending.push(change);
    }

    pub(super) fn create(&mut self, name: &str) -> usize {
        self.inodes.push(Inode::default());
        let inode = self.inodes.len() - 1;
        self.change(None, Some(name), inode);
        inode
    }

    /// `false`: there is no such file.
    pub(super) fn rename(&mut self, from: &str, to: &str) -> bool {
        let inode = self.names.get(from).copied();
        inode.is_some_and(|inode| {
            self.change(Some(from), Some(to), inode);
            true
        })
    }

    /// `false`: there is no such file.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        let inode = self.names.get(name).copied();
        inode.is_some_and(|inode| {
            self.change(Some(name), None, inode);
            true
        })
    }

    pub(super) fn flush_folder(&mut self, folder: &str) {
        let (flushed, pending) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition::<Vec<_>, _>(|change| change.is_in(folder));
        self.pending = pending;
        for change in flushed {
            change.apply(&mut self.platter);
        }
    }

    /// Space that all files take, in bytes.
    pub(super) fn space(&self) -> usize {
        self.names
            .values()
            .map(|inode| self.inodes[*inode].space())
            .sum()
    }

    /// What was flushed stays. Of everything else any part does.
    pub(super) fn lose_power(&mut self, random: &mut Random) {
        let mood = Mood::draw(random);
        for inode in &mut self.inodes {
            inode.lose_power(mood, random);
        }
        let mood = Mood::draw(random);
        for change in std::mem::take(&mut self.pending) {
            if mood.fate(random) != Fate::Vanishes {
                change.apply(&mut self.platter);
            }
        }
        self.names.clone_from(&self.platter);
    }
}
