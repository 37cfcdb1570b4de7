//! XTRIM.

use super::super::prelude::*;
use super::store::{self, Changed};
use super::trimming::Options;

pub(crate) static COMMAND: Command = Command {
    name: "xtrim",
    summary: "Removes entries from the beginning of a stream",
    since: "5.0.0",
    group: Group::Stream,
    complexity: "O(R) for R blocks that go",
    arity: -4,
    arguments: "key:key, trim{strategy(MAXLEN|MINID@6.2.0), [operator('='=equal|'~'=approximately)], threshold, [LIMIT count:integer@6.2.0]}",
    flags: &[Flag::Write],
    categories: &[Category::Stream],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Delete])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let trim = Options::of_xtrim(&arguments[1..])?;
    let removed = store::change(context.session, &arguments[0], |stream, is_there| {
        if !is_there {
            return Ok((Changed::No, 0));
        }
        let removed = stream.trim(&trim)?;
        let changed = if removed > 0 {
            Changed::Yes
        } else {
            Changed::No
        };
        Ok((changed, removed))
    })?;
    context.replies.integer(removed as i64);
    Ok(())
}
