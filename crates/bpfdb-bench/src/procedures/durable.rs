//! `procedures-durable`: Voter with a log on the disk, against Redis: replies at once
//! (`appendfsync everysec`), and when it is on the disk (`always`).
//!
//! A client that waits for the disk is served by the daemon. With `always` it is the daemon that
//! has the kernel run the calls.

use std::path::Path;

use anyhow::{Context, Result};

use super::calls::Work;
use super::subject::{Calls, Contender, Figures, Measured, Subject};
use super::tables::Comparison;
use super::{CONNECTIONS, Row, SHARE};
use crate::durability::{Disk, Setup, checkpoint, note_refused, until_room};
use crate::plan::Plan;
use crate::report::Table;

const NAME: &str = "procedures-durable";
const MODES: [&str; 2] = ["everysec", "always"];
const PIPELINES: [u32; 2] = [1, 16];

pub(super) fn measure(
    plan: &Plan,
    folder: Option<&Path>,
    redis: Option<&Path>,
) -> Result<Vec<Table>> {
    let setup = Setup::new(plan, folder, redis)?;
    let mut disk = Disk::new(&setup.place, plan.quick)?;
    let (mut rows, mut figures, mut refused) = (Vec::new(), Vec::new(), 0);
    let mut servers = Vec::new();
    for mode in MODES {
        let mut logged = Logged::start(&setup, mode)?;
        servers = logged.names();
        let of_mode = PIPELINES.map(|pipeline| Row {
            fsync: Some(mode),
            ..Row::new(Work::Voter, pipeline, None)
        });
        figures.extend(logged.run(plan, &of_mode, &mut disk)?);
        refused += logged.refused;
        rows.extend(of_mode);
    }
    let comparison = Comparison {
        name: NAME,
        heads: &["request", "appendfsync", "-P"],
        servers,
        rows: &rows,
        figures: &figures,
    };
    let mut rates = comparison.rates(format!(
        "FCALL with a log on the disk, through TCP on loopback, thousands of requests per second: \
         {CONNECTIONS} connections, phones: {}",
        plan.tcp_keys
    ));
    note_refused(&mut rates, refused);
    disk.note(&mut rates);
    setup.note(&mut rates);
    let tables = vec![rates, comparison.latencies()];
    setup.place.clear()?;
    Ok(tables)
}

/// Servers with logs that are flushed alike.
struct Logged {
    mode: &'static str,
    /// The first one is bpfdb.
    subjects: Vec<Subject>,
    refused: u32,
}

impl Logged {
    fn start(setup: &Setup<'_>, mode: &'static str) -> Result<Self> {
        let fsync = ["--appendfsync", mode];
        let folder = |name: &str| setup.place.disk(&format!("procedures-{mode}-{name}"));
        let bpfdb = setup.bpfdb(&folder("bpfdb"), &fsync)?;
        let mut subjects = vec![Subject::in_the_kernel(bpfdb)?];
        for (number, program) in setup.redis.iter().enumerate() {
            let settings = [&["--appendonly", "yes"][..], &fsync].concat();
            let folder = folder(&format!("redis-{number}"));
            subjects.push(Subject::new(Setup::redis(program, &folder, &settings)?)?);
        }
        Ok(Self {
            mode,
            subjects,
            refused: 0,
        })
    }

    fn names(&self) -> Vec<String> {
        self.subjects
            .iter()
            .map(|one| one.name().to_owned())
            .collect()
    }

    fn run(&mut self, plan: &Plan, rows: &[Row], disk: &mut Disk) -> Result<Vec<Figures>> {
        let new = |_| Figures::new(self.subjects.len());
        let mut figures: Vec<Figures> = rows.iter().map(new).collect();
        for round in 0..plan.rounds {
            let (mode, round) = (self.mode, round + 1);
            eprintln!("{NAME}, {mode}: round {round} of {}", plan.rounds);
            disk.look()?;
            for (row, figures) in rows.iter().zip(&mut figures) {
                for which in 0..self.subjects.len() {
                    let context = || format!("Voter of {}", self.subjects[which].name());
                    let context = context();
                    let measured = self.measure(plan, row, which).context(context)?;
                    figures.add(which, Some(measured));
                }
            }
        }
        Ok(figures)
    }

    fn measure(&mut self, plan: &Plan, row: &Row, which: usize) -> Result<Measured> {
        let subject = &mut self.subjects[which];
        let calls = Calls {
            requests: requests(plan, row),
            ..Calls::of(plan, row)
        };
        until_room(&mut self.refused, || {
            subject.fill(plan, row.work)?;
            // What was written before costs nothing afterwards.
            if which == 0 {
                checkpoint(&subject.server)?;
            }
            subject.call(plan, calls)
        })
    }
}

/// Those that wait for the disk are fewer: about two seconds' worth of them.
fn requests(plan: &Plan, row: &Row) -> u32 {
    let pipelined = row.pipeline > 1;
    match row.fsync {
        Some("always") => plan.sync_requests / 3 * if pipelined { 5 } else { 1 },
        _ => plan.tcp_requests[usize::from(pipelined)] / SHARE,
    }
}
