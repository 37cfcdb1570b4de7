//! Lists.
//!
//! A list is read from the bytes of its run, and a change makes the bytes of a new one: see
//! [`bpfdb_values::list`]. Of a large list the pages that are needed are read and changed.

mod blmove;
mod blmpop;
mod blpop;
mod brpop;
mod brpoplpush;
mod lindex;
mod linsert;
mod llen;
mod lmove;
mod lmpop;
mod lpop;
mod lpos;
mod lpush;
mod lpushx;
mod lrange;
mod lrem;
mod lset;
mod ltrim;
mod pops;
mod pushes;
mod rpop;
mod rpoplpush;
mod rpush;
mod rpushx;
mod waits;

use std::ops::Range;

use bpfdb_values::list::{End, List};

use super::arguments::is;
use super::collection::{Large, check_reply};
use super::definition::Command;
use super::{Failure, Outcome};
use crate::protocol::reply::Replies;

pub(super) static COMMANDS: &[&Command] = &[
    &blmove::COMMAND,
    &blmpop::COMMAND,
    &blpop::COMMAND,
    &brpop::COMMAND,
    &brpoplpush::COMMAND,
    &lindex::COMMAND,
    &linsert::COMMAND,
    &llen::COMMAND,
    &lmove::COMMAND,
    &lmpop::COMMAND,
    &lpop::COMMAND,
    &lpos::COMMAND,
    &lpush::COMMAND,
    &lpushx::COMMAND,
    &lrange::COMMAND,
    &lrem::COMMAND,
    &lset::COMMAND,
    &ltrim::COMMAND,
    &rpop::COMMAND,
    &rpoplpush::COMMAND,
    &rpush::COMMAND,
    &rpushx::COMMAND,
];

/// The list with these bytes; of a key that is absent, one without elements.
fn list_of(bytes: Option<&[u8]>) -> Result<List<'_>, Failure> {
    Ok(bytes.map_or_else(|| Ok(List::empty()), List::parse)?)
}

/// An array of these elements.
///
/// # Errors
/// It would be longer than a reply may be; what is written of it is to be taken back.
fn reply_elements<'a>(
    replies: &mut Replies,
    elements: impl ExactSizeIterator<Item = &'a [u8]>,
) -> Outcome {
    let start = replies.len();
    replies.array(elements.len());
    for element in elements {
        replies.bulk(element);
        check_reply(replies, start)?;
    }
    Ok(())
}

/// Number of elements of a large list.
fn large_len(large: &Large<'_>) -> usize {
    usize::try_from(large.len()).unwrap_or(usize::MAX)
}

/// Places in a large list.
fn numbers(places: &Range<usize>) -> Range<u64> {
    places.start as u64..places.end as u64
}

/// The places of so many elements at an end of a large list, or of all.
fn numbers_at(large: &Large<'_>, end: End, count: usize) -> Range<u64> {
    let len = large.len();
    let count = (count as u64).min(len);
    match end {
        End::Head => 0..count,
        End::Tail => len - count..len,
    }
}

/// LEFT or RIGHT.
fn end(word: &[u8]) -> Option<End> {
    if is(word, "left") {
        Some(End::Head)
    } else {
        is(word, "right").then_some(End::Tail)
    }
}
