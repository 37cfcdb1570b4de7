//! The bytes of a stream in the engine; docs/formats/streams.md has them too.
//!
//! ```text
//! offset  bytes  head
//!      0      8  entries
//!      8     16  identifier that was given last
//!     24     16  identifier of the first entry; 0-0: there is none
//!     40     16  greatest identifier that XDEL has removed; 0-0: none
//!     56      8  entries that were ever added
//!     64      4  bytes of all groups
//!     68      4  blocks
//!
//!                group
//!      0      4  bytes of the name
//!      4     16  identifier that was delivered last
//!     20      8  entries up to that one; -1: not known
//!     28      4  consumers
//!     32      4  pending entries
//!     36         name; consumers: bytes of the name (4), when it was seen (8), name;
//!                pending entries (36): identifier, when it was delivered, how often (8 each), number
//!                of the consumer (4)
//!
//!                place of a block
//!      0     16  identifier
//!     16      4  bytes
//!
//!                the bytes of all blocks
//! ```
//!
//! Numbers are little-endian and nothing is aligned. An identifier is two numbers of eight bytes, the
//! milliseconds first; times are milliseconds of the Unix clock. Groups and consumers are in the order of
//! their names, pending entries and blocks in that of their identifiers.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::block::{Block, Counts};
use super::blocks::Inline;
use super::groups::{Group, Groups};
use super::id::Id;
use super::{KeptGroups, State, Stream};
use crate::run::Malformed;

pub const HEAD: usize = 72;
const GROUP: usize = 36;
const CONSUMER: usize = 12;
const PENDING: usize = 36;
pub(crate) const PLACE: usize = 20;

const TOO_SHORT: Malformed = Malformed("a stream ends too early");

/// What is left to be read.
#[derive(Clone, Copy, Debug)]
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(TOO_SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| TOO_SHORT)
    }

    fn len(&mut self) -> Result<usize, Malformed> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    fn number(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn time(&mut self) -> Result<i64, Malformed> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    fn id(&mut self) -> Result<Id, Malformed> {
        Ok(Id::new(self.number()?, self.number()?))
    }

    /// A number of things that take at least so many bytes each.
    fn count(&mut self, each: usize) -> Result<usize, Malformed> {
        let count = self.len()?;
        match count <= self.0.len() / each {
            true => Ok(count),
            false => Err(TOO_SHORT),
        }
    }
}

/// What the head of a stream says, without a look at anything behind it.
///
/// # Errors
/// Bytes that are too few for a head.
pub fn read_state(bytes: &[u8]) -> Result<State, Malformed> {
    state(&mut Bytes(bytes))
}

fn state(bytes: &mut Bytes<'_>) -> Result<State, Malformed> {
    Ok(State {
        length: bytes.number()?,
        last: bytes.id()?,
        first: bytes.id()?,
        max_deleted: bytes.id()?,
        added: bytes.number()?,
    })
}

/// Reads the head and the places of blocks. Groups and blocks are checked as they are read.
///
/// # Errors
/// Bytes that are no stream.
pub fn read(bytes: &[u8]) -> Result<Stream<'_, Inline<'_>>, Malformed> {
    let mut rest = Bytes(bytes);
    let state = state(&mut rest)?;
    let groups_len = rest.len()?;
    let count = rest.len()?;
    let groups = rest.take(groups_len)?;
    if count > rest.0.len() / PLACE {
        return Err(TOO_SHORT);
    }
    let mut places = Bytes(rest.take(count * PLACE)?);
    let mut blocks = Inline::default();
    for _ in 0..count {
        let id = places.id()?;
        let len = places.len()?;
        blocks.push(id, Cow::Borrowed(rest.take(len)?))?;
    }
    if !rest.0.is_empty() {
        return Err(Malformed("bytes behind a stream"));
    }
    Ok(Stream {
        state,
        groups: KeptGroups::Bytes(groups),
        blocks,
    })
}

/// The groups of which these are the bytes.
pub(super) fn read_groups(bytes: &[u8]) -> Result<Groups, Malformed> {
    let mut rest = Bytes(bytes);
    let mut groups = Groups::new();
    while !rest.0.is_empty() {
        let (name, group) = read_group(&mut rest)?;
        if groups
            .last_key_value()
            .is_some_and(|(last, _)| last[..] >= *name)
        {
            return Err(Malformed("groups that do not ascend"));
        }
        groups.insert(name.to_vec(), group);
    }
    Ok(groups)
}

fn read_group<'a>(rest: &mut Bytes<'a>) -> Result<(&'a [u8], Group), Malformed> {
    let name_len = rest.len()?;
    let last = rest.id()?;
    // Negative: not known. Redis counts on beyond the greatest number, to a negative one.
    let read = u64::try_from(rest.time()?).ok();
    let mut group = Group::new(last, read);
    let consumers = rest.count(CONSUMER)?;
    let pending = rest.count(PENDING)?;
    let name = rest.take(name_len)?;
    let mut names: Vec<&[u8]> = Vec::with_capacity(consumers);
    for _ in 0..consumers {
        let len = rest.len()?;
        let seen = rest.time()?;
        let name = rest.take(len)?;
        if names.last().is_some_and(|last| *last >= name) {
            return Err(Malformed("consumers that do not ascend"));
        }
        group.add_consumer(name, seen);
        names.push(name);
    }
    let mut least = Some(Id::MIN);
    for _ in 0..pending {
        let id = rest.id()?;
        if least.is_none_or(|least| id < least) {
            return Err(Malformed("pending entries that do not ascend"));
        }
        least = id.next();
        let (time, deliveries) = (rest.time()?, rest.number()?);
        let consumer = names.get(rest.len()?);
        let consumer = consumer.ok_or(Malformed("a pending entry without a consumer"))?;
        group.deliver(id, consumer, time, deliveries);
    }
    Ok((name, group))
}

/// Bytes of the value that [`write`] makes.
pub fn written_len(stream: &Stream<'_, Inline<'_>>) -> usize {
    let groups = match &stream.groups {
        KeptGroups::Bytes(bytes) => bytes.len(),
        KeptGroups::Read(groups) => groups.iter().map(len_of_group).sum(),
        KeptGroups::Stored => 0,
    };
    let blocks = stream.blocks.iter().map(|(_, bytes)| PLACE + bytes.len());
    HEAD + groups + blocks.sum::<usize>()
}

fn len_of_group((name, group): (&Vec<u8>, &Group)) -> usize {
    let consumers = group.consumers().keys().map(|name| CONSUMER + name.len());
    GROUP + name.len() + consumers.sum::<usize>() + group.pending().len() * PENDING
}

/// The bytes of a stream.
///
/// # Panics
/// 4 GiB and more: callers refuse that long before ([`written_len`]).
pub fn write(stream: &Stream<'_, Inline<'_>>) -> Vec<u8> {
    let mut out = Vec::with_capacity(written_len(stream));
    put_state(&mut out, &stream.state);
    let lens = out.len();
    put_len(&mut out, 0);
    put_len(&mut out, stream.blocks.iter().len());
    let start = out.len();
    match &stream.groups {
        KeptGroups::Bytes(bytes) => out.extend_from_slice(bytes),
        KeptGroups::Read(groups) => put_groups(&mut out, groups),
        KeptGroups::Stored => {}
    }
    let groups_len = crate::run::number(out.len() - start).to_le_bytes();
    out[lens..lens + 4].copy_from_slice(&groups_len);
    for (id, bytes) in stream.blocks.iter() {
        put_id(&mut out, id);
        put_len(&mut out, bytes.len());
    }
    for (_, bytes) in stream.blocks.iter() {
        out.extend_from_slice(bytes);
    }
    out
}

/// The first bytes of a stream, which [`read_state`] reads.
pub fn put_state(out: &mut Vec<u8>, state: &State) {
    let State {
        length,
        last,
        first,
        max_deleted,
        added,
    } = *state;
    put_number(out, length);
    for id in [last, first, max_deleted] {
        put_id(out, id);
    }
    put_number(out, added);
}

/// The bytes of all groups.
pub(crate) fn put_groups(out: &mut Vec<u8>, groups: &Groups) {
    for (name, group) in groups {
        put_group(out, name, group);
    }
}

fn put_len(out: &mut Vec<u8>, len: usize) {
    out.extend_from_slice(&crate::run::number(len).to_le_bytes());
}

fn put_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_id(out: &mut Vec<u8>, id: Id) {
    put_number(out, id.ms);
    put_number(out, id.seq);
}

fn put_group(out: &mut Vec<u8>, name: &[u8], group: &Group) {
    put_len(out, name.len());
    put_id(out, group.last);
    let read = group.read.filter(|&read| i64::try_from(read).is_ok());
    put_number(out, read.unwrap_or(u64::MAX));
    put_len(out, group.consumers().len());
    put_len(out, group.pending().len());
    out.extend_from_slice(name);
    let mut numbers = BTreeMap::new();
    for (number, (name, consumer)) in group.consumers().iter().enumerate() {
        put_len(out, name.len());
        out.extend_from_slice(&consumer.seen.to_le_bytes());
        out.extend_from_slice(name);
        numbers.insert(name, number);
    }
    for (id, pending) in group.pending() {
        put_id(out, *id);
        out.extend_from_slice(&pending.time.to_le_bytes());
        put_number(out, pending.deliveries);
        // Each has a consumer of its group (groups.rs, 1).
        let number = numbers.get(&pending.consumer).copied();
        put_len(out, number.unwrap_or_default());
    }
}

/// Looks at all bytes of a stream that another program has written.
///
/// # Errors
/// Bytes that no writer of this version writes: beside the forms of all parts, the numbers of
/// entries, the identifiers of the first and of the last one, and the order of blocks are checked.
pub fn check(bytes: &[u8]) -> Result<(), Malformed> {
    let mut stream = read(bytes)?;
    stream.groups()?;
    let mut counted = Counts {
        entries: 0,
        deleted: 0,
    };
    let (mut least, mut first) = (Some(Id::MIN), None);
    for (id, bytes) in stream.blocks.iter() {
        let block = Block::read(id, bytes)?;
        if least.is_none_or(|least| id < least) {
            return Err(Malformed("blocks whose entries do not ascend"));
        }
        least = block.last().next();
        first = first.or_else(|| block.live().next().map(|entry| entry.id));
        counted.entries += block.counts().entries;
        if block.last() > stream.state.last {
            return Err(Malformed("an entry behind the last of its stream"));
        }
    }
    let state = stream.state;
    if counted.entries != state.length || state.first != first.unwrap_or_default() {
        return Err(Malformed("a stream that has other entries than it says"));
    }
    if i64::try_from(state.added).is_err() {
        return Err(Malformed("a stream with more entries than can be"));
    }
    Ok(())
}
