//! SLOWLOG RESET.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "slowlog|reset",
    summary: "Forgets the commands that took long",
    since: "2.2.12",
    group: Group::Server,
    complexity: "O(entries)",
    arity: 2,
    flags: &[Flag::Admin, Flag::Loading, Flag::Stale],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    context.instance.slowlog.clear();
    context.replies.ok();
    Ok(())
}
