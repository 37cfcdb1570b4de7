//! ACL: there is one user, default, with all rights.

mod cat;
mod deluser;
mod dryrun;
mod genpass;
mod getuser;
mod help;
mod list;
mod load;
mod log;
mod save;
mod setuser;
mod users;
mod whoami;

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "acl",
    summary: "Users and their rights",
    since: "6.0.0",
    group: Group::Server,
    complexity: "That of the subcommand",
    arity: -2,
    subcommands: &[
        &cat::COMMAND,
        &deluser::COMMAND,
        &dryrun::COMMAND,
        &genpass::COMMAND,
        &getuser::COMMAND,
        &help::COMMAND,
        &list::COMMAND,
        &load::COMMAND,
        &log::COMMAND,
        &save::COMMAND,
        &setuser::COMMAND,
        &users::COMMAND,
        &whoami::COMMAND,
    ],
    ..Command::BASE
};

/// As a Redis whose setting aclfile is empty.
fn without_file(_: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    Err("ERR This Redis instance is not configured to use an ACL file. You may want to specify users \
         via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis \
         configuration file set) in order to store users in the Redis configuration."
        .into())
}
