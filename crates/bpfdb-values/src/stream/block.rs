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

/// An entry that was read. Its pairs stay in the bytes of the block: a block of few bytes may have very
/// many.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    pub id: Id,
    pub is_deleted: bool,
    /// Fields that it has.
    fields: usize,
    /// Its values and, unless it has the fields of the block, its fields before each.
    words: Elements<'a>,
    /// The fields of the block, if they are its own.
    shared: Option<Elements<'a>>,
    /// Where its flags begin.
    at: usize,
    flags: i64,
}

impl<'a> Entry<'a> {
    /// How many pairs it has; at least one.
    pub fn len(&self) -> usize {
        self.fields
    }

    /// Never: an entry has a pair.
    pub fn is_empty(&self) -> bool {
        self.fields == 0
    }

    /// Its fields and values.
    pub fn pairs(&self) -> impl Iterator<Item = Pair<'a>> + use<'a> {
        let (mut words, mut shared) = (self.words.clone(), self.shared.clone());
        // Each was read once without an error.
        (0..self.fields).map_while(move |_| {
            let field = match &mut shared {
                Some(fields) => fields.element(),
                None => words.element(),
            };
            Some((field.ok()?, words.element().ok()?))
        })
    }
}

/// A block that was read. Entries are found in its bytes each time.
#[derive(Clone, Debug)]
pub struct Block<'a> {
    pub id: Id,
    counts: Counts,
    entries: Entries<'a>,
    last: Id,
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

    /// Writes these numbers in place of those that are there.
    fn put(self, listpack: &mut Listpack) -> Result<(), Malformed> {
        // The second one first: so the place of the first stays.
        let second = listpack.behind(listpack::HEADER)?;
        listpack.replace_integer(second, self.deleted as i64)?;
        listpack.replace_integer(listpack::HEADER, self.entries as i64)
    }

    fn all(self) -> u64 {
        self.entries.saturating_add(self.deleted)
    }
}

impl<'a> Block<'a> {
    /// Looks at all entries of the block with this identifier.
    ///
    /// # Errors
    /// Bytes that are no block, by the invariants of this module.
    pub fn read(id: Id, bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut elements = listpack::elements(bytes)?;
        let counts = Counts::take(&mut elements)?;
        let entries = Entries {
            block: id,
            fields: Fields::take(&mut elements)?,
            rest: elements,
        };
        let (mut all, mut deleted, mut last) = (0, 0, None);
        for entry in entries.clone() {
            let entry = entry?;
            let ascends = last.map_or(entry.id >= id, |last| entry.id > last);
            if !ascends {
                return Err(Malformed("entries of a block that do not ascend"));
            }
            last = Some(entry.id);
            all += 1;
            deleted += u64::from(entry.is_deleted);
        }
        match last {
            Some(last) if counts.deleted == deleted && counts.all() == all => Ok(Self {
                id,
                counts,
                entries,
                last,
            }),
            _ => Err(Malformed("a block of another number of entries")),
        }
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Those that were not deleted.
    pub fn live(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        // All were read once without an error.
        let entries = self.entries.clone().map_while(Result::ok);
        entries.filter(|entry| !entry.is_deleted)
    }

    /// The same, the last one first.
    pub fn live_reversed(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let entries = self.entries.clone();
        let places: Vec<u32> = entries.places().collect();
        let read = move |place: u32| {
            let entry = entries.starting_at(place).next()?.ok();
            entry.filter(|entry| !entry.is_deleted)
        };
        places.into_iter().rev().filter_map(read)
    }

    /// The identifier of the last entry, be it a deleted one.
    pub fn last(&self) -> Id {
        self.last
    }

    /// The bytes of this block, which are `bytes`, after the first of its entries that `is_chosen` were
    /// deleted; and how many these are.
    ///
    /// # Errors
    /// Bytes of another block.
    pub(super) fn delete_where(
        &self,
        bytes: Vec<u8>,
        is_chosen: impl FnMut(&Entry<'a>) -> bool,
    ) -> Result<(Vec<u8>, u64), Malformed> {
        let mut listpack = Listpack::open(bytes)?;
        let mut deleted = 0;
        for entry in self.live().filter(is_chosen) {
            // As long as before ([`Entries::entry`]): places of other entries stay.
            listpack.replace_integer(entry.at, entry.flags | DELETED)?;
            deleted += 1;
        }
        let counts = Counts {
            entries: self.counts.entries - deleted,
            deleted: self.counts.deleted + deleted,
        };
        counts.put(&mut listpack)?;
        Ok((listpack.finish(), deleted))
    }

    /// The bytes of this block, which are `bytes`, without the entries behind `last`. All of these were deleted, and
    /// an entry that was not is left.
    ///
    /// # Errors
    /// Bytes of another block.
    pub(super) fn without_behind(&self, bytes: Vec<u8>, last: Id) -> Result<Vec<u8>, Malformed> {
        // All were read once without an error.
        let entries = self.entries.clone().map_while(Result::ok);
        let mut behind = entries.skip_while(|entry| entry.id <= last);
        let Some(first) = behind.next() else {
            return Ok(bytes);
        };
        let gone = 1 + behind.count() as u64;
        let mut listpack = Listpack::open(bytes)?;
        listpack.truncate(first.at)?;
        let counts = Counts {
            deleted: self.counts.deleted.saturating_sub(gone),
            ..self.counts
        };
        counts.put(&mut listpack)?;
        Ok(listpack.finish())
    }
}

/// The fields of a block.
#[derive(Clone, Debug)]
struct Fields<'a> {
    count: usize,
    first: Elements<'a>,
}

impl<'a> Fields<'a> {
    fn take(elements: &mut Elements<'a>) -> Result<Self, Malformed> {
        let count = count_of(elements)?;
        let first = elements.clone();
        elements.skip_elements(count)?;
        match elements.integer()? {
            0 => Ok(Self { count, first }),
            _ => Err(Malformed("fields of a block that do not end")),
        }
    }

    fn texts(&self) -> impl Iterator<Item = Element<'a>> + use<'a> {
        let fields = self.first.clone().take(self.count);
        fields.map_while(Result::ok)
    }
}

/// A number of elements that follow.
fn count_of(elements: &mut Elements<'_>) -> Result<usize, Malformed> {
    let count = usize::try_from(elements.integer()?);
    count.map_err(|_| Malformed("a negative number of fields"))
}

/// Bytes of the flags of an entry: an integer below 128, and the byte behind it.
const FLAGS: usize = 2;

/// The entries of a block from one on. Ends after the first error.
#[derive(Clone, Debug)]
struct Entries<'a> {
    block: Id,
    fields: Fields<'a>,
    rest: Elements<'a>,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.rest.place();
        let flags = self.rest.next()?;
        Some(flags.and_then(|flags| self.entry(at, flags)))
    }
}

impl<'a> Entries<'a> {
    fn entry(&mut self, at: usize, flags: Element<'a>) -> Result<Entry<'a>, Malformed> {
        let rest = &mut self.rest;
        let known = |flags: &i64| flags & !(DELETED | SAME_FIELDS) == 0;
        let flags = flags.integer().filter(known);
        // A longer form of the same number would be no flags that can be replaced where they are.
        let flags = flags
            .filter(|_| rest.place() - at == FLAGS)
            .ok_or(Malformed("an entry of unknown flags"))?;
        let id = Id {
            ms: self.block.ms.wrapping_add(rest.integer()? as u64),
            seq: self.block.seq.wrapping_add(rest.integer()? as u64),
        };
        let is_same = flags & SAME_FIELDS != 0;
        let (fields, around) = if is_same {
            (self.fields.count, 3)
        } else {
            (count_of(rest)?, 4)
        };
        let count = if is_same {
            Some(fields)
        } else {
            fields.checked_mul(2)
        };
        let count = count.ok_or(Malformed("an entry of more fields than can be"))?;
        let words = rest.clone();
        rest.skip_elements(count)?;
        if rest.integer()? != (around + count) as i64 || fields == 0 {
            return Err(Malformed("an entry of another length than it says"));
        }
        Ok(Entry {
            id,
            is_deleted: flags & DELETED != 0,
            fields,
            words,
            shared: is_same.then(|| self.fields.first.clone()),
            at,
            flags,
        })
    }

    /// Where each entry begins: four bytes for each, since a block of few bytes may have very many.
    fn places(&self) -> impl Iterator<Item = u32> + use<'a> {
        let mut entries = self.clone();
        std::iter::from_fn(move || {
            let place = entries.rest.place() as u32;
            entries.next()?.ok().map(|_| place)
        })
    }

    /// From the entry on that begins there.
    fn starting_at(&self, place: u32) -> Self {
        Self {
            rest: self.rest.starting_at(place as usize),
            ..self.clone()
        }
    }
}

/// Has a block of these bytes room for an entry of so many bytes?
pub(super) fn has_room(bytes: &[u8], len: usize) -> Result<bool, Malformed> {
    Ok(bytes.len() + len < BYTES && Counts::read(bytes)?.all() < ENTRIES)
}

/// A block with this entry. Its words are fields and values, one behind the other.
pub(super) fn begin<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut listpack = Listpack::new();
    listpack.push_integer(1);
    listpack.push_integer(0);
    listpack.push_integer((words.len() / 2) as i64);
    words
        .chunks_exact(2)
        .for_each(|pair| listpack.push(pair[0].as_ref()));
    listpack.push_integer(0);
    push_entry(&mut listpack, (0, 0), words, true);
    listpack.finish()
}

/// The block with this entry behind its others.
pub(super) fn append<W: AsRef<[u8]>>(
    block: Id,
    bytes: Vec<u8>,
    id: Id,
    words: &[W],
) -> Result<Vec<u8>, Malformed> {
    let mut elements = listpack::elements(&bytes)?;
    let counts = Counts::take(&mut elements)?;
    let fields = Fields::take(&mut elements)?;
    let new = words.chunks_exact(2).map(|pair| pair[0].as_ref());
    let is_same = fields.texts().map(Element::text).eq(new);
    let mut listpack = Listpack::open(bytes)?;
    let minus = |one: u64, other: u64| one.wrapping_sub(other) as i64;
    let distance = (minus(id.ms, block.ms), minus(id.seq, block.seq));
    push_entry(&mut listpack, distance, words, is_same);
    let more = Counts {
        entries: counts.entries + 1,
        ..counts
    };
    more.put(&mut listpack)?;
    Ok(listpack.finish())
}

fn push_entry<W: AsRef<[u8]>>(
    listpack: &mut Listpack,
    (ms, seq): (i64, i64),
    words: &[W],
    is_same: bool,
) {
    let fields = words.len() as i64 / 2;
    listpack.push_integer(if is_same { SAME_FIELDS } else { 0 });
    listpack.push_integer(ms);
    listpack.push_integer(seq);
    if is_same {
        words
            .chunks_exact(2)
            .for_each(|pair| listpack.push(pair[1].as_ref()));
        return listpack.push_integer(fields + 3);
    }
    listpack.push_integer(fields);
    words.iter().for_each(|word| listpack.push(word.as_ref()));
    listpack.push_integer(2 * fields + 4);
}
