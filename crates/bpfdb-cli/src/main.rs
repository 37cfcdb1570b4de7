//! The `bpfdb` command.

mod bars;
mod changes;
mod check;
mod checkpoint;
mod data;
mod docs;
mod doctor;
mod dump;
mod export;
mod flags;
mod interrupts;
mod left;
mod load;
mod locks;
mod log;
mod offline;
mod output;
mod pins;
mod procedures;
mod query;
mod recover;
mod recovering;
mod repair;
mod restore;
mod serve;
mod server;
mod stats;
mod tail;
mod times;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A transactional database inside the Linux kernel.
#[derive(Parser)]
#[command(name = "bpfdb", version, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start the server: load the engine into the kernel and accept connections
    Serve(flags::Arguments),
    /// Check what this machine offers, and say what to do about what is missing
    Doctor(doctor::Arguments),
    /// Show every counter of the running engine
    Stats(stats::Arguments),
    /// Show which sessions hold a lock on a key
    Locks(locks::Arguments),
    /// Show functions and scripts: where they run, how often, and why not in the kernel
    Procedures(procedures::Arguments),
    /// Copy all data, as it is at one moment, to a file
    Dump(dump::Arguments),
    /// Write a copy, or a file of Redis, into the database of a running server
    Restore(restore::Arguments),
    /// Write a table: strings in the order of their keys, of a server, a copy, CSV or JSON lines
    Export(export::Arguments),
    /// Ask a table, in the kernel where that is possible
    Query(query::Arguments),
    /// Have a running server make a checkpoint, from which the next one recovers
    Checkpoint(checkpoint::Arguments),
    /// Say everything about a data directory, and where it is damaged, if it is
    Check(check::Arguments),
    /// Cut the log of a data directory where it is damaged, so that a server can start from it
    Repair(repair::Arguments),
    /// Print the transactions of a data directory as lines of JSON
    Tail(tail::Arguments),
    /// Make a new data directory of an old one, as that was at a point in time
    Recover(recover::Arguments),
    /// Print the parts of the documentation that are generated
    #[command(hide = true)]
    Docs(docs::Arguments),
}

/// An error with its causes, on one line. A cause that the error before it has named already is left
/// out.
fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Stats(arguments) => stats::run(&arguments),
        Command::Locks(arguments) => locks::run(&arguments),
        Command::Procedures(arguments) => procedures::run(&arguments),
        Command::Dump(arguments) => dump::run(&arguments),
        Command::Restore(arguments) => restore::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Query(arguments) => query::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Checkpoint(arguments) => checkpoint::run(&arguments),
        Command::Repair(arguments) => repair::run(&arguments),
        Command::Tail(arguments) => tail::run(&arguments),
        Command::Recover(arguments) => recover::run(&arguments),
        Command::Docs(arguments) => docs::run(&arguments),
    };
    outcome.unwrap_or_else(|error| {
        // There is nowhere else to report that the output is closed.
        let _ = writeln!(io::stderr(), "bpfdb: {}", told(&error));
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot open it: {source}")]
        struct Cannot {
            source: io::Error,
        }
        let source = || io::Error::from(io::ErrorKind::NotFound);
        let named = Err::<(), _>(Cannot { source: source() }).context("no use");
        let named = told(&named.expect_err("an error"));
        assert_eq!(named, "no use: cannot open it: entity not found");
        let plain = Err::<(), _>(source()).context("cannot open it");
        let plain = told(&plain.expect_err("an error"));
        assert_eq!(plain, "cannot open it: entity not found");
    }
}
