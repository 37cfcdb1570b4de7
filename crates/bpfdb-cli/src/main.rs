//! The `bpfdb` command.

mod data;
mod docs;
mod doctor;
mod dump;
mod flags;
mod locks;
mod log;
mod output;
mod pins;
mod progress;
mod restore;
mod serve;
mod stats;

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
    /// Copy all data, as it is at one moment, to a file
    Dump(dump::Arguments),
    /// Write a copy, or a file of Redis, into the database of a running server
    Restore(restore::Arguments),
    /// Print the parts of the documentation that are generated
    #[command(hide = true)]
    Docs(docs::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Stats(arguments) => stats::run(&arguments),
        Command::Locks(arguments) => locks::run(&arguments),
        Command::Dump(arguments) => dump::run(&arguments),
        Command::Restore(arguments) => restore::run(&arguments),
        Command::Docs(arguments) => docs::run(&arguments),
    };
    outcome.unwrap_or_else(|error| {
        // There is nowhere else to say that nobody hears it.
        let _ = writeln!(io::stderr(), "bpfdb: {error:#}");
        ExitCode::FAILURE
    })
}
