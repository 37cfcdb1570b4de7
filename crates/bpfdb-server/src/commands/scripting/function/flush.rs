//! FUNCTION FLUSH.

use super::super::super::arguments::is;
use super::super::super::prelude::*;
use super::super::super::table::wrong_subcommand_arity;
use super::super::find::view;
use super::CHANGES;
use super::change::{Change, replace};
use crate::scripting::functions::libraries::Libraries;

pub(crate) static COMMAND: Command = Command {
    name: "function|flush",
    summary: "Deletes all libraries",
    since: "7.0.0",
    group: Group::Scripting,
    complexity: "O(length of all libraries)",
    arity: -2,
    arguments: "[async(ASYNC|SYNC)]",
    flags: &[Flag::Write, Flag::NoScript],
    categories: &[Category::Scripting],
    tips: CHANGES,
    differences: "ASYNC and SYNC are the same.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    match arguments {
        [] => {}
        [how] if is(how, "async") || is(how, "sync") => {}
        [_] => return Err("ERR FUNCTION FLUSH only supports SYNC|ASYNC option".into()),
        _ => return Err(wrong_subcommand_arity(context, "FUNCTION")),
    }
    // Without any, nothing is taken out of the kernel for it. What is damaged goes too.
    if view(context).is_ok_and(|libraries| libraries.len() == 0) {
        context.replies.ok();
        return Ok(());
    }
    Change(flush).begin(context, arguments)
}

fn flush(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    replace(context, &Libraries::default())?;
    context.replies.ok();
    Ok(())
}
