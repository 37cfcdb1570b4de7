//! EVAL_RO.

use super::super::prelude::*;
use super::call;
use super::find::Source;
use super::{KEYS_READ, NOTES_READ, READS};

pub(crate) static COMMAND: Command = Command {
    name: "eval_ro",
    summary: "Runs a script that may not write, in a snapshot",
    since: "7.0.0",
    group: Group::Scripting,
    complexity: "That of the script",
    arity: -3,
    arguments: "script, numkeys:integer, [key:key]..., [arg]...",
    flags: READS,
    categories: &[Category::Scripting],
    keys: &[KEYS_READ.notes(NOTES_READ)],
    differences: "As EVAL; it sees one snapshot, and may look at all keys.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    call::begin(context, Source::Text, arguments, true)
}
