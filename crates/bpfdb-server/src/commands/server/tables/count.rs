//! TABLE COUNT.

use super::*;

pub(crate) static COMMAND: Command = Command {
    name: "table|count",
    summary: "How many keys there are in a range of a table",
    complexity: "O(log(N)+M) where M is the number of keys in the range",
    arity: -5,
    arguments: "table, from, to, [FIELD field]",
    differences: "Redis has no such command. With FIELD those whose value has such a number. See [tables.md](tables.md#ask-a-table-through-the-server).",
    run: |context, arguments| aggregate(context, arguments, What::Count),
    ..ASKS
};
