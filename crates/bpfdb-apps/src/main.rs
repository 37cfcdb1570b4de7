//! Runs an application of `examples/procedures` on a server: loads its library, has many clients
//! call it, prints how the calls ended, and checks all data.
//!
//! `cargo run --release -p bpfdb-apps -- voter --port 6379`

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use bpfdb_apps::application::{self, Application, Outcome, Usage};
use bpfdb_apps::client::{Address, Client};
use bpfdb_apps::random::Distribution;
use bpfdb_apps::rate_limiter::{Bucket, Window};
use bpfdb_apps::smallbank::SmallBank;
use bpfdb_apps::tatp::Tatp;
use bpfdb_apps::voter::{self, Voter};
use bpfdb_apps::{idempotency, lock};
use clap::{Parser, ValueEnum};

#[derive(Parser)]
#[command(about = "Runs an application on a server of bpfdb or Redis, and checks its data")]
struct Arguments {
    application: Name,
    /// Port of the server on this machine
    #[arg(long, default_value_t = 6379)]
    port: u16,
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// Of all clients together
    #[arg(long, default_value_t = 100_000)]
    calls: usize,
    /// Calls that a client sends before it looks at the replies
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pipeline: u64,
    /// Another one: other calls
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Removes all keys that the server has, before and after. Libraries stay
    #[arg(long)]
    flush: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    Voter,
    Smallbank,
    Tatp,
    Window,
    Bucket,
    Lock,
    Idempotency,
}

/// A server, and how it is used.
struct Run {
    address: Address,
    usage: Usage,
}

impl Run {
    fn load(&self, library: &str) -> Result<()> {
        let mut client = Client::connect(&self.address)?;
        client.load_library(library).context("load the library")
    }

    fn application<A: Application>(&self, application: &A) -> Result<Outcome> {
        self.load(application.library())?;
        application::run(application, &self.address, &self.usage)
    }

    fn run(&self, name: Name) -> Result<Outcome> {
        let (address, usage) = (&self.address, &self.usage);
        match name {
            Name::Voter => self.application(&Voter::new(
                voter::CONTESTANTS,
                100_000,
                10,
                Distribution::Uniform,
            )),
            Name::Smallbank => self.application(&SmallBank::new(10_000, 10_000)),
            Name::Tatp => self.application(&Tatp::new(10_000)),
            Name::Window => self.application(&Window::new(100, 20, 1000)),
            Name::Bucket => self.application(&Bucket::new(100, 20, 5)),
            Name::Lock => {
                self.load(lock::LIBRARY)?;
                lock::run(address, usage, 10)
            }
            Name::Idempotency => {
                self.load(idempotency::LIBRARY)?;
                idempotency::run(address, usage, 1000)
            }
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
    let run = Run {
        address: Address::Tcp(server),
        usage: Usage {
            clients: arguments.clients.max(1),
            calls: arguments.calls,
            pipeline: arguments.pipeline as usize,
            seed: arguments.seed,
        },
    };
    let mut client = Client::connect(&run.address).context("is there a server?")?;
    if arguments.flush {
        client.ask(&["FLUSHALL"])?;
    }
    if client.ask(&["DBSIZE"])?.integer()? > 0 {
        bail!(
            "the server has data, which could be the application's: use an empty one, or --flush"
        );
    }
    let begun = Instant::now();
    let outcome = run.run(arguments.application)?;
    let took = begun.elapsed();
    for (kind, counts) in [("calls of", &outcome.calls), ("ended:", &outcome.ends)] {
        for (what, count) in counts {
            println!("{count:>10} {kind} {what}");
        }
    }
    println!("the data is right; with filling and checking it took {took:.1?}");
    if arguments.flush {
        client.ask(&["FLUSHALL"])?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bpfdb-apps: {error:#}");
            ExitCode::FAILURE
        }
    }
}
