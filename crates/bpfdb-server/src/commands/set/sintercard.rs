//! SINTERCARD.

use super::super::arguments::{is, number, syntax_error};
use super::super::atomic::{Kind, atomically};
use super::super::prelude::*;
use super::combined::Sources;

pub(crate) static COMMAND: Command = Command {
    name: "sintercard",
    summary: "Counts the members that all of some sets have",
    since: "7.0.0",
    group: Group::Set,
    complexity: "O(length of all sets)",
    arity: -3,
    arguments: "numkeys:integer, key:key..., [LIMIT limit:integer]",
    flags: &[Flag::Readonly, Flag::MovableKeys],
    categories: &[Category::Set],
    keys: &[Keys::counted_at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    differences: "The sets take at most 1 GiB together.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let keys = number(&arguments[0]).unwrap_or(0);
    if keys < 1 {
        return Err("ERR numkeys should be greater than 0".into());
    }
    let behind = &arguments[1..];
    let keys = usize::try_from(keys)
        .ok()
        .and_then(|keys| behind.split_at_checked(keys));
    let (keys, options) = keys.ok_or("ERR Number of keys can't be greater than number of args")?;
    let limit = limit(options)?;
    let count = atomically(context.session, Kind::Read, |session| {
        let sources = Sources::load(session, keys, None)?;
        Ok(sources.intersect(limit)?.len())
    })?;
    context.replies.integer(count as i64);
    Ok(())
}

/// Members that are counted at most. As in Redis, 0 and no limit are the same.
fn limit(mut options: &[Vec<u8>]) -> Result<usize, Failure> {
    let mut limit = 0;
    while let Some((option, behind)) = options.split_first() {
        let [word, behind @ ..] = behind else {
            return Err(syntax_error());
        };
        if !is(option, "limit") {
            return Err(syntax_error());
        }
        limit = number(word)
            .ok()
            .and_then(|limit| usize::try_from(limit).ok())
            .ok_or("ERR LIMIT can't be negative")?;
        options = behind;
    }
    Ok(if limit == 0 { usize::MAX } else { limit })
}
