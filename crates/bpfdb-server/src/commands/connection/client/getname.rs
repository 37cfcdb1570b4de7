//! CLIENT GETNAME.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "client|getname",
    summary: "The connection's name",
    since: "2.6.9",
    group: Group::Connection,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let name = &context.connection.name;
    context
        .replies
        .bulk_or_null((!name.is_empty()).then_some(name));
    Ok(())
}
