//! One block of a table, byte by byte as in `docs/formats/tables.md`.
//!
//! Invariants of a block that a [`Builder`] has made. If its checksum is right, it is one:
//!  1. Every entry lies within the block, behind the places.
//!  2. Keys ascend. That of the first child is empty, and is not compared.
//!
//! Of a block that was changed and given a right checksum the answers mean nothing; still every access is
//! within it.

use std::cmp::Ordering;
use std::ops::Range;

use xxhash_rust::xxh64::xxh64;

use crate::abi::{self, HEAD};

const CHECKSUM: usize = 8;
const PLACE: usize = 2;

/// What the checksum of block `number` begins with: a block of another table, or in another's place, is
/// not taken for the right one.
pub(crate) fn seed(id: u64, number: u64) -> u64 {
    id.wrapping_add(number)
}

/// Writes the checksum of a block that is complete.
pub(crate) fn seal(block: &mut [u8], seed: u64) {
    let checksum = xxh64(&block[CHECKSUM..], seed);
    block[..CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
}

pub(crate) fn is_sealed(block: &[u8], seed: u64) -> bool {
    number::<8>(block, 0) == Some(xxh64(&block[CHECKSUM..], seed))
}

/// The little-endian number of `N` bytes at a place, if it is in the block.
pub(crate) fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.get(..N)?;
    let mut word = [0; 8];
    word[..N].copy_from_slice(bytes);
    Some(u64::from_le_bytes(word))
}

/// The bytes of a block, wherever they are.
pub(crate) trait Bytes: Copy {
    fn size(self) -> usize;
    /// The little-endian number of `N` bytes at a place, if it is in the block.
    fn number<const N: usize>(self, at: usize) -> Option<u64>;
    /// How bytes of the block compare with a key, if they are in it.
    fn compare(self, at: Range<usize>, key: &[u8]) -> Option<Ordering>;
}

impl Bytes for &[u8] {
    fn size(self) -> usize {
        self.len()
    }

    fn number<const N: usize>(self, at: usize) -> Option<u64> {
        number::<N>(self, at)
    }

    fn compare(self, at: Range<usize>, key: &[u8]) -> Option<Ordering> {
        Some(self.get(at)?.cmp(key))
    }
}

/// Where an entry has what, in its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Range<usize>,
    /// Empty if it is not one of a leaf.
    pub(crate) value: Range<usize>,
}

/// A block of the tree that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<B>(B);

impl<'a> Block<&'a [u8]> {
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn check(bytes: &'a [u8], seed: u64, level: u32) -> Result<Self, &'static str> {
        if !is_sealed(bytes, seed) {
            return Err("the checksum is not that of the block");
        }
        Self::of_level(bytes, level)
    }

    /// A block that was checked before.
    pub(crate) fn known(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Both empty if the entry is not within the block.
    pub(crate) fn key_value(self, index: usize) -> (&'a [u8], &'a [u8]) {
        let entry = self.entry(index);
        entry.map_or((&[], &[]), |entry| {
            (&self.0[entry.key], &self.0[entry.value])
        })
    }
}

impl<B: Bytes> Block<B> {
    /// A block whose checksum was found right before.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn of_level(bytes: B, level: u32) -> Result<Self, &'static str> {
        let block = Self(bytes);
        if bytes.number::<2>(8) != Some(u64::from(level)) {
            return Err("a block of another level");
        }
        if HEAD + PLACE * block.len() > bytes.size() || (level > 0 && block.len() == 0) {
            return Err("so many entries as no block has");
        }
        Ok(block)
    }

    /// How many entries it has.
    pub(crate) fn len(self) -> usize {
        self.0.number::<2>(10).map_or(0, |count| count as usize)
    }

    fn is_leaf(self) -> bool {
        self.0.number::<2>(8) == Some(0)
    }

    /// `None`: it is not within the block.
    fn entry(self, index: usize) -> Option<Entry> {
        let places_end = HEAD + PLACE * self.len();
        let at = self.0.number::<2>(HEAD + PLACE * index)? as usize;
        if at < places_end {
            return None;
        }
        let (head, value_len) = match self.is_leaf() {
            true => (abi::BPFDB_TABLE_LEAF_ENTRY, self.0.number::<2>(at + 2)?),
            false => (abi::BPFDB_TABLE_INNER_ENTRY, 0),
        };
        let key_at = at + head as usize;
        let value_at = key_at + self.0.number::<2>(at)? as usize;
        let end = value_at + value_len as usize;
        (end <= self.0.size()).then_some(Entry {
            key: key_at..value_at,
            value: value_at..end,
        })
    }

    /// How the key of an entry compares with another; if it is not within the block, as if it were empty.
    fn compare(self, index: usize, key: &[u8]) -> Ordering {
        let entry = self.entry(index);
        let order = entry.and_then(|entry| self.0.compare(entry.key, key));
        order.unwrap_or_else(|| [].as_slice().cmp(key))
    }

    /// How many entries of a leaf are before the key.
    pub(crate) fn before(self, key: &[u8]) -> usize {
        self.partition(0, |index| self.compare(index, key) == Ordering::Less)
    }

    /// The entry of a leaf that has the key.
    pub(crate) fn find(self, key: &[u8]) -> Option<Entry> {
        let index = self.before(key);
        let is_there = index < self.len() && self.compare(index, key) == Ordering::Equal;
        // One that is not within the block has no value.
        let none = || Entry {
            key: 0..0,
            value: 0..0,
        };
        is_there.then(|| self.entry(index).unwrap_or_else(none))
    }

    /// The number of the block of the child that may have the key.
    pub(crate) fn child(self, key: &[u8]) -> u64 {
        let behind = self.partition(1, |index| self.compare(index, key) != Ordering::Greater);
        // Of a forged block it is no block of the table, which is found when it is read.
        self.first().wrapping_add(behind as u64).wrapping_sub(1)
    }

    /// The number of the block of the first child.
    pub(crate) fn first(self) -> u64 {
        self.0.number::<8>(16).unwrap_or(0)
    }

    /// The first index from `first` on for which it is not so.
    fn partition(self, first: usize, is_before: impl Fn(usize) -> bool) -> usize {
        let (mut low, mut high) = (first, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if is_before(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// A block that is being filled.
#[derive(Debug)]
pub(crate) struct Builder {
    level: u16,
    first: u64,
    size: usize,
    /// Ends of the entries.
    ends: Vec<usize>,
    entries: Vec<u8>,
}

impl Builder {
    pub(crate) fn new(size: usize, level: u16) -> Self {
        Self {
            level,
            first: 0,
            size,
            ends: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// The most that key and value of one entry can have together.
    pub(crate) fn room(size: usize) -> usize {
        size - HEAD - PLACE - abi::BPFDB_TABLE_LEAF_ENTRY as usize
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    fn has_room(&self, bytes: usize) -> bool {
        HEAD + PLACE * (self.len() + 1) + self.entries.len() + bytes <= self.size
    }

    fn add(&mut self, parts: &[&[u8]]) -> bool {
        if !self.has_room(parts.iter().map(|part| part.len()).sum()) {
            return false;
        }
        for part in parts {
            self.entries.extend_from_slice(part);
        }
        self.ends.push(self.entries.len());
        true
    }

    /// Adds an entry to a leaf; false: there is no room.
    pub(crate) fn add_value(&mut self, key: &[u8], value: &[u8]) -> bool {
        let lengths = [key.len(), value.len()].map(|len| (len as u16).to_le_bytes());
        self.add(&[&lengths[0], &lengths[1], key, value])
    }

    /// Adds the next child; false: there is no room.
    pub(crate) fn add_child(&mut self, key: &[u8], child: u64) -> bool {
        if self.len() == 0 {
            self.first = child;
        }
        let key = if self.len() == 0 { &[] } else { key };
        self.add(&[&(key.len() as u16).to_le_bytes(), key])
    }

    /// The block, sealed. The builder is empty then.
    pub(crate) fn take(&mut self, seed: u64) -> Vec<u8> {
        let mut block = Vec::with_capacity(self.size);
        block.extend_from_slice(&[0; CHECKSUM]);
        block.extend_from_slice(&self.level.to_le_bytes());
        block.extend_from_slice(&(self.len() as u16).to_le_bytes());
        block.extend_from_slice(&[0; 4]);
        block.extend_from_slice(&self.first.to_le_bytes());
        let start = HEAD + PLACE * self.len();
        let mut at = start;
        for end in self.ends.drain(..) {
            block.extend_from_slice(&(at as u16).to_le_bytes());
            at = start + end;
        }
        block.append(&mut self.entries);
        block.resize(self.size, 0);
        seal(&mut block, seed);
        block
    }
}
