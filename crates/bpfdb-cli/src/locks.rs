//! `bpfdb locks`.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use bpfdb::{Engine, LockMode};

use crate::{output, pins};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The key to look for
    key: String,
    /// Port of the server whose engine to look at
    #[arg(long, short, default_value_t = 6379)]
    port: u16,
}

/// Prints a line for each session that holds a lock on the key. For those of the server's
/// clients, the command LOCKS says which client it is.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let folder = pins::folder_of(arguments.port)?;
    let engine = Engine::attach(&folder)
        .with_context(|| format!("no engine of a server on port {}", arguments.port))?;
    let mut text = String::new();
    for holder in engine.session()?.lock_holders(arguments.key.as_bytes())? {
        let mode = match holder.mode {
            LockMode::Shared => "read",
            LockMode::Exclusive => "write",
        };
        let idle = holder.idle.as_secs();
        writeln!(
            text,
            "session {:<6} {mode:<6} idle {idle} s",
            holder.session
        )?;
    }
    if text.is_empty() {
        text.push_str("no transaction holds a lock on this key\n");
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
