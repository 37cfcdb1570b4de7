//! XPENDING.

use std::ops::RangeInclusive;

use bpfdb_values::stream::Id;
use bpfdb_values::stream::groups::{self, Pending};

use super::super::arguments::{is, number, syntax_error};
use super::super::collection::check_reply;
use super::super::prelude::*;
use super::{entries, ids, store};
use crate::protocol::reply::Replies;

pub(crate) static COMMAND: Command = Command {
    name: "xpending",
    summary: "Lists what was delivered to a group and not acknowledged",
    since: "5.0.0",
    group: Group::Stream,
    complexity: "O(G) with G bytes of all groups",
    arity: -3,
    arguments: "key:key, group, [filters{[IDLE min-idle-time:integer@6.2.0], start, end, count:integer, [consumer]}]",
    flags: &[Flag::Readonly],
    categories: &[Category::Stream],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    run,
    ..Command::BASE
};

/// Which pending entries are listed.
struct Filter<'a> {
    min_idle: i64,
    ids: RangeInclusive<Id>,
    count: usize,
    consumer: Option<&'a [u8]>,
}

/// `None`: a summary is wanted.
fn parse(words: &[Vec<u8>]) -> Result<Option<Filter<'_>>, Failure> {
    if words.is_empty() {
        return Ok(None);
    }
    // Without IDLE it would be a part of a range.
    if !(3..=6).contains(&words.len()) {
        return Err(syntax_error());
    }
    let (mut min_idle, mut words) = (0, words);
    if is(&words[0], "idle") {
        min_idle = number(&words[1])?;
        words = &words[2..];
        if words.len() < 3 {
            return Err(syntax_error());
        }
    }
    let count = number(&words[2])?.max(0) as usize;
    Ok(Some(Filter {
        min_idle,
        ids: ids::start(&words[0])?..=ids::end(&words[1])?,
        count,
        consumer: words.get(3).map(|name| &**name),
    }))
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let filter = parse(&arguments[2..])?;
    let mut replies = Replies::new(context.replies.protocol());
    let found = store::look(context.session, &arguments[0], |stream| {
        replies.truncate(0);
        let Some(group) = stream.groups()?.get(&arguments[1]) else {
            return Ok(false);
        };
        match &filter {
            None => summary(&mut replies, group)?,
            Some(filter) => list(&mut replies, group, filter)?,
        }
        Ok(true)
    })?;
    if found != Some(true) {
        return Err(ids::no_key_or_group(&arguments[0], &arguments[1]));
    }
    context.replies.absorb(&mut replies);
    Ok(())
}

fn summary(replies: &mut Replies, group: &groups::Group) -> Outcome {
    let pending = group.pending();
    replies.array(4);
    replies.integer(pending.len() as i64);
    let ends = pending.first_key_value().zip(pending.last_key_value());
    let Some(((first, _), (last, _))) = ends else {
        replies.null();
        replies.null();
        replies.null_array();
        return Ok(());
    };
    entries::reply_id(replies, *first);
    entries::reply_id(replies, *last);
    let all = group.consumers().iter();
    let busy = all.filter(|(_, consumer)| consumer.pending() > 0);
    replies.array(busy.clone().count());
    for (name, consumer) in busy {
        replies.array(2);
        replies.bulk(name);
        replies.bulk(consumer.pending().to_string());
        check_reply(replies, 0)?;
    }
    Ok(())
}

fn list(replies: &mut Replies, group: &groups::Group, filter: &Filter<'_>) -> Outcome {
    let now = ids::now();
    let (start, end) = (*filter.ids.start(), *filter.ids.end());
    let all: Box<dyn Iterator<Item = (Id, &Pending)> + '_> = match filter.consumer {
        Some(name) => Box::new(group.pending_of(name, start)),
        None => Box::new(
            group
                .pending()
                .range(start..)
                .map(|(id, found)| (*id, found)),
        ),
    };
    let is_idle = |pending: &Pending| {
        filter.min_idle == 0 || now.wrapping_sub(pending.time) >= filter.min_idle
    };
    let all = all.take_while(|(id, _)| *id <= end);
    let found = all.filter(|(_, pending)| is_idle(pending));
    let (mut listed, mut count) = (Replies::new(replies.protocol()), 0);
    for (id, pending) in found.take(filter.count) {
        listed.array(4);
        entries::reply_id(&mut listed, id);
        listed.bulk(&pending.consumer);
        listed.integer(now.wrapping_sub(pending.time).max(0));
        listed.integer(pending.deliveries as i64);
        check_reply(&listed, 0)?;
        count += 1;
    }
    replies.array(count);
    replies.absorb(&mut listed);
    Ok(())
}
