//! The `bpfdb` command.

mod docs;
mod doctor;
mod pins;
mod serve;
mod size;
mod stats;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

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
    Serve(serve::Arguments),
    /// Check what this machine offers, and say what to do about what is missing
    Doctor(doctor::Arguments),
    /// Show every counter of the running engine
    Stats(stats::Arguments),
    /// Print the parts of the documentation that are generated
    #[command(hide = true)]
    Docs(docs::Arguments),
}

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into()))
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr)
        .init();

    let outcome = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Stats(arguments) => stats::run(&arguments),
        Command::Docs(arguments) => docs::run(&arguments),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("bpfdb: {error:#}");
        ExitCode::FAILURE
    })
}
