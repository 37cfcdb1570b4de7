//! What is live of a file of cold values is rewritten to another: by each way, of the same file. All of them verify,
//! write, flush and swap by the same code.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bpfdb::{Demoter, Demotion, Engine, Operation, Session};
use bpfdb_log::Directory;
use bpfdb_tier::{ByKeys, Compactor, NewValue, RunValues, RunWriter, Runs};
use nix::sys::resource::{UsageWho, getrusage};

use super::calls::Calls;
use crate::durability::Place;
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;

/// Bytes of a value.
const SIZE: usize = 1024;
/// Of so many values one stays live.
const LIVE: u32 = 3;
/// More than the values have.
const RUN_SIZE: u64 = 128 << 20;
/// Requests of a batch.
const BATCH: usize = 200;

/// How what is live is found: of a run that is read by so many bytes at once, or (0) by the keys of all records.
const WAYS: [(&str, usize); 3] = [
    ("the file, reads of 4 KiB", 4 << 10),
    ("the file, reads of 1 MiB", 1 << 20),
    ("all keys", BY_KEYS),
];
const BY_KEYS: usize = 0;
const BLOCKS: usize = 0;
const MEBIBYTES: usize = 1;

pub(super) fn measure(plan: &Plan, place: &Place) -> Result<Table> {
    let mut world = World::new(plan, place)?;
    let mut all: [Measured; WAYS.len()] = Default::default();
    plan.repeat("tier-compaction", |round, is_warming| {
        for turn in 0..WAYS.len() {
            let which = (turn + round) % WAYS.len();
            let figures = world.rewrite(WAYS[which].1)?;
            if !is_warming {
                all[which].push(&figures);
            }
        }
        Ok(())
    })?;
    let title = format!(
        "a file of {} values of {SIZE} B, of which one of {LIVE} is live, is rewritten",
        plan.tier_rewritten
    );
    let columns = [
        "what is live is found by",
        "time, ms",
        "of reads of 4 KiB",
        "system calls",
        "processor, ms",
    ];
    let mut table = Table::new("tier-compaction", title, &columns);
    for ((name, _), measured) in WAYS.iter().zip(&all) {
        table.row([
            Cell::from(*name),
            Cell::figure(&measured.time, 0),
            Cell::figure(&measured.time.over(&all[BLOCKS].time), 2),
            Cell::figure(&measured.calls, 0),
            Cell::figure(&measured.processor, 0),
        ]);
    }
    table.row([
        "target".into(),
        "".into(),
        Cell::at_most(&all[MEBIBYTES].time.over(&all[BLOCKS].time), 0.2),
        "".into(),
        "".into(),
    ]);
    table.note(format!("the disk: {}", place.device()));
    if all[BLOCKS].calls.is_empty() {
        table.note("system calls are not counted: tracefs is not mounted");
    }
    Ok(table)
}

#[derive(Default)]
struct Measured {
    time: Sample,
    calls: Sample,
    processor: Sample,
}

impl Measured {
    fn push(&mut self, figures: &Figures) {
        self.time.push(figures.time.as_secs_f64() * 1e3);
        if let Some(calls) = figures.calls {
            self.calls.push(calls as f64);
        }
        self.processor.push(figures.processor.as_secs_f64() * 1e3);
    }
}

struct Figures {
    time: Duration,
    calls: Option<u64>,
    processor: Duration,
}

struct World {
    engine: Engine,
    session: Session,
    demoter: Demoter,
    runs: Arc<Runs<Directory>>,
    keys: Vec<Vec<u8>>,
}

impl World {
    fn new(plan: &Plan, place: &Place) -> Result<Self> {
        let engine = Engine::create(&bpfdb::Options {
            memory_limit: 1 << 30,
            memory_ahead: 64 << 20,
            ..bpfdb::Options::default()
        })?;
        let disk = Directory::own(&place.disk("compaction"))?;
        let runs = Arc::new(Runs::open(disk, engine.identity())?);
        let values = RunValues::new(Arc::clone(&runs), Arc::default());
        ensure!(
            engine.set_cold_values(Arc::new(values)),
            "the first of its process"
        );
        let keys = (0..plan.tier_rewritten).map(|key| format!("key:{key}").into_bytes());
        Ok(Self {
            session: engine.session()?,
            demoter: engine.demoter()?,
            engine,
            runs,
            keys: keys.collect(),
        })
    }

    /// Gives each of these keys a value in memory.
    fn set(&mut self, which: impl Fn(usize) -> bool) -> Result<()> {
        let value = [7; SIZE];
        let chosen = self.keys.iter().enumerate().filter(|(n, _)| which(*n));
        let all: Vec<_> = chosen.map(|(_, key)| Operation::Set(key, &value)).collect();
        for some in all.chunks(BATCH) {
            for outcome in self.session.batch(some, 0)? {
                outcome?;
            }
        }
        Ok(())
    }

    /// All values become cold, in one run, of which a part is overwritten then. Its number.
    fn fill(&mut self) -> Result<u64> {
        self.set(|_| true)?;
        let epoch = self.demoter.settle()?;
        let mut writer = RunWriter::new(Arc::clone(&self.runs), RUN_SIZE);
        let value = vec![7; SIZE];
        let mut run = 0;
        for some in self.keys.chunks(8000) {
            let new = some.iter().map(|key| NewValue {
                key: key.clone(),
                kind: 0,
                value: value.clone(),
                timestamp: epoch,
            });
            let new: Vec<_> = new.collect();
            let places = writer.append(&new, &self.engine.run_uses())?;
            run = places.first().context("there are values")?.run;
            let demotions = new.iter().zip(places).map(|(new, to)| Demotion {
                key: &new.key,
                id: 0,
                epoch,
                len: SIZE as u64,
                to,
            });
            let demotions: Vec<_> = demotions.collect();
            self.demoter.demote_all(&demotions, &mut Vec::new())?;
        }
        writer.end()?;
        self.set(|n| !(n as u32).is_multiple_of(LIVE))?;
        self.demoter.settle()?;
        self.demoter.reclaim()?;
        Ok(run)
    }

    fn named(&self, run: u64) -> u64 {
        let uses = self.engine.run_uses();
        uses[(run % uses.len() as u64) as usize].values
    }

    fn rewrite(&mut self, way: usize) -> Result<Figures> {
        let run = self.fill()?;
        let live = self.keys.len().div_ceil(LIVE as usize) as u64;
        ensure!(self.named(run) == live, "what was written over is dead");
        let mut rewriter = Rewriter::new(&self.engine, &self.runs, way)?;
        let calls = Calls::count()?;
        let (begun, used) = (Instant::now(), processor_time()?);
        rewriter.rewrite(run, &mut self.demoter)?;
        let figures = Figures {
            time: begun.elapsed(),
            calls: calls.map(|calls| calls.read()).transpose()?,
            processor: processor_time()? - used,
        };
        self.demoter.reclaim()?;
        ensure!(self.named(run) == 0, "all of it has moved");
        drop(rewriter);
        self.runs.remove_unused(&self.engine.run_uses())?;
        Ok(figures)
    }
}

/// What rewrites is there before the time is taken: a server has it for long.
enum Rewriter {
    ByRuns(Box<Compactor<Directory>>, RunWriter<Directory>),
    ByKeys(Box<ByKeys<Directory>>),
}

impl Rewriter {
    fn new(engine: &Engine, runs: &Arc<Runs<Directory>>, way: usize) -> Result<Self> {
        if way == BY_KEYS {
            let by_keys = ByKeys::new(engine, Arc::clone(runs), RUN_SIZE)?;
            return Ok(Self::ByKeys(Box::new(by_keys)));
        }
        let mut compactor = Compactor::new(engine, Arc::clone(runs));
        compactor.set_read(way);
        compactor.prepare()?;
        let writer = RunWriter::new(Arc::clone(runs), RUN_SIZE);
        Ok(Self::ByRuns(Box::new(compactor), writer))
    }

    /// All of the run, until the memory of the places before was given back.
    fn rewrite(&mut self, run: u64, demoter: &mut Demoter) -> Result<()> {
        match self {
            Self::ByKeys(by_keys) => by_keys.rewrite(run)?,
            Self::ByRuns(compactor, writer) => {
                compactor.begin(run)?;
                loop {
                    let is_over = compactor.step(writer, demoter)?.is_over;
                    demoter.settle()?;
                    if is_over {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

fn processor_time() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let [user, system] = [usage.user_time(), usage.system_time()];
    let micros = [user, system].map(|time| time.tv_sec() * 1_000_000 + time.tv_usec());
    Ok(Duration::from_micros((micros[0] + micros[1]) as u64))
}
