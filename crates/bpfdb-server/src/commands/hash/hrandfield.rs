//! HRANDFIELD.

use bpfdb::ValueType;

use super::super::arguments::{is, syntax_error};
use super::super::collection::check_reply;
use super::super::picking::{Count, Picked, Source};
use super::super::prelude::*;
use super::hgetall::Part;
use crate::protocol::reply::{Protocol, Replies};

pub(crate) static COMMAND: Command = Command {
    name: "hrandfield",
    summary: "Picks fields of a hash at random",
    since: "6.2.0",
    group: Group::Hash,
    complexity: "O(fields picked)",
    arity: -2,
    arguments: "key:key, [options{count:integer, [WITHVALUES]}]",
    flags: &[Flag::Readonly],
    categories: &[Category::Hash],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    differences: "The reply has at most 640 MiB.",
    run,
    ..Command::BASE
};

/// What the words behind the key ask for.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    /// One, not in an array.
    One,
    Some(Count, Part),
}

impl Wanted {
    fn parse(words: &[Vec<u8>]) -> Result<Self, Failure> {
        let Some((count, options)) = words.split_first() else {
            return Ok(Self::One);
        };
        let count = Count::parse(count)?;
        match options {
            [] => Ok(Self::Some(count, Part::Field)),
            [option] if is(option, "withvalues") => {
                count.check_for_pairs()?;
                Ok(Self::Some(count, Part::Both))
            }
            _ => Err(syntax_error()),
        }
    }
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let wanted = Wanted::parse(&arguments[1..])?;
    let count = match wanted {
        Wanted::One => Count::Different(1),
        Wanted::Some(count, _) => count,
    };
    let source = Source::read(context.session, &arguments[0], ValueType::HASH, count)?;
    let replies = &mut *context.replies;
    match (source, wanted) {
        (Some(source), Wanted::One) => {
            replies.bulk_or_null(source.pick_one()?.map(|(field, _)| field));
        }
        (Some(source), Wanted::Some(count, part)) => reply(replies, &source.pick(count)?, part)?,
        (None, Wanted::One) => replies.null(),
        (None, Wanted::Some(..)) => replies.array(0),
    }
    Ok(())
}

/// As in Redis, a pair is an array of its own in RESP3 alone.
fn reply(replies: &mut Replies, picked: &Picked<'_>, part: Part) -> Outcome {
    let start = replies.len();
    let with_values = part == Part::Both;
    let are_pairs = with_values && replies.protocol() == Protocol::Resp3;
    let width = if with_values && !are_pairs { 2 } else { 1 };
    replies.array(width * picked.len());
    picked.each(|(field, value)| {
        if are_pairs {
            replies.array(2);
        }
        replies.bulk(field);
        if with_values {
            replies.bulk(value);
        }
        check_reply(replies, start)
    })
}
