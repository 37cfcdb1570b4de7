//! TABLE GET.

use super::*;

pub(crate) static COMMAND: Command = Command {
    name: "table|get",
    summary: "The value of a key of a table",
    complexity: "O(log(N))",
    arity: 4,
    // Not one of the server's keys.
    arguments: "table, name",
    differences: "Redis has no such command. See [tables.md](tables.md#ask-a-table-through-the-server).",
    run,
    ..ASKS
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let key = key(&arguments[1]);
    ask(context, &arguments[0], Question::Get { key })
}
