//! An engine, its log, and the programs that run on it.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use bpfdb::{Engine, Options, Program, Session};
use bpfdb_durability::{CheckpointOptions, Durability};
use bpfdb_log::Directory;
use libbpf_rs::{MapCore, MapFlags, Object};

use crate::kernel::{find, map};
use crate::machine::pin;
use crate::plan::Plan;
use crate::random::{Distribution, sequence};

/// As `bpfdb serve` has it: bytes of a ring, of which each processor has one.
pub(super) const RING: u32 = 16 << 20;
/// Memory of an engine for a record, index and reserve included; besides a long value, of which
/// one that is replaced and its successor are there at the same time.
const BYTES_PER_RECORD: u64 = 192;
const SLOT_RESERVE: u64 = 64 << 20;
const SEED: u64 = 42;
/// Records are drawn for this processor; the log is written by the others.
const PROCESSOR: usize = 0;
/// Longer than a disk takes that is throttled.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_micros(100);

/// Operations that are done in one go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) is_set: bool,
    /// Of the sequence of draws, and its length - 1.
    pub(super) start: u32,
    pub(super) mask: u32,
    /// Place in it.
    pub(super) first: u32,
    pub(super) count: u32,
}

impl Part {
    /// In parts of at most so many.
    pub(super) fn divided(self, most: u32) -> impl Iterator<Item = Self> {
        (0..self.count)
            .step_by(most as usize)
            .map(move |done| Self {
                first: self.first.wrapping_add(done),
                count: most.min(self.count - done),
                ..self
            })
    }
}

/// An engine with its records, and perhaps a log.
pub(super) struct Logged {
    // Before the engine, which closes both.
    session: Session,
    durability: Option<Durability>,
    get: Program,
    set: Program,
    engine: Engine,
    object: Object,
}

impl Logged {
    /// `folder`: of its log, which is made.
    pub(super) fn new(
        plan: &Plan,
        value: u32,
        records: u32,
        folder: Option<PathBuf>,
    ) -> Result<Self> {
        let long = value > bpfdb::abi::BPFDB_INLINE_MAX;
        let slots = if long { u64::from(value) } else { 0 };
        let memory = u64::from(records) * (BYTES_PER_RECORD + slots) + SLOT_RESERVE;
        let engine = Engine::create(&Options {
            memory_limit: memory,
            memory_ahead: memory,
            log_ring: if folder.is_some() { RING } else { 0 },
            ..Options::default()
        })?;
        let kind = if long { "long" } else { "engine" };
        let object = load(&engine, plan, kind)?;
        let logged = Self {
            durability: folder.map(|folder| open(&engine, &folder)).transpose()?,
            session: engine.session()?,
            get: find(&object, &format!("{kind}_get"))?,
            set: find(&object, &format!("{kind}_set"))?,
            engine,
            object,
        };
        logged.fill(&find(&logged.object, &format!("{kind}_fill"))?, records)?;
        logged.draw(plan, records)?;
        Ok(logged)
    }

    /// The program stops where the ring is full. It is empty when it begins.
    fn fill(&self, fill: &Program, records: u32) -> Result<()> {
        let mut first = 0;
        while first < records {
            let context = [self.session.index(), 0, first, 0, records - first];
            let missing = fill.run(&context.map(u64::from))?;
            ensure!(
                missing < records - first,
                "{missing} records cannot be inserted"
            );
            first = records - missing;
            self.settle()?;
        }
        let stats = self.engine.stats()?;
        ensure!(stats.records == u64::from(records), "records were lost");
        Ok(())
    }

    /// Writes a sequence for each distribution, one behind the other.
    fn draw(&self, plan: &Plan, records: u32) -> Result<()> {
        let places = plan.kernel_draws * Distribution::ALL.len() as u32;
        let keys: Vec<u8> = (0..places).flat_map(u32::to_ne_bytes).collect();
        let values: Vec<u8> = Distribution::ALL
            .into_iter()
            .flat_map(|distribution| sequence(distribution, records, plan.kernel_draws, SEED))
            .flat_map(u32::to_ne_bytes)
            .collect();
        let map = map(&self.object, "sequence")?;
        map.update_batch(&keys, &values, places, MapFlags::ANY, MapFlags::ANY)?;
        Ok(())
    }

    /// Nanoseconds that it took, and how many operations failed.
    pub(super) fn run(&self, part: Part) -> Result<(f64, u32)> {
        let program = if part.is_set { &self.set } else { &self.get };
        let context = [
            self.session.index(),
            part.start,
            part.first,
            part.mask,
            part.count,
        ];
        let run = || -> Result<(f64, u32)> {
            pin(PROCESSOR)?;
            let clock = Instant::now();
            let failed = program.run(&context.map(u64::from))?;
            Ok((clock.elapsed().as_nanos() as f64, failed))
        };
        // Threads of the log must not inherit the processor.
        thread::scope(|scope| {
            scope
                .spawn(run)
                .join()
                .map_err(|_| anyhow!("a thread failed"))?
        })
    }

    /// Waits until the log has all that was committed: the rings are empty then.
    pub(super) fn settle(&self) -> Result<()> {
        let Some(durability) = &self.durability else {
            return Ok(());
        };
        let (now, begun) = (self.engine.now(), Instant::now());
        durability.want(now, 1);
        while durability.durable() < now {
            ensure!(
                begun.elapsed() < PATIENCE,
                "the log: {:?}",
                durability.state()
            );
            thread::sleep(PAUSE);
        }
        Ok(())
    }
}

/// No checkpoints: they would run beside what is measured.
fn open(engine: &Engine, folder: &std::path::Path) -> Result<Durability> {
    let disk = Directory::own(folder)?;
    let options = bpfdb_durability::Options {
        checkpoints: CheckpointOptions::on_request(),
        ..bpfdb_durability::Options::default()
    };
    let (durability, _) = Durability::start(engine, disk, options)?;
    Ok(durability)
}

/// With the programs of this kind only: to verify all of them takes longer than a quick run.
fn load(engine: &Engine, plan: &Plan, kind: &str) -> Result<Object> {
    let mut object = bpfdb::open_object(crate::objects::BENCH, "bench")?;
    engine.adopt(&mut object)?;
    for mut map in object.maps_mut() {
        if map.name() == "sequence" {
            map.set_max_entries(plan.kernel_draws * Distribution::ALL.len() as u32)?;
        }
    }
    let wanted = ["fill", "get", "set"].map(|name| format!("bench_{kind}_{name}"));
    for mut program in object.progs_mut() {
        let is_wanted = wanted.iter().any(|name| program.name() == name.as_str());
        program.set_autoload(is_wanted);
    }
    object.load().context("load the benchmark programs")
}
