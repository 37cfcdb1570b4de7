//! SCRIPT DEBUG.

use super::super::super::arguments::is;
use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "script|debug",
    summary: "There is no debugger",
    since: "3.2.0",
    group: Group::Scripting,
    complexity: "O(1)",
    arity: 3,
    arguments: "mode(YES|SYNC|NO)",
    flags: &[Flag::NoScript],
    categories: &[Category::Scripting],
    differences: "Only NO is taken.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    if is(&arguments[0], "no") {
        context.replies.ok();
        return Ok(());
    }
    Err("ERR there is no debugger for scripts; use redis.log()".into())
}
