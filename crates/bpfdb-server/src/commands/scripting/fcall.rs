//! FCALL.

use super::super::prelude::*;
use super::{CALLS, KEYS, NOTES};
use super::{call, find};

pub(crate) static COMMAND: Command = Command {
    name: "fcall",
    summary: "Calls a function, as one transaction",
    since: "7.0.0",
    group: Group::Scripting,
    complexity: "That of the function",
    arity: -3,
    arguments: "function, numkeys:integer, [key:key]..., [arg]...",
    flags: CALLS,
    categories: &[Category::Scripting],
    keys: &[KEYS.notes(NOTES)],
    differences: "As EVAL. A call that writes locks the functions against FUNCTION LOAD and its kin until it has ended. The kernel runs what is compiled: see procedures.md.",
    writes_now: Some(|context, arguments| find::function_may_write(context, &arguments[0])),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    call::begin_function(context, arguments, false)
}
