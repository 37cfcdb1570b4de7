//! EVALSHA_RO.

use super::super::prelude::*;
use super::call;
use super::find::Source;
use super::{KEYS_READ, READS};

pub(crate) static COMMAND: Command = Command {
    name: "evalsha_ro",
    summary: "Runs a known script that may not write, in a snapshot",
    since: "7.0.0",
    group: Group::Scripting,
    complexity: "That of the script",
    arity: -3,
    arguments: "sha1, numkeys:integer, [key:key]..., [arg]...",
    flags: READS,
    categories: &[Category::Scripting],
    keys: &[KEYS_READ],
    differences: "As EVAL_RO. The kernel runs what is compiled: see procedures.md.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    call::begin(context, Source::Name, arguments, true)
}
