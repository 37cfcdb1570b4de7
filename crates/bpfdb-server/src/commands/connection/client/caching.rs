//! CLIENT CACHING.

use super::super::super::arguments::{is, syntax_error};
use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "client|caching",
    summary: "Would say whether the next read is tracked",
    since: "6.0.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: 3,
    arguments: "mode(YES|NO)",
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    differences: "Nothing is tracked: refused.",
    run,
    ..Command::BASE
};

fn run(_: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let word = &arguments[0];
    if is(word, "yes") {
        return Err(only_with("OPTIN"));
    }
    if is(word, "no") {
        return Err(only_with("OPTOUT"));
    }
    Err(syntax_error())
}

fn only_with(mode: &str) -> Failure {
    let word = if mode == "OPTIN" { "YES" } else { "NO" };
    format!("ERR CLIENT CACHING {word} is only valid when tracking is enabled in {mode} mode.")
        .into()
}
