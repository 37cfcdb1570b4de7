//! `bpfdb dump`.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use bpfdb::Engine;
use bpfdb_copies::{Dumped, Format, Snapshot, dump_file, dump_to};

use crate::bars::Progress;
use crate::interrupts::Interrupts;
use crate::pins;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Port of the server whose data to copy
    #[arg(long, short, default_value_t = 6379)]
    port: u16,
    /// Form of the copy
    #[arg(long, short, value_enum, default_value_t = Form::Jsonl)]
    format: Form,
    /// File to write, which is there when it is complete; -: standard output
    #[arg(long, short, default_value = "-")]
    output: PathBuf,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Form {
    /// One JSON object in each line
    Jsonl,
    /// Blocks with checksums
    Binary,
    /// Redis's (RDB), for Redis 7.0 and later
    Rdb,
}

impl From<Form> for Format {
    fn from(form: Form) -> Self {
        match form {
            Form::Jsonl => Self::Jsonl,
            Form::Binary => Self::Binary,
            Form::Rdb => Self::Rdb,
        }
    }
}

/// Copies everything as it is at one moment. What it did goes to standard error.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let to_standard_output = arguments.output == Path::new("-");
    if to_standard_output && !matches!(arguments.format, Form::Jsonl) && io::stdout().is_terminal()
    {
        bail!("this form is not for terminals: name a file (--output), or redirect the output");
    }
    let folder = pins::folder_of(arguments.port)?;
    let engine = Engine::attach(&folder)
        .with_context(|| format!("no engine of a server on port {}", arguments.port))?;
    refuse_cold(&engine)?;
    let begun = Instant::now();
    let snapshot = Snapshot::take(&engine)?;
    let dumped = if to_standard_output {
        to_output(snapshot, arguments.format.into())?
    } else {
        to_file(snapshot, arguments)?
    };
    let seconds = begun.elapsed().as_secs_f64();
    let (keys, timestamp) = (dumped.keys, dumped.header.timestamp);
    // A lost message does not matter.
    let _ = writeln!(
        io::stderr(),
        "{keys} keys as of timestamp {timestamp}, in {seconds:.1} s"
    );
    Ok(ExitCode::SUCCESS)
}

/// Values in files are read by the server alone. What it gives to files while the copy goes on may still
/// end that.
fn refuse_cold(engine: &Engine) -> Result<()> {
    let cold: u64 = engine.run_uses().iter().map(|run| run.values).sum();
    if cold > 0 {
        bail!(
            "{cold} values of the server are in files of its data directory (tier yes), which this \
             program does not read: `bpfdb recover` copies that directory, whose log has all values"
        );
    }
    Ok(())
}

/// A signal ends the process at once: there is nothing to clear away.
fn to_output(snapshot: Snapshot, form: Format) -> Result<Dumped> {
    let bar = Progress::count("keys", snapshot.header().keys);
    let dumped = dump_to(snapshot, form, io::stdout().lock(), &mut |keys| {
        bar.at(keys);
        Ok(())
    });
    drop(bar);
    dumped.context("the copy is not complete")
}

/// A signal ends it too, and the unfinished file is removed.
fn to_file(snapshot: Snapshot, arguments: &Arguments) -> Result<Dumped> {
    let interrupts = Interrupts::hold()?;
    let bar = Progress::count("keys", snapshot.header().keys);
    let form = arguments.format.into();
    let dumped = dump_file(snapshot, form, &arguments.output, &mut |keys| {
        bar.at(keys);
        interrupts.check()
    });
    drop(bar);
    dumped.context("there is no copy")
}
