//! Streams: entries with ascending identifiers, and groups of consumers that read them.
//!
//! ```text
//! id.rs       identifiers
//! block.rs    some entries, in the bytes of a node of Redis
//! blocks.rs   where blocks are kept: trait Blocks
//! groups.rs   groups, consumers, pending entries
//! trim.rs     which entries XTRIM removes
//! value.rs    the bytes of a whole stream
//! words.rs    a stream as words that people read
//! ```
//!
//! A stream without entries is a value too: its last identifier and its groups stay. The blocks of a long one, and
//! its groups, lie in pages ([`crate::big::stream`]).
//!
//! Invariants
//!  1. `length` counts the entries of all blocks that were not deleted; `first` is the first of them.
//!  2. No entry is behind `last`, be it a deleted one that is still in its block, and each that is added is.
//!  3. A block whose last entry goes by XDEL goes with it; one may lose its last entry to XTRIM and
//!     stay.

pub mod block;
pub mod blocks;
pub mod groups;
pub mod id;
mod trim;
pub mod value;
pub mod words;

use std::ops::RangeInclusive;

use self::block::{Block, Counts, Entry};
use self::blocks::{Blocks, Stored};
use self::groups::Groups;
pub use self::id::Id;
pub use self::trim::{Keep, Trim};
use crate::run::Malformed;

/// What is known of all entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Entries.
    pub length: u64,
    /// The identifier that was given last.
    pub last: Id,
    /// That of the first entry; 0-0: there is none.
    pub first: Id,
    /// The greatest one that XDEL has removed; 0-0: none.
    pub max_deleted: Id,
    /// Entries that were ever added.
    pub added: u64,
}

impl State {
    /// Was an entry from this one on removed by XDEL, so that those behind it cannot be counted?
    pub fn has_gap_from(&self, id: Id) -> bool {
        self.length > 0 && self.max_deleted != Id::MIN && id <= self.max_deleted
    }

    /// How many entries were ever added up to this one; `None`: not known.
    pub fn count_up_to(&self, id: Id) -> Option<u64> {
        if self.added == 0 {
            return Some(0);
        }
        if self.length == 0 && id <= self.last {
            return Some(self.added);
        }
        if id >= self.last {
            return (id == self.last).then_some(self.added);
        }
        if self.max_deleted != Id::MIN && self.max_deleted >= self.first {
            return None;
        }
        let before = self.added.wrapping_sub(self.length);
        match id.cmp(&self.first) {
            std::cmp::Ordering::Less => Some(before),
            std::cmp::Ordering::Equal => Some(before.wrapping_add(1)),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// How many entries a group has yet to read; `None`: not known. Negative: its counter was set
    /// too high.
    pub fn lag(&self, group: &groups::Group) -> Option<i64> {
        if self.added == 0 {
            return Some(0);
        }
        let read = match group.read {
            Some(read) if !self.has_gap_from(group.last) => read,
            _ => self.count_up_to(group.last)?,
        };
        Some(self.added.wrapping_sub(read) as i64)
    }
}

/// Groups: as bytes until they are looked at.
#[derive(Clone, Debug)]
pub enum KeptGroups<'a> {
    Bytes(&'a [u8]),
    /// Where the blocks are ([`Blocks::stored_groups`]).
    Stored,
    Read(Groups),
}

/// A stream whose blocks are kept somewhere.
#[derive(Clone, Debug)]
pub struct Stream<'a, B> {
    pub state: State,
    pub groups: KeptGroups<'a>,
    pub blocks: B,
}

impl<B: Default> Default for Stream<'_, B> {
    fn default() -> Self {
        Self {
            state: State::default(),
            groups: KeptGroups::Bytes(&[]),
            blocks: B::default(),
        }
    }
}

impl<'a, B> Stream<'a, B> {
    /// The same stream with other blocks, which are made of its own.
    pub fn map_blocks<C>(self, blocks: impl FnOnce(B) -> C) -> Stream<'a, C> {
        Stream {
            state: self.state,
            groups: self.groups,
            blocks: blocks(self.blocks),
        }
    }
}

impl<B: Blocks> Stream<'_, B> {
    /// # Errors
    /// Bytes that are no groups, and those of the blocks.
    pub fn groups(&mut self) -> Result<&mut Groups, B::Error> {
        let read = match &self.groups {
            KeptGroups::Bytes(bytes) => Some(value::read_groups(bytes)?),
            KeptGroups::Stored => Some(value::read_groups(&self.blocks.stored_groups()?)?),
            KeptGroups::Read(_) => None,
        };
        if let Some(groups) = read {
            self.groups = KeptGroups::Read(groups);
        }
        match &mut self.groups {
            KeptGroups::Read(groups) => Ok(groups),
            KeptGroups::Bytes(_) | KeptGroups::Stored => {
                Err(Malformed("groups that were not read").into())
            }
        }
    }

    /// Adds an entry behind all others. Its words are fields and values, one behind the other.
    ///
    /// # Errors
    /// Those of the blocks.
    ///
    /// # Panics
    /// In tests, an identifier that is not behind the last one: callers compare them.
    pub fn append<W: AsRef<[u8]>>(&mut self, id: Id, words: &[W]) -> Result<(), B::Error> {
        debug_assert!(id > self.state.last);
        let len = words.iter().map(|word| word.as_ref().len()).sum();
        match self.block_with_room(len)? {
            Some((block, bytes)) => {
                let bytes = block::append(block, bytes, id, words)?;
                self.blocks.put(block, bytes)?;
            }
            None => self.blocks.put(id, block::begin(words))?,
        }
        let state = &mut self.state;
        if state.length == 0 {
            state.first = id;
        }
        state.length += 1;
        // Numbers of entries are those of 63 bits.
        state.added = state.added.saturating_add(1).min(i64::MAX as u64);
        state.last = id;
        Ok(())
    }

    /// The last block, if it has room for an entry of so many bytes.
    fn block_with_room(&mut self, len: usize) -> Result<Option<(Id, Vec<u8>)>, B::Error> {
        let Some((id, bytes)) = self.blocks.last_up_to(Id::MAX)? else {
            return Ok(None);
        };
        let has_room = block::has_room(&bytes, len)?;
        Ok(has_room.then(|| (id, bytes.into_owned())))
    }

    /// Removes an entry; false: it is not there.
    ///
    /// # Errors
    /// Those of the blocks.
    pub fn delete(&mut self, id: Id) -> Result<bool, B::Error> {
        let Some((block_id, bytes)) = self.blocks.last_up_to(id)? else {
            return Ok(false);
        };
        let bytes = bytes.into_owned();
        let block = Block::read(block_id, &bytes)?;
        let (new, deleted) = block.delete_where(bytes.clone(), |entry| entry.id == id)?;
        if deleted == 0 {
            return Ok(false);
        }
        if Counts::read(&new)?.entries == 0 {
            self.blocks.remove(block_id)?;
        } else {
            self.blocks.put(block_id, new)?;
        }
        self.state.length = self.state.length.saturating_sub(1);
        self.state.max_deleted = self.state.max_deleted.max(id);
        if self.state.length == 0 || id == self.state.first {
            self.state.first = edge(&mut self.blocks, false)?.unwrap_or_default();
        }
        Ok(true)
    }

    /// Sets the identifier that was given last, which may be a smaller one: no entry that is there is behind it.
    ///
    /// # Errors
    /// Those of the blocks.
    pub fn set_last(&mut self, last: Id) -> Result<(), B::Error> {
        // What is added is to be behind all entries of its block, deleted ones included.
        if last < self.state.last {
            while self.cut_last_block(last)? {}
        }
        self.state.last = last;
        Ok(())
    }

    /// Removes from the last block what is behind an identifier, all of which was deleted. True: the block is gone, so
    /// the one before it is to be looked at.
    fn cut_last_block(&mut self, last: Id) -> Result<bool, B::Error> {
        let Some((id, bytes)) = self.blocks.last_up_to(Id::MAX)? else {
            return Ok(false);
        };
        let bytes = bytes.into_owned();
        let block = Block::read(id, &bytes)?;
        if block.last() <= last {
            return Ok(false);
        }
        let is_empty = block.counts().entries == 0;
        if is_empty {
            self.blocks.remove(id)?;
        } else {
            let cut = block.without_behind(bytes.clone(), last)?;
            self.blocks.put(id, cut)?;
        }
        Ok(is_empty)
    }

    /// Shows the entries between two identifiers, the last ones first if `is_reversed`, as long as
    /// `show` says true.
    ///
    /// # Errors
    /// Those of the blocks, and of `show`.
    pub fn range(
        &mut self,
        ids: RangeInclusive<Id>,
        is_reversed: bool,
        show: impl FnMut(&Entry<'_>) -> Result<bool, B::Error>,
    ) -> Result<(), B::Error> {
        range(&mut self.blocks, ids, is_reversed, show)
    }

    /// Is this entry there?
    ///
    /// # Errors
    /// Those of the blocks.
    pub fn has(&mut self, id: Id) -> Result<bool, B::Error> {
        let mut is_there = false;
        self.range(id..=id, false, |_| {
            is_there = true;
            Ok(false)
        })?;
        Ok(is_there)
    }

    /// The first entry; `None`: there is none.
    ///
    /// # Errors
    /// Those of the blocks.
    pub fn first_entry(&mut self) -> Result<Option<Id>, B::Error> {
        edge(&mut self.blocks, false)
    }

    /// The last entry; `None`: there is none.
    ///
    /// # Errors
    /// Those of the blocks.
    pub fn last_entry(&mut self) -> Result<Option<Id>, B::Error> {
        edge(&mut self.blocks, true)
    }
}

/// The first or the last entry.
fn edge<B: Blocks>(blocks: &mut B, is_last: bool) -> Result<Option<Id>, B::Error> {
    let mut found = None;
    range(blocks, Id::MIN..=Id::MAX, is_last, |entry| {
        found = Some(entry.id);
        Ok(false)
    })?;
    Ok(found)
}

fn range<B: Blocks>(
    blocks: &mut B,
    ids: RangeInclusive<Id>,
    is_reversed: bool,
    mut show: impl FnMut(&Entry<'_>) -> Result<bool, B::Error>,
) -> Result<(), B::Error> {
    let mut next = first_of_range(blocks, &ids, is_reversed)?;
    while let Some(id) = next {
        // The end of the range is behind this block, or in it.
        let Some((id, bytes)) = (if is_reversed {
            blocks.last_up_to(id)?
        } else {
            blocks.first_from(id)?
        }) else {
            return Ok(());
        };
        let is_outside = if is_reversed { false } else { id > *ids.end() };
        if is_outside || !show_block(id, &bytes, &ids, is_reversed, &mut show)? {
            return Ok(());
        }
        next = match is_reversed {
            true if id <= *ids.start() => None,
            true => id.previous(),
            false => id.next(),
        };
    }
    Ok(())
}

/// From where on the first block of a range is looked for.
fn first_of_range<B: Blocks>(
    blocks: &mut B,
    ids: &RangeInclusive<Id>,
    is_reversed: bool,
) -> Result<Option<Id>, B::Error> {
    if ids.is_empty() {
        return Ok(None);
    }
    if is_reversed {
        return Ok(Some(*ids.end()));
    }
    let before: Option<Stored<'_>> = blocks.last_up_to(*ids.start())?;
    Ok(Some(before.map_or(*ids.start(), |(id, _)| id)))
}

/// Shows the entries of a block in a range; false: that is enough.
fn show_block<E: From<Malformed>>(
    id: Id,
    bytes: &[u8],
    ids: &RangeInclusive<Id>,
    is_reversed: bool,
    show: &mut impl FnMut(&Entry<'_>) -> Result<bool, E>,
) -> Result<bool, E> {
    let block = Block::read(id, bytes)?;
    let is_in_range = |entry: &Entry<'_>| ids.contains(&entry.id);
    if is_reversed {
        show_each(block.live_reversed().filter(is_in_range), show)
    } else {
        show_each(block.live().filter(is_in_range), show)
    }
}

/// False: that is enough.
fn show_each<'a, E>(
    entries: impl Iterator<Item = Entry<'a>>,
    show: &mut impl FnMut(&Entry<'_>) -> Result<bool, E>,
) -> Result<bool, E> {
    for entry in entries {
        if !show(&entry)? {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
pub(crate) mod tests;
