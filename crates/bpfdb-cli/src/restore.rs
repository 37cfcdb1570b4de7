//! `bpfdb restore`.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bpfdb::Engine;
use bpfdb_copies::{Contents, Existing, Format, Loaded, Options, VerifiedCopy};

use crate::bars::Progress;
use crate::interrupts::Interrupts;
use crate::{output, pins};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Copy to read: JSON lines or binary, of `bpfdb dump`, or an RDB file of Redis
    file: PathBuf,
    /// Port of the server whose database to write into
    #[arg(long, short, default_value_t = 6379)]
    port: u16,
    /// Keys of the file take the place of those that the database has; others stay
    #[arg(long, conflicts_with = "flush")]
    replace: bool,
    /// Delete all keys of the database before
    #[arg(long)]
    flush: bool,
    /// Leave out keys of types that bpfdb does not have, instead of refusing the file
    #[arg(long)]
    skip_other_types: bool,
    /// Leave out keys that are too long for bpfdb, instead of refusing the file, and name the first ones
    #[arg(long)]
    skip_long_keys: bool,
    /// Take the keys of this database of an RDB file, and leave out those of others
    #[arg(long, value_name = "N")]
    database: Option<u64>,
    /// Only read the file, and say what it has
    #[arg(long, conflicts_with_all = ["replace", "flush"])]
    check: bool,
}

impl Arguments {
    fn options(&self) -> Options {
        let existing = match (self.replace, self.flush) {
            (true, _) => Existing::Replace,
            (_, true) => Existing::Flush,
            _ => Existing::Refuse,
        };
        Options {
            existing,
            skip_other_types: self.skip_other_types,
            skip_long_keys: self.skip_long_keys,
            database: self.database,
        }
    }
}

const NOT_DURABLE: &str = "the keys are in the database, but not on its disk yet";
/// Longer than a disk takes that is only busy.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks for an interrupt.
const LOOK: Duration = Duration::from_millis(100);

/// Verifies the file, then writes what it has, and says what was done.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut copy = VerifiedCopy::open(&arguments.file, arguments.options())
        .with_context(|| format!("cannot use {}", arguments.file.display()))?;
    if arguments.check {
        output::print(&format!(
            "{} is right: {}",
            arguments.file.display(),
            about(&copy)
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    let folder = pins::folder_of(arguments.port)?;
    // Before threads are started.
    let interrupts = Interrupts::hold()?;
    let engine = Engine::attach(&folder)
        .with_context(|| format!("no engine of a server on port {}", arguments.port))?;
    let bar = Progress::count("keys", copy.contents().keys);
    let loaded = copy.load(&engine, &mut |keys| {
        bar.at(keys);
        interrupts.check()
    });
    drop(bar);
    let loaded = loaded.with_context(|| format!("cannot load {}", arguments.file.display()))?;
    output::print(&told(loaded, copy.contents()))?;
    settle(&engine, &interrupts)?;
    Ok(ExitCode::SUCCESS)
}

/// A user that reads that it is done may delete the file: what it had must be on the server's disk by then.
fn settle(engine: &Engine, interrupts: &Interrupts) -> Result<()> {
    let (written, begun) = (engine.now(), Instant::now());
    while engine.has_log() && !engine.await_durable(written, LOOK) {
        interrupts.check().context(NOT_DURABLE)?;
        if begun.elapsed() > PATIENCE {
            bail!("{NOT_DURABLE}: INFO persistence of the server says why");
        }
    }
    Ok(())
}

fn about(copy: &VerifiedCopy) -> String {
    let form = match copy.form() {
        Format::Jsonl => "JSON lines",
        Format::Binary => "binary",
        Format::Rdb => "RDB",
    };
    let contents = copy.contents();
    let mut text = format!(
        "{form}, {} keys ({} expire), {} bytes of values\n",
        contents.keys, contents.expiring, contents.bytes
    );
    text += &left_out(contents);
    text
}

fn told(loaded: Loaded, contents: &Contents) -> String {
    let mut text = format!("{} keys were written\n", loaded.written);
    if loaded.expired > 0 {
        let _ = writeln!(
            text,
            "{} keys had expired, and were left out",
            loaded.expired
        );
    }
    text += &left_out(contents);
    text
}

/// What a file of Redis has, and bpfdb has no place for.
fn left_out(contents: &Contents) -> String {
    let mut text = String::new();
    for (name, count) in &contents.other_types {
        let _ = writeln!(text, "left out: {count} keys of the type {name}");
    }
    if contents.long_keys > 0 {
        let count = contents.long_keys;
        let _ = writeln!(text, "left out: {count} keys that are too long");
        for key in &contents.first_long {
            let _ = writeln!(text, "  {key}");
        }
    }
    let unnamed = contents.unnamed_long_keys();
    if unnamed > 0 {
        let _ = writeln!(text, "  and {unnamed} more");
    }
    if contents.reserved > 0 {
        let count = contents.reserved;
        let _ = writeln!(text, "left out: {count} keys with reserved names");
    }
    if contents.other_databases > 0 {
        let count = contents.other_databases;
        let _ = writeln!(text, "left out: {count} keys of other databases");
    }
    if contents.functions > 0 {
        let count = contents.functions;
        let _ = writeln!(text, "{count} libraries of functions");
    }
    if contents.is_unchecked {
        text += "the file has no checksum: damage need not have been found\n";
    }
    text
}
