//! `make bench`: what docs/benchmarks.md explains.
//!
//! ```text
//! plan.rs      what is measured, how large, for how long
//! kernel/      inside the kernel: the engine against a plain hash map
//! run/         sessions of user space: BPF_PROG_RUN, one by one and in batches
//! memory/      bytes per record, and pauses while the engine grows
//! tcp/         `bpfdb serve` against Redis
//! procedures/  functions in Lua, against Redis, Tarantool and PostgreSQL
//! hostile/     what others wait for while it is attacked
//! types/       hashes, lists, sets, sorted sets and messages, against Redis
//! durability/  what the log costs; durable replies, checkpoints, recovery
//! table/       tables: chains of reads in the kernel, against reads by a process
//! proxy/       the proxy before PostgreSQL, beside PgBouncer and Odyssey
//! tier/        more data than memory, beside Redis that evicts; snapshots, and reports over them
//! postgres/    PostgreSQL, a rival in procedures and durability
//! sample.rs    rounds to a median and its spread
//! report.rs    the tables, on the terminal and as JSON
//! docs/        the same tables and their plots in docs/benchmarks
//! records.rs   what the records are
//! commit.rs    which source it was
//! machine.rs   what it runs on
//! ```

mod commit;
mod docs;
mod durability;
mod hostile;
mod kernel;
mod machine;
mod memory;
mod objects;
mod plan;
mod postgres;
mod procedures;
mod proxy;
mod records;
mod report;
mod run;
mod sample;
mod table;
mod tcp;
mod tier;
mod types;

use std::path::PathBuf;

use anyhow::{Context, Result};
use bpfdb_apps::random;
use clap::{Parser, Subcommand};

use crate::plan::{Part, Plan, Scenario};
use crate::report::{Report, Table};

/// Measures bpfdb; everything that is compared runs side by side, in turns.
#[derive(Parser, Debug)]
#[command(name = "bpfdb-bench", args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// How often everything is measured; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Measure only these, separated by commas
    #[arg(long, value_delimiter = ',', value_enum)]
    only: Vec<Scenario>,
    /// Of durability, tables, proxy, tier and types measure only these, separated by commas
    #[arg(long, value_delimiter = ',', value_enum)]
    parts: Vec<Part>,
    /// Tiny sizes: shows that the benchmarks work, not how fast anything is
    #[arg(long)]
    quick: bool,
    /// Folder for the results as JSON
    #[arg(long, default_value = "bench/results")]
    output: PathBuf,
    /// Put the figures into this folder of documents: files, tables and plots
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, default_missing_value = "docs")]
    docs: Option<PathBuf>,
    /// redis-server to compare with besides the one in PATH [default: that of
    /// Redis 8, from PyPI]
    #[arg(long)]
    redis: Option<PathBuf>,
    /// Folder on the disk that is measured, for durability, procedures, tables and tier; what is written there is removed [default: the
    /// folder above that of this program]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// Checkpoints of 10 million records of 16 B and of 2 million of 1 KiB, instead of a
    /// tenth or a half: minutes a round
    #[arg(long, conflicts_with = "quick")]
    large: bool,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Makes the tables and plots of the documents from the files of figures; measures nothing
    Docs {
        /// Change nothing: fail if a table or a plot is not what the files give
        #[arg(long)]
        check: bool,
        #[arg(default_value = "docs")]
        folder: PathBuf,
    },
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match &arguments.command {
        None => bench(&arguments),
        Some(Command::Docs {
            check: false,
            folder,
        }) => docs::render(folder),
        Some(Command::Docs {
            check: true,
            folder,
        }) => docs::check(folder),
    }
}

fn bench(arguments: &Arguments) -> Result<()> {
    anyhow::ensure!(
        arguments.docs.is_none() || !arguments.quick,
        "figures of a quick run are not fit for documents"
    );
    let mut plan = Plan::new(arguments.rounds as usize, arguments.quick);
    if arguments.large {
        plan = plan.with_large_files();
    }
    let mut report = Report::new(plan.rounds, plan.quick);

    let mut outcome = Ok(());

    for scenario in Scenario::chosen(&arguments.only) {
        outcome = measure(scenario, &plan, arguments, &mut |table| {
            table.print();
            report.add(table);
        });
        // What was measured before is kept.
        if outcome.is_err() {
            break;
        }
    }
    if let Some(folder) = &arguments.docs {
        docs::update(folder, &report)?;
    }
    println!("\nwritten to {}", report.save(&arguments.output)?.display());
    outcome
}

/// Hands each table to `keep` when it is there.
fn measure(
    scenario: Scenario,
    plan: &Plan,
    arguments: &Arguments,
    keep: &mut dyn FnMut(Table),
) -> Result<()> {
    let redis = arguments.redis.as_deref();
    let tables = match scenario {
        Scenario::Kernel => kernel::measure(plan),
        Scenario::Run => run::measure(plan),
        Scenario::Versions => run::versions::measure(plan),
        Scenario::Snapshots => run::idle::measure(plan),
        Scenario::Memory => memory::measure(plan),
        Scenario::Tcp => tcp::measure(plan, tcp::Path::Loopback, redis),
        Scenario::Local => tcp::measure(plan, tcp::Path::Local, redis),
        Scenario::Remote => tcp::measure(plan, tcp::Path::Remote, redis),
        Scenario::Steered => tcp::measure(plan, tcp::Path::Steered, redis),
        Scenario::Other => tcp::measure(plan, tcp::Path::Other, redis),
        Scenario::Transactions => tcp::measure(plan, tcp::Path::Transactions, redis),
        Scenario::Daemon => tcp::measure(plan, tcp::Path::Daemon, redis),
        Scenario::Connections => tcp::measure(plan, tcp::Path::Connections, redis),
        Scenario::Procedures => {
            let folder = arguments.data_dir.as_deref();
            procedures::measure(plan, folder, redis, keep).map(|()| Vec::new())
        }
        Scenario::Hostile => hostile::measure(plan, redis),
        Scenario::Types => types::measure(plan, &arguments.parts, redis, keep).map(|()| Vec::new()),
        Scenario::Tables => {
            let folder = arguments.data_dir.as_deref();
            table::measure(plan, &arguments.parts, folder)
        }
        Scenario::Proxy => proxy::measure(plan, &arguments.parts),
        Scenario::Tier => {
            let folder = arguments.data_dir.as_deref();
            tier::measure(plan, &arguments.parts, folder, redis, keep).map(|()| Vec::new())
        }
        Scenario::Durability => {
            let folder = arguments.data_dir.as_deref();
            durability::measure(plan, &arguments.parts, folder, redis, keep).map(|()| Vec::new())
        }
    };
    let tables = tables.with_context(|| format!("scenario {scenario:?}"))?;
    tables.into_iter().for_each(keep);
    Ok(())
}
