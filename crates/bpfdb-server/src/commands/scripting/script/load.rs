//! SCRIPT LOAD.

use super::super::super::prelude::*;
use super::super::find::load;

pub(crate) static COMMAND: Command = Command {
    name: "script|load",
    summary: "Has the server know a script",
    since: "2.6.0",
    group: Group::Scripting,
    complexity: "O(length of the script)",
    arity: 3,
    arguments: "script",
    flags: &[Flag::NoScript, Flag::Stale],
    categories: &[Category::Scripting],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    differences: "",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let script = load(context, &arguments[0])?;
    context.replies.bulk(script.name.to_string());
    Ok(())
}
