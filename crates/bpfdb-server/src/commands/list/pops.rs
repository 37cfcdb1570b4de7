//! Elements that are taken from an end of a list: LPOP, RPOP, LMPOP, LMOVE, RPOPLPUSH.

use std::ops::Range;

use bpfdb::{Change, Entry, Session, ValueType};
use bpfdb_values::list::{End, List};

use super::super::arguments::count;
use super::super::atomic::{Kind, atomically};
use super::super::collection::{Large, Stored, put, stored_for_update};
use super::super::pop_arguments::PopArguments;
use super::super::prelude::*;
use super::super::table::wrong_arity;
use super::{list_of, numbers_at, reply_elements};
use crate::protocol::reply::{Protocol, Replies};
use crate::settings::limits::MESSAGE_MAX;

/// Bytes that an element takes in a reply beside its own: its length and the ends of two lines.
const BULK_MAX: usize = "$536870912\r\n\r\n".len();

/// Elements that were taken.
#[derive(Debug)]
pub(super) struct Popped {
    /// The bytes of the list as it was, and where they were in it.
    list: Vec<u8>,
    places: Range<usize>,
    end: End,
}

impl Popped {
    /// May they be taken? Not if there were no reply to tell of them: if it may be too long it is
    /// written once for nothing.
    fn check(&self) -> Outcome {
        let most = self.list.len() + (1 + self.places.len()) * BULK_MAX;
        if most <= MESSAGE_MAX {
            return Ok(());
        }
        self.reply(&mut Replies::new(Protocol::Resp2))
    }

    /// An array, in the order in which they were taken.
    pub(super) fn reply(&self, replies: &mut Replies) -> Outcome {
        let elements = List::parse(&self.list)?.elements(self.places.clone())?;
        match self.end {
            End::Head => reply_elements(replies, elements),
            End::Tail => {
                let elements: Vec<&[u8]> = elements.collect();
                reply_elements(replies, elements.into_iter().rev())
            }
        }
    }

    /// The one element.
    pub(super) fn reply_alone(&self, replies: &mut Replies) -> Outcome {
        let mut elements = List::parse(&self.list)?.elements(self.places.clone())?;
        replies.bulk_or_null(elements.next());
        Ok(())
    }
}

/// Takes up to so many elements, at least one, from the first of these keys that has any; with the
/// number of the key. In a transaction that writes.
pub(super) fn pop_first(
    session: &mut Session,
    keys: &[Vec<u8>],
    end: End,
    count: usize,
) -> Result<Option<(usize, Popped)>, Failure> {
    for (number, key) in keys.iter().enumerate() {
        let popped = match stored_for_update(session, key, ValueType::LIST)? {
            Stored::Small(None) => continue,
            Stored::Small(Some(old)) => pop_small(session, key, old, end, count)?,
            Stored::Large(stored) => {
                stored.change(session, key, |large| pop_large(large, end, count))?
            }
        };
        return Ok(Some((number, popped)));
    }
    Ok(None)
}

fn pop_small(
    session: &mut Session,
    key: &[u8],
    old: Entry,
    end: End,
    count: usize,
) -> Result<Popped, Failure> {
    let list = List::parse(&old.value)?;
    let places = list.places_at(end, count);
    let left = match places.is_empty() {
        true => None,
        false => list.without(places.clone())?,
    };
    let popped = Popped {
        list: old.value,
        places,
        end,
    };
    popped.check()?;
    if !popped.places.is_empty() {
        let kind = ValueType::LIST;
        put(session, key, kind, left.as_deref(), old.expires_at)?;
    }
    Ok(popped)
}

fn pop_large(large: &mut Large<'_>, end: End, count: usize) -> Result<Popped, Failure> {
    let numbers = numbers_at(large, end, count);
    let list = large.elements(numbers.clone())?;
    let places = 0..List::parse(&list)?.len();
    let popped = Popped { list, places, end };
    popped.check()?;
    large.take(numbers)?;
    Ok(popped)
}

/// `command`, LPOP or RPOP: key, and perhaps how many elements.
pub(super) fn pop(
    context: &mut Context<'_>,
    command: &str,
    arguments: &[Vec<u8>],
    end: End,
) -> Outcome {
    let (keys, wanted) = match arguments {
        [_] => (arguments, None),
        [_, number] => (&arguments[..1], Some(count(number)?)),
        _ => return Err(wrong_arity(command)),
    };
    let popped = atomically(context.session, Kind::Write, |session| {
        pop_first(session, keys, end, wanted.unwrap_or(1))
    })?;
    match (popped, wanted) {
        (Some((_, popped)), Some(_)) => popped.reply(context.replies)?,
        (Some((_, popped)), None) => popped.reply_alone(context.replies)?,
        (None, Some(_)) => context.replies.null_array(),
        (None, None) => context.replies.null(),
    }
    Ok(())
}

/// Takes an element from an end of one list and adds it at an end of another one, or of the same:
/// the element, if there is one. In a transaction that writes.
pub(super) fn move_element(
    session: &mut Session,
    [source, target]: [&[u8]; 2],
    [from, to]: [End; 2],
) -> Result<Option<Vec<u8>>, Failure> {
    let stored = stored_for_update(session, source, ValueType::LIST)?;
    let Some(element) = element_at(session, &stored, from)? else {
        return Ok(None);
    };
    if source == target {
        rotate(session, source, stored, [from, to])?;
    } else {
        let other = stored_for_update(session, target, ValueType::LIST)?;
        // The one that grows comes first: it may be refused.
        push_one(session, target, other, to, &element)?;
        drop_one(session, source, stored, from)?;
    }
    Ok(Some(element))
}

/// The element at an end, if there is one.
fn element_at(
    session: &mut Session,
    stored: &Stored,
    end: End,
) -> Result<Option<Vec<u8>>, Failure> {
    let bytes = match stored {
        Stored::Small(None) => return Ok(None),
        Stored::Small(Some(old)) => &old.value,
        Stored::Large(stored) => {
            let work = |large: &mut Large<'_>| large.elements(numbers_at(large, end, 1));
            &stored.look(session, work)?
        }
    };
    let list = List::parse(bytes)?;
    let mut elements = list.elements(list.places_at(end, 1))?;
    Ok(elements.next().map(<[u8]>::to_vec))
}

fn rotate(session: &mut Session, key: &[u8], stored: Stored, [from, to]: [End; 2]) -> Outcome {
    match stored {
        Stored::Small(None) => Ok(()),
        Stored::Small(Some(old)) => {
            let rotated = List::parse(&old.value)?.rotated(from, to)?;
            put(
                session,
                key,
                ValueType::LIST,
                Some(&rotated),
                old.expires_at,
            )
        }
        Stored::Large(stored) => stored.change(session, key, |large| {
            let taken = large.take(numbers_at(large, from, 1))?;
            let element = List::parse(&taken)?.get(0)?;
            large.push(to, element.as_slice())
        }),
    }
}

fn push_one(
    session: &mut Session,
    key: &[u8],
    stored: Stored,
    end: End,
    element: &[u8],
) -> Outcome {
    match stored {
        Stored::Large(stored) => stored.change(session, key, |large| large.push(end, &[element])),
        Stored::Small(old) => {
            let list = list_of(old.as_ref().map(|old| &old.value[..]))?;
            let longer = list.push(end, &[element])?;
            let expires_at = old.as_ref().and_then(|old| old.expires_at);
            put(session, key, ValueType::LIST, Some(&longer), expires_at)
        }
    }
}

fn drop_one(session: &mut Session, key: &[u8], stored: Stored, end: End) -> Outcome {
    match stored {
        Stored::Small(None) => Ok(()),
        Stored::Small(Some(old)) => pop_small(session, key, old, end, 1).map(drop),
        Stored::Large(stored) => stored.change(session, key, |large| {
            large.take(numbers_at(large, end, 1)).map(drop)
        }),
    }
}

/// The reply to LMOVE and RPOPLPUSH: source, target.
pub(super) fn reply_moved(context: &mut Context<'_>, keys: &[Vec<u8>], ends: [End; 2]) -> Outcome {
    let moved = atomically(context.session, Kind::Write, |session| {
        move_element(session, [&keys[0], &keys[1]], ends)
    })?;
    context.replies.bulk_or_null(moved.as_deref());
    Ok(())
}

const fn pop_event(end: End) -> &'static str {
    match end {
        End::Head => "lpop",
        End::Tail => "rpop",
    }
}

const fn push_event(end: End) -> &'static str {
    match end {
        End::Head => "lpush",
        End::Tail => "rpush",
    }
}

/// Of LMPOP's arguments.
pub(super) fn tell_popped(told: &mut Told<'_>, arguments: &[Vec<u8>]) {
    let end = PopArguments::parse(arguments, super::end).map_or(End::Head, |given| given.end);
    for change in told.changes {
        told.tell_change(change, pop_event(end));
    }
}

/// Of a command that moves an element: as in Redis, first what it adds. Without words for the ends it takes
/// the last element of a list and makes it the first of one.
pub(super) fn tell_moved(told: &mut Told<'_>) {
    let end = |at: usize| told.arguments.get(at).and_then(|word| super::end(word));
    let (from, to) = end(2).zip(end(3)).unwrap_or((End::Tail, End::Head));
    let (source, target) = (told.stored(0), told.stored(1));
    for change in told.changes {
        match change {
            Change::Set { key, .. } if *key == source && source == target => {
                told.tell(push_event(to), key);
                told.tell(pop_event(from), key);
            }
            Change::Set { key, .. } if *key == target => told.tell_change(change, push_event(to)),
            other => told.tell_change(other, pop_event(from)),
        }
    }
}
