//! CONFIG REWRITE.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "config|rewrite",
    summary: "Writes the settings to the configuration file",
    since: "2.8.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    differences: "Refused while maxmemory is less than a server starts with, 32 MiB.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let instance = &*context.instance;
    let Some(file) = &instance.file else {
        return Err("ERR The server is running without a config file".into());
    };
    // CONFIG SET takes it, a start does not: the file is left as one that works.
    if instance.refuses_writes() {
        let why = "ERR Rewriting config file: no server starts with this maxmemory; raise it";
        return Err(why.into());
    }
    file.rewrite(&instance.settings).map_err(|error| {
        tracing::warn!(%error, "cannot rewrite the configuration file");
        format!("ERR Rewriting config file: {error}")
    })?;
    tracing::info!(path = %file.path().display(), "the configuration file was rewritten");
    context.replies.ok();
    Ok(())
}
