//! `bpfdb export`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use bpfdb::{Database, Engine};
use bpfdb_copies::Snapshot;
use bpfdb_server::settings::Size;
use bpfdb_table::{
    About, Chosen, Column, Columns, Exported, Loader, Options, export, read_copy, read_csv,
    read_json_lines,
};

use crate::bars::Progress;
use crate::interrupts::Interrupts;
use crate::offline::Offline;
use crate::pins;
use crate::times::{HINT, Moment};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Table to write, which is there when it is complete
    table: PathBuf,
    /// Port of the server whose strings to export
    #[arg(long, short, default_value_t = 6379)]
    port: u16,
    /// Export a data directory instead, which is only read; a server may run on it
    #[arg(long, value_name = "DIR", group = "file")]
    dir: Option<PathBuf>,
    /// The directory as it was at this timestamp, or at this time
    #[arg(long, value_name = HINT, requires = "dir")]
    until: Option<Moment>,
    /// Export a file instead: one of `bpfdb dump`, or of Redis (RDB)
    #[arg(long, value_name = "FILE", group = "file")]
    copy: Option<PathBuf>,
    /// Make a table of a file of CSV, whose first line names the columns
    #[arg(long, value_name = "FILE", group = "file")]
    csv: Option<PathBuf>,
    /// Make a table of a file with a JSON object in each line
    #[arg(long, value_name = "FILE", group = "file")]
    jsonl: Option<PathBuf>,
    /// Database whose keys to export
    #[arg(long, default_value_t = 0, conflicts_with_all = ["csv", "jsonl"])]
    database: usize,
    /// Export only keys that begin so
    #[arg(long, default_value = "", conflicts_with_all = ["csv", "jsonl"])]
    prefix: String,
    /// Column that has the key [default: the first one; of JSON, key]
    #[arg(long, value_name = "COLUMN", conflicts_with = "copy")]
    key: Option<String>,
    /// Columns of which the value is put together, separated by commas; with a type (u8 to u64, i8 to i64) a number
    /// of that size [default: the second one; of JSON, value]
    #[arg(
        long,
        value_name = "COLUMN[:TYPE]",
        value_delimiter = ',',
        conflicts_with = "copy"
    )]
    values: Vec<Column>,
    /// Bytes of a block
    #[arg(long, default_value = "4K")]
    block_size: Size,
    /// Children that a block may have, 0: as many as there is room for
    #[arg(long, default_value_t = 0)]
    fanout: u32,
    /// Memory for sorting; if that is not enough, files are made in the folder of the table
    #[arg(long, default_value = "256M")]
    memory: Size,
}

impl Arguments {
    fn loader(&self, timestamp: u64) -> Loader {
        let options = Options {
            block_size: u32::try_from(self.block_size.bytes()).unwrap_or(0),
            fanout: self.fanout,
            timestamp,
        };
        let memory = usize::try_from(self.memory.bytes()).unwrap_or(usize::MAX);
        Loader::new(&self.table, &options, memory)
    }

    fn chosen(&self) -> Result<Chosen> {
        let database = Database::new(self.database);
        Ok(Chosen {
            database: database.ok_or_else(|| anyhow!("there is no database {}", self.database))?,
            prefix: self.prefix.clone().into_bytes(),
        })
    }

    fn columns(&self) -> Columns {
        Columns {
            key: self.key.clone(),
            values: self.values.clone(),
        }
    }
}

/// What it did goes to standard error.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let begun = Instant::now();
    let (loader, left_out) = fill(arguments).context("there is no table")?;
    let about = loader.finish().context("there is no table")?;
    // A lost message does not matter.
    let _ = io::stderr().write_all(report(&about, left_out, begun).as_bytes());
    Ok(ExitCode::SUCCESS)
}

/// All entries, and how many keys were left out.
fn fill(arguments: &Arguments) -> Result<(Loader, u64)> {
    let mut loader = arguments.loader(0);
    if let Some(path) = &arguments.copy {
        let Exported { others, .. } = read_copy(path, &arguments.chosen()?, &mut loader)
            .with_context(|| format!("cannot export {}", path.display()))?;
        return Ok((loader, others));
    }
    if let Some(path) = &arguments.csv {
        read_csv(path, &arguments.columns(), &mut loader)?;
        return Ok((loader, 0));
    }
    if let Some(path) = &arguments.jsonl {
        read_json_lines(path, &arguments.columns(), &mut loader)?;
        return Ok((loader, 0));
    }
    // A signal ends what follows, and leaves nothing.
    let interrupts = Interrupts::hold()?;
    if let Some(directory) = &arguments.dir {
        let beside = match arguments.table.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let offline = Offline::open(directory, arguments.until, beside, &interrupts)?;
        return of_engine(arguments, &offline.engine, &interrupts);
    }
    let folder = pins::folder_of(arguments.port)?;
    let engine = Engine::attach(&folder)
        .with_context(|| format!("no engine of a server on port {}", arguments.port))?;
    of_engine(arguments, &engine, &interrupts)
}

fn of_engine(
    arguments: &Arguments,
    engine: &Engine,
    interrupts: &Interrupts,
) -> Result<(Loader, u64)> {
    let chosen = arguments.chosen()?;
    let snapshot = Snapshot::take(engine)?;
    let mut loader = arguments.loader(snapshot.header().timestamp);
    let bar = Progress::count("keys", snapshot.header().keys);
    let exported = export(snapshot, &chosen, &mut loader, &mut |keys| {
        bar.at(keys);
        interrupts.check()
    });
    drop(bar);
    Ok((loader, exported?.others))
}

fn report(about: &About, left_out: u64, begun: Instant) -> String {
    let About {
        entries,
        blocks,
        depth,
        ..
    } = about;
    let mib = (blocks * u64::from(about.block_size)) as f64 / f64::from(1 << 20);
    let mut text = format!("{entries} entries in {mib:.1} MiB, depth {depth}");
    if about.timestamp > 0 {
        text += &format!(", as of timestamp {}", about.timestamp);
    }
    if left_out > 0 {
        text += &format!("; {left_out} keys that are no strings left out");
    }
    text + &format!(", in {:.1} s\n", begun.elapsed().as_secs_f64())
}
