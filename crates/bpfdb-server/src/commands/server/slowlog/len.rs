//! SLOWLOG LEN.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "slowlog|len",
    summary: "How many commands are kept because they took long",
    since: "2.2.12",
    group: Group::Server,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Admin, Flag::Loading, Flag::Stale],
    tips: &[
        "request_policy:all_nodes",
        "response_policy:agg_sum",
        "nondeterministic_output",
    ],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    context
        .replies
        .integer(context.instance.slowlog.len() as i64);
    Ok(())
}
