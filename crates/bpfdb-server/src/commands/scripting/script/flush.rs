//! SCRIPT FLUSH.

use super::super::super::arguments::is;
use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "script|flush",
    summary: "Forgets all scripts",
    since: "2.6.0",
    group: Group::Scripting,
    complexity: "O(scripts)",
    arity: -2,
    arguments: "[async(ASYNC|SYNC)@6.2.0]",
    flags: &[Flag::NoScript],
    categories: &[Category::Scripting],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    differences: "ASYNC and SYNC are the same.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    match arguments {
        [] => {}
        [how] if is(how, "async") || is(how, "sync") => {}
        _ => return Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into()),
    }
    context.instance.scripts.flush();
    context.instance.procedures.forget_scripts();
    context.replies.ok();
    Ok(())
}
