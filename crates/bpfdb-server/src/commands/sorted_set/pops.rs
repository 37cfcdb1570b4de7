//! Members that are taken from an end of a sorted set: ZPOPMIN, ZPOPMAX, ZMPOP.

use std::ops::Range;

use bpfdb::{Session, ValueType};
use bpfdb_values::sorted_set::SortedSet;

use super::super::arguments::{count, syntax_error};
use super::super::atomic::{Kind, atomically};
use super::super::collection::{load_for_update, put};
use super::super::prelude::*;
use super::scores::Form;
use crate::protocol::reply::{Protocol, Replies};

/// An end of a sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Min,
    Max,
}

/// Members that were taken.
#[derive(Debug)]
pub(super) struct Popped {
    /// The bytes of the set as it was, and where they were in it.
    set: Vec<u8>,
    places: Range<usize>,
    end: End,
}

impl Popped {
    /// An array, in the order in which they were taken.
    pub(super) fn reply(&self, replies: &mut Replies, form: Form) -> Outcome {
        let set = SortedSet::read(&self.set)?;
        let entries = set.entries()[self.places.clone()].iter();
        match self.end {
            End::Min => form.reply(replies, entries),
            End::Max => form.reply(replies, entries.rev()),
        }
        Ok(())
    }
}

/// Takes up to so many members from the first of these keys that has any; with the number of the key.
/// In a transaction that writes.
pub(super) fn pop_first(
    session: &mut Session,
    keys: &[Vec<u8>],
    end: End,
    count: usize,
) -> Result<Option<(usize, Popped)>, Failure> {
    let kind = ValueType::SORTED_SET;
    for (number, key) in keys.iter().enumerate() {
        let Some(old) = load_for_update(session, key, kind)? else {
            continue;
        };
        let set = SortedSet::read(&old.value)?;
        let count = count.min(set.len());
        let places = match end {
            End::Min => 0..count,
            End::Max => set.len() - count..set.len(),
        };
        if !places.is_empty() {
            let left = set.without(places.clone())?;
            put(session, key, kind, left.as_deref(), old.expires_at)?;
        }
        let popped = Popped {
            set: old.value,
            places,
            end,
        };
        return Ok(Some((number, popped)));
    }
    Ok(None)
}

/// ZPOPMIN, ZPOPMAX: key, and perhaps how many members.
pub(super) fn pop(context: &mut Context<'_>, arguments: &[Vec<u8>], end: End) -> Outcome {
    let (keys, wanted) = match arguments {
        [_] => (arguments, None),
        [_, number] => (&arguments[..1], Some(count(number)?)),
        _ => return Err(syntax_error()),
    };
    let popped = atomically(context.session, Kind::Write, |session| {
        pop_first(session, keys, end, wanted.unwrap_or(1))
    })?;
    let replies = &mut *context.replies;
    let form = match (wanted, replies.protocol()) {
        (Some(_), Protocol::Resp3) => Form::Pairs,
        _ => Form::Flat,
    };
    match popped {
        Some((_, popped)) => popped.reply(replies, form),
        None => {
            replies.array(0);
            Ok(())
        }
    }
}
