//! Elements that are taken from an end of a list: LPOP, RPOP, LMPOP, LMOVE, RPOPLPUSH.

use std::ops::Range;

use bpfdb::{Session, ValueType};
use bpfdb_values::list::{End, List};

use super::super::arguments::count;
use super::super::atomic::{Kind, atomically};
use super::super::collection::{load_for_update, put};
use super::super::prelude::*;
use super::super::table::wrong_arity;
use super::reply_elements;
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
        let Some(old) = load_for_update(session, key, ValueType::LIST)? else {
            continue;
        };
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
        return Ok(Some((number, popped)));
    }
    Ok(None)
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
    let kind = ValueType::LIST;
    let Some(old) = load_for_update(session, source, kind)? else {
        return Ok(None);
    };
    let list = List::parse(&old.value)?;
    let places = list.places_at(from, 1);
    let Some(element) = list.elements(places.clone())?.next() else {
        return Ok(None);
    };
    if source == target {
        let rotated = list.rotated(from, to)?;
        put(session, source, kind, Some(&rotated), old.expires_at)?;
    } else {
        let other = load_for_update(session, target, kind)?;
        let (other, expires_at) = match &other {
            Some(other) => (List::parse(&other.value)?, other.expires_at),
            None => (List::empty(), None),
        };
        let left = list.without(places)?;
        // The one that grows comes first: it may be refused.
        let longer = other.push(to, &[element])?;
        put(session, target, kind, Some(&longer), expires_at)?;
        put(session, source, kind, left.as_deref(), old.expires_at)?;
    }
    Ok(Some(element.to_vec()))
}

/// The reply to LMOVE and RPOPLPUSH: source, target.
pub(super) fn reply_moved(context: &mut Context<'_>, keys: &[Vec<u8>], ends: [End; 2]) -> Outcome {
    let moved = atomically(context.session, Kind::Write, |session| {
        move_element(session, [&keys[0], &keys[1]], ends)
    })?;
    context.replies.bulk_or_null(moved.as_deref());
    Ok(())
}
