//! XREAD and XREADGROUP.

use std::ops::RangeInclusive;

use bpfdb::Session;
use bpfdb_values::stream::groups::Group;
use bpfdb_values::stream::{Id, State};

use super::super::arguments::{is, number, syntax_error};
use super::super::atomic::{Kind, atomically, is_open};
use super::super::blocking::{Blocking, Wait, from_now, unless_other_type, wait_for};
use super::super::collection::check_reply;
use super::super::definition::OptionWords;
use super::super::prelude::*;
use super::store::{Changed, Kept};
use super::{NEW_CONSUMER, entries, ids, store};
use crate::protocol::reply::{Protocol, Replies};

/// Entries of a stream that a client which has waited is given at most, if it does not say.
const COUNT_AFTER_WAIT: u64 = 1000;

/// Options with words of their own.
pub(super) const OPTIONS: OptionWords = &[("BLOCK", 1), ("COUNT", 1), ("GROUP", 2)];

/// Which entries of a stream are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    After(Id),
    /// `>`: those that were delivered to no consumer of the group.
    New,
}

#[derive(Clone, Debug)]
struct Consumer {
    group: Vec<u8>,
    name: Vec<u8>,
}

#[derive(Debug)]
struct Options {
    /// Milliseconds; `None`: it does not wait.
    block: Option<i64>,
    /// 0: all.
    count: u64,
    /// XREADGROUP has one.
    consumer: Option<Consumer>,
    has_no_pending: bool,
    /// Where keys and identifiers begin, and how many keys there are.
    first: usize,
    keys: usize,
}

impl Options {
    fn parse(context: &Context<'_>, words: &[Vec<u8>], of_group: bool) -> Result<Self, Failure> {
        let mut options = Self {
            block: None,
            count: 0,
            consumer: None,
            has_no_pending: false,
            first: 0,
            keys: 0,
        };
        let mut at = 0;
        while at < words.len() && options.keys == 0 {
            at += options.take(context, words, at, of_group)?;
        }
        if options.first == 0 {
            return Err(syntax_error());
        }
        if of_group && options.consumer.is_none() {
            return Err("ERR Missing GROUP option for XREADGROUP".into());
        }
        Ok(options)
    }

    /// Takes the option there; how many words it has.
    fn take(
        &mut self,
        context: &Context<'_>,
        words: &[Vec<u8>],
        at: usize,
        of_group: bool,
    ) -> Result<usize, Failure> {
        let (option, rest) = (&words[at], &words[at + 1..]);
        match rest {
            [time, ..] if is(option, "block") => {
                if context.is_of_script {
                    let name = if of_group { "xreadgroup" } else { "xread" };
                    let text = "command is not allowed with BLOCK option from scripts";
                    return Err(format!("ERR {name} {text}").into());
                }
                self.block = Some(timeout(time)?);
                Ok(2)
            }
            [count, ..] if is(option, "count") => {
                self.count = number(count)?.max(0) as u64;
                Ok(2)
            }
            [_, ..] if is(option, "streams") => {
                if rest.len() % 2 != 0 {
                    return Err(UNBALANCED.into());
                }
                (self.first, self.keys) = (at + 1, rest.len() / 2);
                Ok(1)
            }
            [group, name, ..] if is(option, "group") => {
                if !of_group {
                    return Err("ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.".into());
                }
                self.consumer = Some(Consumer {
                    group: group.clone(),
                    name: name.clone(),
                });
                Ok(3)
            }
            _ if is(option, "noack") => {
                if !of_group {
                    return Err("ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.".into());
                }
                self.has_no_pending = true;
                Ok(1)
            }
            _ => Err(syntax_error()),
        }
    }
}

/// Redis says the same of XREADGROUP.
const UNBALANCED: &str =
    "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.";

fn timeout(text: &[u8]) -> Result<i64, Failure> {
    let time = crate::values::integer::parse(text);
    let time = time.ok_or("ERR timeout is not an integer or out of range")?;
    if time < 0 {
        return Err("ERR timeout is negative".into());
    }
    Ok(time)
}

pub(super) fn read(context: &mut Context<'_>, arguments: &[Vec<u8>], of_group: bool) -> Outcome {
    let options = Options::parse(context, arguments, of_group)?;
    let (keys, texts) = arguments[options.first..].split_at(options.keys);
    let from = atomically(context.session, Kind::Read, |session| {
        let pairs = keys.iter().zip(texts);
        let from = pairs.map(|(key, text)| resolve(session, key, text, options.consumer.as_ref()));
        from.collect::<Result<Vec<_>, _>>()
    })?;
    let mut read = Read {
        first: options.first,
        from,
        count: options.count,
        consumer: options.consumer,
        has_no_pending: options.has_no_pending,
        waits: options.block.is_some() && !is_open(context.session),
    };
    if let Some(time) = options.block {
        let wait = Wait {
            keys: keys.to_vec(),
            until: from_now(time as u64),
            takes: None,
        };
        return wait_for(context, arguments, wait, read);
    }
    if !read.attempt(context, arguments, None)? {
        context.replies.null_array();
    }
    Ok(())
}

/// What the text of an identifier means for this key, whose type and group are seen to.
fn resolve(
    session: &mut Session,
    key: &[u8],
    text: &[u8],
    consumer: Option<&Consumer>,
) -> Result<From, Failure> {
    let found = look_at(session, key, consumer)?;
    if let Some(consumer) = consumer
        && found.is_none_or(|(_, is_missing)| is_missing)
    {
        return Err(no_group(key, &consumer.group));
    }
    match (ids::shown(text), consumer) {
        (b"$", None) => Ok(From::After(found.map_or(Id::MIN, |(last, _)| last))),
        (b"$", Some(_)) => Err("ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.".into()),
        (b">", Some(_)) => Ok(From::New),
        (b">", None) => Err("ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.".into()),
        _ => match ids::id(text, 0)? {
            // As Redis has it: it stands for new entries.
            Id::MAX if consumer.is_some() => Ok(From::New),
            id => Ok(From::After(id)),
        },
    }
}

/// The last identifier of the stream, and whether the group is missing; `None`: the key is absent.
fn look_at(
    session: &mut Session,
    key: &[u8],
    consumer: Option<&Consumer>,
) -> Result<Option<(Id, bool)>, Failure> {
    store::look(session, key, |stream| {
        let group = consumer.map(|consumer| &consumer.group);
        let is_missing = match group {
            Some(group) => !stream.groups()?.contains_key(group),
            None => false,
        };
        Ok((stream.state.last, is_missing))
    })
}

fn no_group(key: &[u8], group: &[u8]) -> Failure {
    let parts = [
        "No such key '",
        "' or consumer group '",
        "' in XREADGROUP with GROUP option",
    ];
    ids::no_group(parts, [key, group])
}

/// The entries behind one; `None`: there is no identifier behind it.
fn behind(id: Id) -> RangeInclusive<Id> {
    // Behind the greatest one Redis begins anew with the smallest.
    id.next().unwrap_or(Id::MIN)..=Id::MAX
}

/// XREAD or XREADGROUP, as it is tried.
#[derive(Debug)]
struct Read {
    /// Where its keys begin.
    first: usize,
    from: Vec<From>,
    count: u64,
    consumer: Option<Consumer>,
    has_no_pending: bool,
    waits: bool,
}

impl Blocking for Read {
    fn attempt(
        &mut self,
        context: &mut Context<'_>,
        arguments: &[Vec<u8>],
        ready: Option<usize>,
    ) -> Result<bool, Failure> {
        let keys = &arguments[self.first..self.first + self.from.len()];
        let numbers = ready.map_or(0..keys.len(), |number| number..number + 1);
        let count = match ready {
            Some(_) if self.count == 0 => COUNT_AFTER_WAIT,
            _ => self.count,
        };
        let writes = self.waits || self.consumer.is_some();
        let kind = if writes { Kind::Write } else { Kind::Read };
        let protocol = context.replies.protocol();
        let (streams, mut replied) = atomically(context.session, kind, |session| {
            let mut replies = Replies::new(protocol);
            let mut streams = 0;
            for number in numbers.clone() {
                let key = &keys[number];
                let mut one = Replies::new(protocol);
                let found = match &self.consumer {
                    Some(consumer) => {
                        let found = self.deliver(session, key, number, consumer, count, &mut one);
                        gone(found, ready.is_some())?
                    }
                    None => {
                        let found = self.show(session, key, number, count, &mut one);
                        let found = found.map(|found| found.then_some(()));
                        match ready {
                            Some(_) => unless_other_type(found)?.is_some(),
                            None => found?.is_some(),
                        }
                    }
                };
                if found {
                    streams += 1;
                    if protocol == Protocol::Resp2 {
                        replies.array(2);
                    }
                    replies.bulk(key);
                    replies.append(&one.take());
                    check_reply(&replies, 0)?;
                }
            }
            Ok((streams, replies))
        })?;
        if streams == 0 {
            return Ok(false);
        }
        match protocol {
            Protocol::Resp2 => context.replies.array(streams),
            Protocol::Resp3 => context.replies.map(streams),
        }
        context.replies.absorb(&mut replied);
        Ok(true)
    }
}

/// What a client hears that has waited for a group of a key that is not there any more.
fn gone(found: Result<Delivered, Failure>, has_waited: bool) -> Result<bool, Failure> {
    const NO_KEY: &str = "UNBLOCKED the stream key no longer exists";
    const NO_GROUP: &str = "NOGROUP the consumer group this client was blocked on no longer exists";
    match found {
        Ok(Delivered::Nothing) => Ok(false),
        Ok(Delivered::Some) => Ok(true),
        Ok(Delivered::NoKey(_)) if has_waited => Err(NO_KEY.into()),
        Ok(Delivered::NoGroup(_)) if has_waited => Err(NO_GROUP.into()),
        Ok(Delivered::NoKey(failure) | Delivered::NoGroup(failure)) => Err(failure),
        // It has another type, or that is the error.
        Err(failure) if has_waited => {
            unless_other_type::<()>(Err(failure))?;
            Err(NO_KEY.into())
        }
        Err(failure) => Err(failure),
    }
}

/// What became of a delivery.
enum Delivered {
    Some,
    Nothing,
    NoKey(Failure),
    NoGroup(Failure),
}

impl Read {
    /// XREAD of one stream; false: there is nothing new.
    fn show(
        &self,
        session: &mut Session,
        key: &[u8],
        number: usize,
        count: u64,
        replies: &mut Replies,
    ) -> Result<bool, Failure> {
        let From::After(after) = self.from[number] else {
            return Ok(false);
        };
        let work = |stream: &mut Kept<'_>| {
            if stream.last_entry()?.is_none_or(|last| last <= after) {
                return Ok(false);
            }
            entries::reply_range(replies, stream, behind(after), false, count)?;
            Ok(true)
        };
        let found = if self.waits {
            store::look_locked(session, key, work)
        } else {
            store::look(session, key, work)
        };
        Ok(found?.unwrap_or(false))
    }

    /// XREADGROUP of one stream.
    fn deliver(
        &self,
        session: &mut Session,
        key: &[u8],
        number: usize,
        consumer: &Consumer,
        count: u64,
        replies: &mut Replies,
    ) -> Result<Delivered, Failure> {
        let from = self.from[number];
        let mut is_new = false;
        let delivered = store::change(session, key, |stream, is_there| {
            if !is_there {
                let failure = no_group(key, &consumer.group);
                return Ok((Changed::No, Delivered::NoKey(failure)));
            }
            let Some(group) = stream.groups()?.get_mut(&consumer.group) else {
                let failure = no_group(key, &consumer.group);
                return Ok((Changed::No, Delivered::NoGroup(failure)));
            };
            let delivered = group.last;
            if from == From::New && stream.last_entry()?.is_none_or(|last| last <= delivered) {
                return Ok((Changed::No, Delivered::Nothing));
            }
            let now = ids::now();
            if let Some(group) = stream.groups()?.get_mut(&consumer.group) {
                is_new = group.see(&consumer.name, now);
            }
            match from {
                From::After(id) => repeat(replies, stream, consumer, behind(id), count, now)?,
                From::New => {
                    let new = behind(delivered);
                    let new = entries::reply_range(replies, stream, new, false, count)?;
                    let state = stream.state;
                    if let Some(group) = stream.groups()?.get_mut(&consumer.group) {
                        let name = (!self.has_no_pending).then_some(&consumer.name[..]);
                        new.iter()
                            .for_each(|&id| note(group, &state, id, name, now));
                    }
                }
            }
            Ok((Changed::Yes, Delivered::Some))
        })?;
        if is_new {
            session.note_event(key, NEW_CONSUMER);
        }
        Ok(delivered)
    }
}

/// Notes that an entry was delivered, to a consumer that has yet to acknowledge it.
fn note(group: &mut Group, state: &State, id: Id, consumer: Option<&[u8]>, now: i64) {
    if id > group.last {
        group.read = match group.read {
            Some(read) if !state.has_gap_from(id) => read.checked_add(1),
            _ => state.count_up_to(id),
        };
        group.last = id;
    }
    if let Some(name) = consumer {
        group.deliver(id, name, now, 1);
    }
}

/// Delivers again what a consumer has not acknowledged.
fn repeat(
    replies: &mut Replies,
    stream: &mut Kept<'_>,
    consumer: &Consumer,
    ids: RangeInclusive<Id>,
    count: u64,
    now: i64,
) -> Result<(), Failure> {
    let Some(group) = stream.groups()?.get(&consumer.group) else {
        return Ok(());
    };
    let most = if count == 0 {
        usize::MAX
    } else {
        count as usize
    };
    let pending = group.pending_of(&consumer.name, *ids.start()).take(most);
    let pending: Vec<_> = pending.map(|(id, found)| (id, found.deliveries)).collect();
    replies.array(pending.len());
    for (id, deliveries) in pending {
        if entries::reply_bare(replies, stream, id..=id, false, 1)?.is_empty() {
            replies.array(2);
            entries::reply_id(replies, id);
            replies.null_array();
        } else if let Some(group) = stream.groups()?.get_mut(&consumer.group) {
            group.deliver(id, &consumer.name, now, deliveries.saturating_add(1));
        }
        check_reply(replies, 0)?;
    }
    Ok(())
}
