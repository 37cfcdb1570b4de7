//! TABLE RANGE.

use super::super::super::arguments::count;
use super::*;
use crate::tables::ENTRIES_MAX;

pub(crate) static COMMAND: Command = Command {
    name: "table|range",
    summary: "Keys of a table from one on and before another, with their values",
    complexity: "O(log(N)+M) where M is the number of keys in the range",
    arity: -5,
    arguments: "table, from, to, [LIMIT count:integer]",
    differences: "Redis has no such command. An array of keys and values, each pair an array; 10,000 and 8 MiB at most, beyond which it is an error: say LIMIT, and go on behind the last key. See [tables.md](tables.md#ask-a-table-through-the-server).",
    run,
    ..ASKS
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (range, options) = arguments.split_at(3);
    let limit = match options {
        [] => None,
        [word, limit] if is(word, "limit") => Some(count(limit)?),
        _ => return Err(syntax_error()),
    };
    if limit.is_some_and(|limit| limit > ENTRIES_MAX) {
        return Err(format!("ERR LIMIT is {ENTRIES_MAX} at most").into());
    }
    let question = Question::Range {
        from: key(&range[1]),
        to: key(&range[2]),
        limit,
    };
    ask(context, &range[0], question)
}
