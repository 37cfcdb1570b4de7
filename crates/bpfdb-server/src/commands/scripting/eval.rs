//! EVAL.

use super::super::prelude::*;
use super::call;
use super::find::{self, Source};
use super::{CALLS, KEYS, NOTES};

pub(crate) static COMMAND: Command = Command {
    name: "eval",
    summary: "Runs a script, as one transaction",
    since: "2.6.0",
    group: Group::Scripting,
    complexity: "That of the script",
    arity: -3,
    arguments: "script, numkeys:integer, [key:key]..., [arg]...",
    flags: CALLS,
    categories: &[Category::Scripting],
    keys: &[KEYS.notes(NOTES)],
    differences: "The script is one serializable transaction: if it fails, nothing of it is kept. While a long one runs others are served. One that has run for busy-reply-threshold is stopped. KEYS, SCAN and RANDOMKEY end a script that writes; RESP3 replies of commands are those that the script asked for.",
    writes_now: Some(|_, arguments| find::text_may_write(&arguments[0])),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    call::begin(context, Source::Text, arguments, false)
}
