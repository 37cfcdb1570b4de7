//! ACL SAVE.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "acl|save",
    summary: "Would write users to a file",
    since: "6.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    run: super::without_file,
    ..Command::BASE
};
