//! ACL DRYRUN.

use super::super::super::prelude::*;
use super::super::super::table::{find, wrong_arity};
use crate::instance::users::DEFAULT;

pub(crate) static COMMAND: Command = Command {
    name: "acl|dryrun",
    summary: "Returns whether a user may execute a command",
    since: "7.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: -4,
    arguments: "username, command, [arg]...",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (user, words) = (&arguments[0], &arguments[1..]);
    if user != DEFAULT {
        return Err(quoting("ERR User '", user, "' not found"));
    }
    let Ok(call) = find(words) else {
        return Err(quoting("ERR Command '", &words[0], "' not found"));
    };
    if !call.command.fits(words.len()) {
        return Err(wrong_arity(call.command.name));
    }
    // The user may do all.
    context.replies.ok();
    Ok(())
}

fn quoting(before: &str, word: &[u8], behind: &str) -> Failure {
    Failure::Text([before.as_bytes(), word, behind.as_bytes()].concat())
}
