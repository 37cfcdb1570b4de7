//! EVALSHA.

use super::super::prelude::*;
use super::call;
use super::find::{self, Source};
use super::{CALLS, KEYS};

pub(crate) static COMMAND: Command = Command {
    name: "evalsha",
    summary: "Runs a script that the server knows by the SHA-1 of its text",
    since: "2.6.0",
    group: Group::Scripting,
    complexity: "That of the script",
    arity: -3,
    arguments: "sha1, numkeys:integer, [key:key]..., [arg]...",
    flags: CALLS,
    categories: &[Category::Scripting],
    keys: &[KEYS],
    differences: "As EVAL. The kernel runs what is compiled: see procedures.md.",
    writes_now: Some(|context, arguments| find::script_may_write(context, &arguments[0])),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    call::begin(context, Source::Name, arguments, false)
}
