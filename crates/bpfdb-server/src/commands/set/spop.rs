//! SPOP.

use super::super::arguments::syntax_error;
use super::super::chance::Chance;
use super::super::collection::check_reply;
use super::super::prelude::*;
use super::{Changed, change};
use crate::protocol::reply::Replies;
use crate::values::integer;

pub(crate) static COMMAND: Command = Command {
    name: "spop",
    summary: "Removes members from a set that are picked by chance",
    since: "1.0.0",
    group: Group::Set,
    complexity: "O(length of the set)",
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
    let popped = change(context.session, words, |set, _| {
        if set.is_empty() {
            return Ok((Changed::No, None));
        }
        let chosen = Chance::new().below(set.len());
        let mut popped = None;
        set.retain(|number, member| {
            if number == chosen {
                popped = Some(member.to_vec());
            }
            number != chosen
        });
        Ok((Changed::Yes, popped))
    })?;
    context.replies.bulk_or_null(popped.as_deref());
    Ok(())
}

fn pop_some(context: &mut Context<'_>, words: &[Vec<u8>], count: usize) -> Outcome {
    let protocol = context.replies.protocol();
    let mut popped = change(context.session, words, |set, _| {
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
        Ok((changed, replies))
    })?;
    context.replies.absorb(&mut popped);
    Ok(())
}

/// A number that is not negative. As in Redis, what is no number is refused with the same words.
fn positive(word: &[u8]) -> Result<usize, Failure> {
    let count = integer::parse(word).and_then(|count| usize::try_from(count).ok());
    count.ok_or_else(|| "ERR value is out of range, must be positive".into())
}
