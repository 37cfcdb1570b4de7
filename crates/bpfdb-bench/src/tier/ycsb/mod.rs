//! `tier-ycsb`: the workloads of YCSB on data of four times the memory, beside Redis, which evicts with the same memory,
//! and for reads of any record beside RocksDB.
//!
//! ```text
//! workload.rs  what clients ask for
//! clients.rs   clients that ask a server
//! rocksdb.rs   RocksDB's own benchmark
//! table.rs     tables of it
//! ```
//!
//! The same workload A on rows of PostgreSQL is [`crate::proxy`]'s, by pgbench.

mod clients;
mod rocksdb;
mod table;
mod workload;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::page_cache;
use super::values::{SIZE, until_in_files};
use crate::durability::Setup;
use crate::plan::Plan;
use crate::random::{Distribution, Draw};
use crate::report::Table;
use crate::sample::Sample;
use crate::tcp::{Server, fill};
use clients::{Run, Seen};
use rocksdb::RocksDb;
use workload::{ALL, Records, Workload};

/// Bytes of data for one of memory.
const TIMES: u64 = 4;

/// A server that is asked.
struct Subject {
    server: Server,
    /// Where its files of values are; `None`: it evicts.
    files: Option<PathBuf>,
    records: Records,
}

/// Of one workload and one subject.
#[derive(Clone, Default)]
struct Figures {
    per_second: Sample,
    p99_micros: Sample,
    missing_percent: Sample,
}

impl Figures {
    fn push(&mut self, seen: &Seen) {
        self.per_second.push(seen.per_second);
        self.p99_micros.push(seen.p99_micros);
        self.missing_percent.push(seen.missing_percent);
    }
}

struct Measured {
    /// Bytes of memory that each has.
    memory: u64,
    names: Vec<String>,
    /// By workload, and then by subject.
    figures: Vec<Vec<Figures>>,
    /// Of reads of any record.
    rocksdb: Option<Figures>,
    /// Writes that the log had no room for.
    refused: u64,
}

pub(super) fn measure(plan: &Plan, setup: &Setup<'_>) -> Result<Vec<Table>> {
    let (subjects, memory) = start(setup, plan)?;
    let folder = setup.place.disk("ycsb-rocksdb");
    let rocksdb = RocksDb::fill(folder, plan.tier_keys, SIZE, memory)?;
    let draws = Distribution::ALL.map(|distribution| Draw::new(distribution, plan.tier_keys));
    let mut measured = Measured {
        memory,
        names: subjects
            .iter()
            .map(|subject| subject.server.name.clone())
            .collect(),
        figures: vec![vec![Figures::default(); subjects.len()]; ALL.len()],
        rocksdb: rocksdb.as_ref().map(|_| Figures::default()),
        refused: 0,
    };
    plan.repeat("tier-ycsb", |_, is_warming| {
        for (number, workload) in ALL.into_iter().enumerate() {
            let draw = &draws[workload.distribution() as usize];
            for (which, subject) in subjects.iter().enumerate() {
                let seen = subject.run(workload, draw, plan)?;
                if !is_warming {
                    measured.figures[number][which].push(&seen);
                    measured.refused += seen.refused;
                }
            }
        }
        if let (Some(rocksdb), Some(figures)) = (&rocksdb, &mut measured.rocksdb) {
            let reads = rocksdb.read(plan.ycsb_time)?;
            if !is_warming {
                figures.per_second.push(reads.per_second);
                figures.p99_micros.push(reads.p99_micros);
            }
        }
        Ok(())
    })?;
    let mut tables = measured.tables(plan);
    setup.note(&mut tables[0]);
    drop(subjects);
    setup.place.clear()?;
    Ok(tables)
}

/// The servers, filled, and the bytes of memory that each has.
fn start(setup: &Setup<'_>, plan: &Plan) -> Result<(Vec<Subject>, u64)> {
    let memory = u64::from(plan.tier_keys) * u64::from(SIZE) / TIMES;
    let limit = memory.to_string();
    let folder = setup.place.disk("ycsb-bpfdb");
    let server = setup.bpfdb(&folder, &["--tier", "--tier-memory", &limit])?;
    let subject = |server: Server, files| {
        fill(&server, plan.tier_keys, SIZE)?;
        anyhow::Ok(Subject {
            server,
            files,
            records: Records::new(plan.tier_keys),
        })
    };
    let ours = subject(server, Some(folder))?;
    let used = until_in_files(&ours.server, memory)?;
    let mut subjects = vec![ours];
    // The newest one that there is.
    if let Some(program) = setup.redis.last() {
        let limit = used.to_string();
        let settings = ["--maxmemory", &limit, "--maxmemory-policy", "allkeys-lru"];
        let server = Setup::redis(program, &setup.place.disk("ycsb-redis"), &settings)?;
        subjects.push(subject(server, None)?);
    }
    Ok((subjects, used))
}

impl Subject {
    fn run(&self, workload: Workload, draw: &Draw, plan: &Plan) -> Result<Seen> {
        let run = Run {
            server: &self.server,
            workload,
            records: &self.records,
            draw,
            size: SIZE,
            time: plan.ycsb_time,
        };
        let Some(folder) = &self.files else {
            return run.measure();
        };
        let seen = page_cache::without(folder, || run.measure());
        let seen = seen.context("values in files")?;
        ensure!(
            seen.missing_percent == 0.0,
            "{}: records are gone",
            workload.name
        );
        Ok(seen)
    }
}
