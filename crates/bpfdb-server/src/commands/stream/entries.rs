//! Entries as replies.

use std::ops::RangeInclusive;

use bpfdb_values::stream::Id;
use bpfdb_values::stream::block::Entry;

use super::super::Failure;
use super::super::collection::check_reply;
use super::store::Kept;
use crate::protocol::reply::Replies;
use crate::settings::limits::MESSAGE_MAX;

pub(super) fn reply_id(replies: &mut Replies, id: Id) {
    replies.bulk(id.to_string());
}

/// Stops where the reply that began behind `start` bytes is too long, which the caller sees to.
fn reply_entry(replies: &mut Replies, entry: &Entry<'_>, start: usize) {
    replies.array(2);
    reply_id(replies, entry.id);
    replies.array(2 * entry.len());
    for (field, value) in entry.pairs() {
        replies.bulk(field.text());
        replies.bulk(value.text());
        if replies.len() - start > MESSAGE_MAX {
            break;
        }
    }
}

/// The identifiers of entries that were replied, one behind the other without an array around them.
/// `count` 0: all.
pub(super) fn reply_bare(
    replies: &mut Replies,
    stream: &mut Kept<'_>,
    ids: RangeInclusive<Id>,
    is_reversed: bool,
    count: u64,
) -> Result<Vec<Id>, Failure> {
    let start = replies.len();
    let mut replied = Vec::new();
    stream.range(ids, is_reversed, |entry| {
        reply_entry(replies, entry, start);
        replied.push(entry.id);
        Ok(replied.len() as u64 != count && replies.len() - start <= MESSAGE_MAX)
    })?;
    check_reply(replies, start)?;
    Ok(replied)
}

/// The same as an array.
pub(super) fn reply_range(
    replies: &mut Replies,
    stream: &mut Kept<'_>,
    ids: RangeInclusive<Id>,
    is_reversed: bool,
    count: u64,
) -> Result<Vec<Id>, Failure> {
    let mut entries = Replies::new(replies.protocol());
    let replied = reply_bare(&mut entries, stream, ids, is_reversed, count)?;
    replies.array(replied.len());
    replies.append(&entries.take());
    Ok(replied)
}
