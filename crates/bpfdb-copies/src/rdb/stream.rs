//! Streams in a file of Redis, and in what DUMP gives.
//!
//! ```text
//! type                read from         written
//! 15  Redis 5.0       blocks, groups
//! 19  Redis 7.0       more counters     always
//! 21  Redis 7.2       times of use
//!
//! number of blocks | block: identifier as a string of 16 bytes, listpack as a string | …
//! entries | last | 19: first, greatest deleted, entries ever added | number of groups | group …
//! group: name | last | 19: entries read | pending: number, (16 bytes, time, deliveries) …
//!        | consumers: number, (name, seen | 21: active | pending: number, 16 bytes …) …
//! ```
//!
//! Numbers are lengths, identifiers two of them but for those of 16 bytes, which have the highest byte
//! first; times are 8 bytes, milliseconds.
//!
//! A block is kept in Redis's own bytes, so it is copied as it is, after a look at all of it.

use std::borrow::Cow;

use bpfdb_values::run::Malformed;
use bpfdb_values::stream::blocks::Inline;
use bpfdb_values::stream::groups::Group;
use bpfdb_values::stream::{Id, Stream, value};

use super::string::{self, read_len, read_short};
use crate::collection::{checked_stream, too_long};
use crate::error::{Result, damaged};
use crate::limits::VALUE_MAX;
use crate::source::{Input, Source};

const OF_5_0: u8 = 15;
/// The type that is written.
pub(super) const WRITTEN: u8 = 19;
const OF_7_2: u8 = 21;

/// Is a stream the value of a type with this number?
pub(super) fn is_stream(number: u8) -> bool {
    matches!(number, OF_5_0 | WRITTEN | OF_7_2)
}

/// The bytes behind the key of a stream.
///
/// # Errors
/// Bytes that are no stream.
pub(super) fn write(bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut stream = value::read(bytes)?;
    let mut out = Vec::with_capacity(bytes.len());
    string::put_len(&mut out, stream.blocks.iter().len() as u64);
    for (id, block) in stream.blocks.iter() {
        string::put(&mut out, &id.to_bytes());
        string::put(&mut out, block);
    }
    let state = stream.state;
    string::put_len(&mut out, state.length);
    for id in [state.last, state.first, state.max_deleted] {
        put_id(&mut out, id);
    }
    string::put_len(&mut out, state.added);
    let groups = stream.groups()?;
    string::put_len(&mut out, groups.len() as u64);
    for (name, group) in groups {
        string::put(&mut out, name);
        put_group(&mut out, group);
    }
    Ok(out)
}

fn put_id(out: &mut Vec<u8>, id: Id) {
    string::put_len(out, id.ms);
    string::put_len(out, id.seq);
}

fn put_group(out: &mut Vec<u8>, group: &Group) {
    put_id(out, group.last);
    string::put_len(out, group.read.unwrap_or(u64::MAX));
    string::put_len(out, group.pending().len() as u64);
    for (id, pending) in group.pending() {
        out.extend_from_slice(&id.to_bytes());
        out.extend_from_slice(&pending.time.to_le_bytes());
        string::put_len(out, pending.deliveries);
    }
    string::put_len(out, group.consumers().len() as u64);
    for (name, consumer) in group.consumers() {
        string::put(out, name);
        out.extend_from_slice(&consumer.seen.to_le_bytes());
        string::put_len(out, consumer.pending() as u64);
        for (id, _) in group.pending_of(name, Id::MIN) {
            out.extend_from_slice(&id.to_bytes());
        }
    }
}

/// The next value, which is of the type with this number, as the engine keeps it.
pub(super) fn read<I: Input>(source: &mut Source<I>, number: u8) -> Result<Vec<u8>> {
    let at = source.offset();
    let mut stream: Stream<'_, Inline<'_>> = Stream::default();
    let mut size = value::HEAD;
    let mut text = Vec::new();
    for _ in 0..read_len(source)? {
        let id = id_text(source, &mut text)?;
        short(source, &mut text)?;
        size += text.len();
        if size as u64 > VALUE_MAX {
            return Err(too_long(at));
        }
        let pushed = stream.blocks.push(id, Cow::Owned(text.clone()));
        pushed.map_err(|why| damaged(at, why.to_string()))?;
    }
    let state = &mut stream.state;
    state.length = read_len(source)?;
    state.last = id_of_lens(source)?;
    if number == OF_5_0 {
        state.added = state.length;
    } else {
        // Of an empty stream from Redis up to 6.2 it is the greatest id that there can be: the blocks say it.
        id_of_lens(source)?;
        state.max_deleted = id_of_lens(source)?;
        state.added = read_len(source)?;
    }
    let first = stream.first_entry();
    let first = first.map_err(|why| damaged(at, why.to_string()))?;
    stream.state.first = first.unwrap_or_default();
    for _ in 0..read_len(source)? {
        short(source, &mut text)?;
        let name = text.clone();
        let group = group(source, number, &stream, &mut text)?;
        let groups = stream
            .groups()
            .map_err(|why| damaged(at, why.to_string()))?;
        if groups.insert(name, group).is_some() {
            return Err(damaged(at, "a group that is there twice"));
        }
    }
    if value::written_len(&stream) as u64 > VALUE_MAX {
        return Err(too_long(at));
    }
    let bytes = value::write(&stream);
    checked_stream(&bytes).map_err(|fault| fault.at(at))?;
    Ok(bytes)
}

fn short<I: Input>(source: &mut Source<I>, text: &mut Vec<u8>) -> Result<()> {
    let at = source.offset();
    match read_short(source, VALUE_MAX as usize, text)? {
        true => Ok(()),
        false => Err(too_long(at)),
    }
}

fn id_text<I: Input>(source: &mut Source<I>, text: &mut Vec<u8>) -> Result<Id> {
    let at = source.offset();
    short(source, text)?;
    let bytes = text[..].try_into();
    let bytes = bytes.map_err(|_| damaged(at, "an identifier of a block that is none"))?;
    Ok(Id::from_bytes(bytes))
}

fn id_of_lens<I: Input>(source: &mut Source<I>) -> Result<Id> {
    Ok(Id::new(read_len(source)?, read_len(source)?))
}

fn group<I: Input>(
    source: &mut Source<I>,
    number: u8,
    stream: &Stream<'_, Inline<'_>>,
    text: &mut Vec<u8>,
) -> Result<Group> {
    let last = id_of_lens(source)?;
    let read = match number {
        OF_5_0 => stream.state.count_up_to(last),
        // What is no number of entries stands for one that is not known.
        _ => Some(read_len(source)?).filter(|&read| i64::try_from(read).is_ok()),
    };
    let mut group = Group::new(last, read);
    let mut pending = std::collections::BTreeMap::new();
    for _ in 0..read_len(source)? {
        let at = source.offset();
        let id = Id::from_bytes(source.array()?);
        let time = i64::from_le_bytes(source.array()?);
        if pending.insert(id, (time, read_len(source)?)).is_some() {
            return Err(damaged(at, "a pending entry that is there twice"));
        }
    }
    for _ in 0..read_len(source)? {
        let at = source.offset();
        short(source, text)?;
        let seen = i64::from_le_bytes(source.array()?);
        if number == OF_7_2 {
            source.skip(8)?;
        }
        if !group.add_consumer(text, seen) {
            return Err(damaged(at, "a consumer that is there twice"));
        }
        for _ in 0..read_len(source)? {
            let id = Id::from_bytes(source.array()?);
            let delivered = pending.remove(&id);
            let delivered = delivered.ok_or_else(|| damaged(at, "an entry that is not pending"));
            let (time, deliveries) = delivered?;
            group.deliver(id, text, time, deliveries);
        }
    }
    match pending.is_empty() {
        true => Ok(group),
        false => Err(damaged(
            source.offset(),
            "a pending entry without a consumer",
        )),
    }
}
