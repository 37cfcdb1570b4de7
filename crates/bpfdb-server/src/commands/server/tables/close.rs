//! TABLE CLOSE.

use super::*;

pub(crate) static COMMAND: Command = Command {
    name: "table|close",
    summary: "Closes a table",
    complexity: "O(1)",
    arity: 3,
    arguments: "table",
    flags: &[Flag::Admin, Flag::NoScript, Flag::NoMulti],
    categories: &[],
    differences: "Redis has no such command. What was asked before is answered.",
    run,
    ..ASKS
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    context.instance.tables.close(&name(&arguments[0])?)?;
    context.instance.note_tables();
    context.replies.ok();
    Ok(())
}
