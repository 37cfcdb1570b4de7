//! FCALL_RO.

use super::super::prelude::*;
use super::call;
use super::{KEYS_READ, NOTES_READ, READS};

pub(crate) static COMMAND: Command = Command {
    name: "fcall_ro",
    summary: "Calls a function that does not write, in a snapshot",
    since: "7.0.0",
    group: Group::Scripting,
    complexity: "That of the function",
    arity: -3,
    arguments: "function, numkeys:integer, [key:key]..., [arg]...",
    flags: READS,
    categories: &[Category::Scripting],
    keys: &[KEYS_READ.notes(NOTES_READ)],
    differences: "As EVAL_RO. The kernel runs what is compiled: see procedures.md.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    call::begin_function(context, arguments, true)
}
