//! Members that are taken from an end of a sorted set: ZPOPMIN, ZPOPMAX, ZMPOP.

use std::ops::Range;

use bpfdb::{Entry, Session, ValueType};
use bpfdb_values::run::Run;
use bpfdb_values::sorted_set::{SortedSet, write};

use super::super::arguments::{count, syntax_error};
use super::super::atomic::{Kind, atomically};
use super::super::collection::{Large, Stored, put, stored_for_update};
use super::super::prelude::*;
use super::scores::Form;
use crate::protocol::reply::{Protocol, Replies};
use crate::settings::limits::MESSAGE_MAX;

/// Bytes that a member takes in a reply beside its own, with its score, at most.
const ENTRY_MAX: usize = 64;

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
    }

    /// May they be taken? Not if there were no reply to tell of them: if it may be too long it is
    /// written once for nothing, in its longest form.
    fn check(&self) -> Outcome {
        let most = self.set.len() + (1 + self.places.len()) * ENTRY_MAX;
        if most <= MESSAGE_MAX {
            return Ok(());
        }
        self.reply(&mut Replies::new(Protocol::Resp3), Form::Pairs)
    }

    /// The one member and its score, without an array of their own.
    pub(super) fn reply_alone(&self, replies: &mut Replies) -> Outcome {
        let set = SortedSet::read(&self.set)?;
        let entries = set.entries()[self.places.clone()].iter();
        entries.for_each(|entry| Form::Flat.reply_one(replies, entry));
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
    for (number, key) in keys.iter().enumerate() {
        let popped = match stored_for_update(session, key, ValueType::SORTED_SET)? {
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
    let set = SortedSet::read(&old.value)?;
    let count = count.min(set.len());
    let places = match end {
        End::Min => 0..count,
        End::Max => set.len() - count..set.len(),
    };
    let left = match places.is_empty() {
        true => None,
        false => set.without(places.clone())?,
    };
    let popped = Popped {
        set: old.value,
        places,
        end,
    };
    popped.check()?;
    if !popped.places.is_empty() {
        let kind = ValueType::SORTED_SET;
        put(session, key, kind, left.as_deref(), old.expires_at)?;
    }
    Ok(popped)
}

fn pop_large(large: &mut Large<'_>, end: End, count: usize) -> Result<Popped, Failure> {
    let len = large.len();
    let count = (count as u64).min(len);
    let numbers = match end {
        End::Min => 0..count,
        End::Max => len - count..len,
    };
    let set = if numbers.is_empty() {
        write(Vec::new())
    } else {
        large.elements(numbers.clone())?
    };
    let places = 0..Run::parse(&set)?.len();
    let popped = Popped { set, places, end };
    popped.check()?;
    if !numbers.is_empty() {
        large.take_members(numbers)?;
    }
    Ok(popped)
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

#[cfg(test)]
mod tests {
    use bpfdb_values::sorted_set::{Entry, write};

    use super::*;

    /// [`Popped::check`] believes it.
    #[test]
    fn a_reply_takes_no_more_than_is_reckoned_with() {
        let score = -2.225_073_858_507_201_4e-308;
        let members: Vec<Vec<u8>> = (0..300).map(|len| vec![b'm'; len]).collect();
        let entries = members.iter().map(|member| Entry { member, score });
        let set = write(entries.collect());
        let popped = Popped {
            places: 0..members.len(),
            set,
            end: End::Max,
        };
        let mut replies = Replies::new(Protocol::Resp3);
        popped.reply(&mut replies, Form::Pairs).expect("short");
        assert!(replies.len() <= popped.set.len() + (1 + members.len()) * ENTRY_MAX);
    }
}
