//! CLIENT REPLY: whether replies are sent. While they are not, the daemon answers.

use super::super::super::arguments::{is, syntax_error};
use super::super::super::prelude::*;
use crate::connection::info::ReplyMode;

pub(crate) static COMMAND: Command = Command {
    name: "client|reply",
    summary: "Turns replies on and off",
    since: "3.2.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: 3,
    arguments: "on_off_skip(ON|OFF|SKIP)",
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let word = &arguments[0];
    let mode = if is(word, "on") {
        ReplyMode::On
    } else if is(word, "off") {
        ReplyMode::Off
    } else if is(word, "skip") {
        ReplyMode::Skip
    } else {
        return Err(syntax_error());
    };
    let connection = &mut *context.connection;
    // As in Redis, OFF is ended by ON only.
    if !(connection.replies == ReplyMode::Off && mode == ReplyMode::Skip) {
        connection.replies = mode;
    }
    context.replies.ok();
    Ok(())
}
