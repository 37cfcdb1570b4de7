//! MODULE LIST.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "module|list",
    summary: "Lists modules, of which there are none",
    since: "4.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Admin, Flag::NoScript],
    tips: &["nondeterministic_output_order"],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    context.replies.array(0);
    Ok(())
}
