//! SRANDMEMBER.

use bpfdb::ValueType;

use super::super::arguments::syntax_error;
use super::super::collection::check_reply;
use super::super::picking::{Count, Source};
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "srandmember",
    summary: "Picks members of a set at random",
    since: "1.0.0",
    group: Group::Set,
    complexity: "O(members picked)",
    arity: -2,
    arguments: "key:key, [count:integer@2.6.0]",
    flags: &[Flag::Readonly],
    categories: &[Category::Set],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    differences: "The reply has at most 640 MiB.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    match arguments {
        [key] => one(context, key),
        [key, count] => {
            let count = Count::parse(count)?;
            some(context, key, count)
        }
        _ => Err(syntax_error()),
    }
}

fn one(context: &mut Context<'_>, key: &[u8]) -> Outcome {
    let source = Source::read(context.session, key, ValueType::SET, Count::Different(1))?;
    let picked = source.as_ref().map(Source::pick_one).transpose()?.flatten();
    context
        .replies
        .bulk_or_null(picked.map(|(member, _)| member));
    Ok(())
}

fn some(context: &mut Context<'_>, key: &[u8], count: Count) -> Outcome {
    let source = Source::read(context.session, key, ValueType::SET, count)?;
    let replies = &mut *context.replies;
    let start = replies.len();
    let Some(source) = source else {
        replies.array(0);
        return Ok(());
    };
    let picked = source.pick(count)?;
    replies.array(picked.len());
    picked.each(|(member, _)| {
        replies.bulk(member);
        check_reply(replies, start)
    })
}
