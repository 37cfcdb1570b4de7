//! ACL SETUSER.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "acl|setuser",
    summary: "Would make or change a user",
    since: "6.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: -3,
    arguments: "username, [rule]...",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    differences: "There is one user, default; its password is the setting requirepass: an error.",
    secret: true,
    run,
    ..Command::BASE
};

fn run(_: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    Err(
        "ERR ACL SETUSER is not supported: there is one user, default; requirepass is its password"
            .into(),
    )
}
