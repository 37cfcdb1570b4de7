//! `tables-pool`: random look-ups of a table that is larger than the memory for its blocks, through the pool and through
//! vmcache, with as much memory.
//!
//! ```text
//! vmcache.rs  what is compared with
//! run.rs      threads that look keys up for a while
//! ```
//!
//! A leaf is a page of 4 KiB, keys have 8 bytes and values 120, as in the experiment of LIBDBOS's authors. Their disk serves tens of millions
//! of pages a second. Here one file is on the disk that is measured, whose reads cost more than any replacement of a page; another one
//! is in memory (tmpfs), which stands for such a disk: a read of it is a copy.

mod run;
mod vmcache;

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use bpfdb_table::{
    Access, ChainOptions, Chains, Options, Pool, PoolReader, Table as Blocks, Writer,
};

use self::run::{Worker, run};
use self::vmcache::Vmcache;
use super::made::key;
use crate::durability::Place;
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;

const BLOCK: usize = 4096;
const VALUE: usize = 120;
/// Of the data set, what has room in memory.
const SHARE: usize = 4;
/// Look-ups that chains run at the same time.
const TOGETHER: usize = 64;
/// Throughput per core: what the pool is to have of vmcache's.
const OF_VMCACHE: f64 = 3.0;

/// How many entries a file has; that of number `n` has the key `n`, and a value that begins with it.
#[derive(Clone, Copy)]
struct Entries(u64);

/// A table, open with O_DIRECT, and its file once more for who reads it without the crate.
struct File {
    table: Blocks,
    file: fs::File,
    entries: Entries,
}

/// Of one system in one round.
#[derive(Clone, Copy)]
struct Seen {
    /// Look-ups a second.
    rate: f64,
    /// Microseconds of processor for one.
    processor: f64,
    /// Of one call, microseconds.
    p99: f64,
}

/// The same, of all rounds.
#[derive(Default)]
struct Samples {
    rate: Sample,
    processor: Sample,
    p99: Sample,
}

impl Samples {
    fn push(&mut self, seen: Seen) {
        self.rate.push(seen.rate);
        self.processor.push(seen.processor);
        self.p99.push(seen.p99);
    }

    /// Look-ups in a second of processor time: the throughput of one core.
    fn per_core(&self) -> Sample {
        self.processor.map(|micros| 1e6 / micros)
    }
}

/// Systems, in the order of columns.
const SYSTEMS: [&str; 3] = ["vmcache", "pool", "chains"];

struct Row {
    place: &'static str,
    memory: &'static str,
    threads: usize,
    systems: [Samples; 3],
}

pub(super) fn measure(plan: &Plan, place: &Place) -> Result<Vec<Table>> {
    let mut rows = Vec::new();
    for (name, path, shares) in [
        ("disk", place.disk("pages"), &[SHARE][..]),
        ("memory", place.memory("pages"), &[SHARE, 1]),
    ] {
        let file = make(&path, plan.pool_entries)?;
        for &share in shares {
            for threads in [1, 2] {
                rows.push(measured(plan, &file, name, share, threads)?);
            }
        }
        drop(file);
        fs::remove_file(&path).with_context(|| path.display().to_string())?;
    }
    Ok(tables(&rows, plan, place))
}

fn make(path: &Path, entries: u64) -> Result<File> {
    let options = Options {
        block_size: BLOCK as u32,
        fanout: 0,
        timestamp: 0,
    };
    let mut writer = Writer::create(path, &options)?;
    for number in 0..entries {
        let mut value = [0; VALUE];
        value[..8].copy_from_slice(&number.to_le_bytes());
        writer.push(&key(number), &value)?;
    }
    writer.finish()?;
    let mut direct = fs::OpenOptions::new();
    direct.read(true).custom_flags(libc::O_DIRECT);
    Ok(File {
        table: Blocks::open(path, Access::Direct)?,
        file: direct.open(path).context("open with O_DIRECT")?,
        entries: Entries(entries),
    })
}

/// One row, all systems in turns.
fn measured(
    plan: &Plan,
    file: &File,
    place: &'static str,
    share: usize,
    threads: usize,
) -> Result<Row> {
    let data = file.table.about().blocks as usize * BLOCK;
    // All of it: with what a pool needs besides its blocks.
    let memory = if share == 1 {
        data + data / 64
    } else {
        data / share
    };
    let vmcache = Vmcache::new(file, memory)?;
    let [pool, for_chains] = [pool_of(&file.table, memory)?, pool_of(&file.table, memory)?];
    let mut systems = SYSTEMS.map(|_| Samples::default());
    let told = format!("{threads} threads, file in {place}, 1/{share} of it in memory");
    plan.repeat(&told, |round, warms_up| {
        let at = |together| (threads, together);
        let (entries, seed) = (file.entries, round as u64);
        // Until all that has room is there.
        let time = plan.pool_time * if warms_up { 3 } else { 1 };
        let seen = [
            run(entries, at(1), time, seed, || by_vmcache(&vmcache))?,
            run(entries, at(1), time, seed, || by_reader(&pool))?,
            run(entries, at(TOGETHER), time, seed, || by_chains(&for_chains))?,
        ];
        for (samples, seen) in systems.iter_mut().zip(seen).filter(|_| !warms_up) {
            samples.push(seen);
        }
        Ok(())
    })?;
    Ok(Row {
        place,
        memory: if share == 1 { "all" } else { "1/4" },
        threads,
        systems,
    })
}

/// A pool that takes so much memory in all.
fn pool_of(table: &Blocks, memory: usize) -> Result<Arc<Pool<'_>>> {
    let least = Pool::new(table, 0)?.bytes() - BLOCK;
    let blocks = (memory - least) / (BLOCK + 32);
    let pool = Pool::new(table, blocks * BLOCK)?;
    anyhow::ensure!(pool.bytes() <= memory, "{} of {memory}", pool.bytes());
    Ok(Arc::new(pool))
}

fn by_vmcache<'w>(vmcache: &'w Vmcache<'_>) -> Result<Worker<'w>> {
    Ok(Box::new(move |keys| {
        let value = |key: &u64| vmcache.get(*key).map(u64::from_le);
        keys.iter().map(value).collect()
    }))
}

fn by_reader<'w>(pool: &'w Arc<Pool<'w>>) -> Result<Worker<'w>> {
    let mut reader = PoolReader::new(pool);
    Ok(Box::new(move |keys| {
        let mut value = |number: &u64| number_of(reader.get(&key(*number))?);
        keys.iter().map(&mut value).collect()
    }))
}

fn by_chains<'w>(pool: &'w Arc<Pool<'w>>) -> Result<Worker<'w>> {
    let mut chains = Chains::start_over(pool, &ChainOptions::default())?;
    Ok(Box::new(move |numbers| {
        let keys: Vec<[u8; 8]> = numbers.iter().map(|number| key(*number)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let values = chains.get_many(&keys)?;
        anyhow::ensure!(chains.figures().by_process == 0, "the process has read");
        values.into_iter().map(number_of).collect()
    }))
}

/// What a value begins with.
fn number_of(value: Option<Vec<u8>>) -> Result<u64> {
    let value = value.context("no such key")?;
    let number = value.first_chunk().context("a short value")?;
    Ok(u64::from_le_bytes(*number))
}

fn tables(rows: &[Row], plan: &Plan, place: &Place) -> Vec<Table> {
    let megabytes = (plan.pool_entries * 136) >> 20;
    let title = format!(
        "random look-ups of a table of some {megabytes} MiB, a leaf of 4 KiB for each, O_DIRECT"
    );
    let columns = [
        "file in",
        "memory",
        "threads",
        "vmcache",
        "pool",
        "chains",
        "pool / vmcache",
        "target",
        "chains / vmcache",
    ];
    let mut cores = Table::new(
        "tables-pool",
        format!("{title}: thousands in a second of processor time"),
        &columns,
    );
    let columns = [
        "file in",
        "memory",
        "threads",
        "vmcache",
        "pool",
        "chains",
        "vmcache, p99, µs",
        "pool, p99, µs",
    ];
    let mut rates = Table::new(
        "tables-pool-rates",
        format!("{title}: thousands a second"),
        &columns,
    );
    for row in rows {
        let begin = || -> [Cell; 3] { [row.place.into(), row.memory.into(), row.threads.into()] };
        let [vmcache, pool, chains] = &row.systems;
        let thousands = |rates: &Sample| Cell::figure(&rates.map(|rate| rate / 1e3), 1);
        let per_core = row
            .systems
            .each_ref()
            .map(|samples| thousands(&samples.per_core()));
        let of = |system: &Samples| system.per_core().over(&vmcache.per_core());
        let verdict = match row.memory {
            "all" => "–".into(),
            _ => Cell::at_least(&of(pool), OF_VMCACHE),
        };
        let ratios = [
            Cell::figure(&of(pool), 2),
            verdict,
            Cell::figure(&of(chains), 2),
        ];
        cores.row(
            begin()
                .into_iter()
                .chain(per_core)
                .chain(ratios)
                .collect::<Vec<_>>(),
        );
        let all = row
            .systems
            .each_ref()
            .map(|samples| thousands(&samples.rate));
        let late = [vmcache, pool].map(|samples| Cell::figure(&samples.p99, 1));
        rates.row(
            begin()
                .into_iter()
                .chain(all)
                .chain(late)
                .collect::<Vec<_>>(),
        );
    }
    for table in [&mut cores, &mut rates] {
        table.note(format!("disk: {}; memory: a file in tmpfs", place.device()));
        table.note(format!(
            "vmcache, pool: threads that look up one key at a time, and read by pread(); chains: the kernel reads, {TOGETHER} keys at a time"
        ));
    }
    cores.note("processor time: of the process, its threads of io_uring included; all systems have as much memory");
    vec![cores, rates]
}
