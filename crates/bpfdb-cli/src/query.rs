//! `bpfdb query`.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use bpfdb_table::{Access, Aggregate, Bounds, ChainOptions, Field, Source, Table};
use clap::{Subcommand, ValueEnum};

use crate::output;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Table to ask
    table: PathBuf,
    /// What reads the table
    #[arg(long, value_enum, default_value_t = By::Auto)]
    by: By,
    #[command(subcommand)]
    question: Question,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// The kernel, or this process if the kernel cannot
    Auto,
    /// A chain of reads in the kernel, past the page cache (O_DIRECT)
    Kernel,
    /// This process, through the page cache
    Process,
}

#[derive(Subcommand)]
enum Question {
    /// Print the value of a key; the exit status is 1 if it has none
    Get { key: String },
    /// Print keys from FROM on and before TO, with their values; - and + are the ends of the table
    Range {
        from: String,
        to: String,
        /// So many at most
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
    /// Print how many keys there are in a range; with --field, how many have the number
    Count {
        from: String,
        to: String,
        /// Where values have a number, as for sum
        #[arg(long, value_name = "OFFSET:TYPE")]
        field: Option<Field>,
    },
    /// Print the sum of a number in each value
    Sum(OfField),
    /// Print the least one
    Min(OfField),
    /// Print the greatest one
    Max(OfField),
}

#[derive(clap::Args)]
struct OfField {
    from: String,
    to: String,
    /// Where values have the number: byte, and type (u8 to u64, i8 to i64, little-endian; text: decimal, to the end)
    #[arg(long, value_name = "OFFSET:TYPE")]
    field: Field,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let table = Table::open(&arguments.table, Access::Cached)?;
    let mut source = open(&table, arguments.by)?;
    let mut is_found = true;
    match &arguments.question {
        Question::Get { key } => is_found = get(&mut source, key.as_bytes())?,
        Question::Range { from, to, limit } => range(&mut source, &bounds(from, to), *limit)?,
        Question::Count { from, to, field } => {
            let aggregate = source.aggregate(&bounds(from, to), *field)?;
            let count = match field {
                None => aggregate.entries,
                Some(_) => aggregate.fields,
            };
            output::print(&format!("{count}\n"))?;
        }
        Question::Sum(of) => of.print(&mut source, |aggregate| Some(aggregate.sum))?,
        Question::Min(of) => of.print(&mut source, |aggregate| aggregate.least)?,
        Question::Max(of) => of.print(&mut source, |aggregate| aggregate.greatest)?,
    }
    Ok(match is_found {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn open(table: &Table, by: By) -> Result<Source<'_>> {
    let by = match by {
        By::Auto => bpfdb_table::By::Auto,
        By::Kernel => bpfdb_table::By::Kernel,
        By::Process => bpfdb_table::By::Process,
    };
    // One line says why the kernel does not read it.
    output::silence_libbpf();
    // One question uses no block twice.
    let options = ChainOptions {
        pool: 0,
        ..ChainOptions::default()
    };
    let opened = Source::open(table, by, &options);
    let (source, why) = opened.context("the kernel does not read the table")?;
    if let Some(error) = why {
        // A lost message does not matter.
        let _ = writeln!(io::stderr(), "bpfdb: {error}; this process reads the table");
    }
    Ok(source)
}

fn bounds<'a>(from: &'a str, to: &'a str) -> Bounds<'a> {
    Bounds::between(from.as_bytes(), to.as_bytes())
}

/// False: the key has no value.
fn get(source: &mut Source<'_>, key: &[u8]) -> Result<bool> {
    let Some(mut value) = source.get(key)? else {
        return Ok(false);
    };
    value.push(b'\n');
    written(io::stdout().write_all(&value))?;
    Ok(true)
}

/// A line for each key: what is not printable is written as in a string of C.
fn range(source: &mut Source<'_>, bounds: &Bounds<'_>, limit: Option<u64>) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let (mut left, mut outcome) = (limit.unwrap_or(u64::MAX), Ok(()));
    if left == 0 {
        return Ok(());
    }
    source.scan(bounds, &mut |key, value| {
        outcome = writeln!(out, "{}\t{}", key.escape_ascii(), value.escape_ascii());
        left -= 1;
        outcome.is_ok() && left > 0
    })?;
    written(outcome.and_then(|()| out.flush()))
}

/// That it is not read, or no more of it, is no error.
fn written(outcome: io::Result<()>) -> Result<()> {
    match outcome {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

impl OfField {
    /// Keys whose values have no such number are reported on standard error.
    fn print(
        &self,
        source: &mut Source<'_>,
        number: impl Fn(&Aggregate) -> Option<i128>,
    ) -> Result<()> {
        let aggregate = source.aggregate(&bounds(&self.from, &self.to), Some(self.field))?;
        let without = aggregate.entries - aggregate.fields;
        if without > 0 {
            let _ = writeln!(io::stderr(), "bpfdb: {without} values have no such number");
        }
        let text = number(&aggregate).map_or("none".into(), |number| number.to_string());
        output::print(&format!("{text}\n"))
    }
}
