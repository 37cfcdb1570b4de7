//! A node of an index: some keys in their order, as the value of a record.
//!
//! ```text
//!  0  version (1): 1
//!  1  level (1): 0 is a leaf
//!  2  entries (2), little-endian as all numbers here
//!  4  bytes of the next node's fence (2), or NO_NEXT
//!  6  zero (2)
//!  8  fence of the next node
//!     entries, each: bytes (2), the key
//! ```
//!
//! A node is valid if its entries end where its bytes do, ascend, and lie between its own fence, which may be
//! the first of them, and that of the next node, which is greater. An inner node begins with its own fence.

use super::FORMAT;
use crate::{Status, abi};

const HEADER: usize = 8;
const NO_NEXT: u16 = u16::MAX;
/// Bytes before the key of an entry.
const ENTRY: usize = 2;
const BYTES: usize = abi::BPFDB_NODE_BYTES as usize;
const ENTRIES_MIN: usize = abi::BPFDB_NODE_ENTRIES_MIN as usize;

#[derive(Clone, Debug)]
pub(super) struct Node {
    bytes: Vec<u8>,
    /// Where each entry begins, and where the last one ends.
    places: Vec<usize>,
}

impl Node {
    pub(super) fn empty(level: u8) -> Self {
        let [low, high] = NO_NEXT.to_le_bytes();
        Self {
            bytes: vec![FORMAT, level, 0, 0, low, high, 0, 0],
            places: vec![HEADER],
        }
    }

    /// The node of `level` with the fence `low`.
    ///
    /// # Errors
    /// [`Status::Corrupt`]: it is none.
    pub(super) fn parse(bytes: Vec<u8>, level: u8, low: &[u8]) -> Result<Self, Status> {
        if bytes.len() < HEADER || bytes[..2] != [FORMAT, level] {
            return Err(Status::Corrupt);
        }
        let mut node = Self {
            bytes,
            places: Vec::new(),
        };
        node.find_places().ok_or(Status::Corrupt)?;
        if node.is_valid(low) {
            Ok(node)
        } else {
            Err(Status::Corrupt)
        }
    }

    fn find_places(&mut self) -> Option<()> {
        let count = usize::from(self.number(2));
        let mut at = HEADER + self.next_len();
        self.places.clear();
        self.places.reserve(count + 1);
        self.places.push(at);
        for _ in 0..count {
            let len = self.bytes.get(at..at + ENTRY)?;
            at += ENTRY + usize::from(u16::from_le_bytes([len[0], len[1]]));
            self.places.push(at);
        }
        (at == self.bytes.len()).then_some(())
    }

    fn is_valid(&self, low: &[u8]) -> bool {
        let ascends = (1..self.len()).all(|place| self.key(place - 1) < self.key(place));
        let first = !self.is_empty();
        let begins = !first || low <= self.key(0);
        let ends = self.next().is_none_or(|next| {
            let last = if first { self.key(self.len() - 1) } else { low };
            low < next && last < next
        });
        let fenced = self.level() == 0 || (first && self.key(0) == low);
        ascends && begins && ends && fenced
    }

    fn number(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    fn set_number(&mut self, at: usize, number: usize) {
        let number = u16::try_from(number).expect("a node is shorter");
        self.bytes[at..at + 2].copy_from_slice(&number.to_le_bytes());
    }

    fn next_len(&self) -> usize {
        match self.number(4) {
            NO_NEXT => 0,
            len => len.into(),
        }
    }

    pub(super) fn level(&self) -> u8 {
        self.bytes[1]
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn key(&self, place: usize) -> &[u8] {
        &self.bytes[self.places[place] + ENTRY..self.places[place + 1]]
    }

    /// Fence of the node to the right; `None`: it is the last of its level.
    pub(super) fn next(&self) -> Option<&[u8]> {
        let has_next = self.number(4) != NO_NEXT;
        has_next.then(|| &self.bytes[HEADER..HEADER + self.next_len()])
    }

    pub(super) fn set_next(&mut self, next: Option<&[u8]>) {
        let old = HEADER..HEADER + self.next_len();
        self.bytes
            .splice(old, next.unwrap_or_default().iter().copied());
        self.set_number(4, next.map_or(NO_NEXT.into(), <[u8]>::len));
        self.find_places().expect("the entries are what they were");
    }

    /// The place of a key; `Err`: where it would be.
    pub(super) fn find(&self, key: &[u8]) -> Result<usize, usize> {
        let after = self.before(|entry| entry <= key);
        match after.checked_sub(1) {
            Some(place) if self.key(place) == key => Ok(place),
            _ => Err(after),
        }
    }

    /// How many entries, which are the first ones, are so.
    pub(super) fn before(&self, is: impl Fn(&[u8]) -> bool) -> usize {
        let entries = &self.places[..self.len()];
        // The place of an entry says where its end is, too: it is the next one's.
        entries.partition_point(|&at| {
            let len = usize::from(self.number(at));
            is(&self.bytes[at + ENTRY..at + ENTRY + len])
        })
    }

    pub(super) fn insert(&mut self, place: usize, key: &[u8]) {
        let at = self.places[place];
        let len = u16::try_from(key.len()).expect("a key is shorter");
        let entry = len.to_le_bytes().into_iter().chain(key.iter().copied());
        self.bytes.splice(at..at, entry);
        self.set_number(2, self.len() + 1);
        self.find_places().expect("one entry more");
    }

    pub(super) fn remove(&mut self, place: usize) {
        self.bytes.drain(self.places[place]..self.places[place + 1]);
        self.set_number(2, self.len() - 1);
        self.find_places().expect("one entry less");
    }

    /// Divides a node that is too long and got its last entry at `place`: its next one, and that one's
    /// fence, which is as short as it can be. `None`: it may stay as it is.
    pub(super) fn split(&mut self, place: usize) -> Option<(Vec<u8>, Self)> {
        if self.bytes.len() <= BYTES || self.len() <= ENTRIES_MIN {
            return None;
        }
        let cut = self.cut(place);
        let fence = self.fence(cut);
        let mut right = Self::empty(self.level());
        right
            .bytes
            .extend_from_slice(&self.bytes[self.places[cut]..]);
        right.set_number(2, self.len() - cut);
        right.find_places().expect("the entries from there on");
        right.set_next(self.next());
        if right.level() > 0 {
            // An inner node begins with its fence: that is the whole separator.
            debug_assert_eq!(right.key(0), fence);
        }
        self.bytes.truncate(self.places[cut]);
        self.set_number(2, cut);
        self.find_places().expect("the entries before");
        self.set_next(Some(&fence));
        Some((fence, right))
    }

    /// Entries that stay. Where keys come in their order, nodes are left full.
    fn cut(&self, place: usize) -> usize {
        let last = self.len() - 1;
        if place == last && self.next().is_none() {
            return last;
        }
        let middle = self.places[0].midpoint(self.bytes.len());
        self.places
            .partition_point(|&at| at <= middle)
            .clamp(2, last)
            - 1
    }

    fn fence(&self, cut: usize) -> Vec<u8> {
        let (before, behind) = (self.key(cut - 1), self.key(cut));
        if self.level() > 0 {
            return behind.to_vec();
        }
        let common = before.iter().zip(behind).take_while(|(a, b)| a == b);
        behind[..=common.count()].to_vec()
    }
}
