//! ACL DELUSER.

use super::super::super::prelude::*;
use crate::instance::users::DEFAULT;

pub(crate) static COMMAND: Command = Command {
    name: "acl|deluser",
    summary: "Would remove users",
    since: "6.0.0",
    group: Group::Server,
    complexity: "O(users)",
    arity: -3,
    arguments: "username...",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    differences: "There is no other user than default.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, users: &[Vec<u8>]) -> Outcome {
    if users.iter().any(|user| user == DEFAULT) {
        return Err("ERR The 'default' user cannot be removed".into());
    }
    context.replies.integer(0);
    Ok(())
}
