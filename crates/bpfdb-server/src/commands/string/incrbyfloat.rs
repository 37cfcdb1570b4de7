//! INCRBYFLOAT.

use super::super::prelude::*;
use super::super::update::change;
use crate::values::long_double::Extended;

pub(crate) static COMMAND: Command = Command {
    name: "incrbyfloat",
    summary: "Adds a number with a fraction to a number; an absent key counts as 0",
    since: "2.6.0",
    group: Group::String,
    complexity: "O(1)",
    arity: 3,
    arguments: "key:key, increment:double",
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::String],
    keys: &[Keys::at(
        1,
        &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Update],
    )],
    batching: Batching::Reads,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let text = change(context.session, &arguments[0], |old| {
        let old = old.map_or(Ok(Extended::ZERO), |text| number(&text))?;
        let new = old
            .add(number(&arguments[1])?)
            .ok_or("ERR increment would produce NaN or Infinity")?;
        let text = new.to_text().into_bytes();
        Ok((Some(text.clone()), text))
    })?;
    context.replies.bulk(&text);
    Ok(())
}

fn number(text: &[u8]) -> Result<Extended, Failure> {
    Extended::parse(text).ok_or_else(|| "ERR value is not a valid float".into())
}
