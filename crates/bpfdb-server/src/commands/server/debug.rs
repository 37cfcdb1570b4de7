//! DEBUG: refused, as Redis does by default.

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "debug",
    summary: "Not for users",
    since: "1.0.0",
    group: Group::Server,
    complexity: "That of the subcommand",
    arity: -2,
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    differences: "Always refused.",
    run,
    ..Command::BASE
};

fn run(_: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    Err(
        "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", \
         you can run it from a local connection, otherwise you need to set this option in the \
         configuration file, and then restart the server."
            .into(),
    )
}
