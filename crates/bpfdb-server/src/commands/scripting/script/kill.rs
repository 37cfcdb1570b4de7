//! SCRIPT KILL.

use super::super::super::prelude::*;
use crate::scripting::scripts::Kind;

pub(crate) static COMMAND: Command = Command {
    name: "script|kill",
    summary: "Ends the scripts that are running",
    since: "2.6.0",
    group: Group::Scripting,
    complexity: "O(1)",
    arity: 2,
    arguments: "",
    flags: &[Flag::NoScript, Flag::AllowBusy],
    categories: &[Category::Scripting],
    tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
    differences: "Ends all that are running, also those that have written: nothing of what they did is kept, unless they are part of a transaction of the client.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    if !context.instance.scripts.kill(Kind::Script) {
        return Err("NOTBUSY No scripts in execution right now.".into());
    }
    context.replies.ok();
    Ok(())
}
