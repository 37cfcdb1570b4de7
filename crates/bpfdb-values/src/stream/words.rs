//! A stream as words that people read, one behind the other, and back.
//!
//! ```text
//! last ID, deleted ID, added N
//! entry ID, fields N, field, value, …      each entry that was not deleted, in their order
//! group NAME, last ID, read N              in the order of their names; `-`: not known
//!   consumer NAME, seen T                  in the order of their names
//!   pending ID, consumer NAME, delivered T, times N
//! ```
//!
//! Each is one word, the names in small letters too. Blocks are no part of that: those of a stream that
//! is made of words are as if its entries had been added one by one.

use std::collections::BTreeMap;

use super::block::Block;
use super::blocks::Inline;
use super::groups::Group;
use super::{Id, Stream, value};
use crate::integer;
use crate::run::Malformed;

const UNKNOWN: &[u8] = b"-";

/// Gives every word of a stream.
///
/// # Errors
/// Bytes that are no stream, and those of `give`.
pub fn each<E: From<Malformed>>(
    bytes: &[u8],
    mut give: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut stream = value::read(bytes)?;
    let state = stream.state;
    for (name, value) in [
        ("last", state.last.to_string()),
        ("deleted", state.max_deleted.to_string()),
        ("added", state.added.to_string()),
    ] {
        give(name.as_bytes())?;
        give(value.as_bytes())?;
    }
    for (id, bytes) in stream.blocks.iter() {
        for entry in Block::read(id, bytes)?.live() {
            give(b"entry")?;
            give(entry.id.to_string().as_bytes())?;
            give(b"fields")?;
            give(entry.len().to_string().as_bytes())?;
            for (field, value) in entry.pairs() {
                give(&field.text())?;
                give(&value.text())?;
            }
        }
    }
    for (name, group) in stream.groups()?.iter() {
        give(b"group")?;
        give(name)?;
        each_of_group(group, &mut give)?;
    }
    Ok(())
}

fn each_of_group<E>(group: &Group, give: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    give(b"last")?;
    give(group.last.to_string().as_bytes())?;
    give(b"read")?;
    match group.read {
        Some(read) => give(read.to_string().as_bytes())?,
        None => give(UNKNOWN)?,
    }
    for (name, consumer) in group.consumers() {
        give(b"consumer")?;
        give(name)?;
        give(b"seen")?;
        give(consumer.seen.to_string().as_bytes())?;
    }
    for (id, pending) in group.pending() {
        give(b"pending")?;
        give(id.to_string().as_bytes())?;
        give(b"consumer")?;
        give(&pending.consumer)?;
        give(b"delivered")?;
        give(pending.time.to_string().as_bytes())?;
        give(b"times")?;
        give(pending.deliveries.to_string().as_bytes())?;
    }
    Ok(())
}

/// The bytes of the stream of these words. What [`value::check`] looks at is not looked at.
///
/// # Errors
/// Words that are not those of a stream.
pub fn read<'a>(
    words: impl Iterator<Item = Result<&'a [u8], Malformed>>,
) -> Result<Vec<u8>, Malformed> {
    let mut words = Words(words);
    let mut stream: Stream<'_, Inline<'_>> = Stream::default();
    let last = words.id("last")?;
    let deleted = words.id("deleted")?;
    let added = words.number("added")?;
    let mut groups = BTreeMap::new();
    let mut next = words.next()?;
    while next == Some(b"entry") {
        let id = id(words.word()?)?;
        let fields: u64 = words.number("fields")?;
        let mut pairs = Vec::new();
        for _ in 0..fields.saturating_mul(2) {
            pairs.push(words.word()?);
        }
        if pairs.is_empty() || id <= stream.state.last {
            return Err(NO_STREAM);
        }
        stream.append(id, &pairs)?;
        next = words.next()?;
    }
    if stream.state.last > last {
        return Err(NO_STREAM);
    }
    while next == Some(b"group") {
        let name = words.word()?.to_vec();
        let group = words.group(&mut next)?;
        if groups.insert(name, group).is_some() {
            return Err(NO_STREAM);
        }
    }
    if next.is_some() {
        return Err(NO_STREAM);
    }
    *stream.groups()? = groups;
    stream.state.last = last;
    stream.state.max_deleted = deleted;
    stream.state.added = added;
    Ok(value::write(&stream))
}

const NO_STREAM: Malformed = Malformed("the words of a stream are not those of one");

fn id(text: &[u8]) -> Result<Id, Malformed> {
    let text = std::str::from_utf8(text).ok();
    text.and_then(Id::parse).ok_or(NO_STREAM)
}

struct Words<I>(I);

impl<'a, I: Iterator<Item = Result<&'a [u8], Malformed>>> Words<I> {
    fn next(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        self.0.next().transpose()
    }

    fn word(&mut self) -> Result<&'a [u8], Malformed> {
        self.next()?.ok_or(NO_STREAM)
    }

    /// The word behind one of this name.
    fn named(&mut self, name: &str) -> Result<&'a [u8], Malformed> {
        if self.word()? != name.as_bytes() {
            return Err(NO_STREAM);
        }
        self.word()
    }

    fn id(&mut self, name: &str) -> Result<Id, Malformed> {
        id(self.named(name)?)
    }

    fn number<N: std::str::FromStr>(&mut self, name: &str) -> Result<N, Malformed> {
        let text = std::str::from_utf8(self.named(name)?).ok();
        text.and_then(|text| text.parse().ok()).ok_or(NO_STREAM)
    }

    fn time(&mut self, name: &str) -> Result<i64, Malformed> {
        integer::parse(self.named(name)?).ok_or(NO_STREAM)
    }

    /// A group behind its name; `next` is what is behind it.
    fn group(&mut self, next: &mut Option<&'a [u8]>) -> Result<Group, Malformed> {
        let last = self.id("last")?;
        let read = match self.named("read")? {
            UNKNOWN => None,
            text => Some(integer::parse(text).ok_or(NO_STREAM)?),
        };
        let read = read.map(u64::try_from).transpose();
        let mut group = Group::new(last, read.map_err(|_| NO_STREAM)?);
        *next = self.next()?;
        while *next == Some(b"consumer") {
            let name = self.word()?;
            let seen = self.time("seen")?;
            if !group.add_consumer(name, seen) {
                return Err(NO_STREAM);
            }
            *next = self.next()?;
        }
        while *next == Some(b"pending") {
            let id = id(self.word()?)?;
            let consumer = self.named("consumer")?;
            let time = self.time("delivered")?;
            let times = self.number("times")?;
            if group.consumer(consumer).is_none() || group.pending().contains_key(&id) {
                return Err(NO_STREAM);
            }
            group.deliver(id, consumer, time, times);
            *next = self.next()?;
        }
        Ok(group)
    }
}
