//! A block: entries that follow each other, in the bytes that Redis 7.0 has for them in a node of its
//! tree. So a file of Redis takes blocks as they are, and an approximate XTRIM removes what it would
//! remove there.
//!
//! ```text
//! listpack: entries | deleted | fields | field … | 0 | entry | entry | …
//!
//! entry: flags | ms, seq minus those of the block | [fields] | [field] value … | elements before this
//! flags: 1 DELETED, 2 SAME_FIELDS: the fields are those of the block, and only values follow
//! ```
//!
//! A block's identifier is that of its first entry. A deleted entry stays until its block goes, which
//! is when no other entry is left in it.
//!
//! Invariants, which [`Block::read`] sees to
//!  1. Identifiers ascend strictly, from that of the block on.
//!  2. `entries` and `deleted` count the entries that are there and those that are DELETED.
//!  3. An entry has at least one field.

use super::id::Id;
use crate::listpack::{self, Element, Elements, Listpack};
use crate::run::Malformed;

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// Bytes that a block should not reach, and entries that it may have: Redis's default settings. An
/// entry that is longer has a block of its own.
pub const BYTES: usize = 4096;
pub const ENTRIES: u64 = 100;

/// A field and its value, as they are stored.
pub type Pair<'a> = (Element<'a>, Element<'a>);

/// An entry that was read.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    pub id: Id,
    pub is_deleted: bool,
    pub pairs: Vec<Pair<'a>>,
    /// Where its flags begin.
    at: usize,
    flags: i64,
}

/// A block that was read.
#[derive(Clone, Debug)]
pub struct Block<'a> {
    pub id: Id,
    /// Deleted ones are among them.
    pub entries: Vec<Entry<'a>>,
    counts: Counts,
}

/// What stands at the beginning of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Entries that are there.
    pub entries: u64,
    pub deleted: u64,
}

impl Counts {
    /// Those of a block of these bytes, whose entries are not looked at.
    ///
    /// # Errors
    /// It does not begin with two numbers of entries.
    pub fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        Self::take(&mut listpack::elements(bytes)?)
    }

    fn take(elements: &mut Elements<'_>) -> Result<Self, Malformed> {
        let mut count = || {
            let count = elements.integer()?;
            u64::try_from(count).map_err(|_| Malformed("a block with a negative number"))
        };
        Ok(Self {
            entries: count()?,
            deleted: count()?,
        })
    }

    fn all(self) -> u64 {
        self.entries.saturating_add(self.deleted)
    }
}

impl<'a> Block<'a> {
    /// Reads all entries of the block with this identifier.
    ///
    /// # Errors
    /// Bytes that are no block, by the invariants of this module.
    pub fn read(id: Id, bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut elements = listpack::elements(bytes)?;
        let counts = Counts::take(&mut elements)?;
        let fields = fields_of(&mut elements)?;
        let mut entries = Vec::new();
        let mut deleted = 0;
        let mut least = Some(id);
        while let Some(entry) = entry(&mut elements, id, &fields)? {
            if least.is_none_or(|least| entry.id < least) {
                return Err(Malformed("entries of a block that do not ascend"));
            }
            least = entry.id.next();
            deleted += u64::from(entry.is_deleted);
            entries.push(entry);
        }
        if counts.deleted != deleted || counts.all() != entries.len() as u64 || entries.is_empty() {
            return Err(Malformed("a block of another number of entries"));
        }
        Ok(Self {
            id,
            entries,
            counts,
        })
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Those that were not deleted.
    pub fn live(&self) -> impl DoubleEndedIterator<Item = &Entry<'a>> {
        self.entries.iter().filter(|entry| !entry.is_deleted)
    }

    /// The identifier of the last entry, be it a deleted one.
    pub fn last(&self) -> Id {
        self.entries.last().map_or(self.id, |entry| entry.id)
    }

    /// The bytes of this block, which are `bytes`, after the first of its entries that `is_chosen` were
    /// deleted; and how many these are.
    ///
    /// # Errors
    /// Bytes of another block.
    pub(super) fn delete_where(
        &self,
        bytes: Vec<u8>,
        is_chosen: impl FnMut(&&Entry<'a>) -> bool,
    ) -> Result<(Vec<u8>, u64), Malformed> {
        let mut listpack = Listpack::open(bytes)?;
        let mut deleted = 0;
        for entry in self.live().filter(is_chosen) {
            // As long as before: places of other entries stay.
            listpack.replace_integer(entry.at, entry.flags | DELETED)?;
            deleted += 1;
        }
        let counts = Counts {
            entries: self.counts.entries - deleted,
            deleted: self.counts.deleted + deleted,
        };
        put_counts(&mut listpack, self.counts, counts)?;
        Ok((listpack.finish(), deleted))
    }
}

fn put_counts(listpack: &mut Listpack, old: Counts, new: Counts) -> Result<(), Malformed> {
    // The second one first: the place of the first does not depend on it.
    let second = listpack::HEADER + listpack_len(old.entries);
    listpack.replace_integer(second, new.deleted as i64)?;
    listpack.replace_integer(listpack::HEADER, new.entries as i64)
}

/// Bytes of a number of entries as an element.
fn listpack_len(count: u64) -> usize {
    let mut one = Listpack::new();
    one.push_integer(count as i64);
    one.size() - Listpack::new().size()
}

fn fields_of<'a>(elements: &mut Elements<'a>) -> Result<Vec<Element<'a>>, Malformed> {
    let count = elements.integer()?;
    let fields = (0..count).map(|_| elements.element());
    let fields: Vec<_> = fields.collect::<Result<_, _>>()?;
    match elements.integer()? {
        0 => Ok(fields),
        _ => Err(Malformed("fields of a block that do not end")),
    }
}

/// The next entry; `None`: there is none.
fn entry<'a>(
    elements: &mut Elements<'a>,
    block: Id,
    fields: &[Element<'a>],
) -> Result<Option<Entry<'a>>, Malformed> {
    let at = elements.place();
    let Some(flags) = elements.next() else {
        return Ok(None);
    };
    let flags = flags?.integer();
    let known = |flags: &i64| flags & !(DELETED | SAME_FIELDS) == 0;
    let flags = flags
        .filter(known)
        .ok_or(Malformed("an entry of unknown flags"))?;
    let id = Id {
        ms: block.ms.wrapping_add(elements.integer()? as u64),
        seq: block.seq.wrapping_add(elements.integer()? as u64),
    };
    let mut pairs = Vec::new();
    let before = if flags & SAME_FIELDS != 0 {
        for &field in fields {
            pairs.push((field, elements.element()?));
        }
        3 + pairs.len()
    } else {
        for _ in 0..elements.integer()? {
            pairs.push((elements.element()?, elements.element()?));
        }
        4 + 2 * pairs.len()
    };
    if elements.integer()? != before as i64 || pairs.is_empty() {
        return Err(Malformed("an entry of another length than it says"));
    }
    Ok(Some(Entry {
        id,
        is_deleted: flags & DELETED != 0,
        pairs,
        at,
        flags,
    }))
}

/// Fields and values of a new entry: one behind the other.
pub type Words<'a> = &'a [Vec<u8>];

/// Has a block of these bytes room for an entry of so many bytes?
pub(super) fn has_room(bytes: &[u8], len: usize) -> Result<bool, Malformed> {
    Ok(bytes.len() + len < BYTES && Counts::read(bytes)?.all() < ENTRIES)
}

/// A block with this entry.
pub(super) fn begin(words: Words<'_>) -> Vec<u8> {
    let mut listpack = Listpack::new();
    listpack.push_integer(1);
    listpack.push_integer(0);
    listpack.push_integer((words.len() / 2) as i64);
    words
        .chunks_exact(2)
        .for_each(|pair| listpack.push(&pair[0]));
    listpack.push_integer(0);
    push_entry(&mut listpack, (0, 0), words, true);
    listpack.finish()
}

/// The block with this entry behind its others.
pub(super) fn append(
    block: Id,
    bytes: Vec<u8>,
    id: Id,
    words: Words<'_>,
) -> Result<Vec<u8>, Malformed> {
    let mut elements = listpack::elements(&bytes)?;
    let counts = Counts::take(&mut elements)?;
    let fields = fields_of(&mut elements)?;
    let new = words.chunks_exact(2).map(|pair| &*pair[0]);
    let is_same = fields.iter().map(|field| field.text()).eq(new);
    let mut listpack = Listpack::open(bytes)?;
    let minus = |one: u64, other: u64| one.wrapping_sub(other) as i64;
    let distance = (minus(id.ms, block.ms), minus(id.seq, block.seq));
    push_entry(&mut listpack, distance, words, is_same);
    let more = Counts {
        entries: counts.entries + 1,
        ..counts
    };
    put_counts(&mut listpack, counts, more)?;
    Ok(listpack.finish())
}

fn push_entry(listpack: &mut Listpack, (ms, seq): (i64, i64), words: Words<'_>, is_same: bool) {
    let fields = words.len() as i64 / 2;
    listpack.push_integer(if is_same { SAME_FIELDS } else { 0 });
    listpack.push_integer(ms);
    listpack.push_integer(seq);
    if is_same {
        words
            .chunks_exact(2)
            .for_each(|pair| listpack.push(&pair[1]));
        return listpack.push_integer(fields + 3);
    }
    listpack.push_integer(fields);
    words.iter().for_each(|word| listpack.push(word));
    listpack.push_integer(2 * fields + 4);
}
