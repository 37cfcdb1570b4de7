//! XINFO STREAM.

use bpfdb_values::stream::blocks::Blocks;
use bpfdb_values::stream::{Id, groups};

use super::super::super::arguments::{is, number};
use super::super::super::collection::check_reply;
use super::super::super::prelude::*;
use super::super::super::table::wrong_subcommand_arity;
use super::super::entries::{reply_bare, reply_id, reply_range};
use super::super::store::Kept;
use super::{number_or_null, show};
use crate::protocol::reply::Replies;

pub(crate) static COMMAND: Command = Command {
    name: "xinfo|stream",
    summary: "Returns what is known of a stream and of its entries",
    since: "5.0.0",
    group: Group::Stream,
    complexity: "O(B + G) with B blocks of entries and G bytes of all groups",
    arity: -3,
    arguments: "key:key, [FULL full{[COUNT count:integer]}]",
    flags: &[Flag::Readonly],
    categories: &[Category::Stream],
    keys: &[Keys::at(2, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    run,
    ..Command::BASE
};

/// Entries and pending entries of each list in FULL; 0: all. `None`: not FULL.
fn full(context: &Context<'_>, words: &[Vec<u8>]) -> Result<Option<u64>, Failure> {
    match words {
        [] => Ok(None),
        [word] if is(word, "full") => Ok(Some(DEFAULT_COUNT)),
        [word, option, count] if is(word, "full") && is(option, "count") => {
            Ok(Some(u64::try_from(number(count)?).unwrap_or(DEFAULT_COUNT)))
        }
        _ => Err(wrong_subcommand_arity(context, "XINFO")),
    }
}

const DEFAULT_COUNT: u64 = 10;

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    // Redis looks at the key before the options.
    let (full, mut refused) = match full(context, &arguments[1..]) {
        Ok(full) => (full, None),
        Err(refused) => (None, Some(refused)),
    };
    show(context, &arguments[0], |replies, stream| {
        if let Some(refused) = refused.take() {
            return Err(refused);
        }
        let blocks = stream.blocks.ids()?;
        replies.map(if full.is_some() { 9 } else { 10 });
        replies.bulk("length");
        replies.integer(stream.state.length as i64);
        replies.bulk("radix-tree-keys");
        replies.integer(blocks.len() as i64);
        replies.bulk("radix-tree-nodes");
        replies.integer(nodes(&blocks) as i64);
        let state = stream.state;
        replies.bulk("last-generated-id");
        reply_id(replies, state.last);
        replies.bulk("max-deleted-entry-id");
        reply_id(replies, state.max_deleted);
        replies.bulk("entries-added");
        replies.integer(state.added as i64);
        replies.bulk("recorded-first-entry-id");
        reply_id(replies, state.first);
        match full {
            None => ends(replies, stream),
            Some(count) => all(replies, stream, count),
        }
    })
}

/// The number of groups, and the first and the last entry.
fn ends(replies: &mut Replies, stream: &mut Kept<'_>) -> Outcome {
    replies.bulk("groups");
    replies.integer(stream.groups()?.len() as i64);
    for (name, is_last) in [("first-entry", false), ("last-entry", true)] {
        replies.bulk(name);
        if reply_bare(replies, stream, Id::MIN..=Id::MAX, is_last, 1)?.is_empty() {
            replies.null();
        }
    }
    Ok(())
}

/// Entries and groups.
fn all(replies: &mut Replies, stream: &mut Kept<'_>, count: u64) -> Outcome {
    replies.bulk("entries");
    reply_range(replies, stream, Id::MIN..=Id::MAX, false, count)?;
    replies.bulk("groups");
    let state = stream.state;
    let groups = stream.groups()?;
    replies.array(groups.len());
    let most = if count == 0 {
        usize::MAX
    } else {
        count as usize
    };
    for (name, group) in groups {
        replies.map(7);
        replies.bulk("name");
        replies.bulk(name);
        replies.bulk("last-delivered-id");
        reply_id(replies, group.last);
        replies.bulk("entries-read");
        number_or_null(replies, group.read.map(|read| read as i64));
        replies.bulk("lag");
        number_or_null(replies, state.lag(group));
        replies.bulk("pel-count");
        replies.integer(group.pending().len() as i64);
        replies.bulk("pending");
        replies.array(group.pending().len().min(most));
        for (id, pending) in group.pending().iter().take(most) {
            replies.array(4);
            reply_id(replies, *id);
            replies.bulk(&pending.consumer);
            replies.integer(pending.time);
            replies.integer(pending.deliveries as i64);
            check_reply(replies, 0)?;
        }
        consumers(replies, group, most)?;
    }
    Ok(())
}

fn consumers(replies: &mut Replies, group: &groups::Group, most: usize) -> Outcome {
    replies.bulk("consumers");
    replies.array(group.consumers().len());
    for (name, consumer) in group.consumers() {
        replies.map(4);
        replies.bulk("name");
        replies.bulk(name);
        replies.bulk("seen-time");
        replies.integer(consumer.seen);
        replies.bulk("pel-count");
        replies.integer(consumer.pending() as i64);
        replies.bulk("pending");
        replies.array(consumer.pending().min(most));
        for (id, pending) in group.pending_of(name, Id::MIN).take(most) {
            replies.array(3);
            reply_id(replies, id);
            replies.integer(pending.time);
            replies.integer(pending.deliveries as i64);
        }
        check_reply(replies, 0)?;
    }
    Ok(())
}

/// Nodes that Redis's tree of blocks has: one for each text that several identifiers begin with in
/// common, one for each place at which they differ, and the ends.
fn nodes(ids: &[Id]) -> usize {
    let keys: Vec<[u8; 16]> = ids.iter().map(|id| id.to_bytes()).collect();
    if keys.is_empty() {
        return 1;
    }
    nodes_behind(&keys, 0)
}

fn nodes_behind(keys: &[[u8; 16]], depth: usize) -> usize {
    let ([first, ..], [.., last]) = (keys, keys) else {
        return 0;
    };
    let common = (depth..16).take_while(|&at| first[at] == last[at]).count();
    let end = depth + common;
    let text = usize::from(common > 0);
    if end == 16 {
        return text + 1;
    }
    let branches = keys.chunk_by(|one, other| one[end] == other[end]);
    let behind: usize = branches.map(|keys| nodes_behind(keys, end + 1)).sum();
    text + 1 + behind
}
