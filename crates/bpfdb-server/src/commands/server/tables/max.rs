//! TABLE MAX.

use super::*;

pub(crate) static COMMAND: Command = Command {
    name: "table|max",
    summary: "The greatest of a number in each value of a range",
    complexity: "O(log(N)+M) where M is the number of keys in the range",
    arity: 7,
    arguments: "table, from, to, FIELD field",
    differences: "Redis has no such command. A decimal number as a bulk string; nil if no value has one. See [tables.md](tables.md#ask-a-table-through-the-server).",
    run: |context, arguments| aggregate(context, arguments, What::Greatest),
    ..ASKS
};
