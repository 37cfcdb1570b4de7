//! MODULE: there are no modules.

mod help;
mod list;
mod load;
mod loadex;
mod unload;

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "module",
    summary: "Modules, of which there are none",
    since: "4.0.0",
    group: Group::Server,
    complexity: "That of the subcommand",
    arity: -2,
    subcommands: &[
        &help::COMMAND,
        &list::COMMAND,
        &load::COMMAND,
        &loadex::COMMAND,
        &unload::COMMAND,
    ],
    ..Command::BASE
};

/// As a Redis refuses that does not say `enable-module-command yes`.
fn refuse(_: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    Err(
        "ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", \
         you can run it from a local connection, otherwise you need to set this option in the \
         configuration file, and then restart the server."
            .into(),
    )
}
