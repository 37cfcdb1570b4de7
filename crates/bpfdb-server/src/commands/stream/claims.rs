//! XCLAIM and XAUTOCLAIM: pending entries that get another consumer.

use bpfdb_values::stream::Id;

use super::super::arguments::{at_least, is, syntax_error};
use super::super::collection::check_reply;
use super::super::prelude::*;
use super::store::{Changed, Kept};
use super::{NEW_CONSUMER, entries, ids, store};
use crate::protocol::reply::Replies;
use crate::values::integer;

/// Pending entries that XAUTOCLAIM looks at for each that it may claim.
const LOOKS: u64 = 10;
/// Most entries that XAUTOCLAIM may be asked for: Redis's bound.
const COUNT_MAX: i64 = i64::MAX / 16;

/// How entries are claimed.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    /// Milliseconds that an entry must have been idle.
    min_idle: i64,
    is_forced: bool,
    ids_only: bool,
    /// When they were delivered; `None`: now.
    time: Option<i64>,
    deliveries: Option<u64>,
    last: Id,
}

impl Options {
    fn of_xclaim(mut words: &[Vec<u8>], min_idle: i64, now: i64) -> Result<Self, Failure> {
        let mut options = Self {
            min_idle,
            ..Self::default()
        };
        while let [option, rest @ ..] = words {
            words = options.take(option, rest, now)?;
        }
        // What cannot be is now.
        options.time = options.time.filter(|time| (0..=now).contains(time));
        Ok(options)
    }

    fn take<'a>(
        &mut self,
        option: &[u8],
        rest: &'a [Vec<u8>],
        now: i64,
    ) -> Result<&'a [Vec<u8>], Failure> {
        if is(option, "force") {
            self.is_forced = true;
            return Ok(rest);
        }
        if is(option, "justid") {
            self.ids_only = true;
            return Ok(rest);
        }
        let unknown = || {
            let start = b"ERR Unrecognized XCLAIM option '";
            Failure::Text([start, ids::shown(option), b"'"].concat())
        };
        let (value, rest) = rest.split_first().ok_or_else(unknown)?;
        let number = |name: &str| {
            let error = || Failure::from(format!("ERR Invalid {name} option argument for XCLAIM"));
            integer::parse(value).ok_or_else(error)
        };
        if is(option, "idle") {
            self.time = Some(now.wrapping_sub(number("IDLE")?)).filter(|&time| time != -1);
        } else if is(option, "time") {
            self.time = Some(number("TIME")?);
        } else if is(option, "retrycount") {
            self.deliveries = u64::try_from(number("RETRYCOUNT")?).ok();
        } else if is(option, "lastid") {
            self.last = ids::id(value, 0)?;
        } else {
            return Err(unknown());
        }
        Ok(rest)
    }
}

fn min_idle(text: &[u8], command: &str) -> Result<i64, Failure> {
    let error = || Failure::from(format!("ERR Invalid min-idle-time argument for {command}"));
    Ok(integer::parse(text).ok_or_else(error)?.max(0))
}

/// The key and its group are there; else that is the error.
fn check_group(stream: &mut Kept<'_>, is_there: bool, words: &[Vec<u8>]) -> Result<(), Failure> {
    if is_there && stream.groups()?.contains_key(&words[1]) {
        return Ok(());
    }
    Err(ids::no_key_or_group(&words[0], &words[1]))
}

/// Has the group the consumer that the words name behind it? A claim adds it.
fn knows_consumer(stream: &mut Kept<'_>, words: &[Vec<u8>]) -> Result<bool, Failure> {
    let group = stream.groups()?.get(&words[1]);
    Ok(group.is_some_and(|group| group.consumer(&words[2]).is_some()))
}

pub(super) fn xclaim(context: &mut Context<'_>, words: &[Vec<u8>]) -> Outcome {
    let now = ids::now();
    let protocol = context.replies.protocol();
    let mut is_known = false;
    let mut replied = store::change(context.session, &words[0], |stream, is_there| {
        check_group(stream, is_there, words)?;
        is_known = knows_consumer(stream, words)?;
        let min_idle = min_idle(&words[3], "XCLAIM")?;
        let claimed = words[4..].iter().map_while(|text| ids::id(text, 0).ok());
        let claimed: Vec<Id> = claimed.collect();
        let options = Options::of_xclaim(&words[4 + claimed.len()..], min_idle, now)?;
        let mut changed = Changed::No;
        if let Some(group) = stream.groups()?.get_mut(&words[1])
            && options.last > group.last
        {
            group.last = options.last;
            changed = Changed::Yes;
        }
        let (mut replies, mut count) = (Replies::new(protocol), 0);
        for id in claimed {
            match claim(stream, words, id, options, now)? {
                Claimed::Kept => {}
                Claimed::Gone => changed = Changed::Yes,
                Claimed::Yes => {
                    changed = Changed::Yes;
                    count += 1;
                    reply(&mut replies, stream, id, options.ids_only)?;
                    check_reply(&replies, 0)?;
                }
            }
        }
        Ok((changed, (count, replies)))
    })?;
    if replied.0 > 0 && !is_known {
        context.session.note_event(&words[0], NEW_CONSUMER);
    }
    context.replies.array(replied.0);
    context.replies.absorb(&mut replied.1);
    Ok(())
}

fn reply(
    replies: &mut Replies,
    stream: &mut Kept<'_>,
    id: Id,
    ids_only: bool,
) -> Result<(), Failure> {
    if ids_only {
        entries::reply_id(replies, id);
    } else {
        entries::reply_bare(replies, stream, id..=id, false, 1)?;
    }
    Ok(())
}

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claimed {
    Yes,
    /// It is as it was.
    Kept,
    /// The stream does not have it any more; it was pending.
    Gone,
}

/// Claims an entry for the consumer that the words name behind the group.
fn claim(
    stream: &mut Kept<'_>,
    words: &[Vec<u8>],
    id: Id,
    options: Options,
    now: i64,
) -> Result<Claimed, Failure> {
    let is_there = stream.has(id)?;
    let Some(group) = stream.groups()?.get_mut(&words[1]) else {
        return Ok(Claimed::Kept);
    };
    if !is_there {
        let was_pending = group.acknowledge(id);
        return Ok(if was_pending {
            Claimed::Gone
        } else {
            Claimed::Kept
        });
    }
    let deliveries = match group.pending().get(&id) {
        Some(pending) => {
            if options.min_idle > 0 && now.wrapping_sub(pending.time) < options.min_idle {
                return Ok(Claimed::Kept);
            }
            pending.deliveries
        }
        None if options.is_forced => 1,
        None => return Ok(Claimed::Kept),
    };
    let more = deliveries.saturating_add(u64::from(!options.ids_only));
    group.see(&words[2], now);
    let time = options.time.unwrap_or(now);
    group.deliver(id, &words[2], time, options.deliveries.unwrap_or(more));
    Ok(Claimed::Yes)
}

pub(super) fn xautoclaim(context: &mut Context<'_>, words: &[Vec<u8>]) -> Outcome {
    let mut options = Options {
        min_idle: min_idle(&words[3], "XAUTOCLAIM")?,
        ..Options::default()
    };
    let start = ids::start(&words[4])?;
    let mut count = 100;
    let mut rest = &words[5..];
    while let [option, more @ ..] = rest {
        rest = match more {
            [value, more @ ..] if is(option, "count") => {
                let error = "ERR COUNT must be > 0";
                count = at_least(value, 1, error)?;
                if count > COUNT_MAX {
                    return Err(error.into());
                }
                more
            }
            more if is(option, "justid") => {
                options.ids_only = true;
                more
            }
            _ => return Err(syntax_error()),
        };
    }
    let now = ids::now();
    let protocol = context.replies.protocol();
    let mut is_known = false;
    let mut replied = store::change(context.session, &words[0], |stream, is_there| {
        check_group(stream, is_there, words)?;
        is_known = knows_consumer(stream, words)?;
        let looked_at = pending_from(stream, &words[1], start, count as u64)?;
        let mut replied = Replied::new(protocol);
        let mut left = count;
        for id in looked_at {
            if left == 0 || replied.looks == LOOKS.saturating_mul(count as u64) {
                replied.next = id;
                break;
            }
            replied.looks += 1;
            match claim(stream, words, id, options, now)? {
                Claimed::Kept => continue,
                Claimed::Gone => replied.gone.push(id),
                Claimed::Yes => {
                    replied.claimed += 1;
                    reply(&mut replied.entries, stream, id, options.ids_only)?;
                    check_reply(&replied.entries, 0)?;
                }
            }
            left -= 1;
        }
        let has_changed = replied.claimed > 0 || !replied.gone.is_empty();
        let changed = if has_changed {
            Changed::Yes
        } else {
            Changed::No
        };
        Ok((changed, replied))
    })?;
    if replied.claimed > 0 && !is_known {
        context.session.note_event(&words[0], NEW_CONSUMER);
    }
    let replies = &mut *context.replies;
    replies.array(3);
    entries::reply_id(replies, replied.next);
    replies.array(replied.claimed);
    replies.absorb(&mut replied.entries);
    replies.array(replied.gone.len());
    for id in replied.gone {
        entries::reply_id(replies, id);
    }
    Ok(())
}

/// What XAUTOCLAIM replies.
#[derive(Debug)]
struct Replied {
    /// Where it is to go on; 0-0: nowhere.
    next: Id,
    looks: u64,
    claimed: usize,
    entries: Replies,
    gone: Vec<Id>,
}

impl Replied {
    fn new(protocol: crate::protocol::reply::Protocol) -> Self {
        Self {
            next: Id::MIN,
            looks: 0,
            claimed: 0,
            entries: Replies::new(protocol),
            gone: Vec::new(),
        }
    }
}

/// The pending entries that may have to be looked at, and one more.
fn pending_from(
    stream: &mut Kept<'_>,
    group: &[u8],
    start: Id,
    count: u64,
) -> Result<Vec<Id>, Failure> {
    let most = usize::try_from(LOOKS.saturating_mul(count)).unwrap_or(usize::MAX);
    let groups = stream.groups()?;
    let pending = groups.get(group).map(|group| group.pending());
    let pending = pending
        .into_iter()
        .flat_map(|pending| pending.range(start..));
    Ok(pending
        .map(|(id, _)| *id)
        .take(most.saturating_add(1))
        .collect())
}
