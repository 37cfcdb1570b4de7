//! HINCRBYFLOAT.

use super::super::prelude::*;
use super::{Changed, change};
use crate::values::long_double::Extended;

pub(crate) static COMMAND: Command = Command {
    name: "hincrbyfloat",
    summary: "Adds a number with a fraction to the value of a field of a hash; an absent one counts as 0",
    since: "2.6.0",
    group: Group::Hash,
    complexity: "O(1)",
    arity: 4,
    arguments: "key:key, field, increment:double",
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::Hash],
    keys: &[Keys::at(
        1,
        &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Update],
    )],
    batching: Batching::Changes,
    differences: "A hash takes at most 512 MiB.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let increment = Extended::parse(&arguments[2]).ok_or("ERR value is not a valid float")?;
    if increment == Extended::Infinite {
        return Err("ERR value is NaN or Infinity".into());
    }
    let text = change(context.session, arguments, |hash, words| {
        let field = &words[0];
        let old = hash
            .get(field)?
            .map_or(Some(Extended::ZERO), |old| Extended::parse(&old));
        let old = old.ok_or("ERR hash value is not a float")?;
        let new = old
            .add(increment)
            .ok_or("ERR increment would produce NaN or Infinity")?;
        let text = new.to_text().into_bytes();
        hash.set(field, text.clone())?;
        Ok((Changed::Yes, text))
    })?;
    context.replies.bulk(&text);
    Ok(())
}
