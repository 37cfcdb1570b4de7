//! One block of a table, byte by byte as in `docs/formats/tables.md`.
//!
//! Invariants of a block that a [`Builder`] has made. If its checksum is right, it is one:
//!  1. Every entry lies within the block, behind the places.
//!  2. Keys ascend. That of the first child is empty, and is not compared.
//!
//! Of a block that was changed and given a right checksum the answers mean nothing; still every access is
//! within it.

use std::cmp::Ordering;

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

/// A block of the tree that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a>(&'a [u8]);

impl<'a> Block<'a> {
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn check(bytes: &'a [u8], seed: u64, level: u32) -> Result<Self, &'static str> {
        if !is_sealed(bytes, seed) {
            return Err("the checksum is not that of the block");
        }
        let block = Self(bytes);
        if number::<2>(bytes, 8) != Some(u64::from(level)) {
            return Err("a block of another level");
        }
        if HEAD + PLACE * block.len() > bytes.len() || (level > 0 && block.len() == 0) {
            return Err("so many entries as no block has");
        }
        Ok(block)
    }

    /// A block that was checked before.
    pub(crate) fn known(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// How many entries it has.
    pub(crate) fn len(self) -> usize {
        number::<2>(self.0, 10).map_or(0, |count| count as usize)
    }

    fn is_leaf(self) -> bool {
        number::<2>(self.0, 8) == Some(0)
    }

    /// Key and value; `None`: it is not within the block.
    fn entry(self, index: usize) -> Option<(&'a [u8], &'a [u8])> {
        let places_end = HEAD + PLACE * self.len();
        let at = number::<2>(self.0, HEAD + PLACE * index)? as usize;
        if at < places_end {
            return None;
        }
        let key_len = number::<2>(self.0, at)? as usize;
        if !self.is_leaf() {
            let key = self.0.get(at + abi::BPFDB_TABLE_INNER_ENTRY as usize..)?;
            return Some((key.get(..key_len)?, &[]));
        }
        let value_len = number::<2>(self.0, at + 2)? as usize;
        let entry = self.0.get(at + abi::BPFDB_TABLE_LEAF_ENTRY as usize..)?;
        let (key, rest) = entry.split_at_checked(key_len)?;
        Some((key, rest.get(..value_len)?))
    }

    /// Both empty if the entry is not within the block.
    pub(crate) fn key_value(self, index: usize) -> (&'a [u8], &'a [u8]) {
        self.entry(index).unwrap_or_default()
    }

    pub(crate) fn key(self, index: usize) -> &'a [u8] {
        self.key_value(index).0
    }

    /// How many entries of a leaf are before the key.
    pub(crate) fn before(self, key: &[u8]) -> usize {
        self.partition(0, |other| other < key)
    }

    /// The number of the block of the child that may have the key.
    pub(crate) fn child(self, key: &[u8]) -> u64 {
        let behind = self.partition(1, |other| other.cmp(key) != Ordering::Greater);
        // Of a forged block it is no block of the table, which is found when it is read.
        self.first().wrapping_add(behind as u64).wrapping_sub(1)
    }

    /// The number of the block of the first child.
    pub(crate) fn first(self) -> u64 {
        number::<8>(self.0, 16).unwrap_or(0)
    }

    /// The first index from `first` on for which it is not so.
    fn partition(self, first: usize, is_before: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (first, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if is_before(self.key(middle)) {
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
