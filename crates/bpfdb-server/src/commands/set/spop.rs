//! SPOP.

use bpfdb::{Session, ValueType};
use bpfdb_values::Set;

use super::super::arguments::syntax_error;
use super::super::atomic::{Kind, atomically};
use super::super::chance::Chance;
use super::super::collection::{
    self, Change, Large, Stored, change_either, check_reply, stored_for_update,
};
use super::super::prelude::*;
use super::{Changed, becomes};
use crate::protocol::reply::{Protocol, Replies};
use crate::values::integer;

pub(crate) static COMMAND: Command = Command {
    name: "spop",
    summary: "Removes members from a set that are picked at random",
    since: "1.0.0",
    group: Group::Set,
    complexity: "O(members picked)",
    arity: -2,
    arguments: "key:key, [count:integer@3.2.0]",
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::Set],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(
        1,
        &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Delete],
    )],
    differences: "The reply has at most 640 MiB.",
    run,
    ..Command::BASE
};

/// Redis makes a new set if there are so many times more members that go than that stay.
const NEW_SET: usize = 5;
/// Less than one of so many members of a large set are picked one by one.
const FEW: u64 = 4;

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    match arguments {
        [_] => pop_one(context, arguments),
        [_, count] => {
            let count = positive(count)?;
            pop_some(context, &arguments[..1], count)
        }
        _ => Err(syntax_error()),
    }
}

fn pop_one(context: &mut Context<'_>, words: &[Vec<u8>]) -> Outcome {
    let small = |old: Option<Vec<u8>>| {
        let mut set = old.as_deref().map_or(Ok(Set::default()), Set::read)?;
        if set.is_empty() {
            return Ok((Change::Nothing, None));
        }
        let chosen = Chance::new().below(set.len());
        let mut popped = None;
        set.retain(|number, member| {
            if number == chosen {
                popped = Some(member.to_vec());
            }
            number != chosen
        });
        Ok((becomes(&set, Changed::Yes)?, popped))
    };
    let large = |large: &mut Large<'_>| take(large, &mut Chance::new()).map(Some);
    let popped = change_either(context.session, &words[0], ValueType::SET, small, large)?;
    context.replies.bulk_or_null(popped.as_deref());
    Ok(())
}

/// Removes a random member.
fn take(large: &mut Large<'_>, chance: &mut Chance) -> Result<Vec<u8>, Failure> {
    let (member, _) = large.pick(&mut |end| chance.below(end as usize) as u64)?;
    large.remove(&member)?;
    Ok(member)
}

fn pop_some(context: &mut Context<'_>, words: &[Vec<u8>], count: usize) -> Outcome {
    let (key, protocol) = (&words[0], context.replies.protocol());
    let mut popped = atomically(context.session, Kind::Write, |session| {
        match stored_for_update(session, key, ValueType::SET)? {
            // Of most members, all are shuffled.
            Stored::Large(stored) if (count as u64) < stored.len() / FEW => {
                stored.change(session, key, |large| take_some(large, protocol, count))
            }
            _ => take_some_of_all(session, key, protocol, count),
        }
    })?;
    context.replies.absorb(&mut popped);
    Ok(())
}

fn take_some(large: &mut Large<'_>, protocol: Protocol, count: usize) -> Result<Replies, Failure> {
    let (mut replies, mut chance) = (Replies::new(protocol), Chance::new());
    replies.set(count);
    for _ in 0..count {
        replies.bulk(take(large, &mut chance)?);
        check_reply(&replies, 0)?;
    }
    Ok(replies)
}

fn take_some_of_all(
    session: &mut Session,
    key: &[u8],
    protocol: Protocol,
    count: usize,
) -> Result<Replies, Failure> {
    collection::change(session, key, ValueType::SET, |old| {
        let mut set = old.as_deref().map_or(Ok(Set::default()), Set::read)?;
        let count = count.min(set.len());
        let stay = set.len() - count;
        let chosen = Chance::new().some_below(set.len(), count);
        let mut replies = Replies::new(protocol);
        replies.set(count);
        let mut fits = Ok(());
        set.retain(|number, member| {
            let goes = chosen.contains(&number);
            if goes && fits.is_ok() {
                replies.bulk(member);
                fits = check_reply(&replies, 0);
            }
            !goes
        });
        fits?;
        if stay.saturating_mul(NEW_SET) <= count {
            set.forget_history();
        }
        let changed = if count > 0 { Changed::Yes } else { Changed::No };
        Ok((becomes(&set, changed)?, replies))
    })
}

/// A number that is not negative. As in Redis, what is no number is refused with the same words.
fn positive(word: &[u8]) -> Result<usize, Failure> {
    let count = integer::parse(word).and_then(|count| usize::try_from(count).ok());
    count.ok_or_else(|| "ERR value is out of range, must be positive".into())
}
