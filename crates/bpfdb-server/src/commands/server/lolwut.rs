//! LOLWUT.

use super::super::arguments::{is, number};
use super::super::prelude::*;
use crate::protocol::REDIS_VERSION;

pub(crate) static COMMAND: Command = Command {
    name: "lolwut",
    summary: "Returns the version, without a picture",
    since: "5.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: -1,
    arguments: "[VERSION version:integer]",
    flags: &[Flag::Readonly, Flag::Fast],
    differences: "There are no pictures.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    if let [word, version, ..] = arguments
        && is(word, "version")
    {
        number(version)?;
    }
    let text = format!("Redis ver. {REDIS_VERSION}\n");
    context.replies.verbatim("txt", text);
    Ok(())
}
