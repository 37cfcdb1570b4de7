//! Large streams: blocks are the elements of a tree, by their identifiers, and groups have a page of their own.
//!
//! ```text
//!  value of the key                  pages
//!  ┌──────┬────────────────────┐     root ─► inner ─► leaf: identifier, bytes of the block
//!  │ head │ what is known of   │     groups: as in a short stream
//!  │      │ entries and groups │
//!  └──────┴────────────────────┘
//! ```
//!
//! XADD writes the head and the last leaf. Whoever changes a group writes the bytes of all groups.

use std::borrow::Cow;

use super::children::{Aim, BAD_CHILD};
use super::head::{Head, StreamHead};
use super::page::Pages;
use super::place::Place;
use super::table::EMPTY;
use super::{Big, Shape};
use crate::run::{self, Malformed, Run};
use crate::stream::blocks::{Blocks, Inline, Stored};
use crate::stream::{Id, KeptGroups, Stream, value};

const NO_STREAM: Malformed = Malformed("the head of a large stream has no state");
const NO_ID: Malformed = Malformed("a block of a large stream has no identifier");

/// Blocks in pages.
#[derive(Debug)]
pub struct Paged<P>(Big<P>);

/// Writes the pages of a stream with these bytes: its head. There are no pages of this identity.
///
/// # Errors
/// Bytes that are no stream, and those of the pages.
pub fn build<P: Pages>(bytes: &[u8], identity: u64, pages: P) -> Result<Head, P::Error> {
    let stream = value::read(bytes)?;
    let groups = match stream.groups {
        KeptGroups::Bytes(groups) => groups,
        _ => &[],
    };
    let head = StreamHead {
        state: stream.state,
        groups_len: run::number(groups.len()),
    };
    let mut big = Big::open(Shape::Stream, Head::of_stream(identity, head), pages);
    if !groups.is_empty() {
        big.cache.put(Place::GROUPS, groups.to_vec());
    }
    let ids = stream.blocks.iter().map(|(id, _)| id.to_bytes());
    let ids: Vec<[u8; 16]> = ids.collect();
    let blocks = stream.blocks.iter().zip(&ids);
    let blocks: Vec<(&[u8], &[u8])> = blocks.map(|((_, block), id)| (&id[..], block)).collect();
    match blocks.is_empty() {
        true => big.cache.put(Place::ROOT, EMPTY.to_vec()),
        false => big.plant(&blocks)?,
    }
    for (id, block) in blocks {
        big.count((1, block.len()), (0, 0));
        big.note(id, block);
    }
    big.finish()
}

impl<P: Pages> Stream<'_, Paged<P>> {
    /// The stream that is in these pages.
    ///
    /// # Errors
    /// Their head is that of a collection.
    pub fn open(big: Big<P>) -> Result<Self, Malformed> {
        let stream = big.head.stream.ok_or(NO_STREAM)?;
        Ok(Self {
            state: stream.state,
            groups: KeptGroups::Stored,
            blocks: Paged(big),
        })
    }

    /// The pages, whose head has the state by now, and the groups theirs.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn settle(self) -> Result<Big<P>, P::Error> {
        let mut big = self.blocks.0;
        let head = big.head.stream.as_mut().ok_or(NO_STREAM)?;
        head.state = self.state;
        let KeptGroups::Read(groups) = &self.groups else {
            return Ok(big);
        };
        let mut bytes = Vec::with_capacity(head.groups_len as usize);
        value::put_groups(&mut bytes, groups);
        let had_page = head.groups_len > 0;
        head.groups_len = run::number(bytes.len());
        if !bytes.is_empty() {
            if !had_page || *big.cache.page(Place::GROUPS)? != bytes[..] {
                big.cache.put(Place::GROUPS, bytes);
            }
        } else if had_page {
            big.cache.remove(Place::GROUPS);
        }
        Ok(big)
    }
}

impl<P: Pages> Big<P> {
    /// The bytes of a short stream whose blocks are the entries of this run.
    pub(super) fn whole_stream(&mut self, run: &[u8]) -> Result<Vec<u8>, P::Error> {
        let head = self.head.stream.ok_or(NO_STREAM)?;
        let groups = match head.groups_len {
            0 => Vec::new(),
            _ => self.cache.passing(Place::GROUPS)?.to_vec(),
        };
        let mut blocks = Inline::default();
        for entry in Run::parse(run)?.iter() {
            let (id, block) = entry?;
            blocks.push(id_of(id)?, Cow::Borrowed(block))?;
        }
        Ok(value::write(&Stream {
            state: head.state,
            groups: KeptGroups::Bytes(&groups),
            blocks,
        }))
    }
}

fn id_of(key: &[u8]) -> Result<Id, Malformed> {
    key.try_into().map(Id::from_bytes).map_err(|_| NO_ID)
}

/// Entries of a leaf that are before a block, or are the block if `with_it`.
fn before(leaf: &Run<'_>, id: &[u8], with_it: bool) -> Result<usize, Malformed> {
    let mut count = 0;
    for entry in leaf.iter() {
        let (key, _) = entry?;
        if key > id || (key == id && !with_it) {
            break;
        }
        count += 1;
    }
    Ok(count)
}

impl<P: Pages> Paged<P> {
    /// How many blocks are before the one with this identifier; `with_it`: it counts, too.
    fn rank(&mut self, id: Id, with_it: bool) -> Result<u64, P::Error> {
        let id = id.to_bytes();
        let Some(path) = self.0.path(Aim::Order(&id))? else {
            return Ok(0);
        };
        Ok(path.before + before(&self.0.leaf(&path)?, &id, with_it)? as u64)
    }

    /// The block with this number; `None`: there are not so many.
    fn at(&mut self, number: u64) -> Result<Option<Stored<'_>>, P::Error> {
        if number >= self.0.len() {
            return Ok(None);
        }
        let Some(path) = self.0.path(Aim::Number(number))? else {
            return Ok(None);
        };
        let leaf = self.0.leaf(&path)?;
        let place = usize::try_from(number - path.before).unwrap_or(usize::MAX);
        let entry = leaf.iter().nth(place).transpose()?;
        Ok(match entry {
            Some((id, block)) => Some((id_of(id)?, Cow::Borrowed(block))),
            None => None,
        })
    }
}

impl<P: Pages> Blocks for Paged<P> {
    type Error = P::Error;

    fn last_up_to(&mut self, id: Id) -> Result<Option<Stored<'_>>, P::Error> {
        let behind = match id {
            Id::MAX => self.0.len(),
            _ => self.rank(id, true)?,
        };
        match behind.checked_sub(1) {
            Some(number) => self.at(number),
            None => Ok(None),
        }
    }

    fn first_from(&mut self, id: Id) -> Result<Option<Stored<'_>>, P::Error> {
        let number = match id {
            Id::MIN => 0,
            _ => self.rank(id, false)?,
        };
        self.at(number)
    }

    fn put(&mut self, id: Id, bytes: Vec<u8>) -> Result<(), P::Error> {
        let id = id.to_bytes();
        let new = (&id[..], &bytes[..]);
        let mut gone = (0, 0);
        match self.0.path(Aim::Order(&id))? {
            None => self.0.plant(&[new])?,
            Some(path) => {
                let leaf = self.0.leaf(&path)?;
                let place = before(&leaf, &id, false)?;
                let old = leaf.iter().nth(place).transpose()?;
                if let Some((_, old)) = old.filter(|(key, _)| *key == id) {
                    gone = (1, old.len());
                }
                self.0.edit(&path, place..place + gone.0 as usize, &[new])?;
            }
        }
        self.0.count((1, bytes.len()), gone);
        self.0.note(&id, &bytes);
        Ok(())
    }

    fn remove(&mut self, id: Id) -> Result<(), P::Error> {
        let id = id.to_bytes();
        let Some(path) = self.0.path(Aim::Order(&id))? else {
            return Ok(());
        };
        let leaf = self.0.leaf(&path)?;
        let place = before(&leaf, &id, false)?;
        let old = leaf.iter().nth(place).transpose()?;
        let Some((_, old)) = old.filter(|(key, _)| *key == id) else {
            return Ok(());
        };
        let gone = old.len();
        self.0.edit(&path, place..place + 1, &[])?;
        self.0.count((0, 0), (1, gone));
        Ok(())
    }

    fn ids(&mut self) -> Result<Vec<Id>, P::Error> {
        let mut ids = Vec::new();
        while (ids.len() as u64) < self.0.len() {
            let Some(path) = self.0.path(Aim::Number(ids.len() as u64))? else {
                break;
            };
            let leaf = self.0.leaf(&path)?;
            let place = usize::try_from(ids.len() as u64 - path.before).unwrap_or(usize::MAX);
            let before = ids.len();
            for entry in leaf.iter().skip(place) {
                ids.push(id_of(entry?.0)?);
            }
            if ids.len() == before {
                return Err(BAD_CHILD.into());
            }
        }
        Ok(ids)
    }

    fn stored_groups(&mut self) -> Result<Vec<u8>, P::Error> {
        match &self.0.head.stream {
            Some(StreamHead { groups_len: 0, .. }) | None => Ok(Vec::new()),
            Some(_) => Ok(self.0.cache.page(Place::GROUPS)?.to_vec()),
        }
    }
}
