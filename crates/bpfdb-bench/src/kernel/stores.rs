//! The engine and a plain hash map with the same records, and the programs
//! that run on them.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use bpfdb::{Engine, Options, Program, Session};
use libbpf_rs::{MapCore, MapFlags, Object};

use crate::machine::pin;
use crate::plan::Plan;
use crate::random::{Distribution, sequence};

/// Memory of the engine for a record, index and reserve included.
const BYTES_PER_RECORD: u64 = 192;
const SEED: u64 = 42;
pub(crate) const THREADS: usize = 2;

/// A program of bpf/bench/bench.bpf.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Nothing,
    Line,
    PlainGet,
    EngineGet,
    PlainSet,
    EngineSet,
    Transaction,
}

impl Subject {
    /// In the order in which they are measured.
    pub(crate) const ALL: [Self; 7] = [
        Self::Nothing,
        Self::Line,
        Self::PlainGet,
        Self::EngineGet,
        Self::PlainSet,
        Self::EngineSet,
        Self::Transaction,
    ];

    fn program(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Line => "line",
            Self::PlainGet => "plain_get",
            Self::EngineGet => "engine_get",
            Self::PlainSet => "plain_set",
            Self::EngineSet => "engine_set",
            Self::Transaction => "engine_transaction",
        }
    }

    /// Draws of one operation.
    fn draws(self) -> u32 {
        if self == Self::Transaction { 5 } else { 1 }
    }
}

/// What one measurement gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// Nanoseconds per operation, of all threads together.
    pub(crate) nanos: f64,
    /// Share of operations that ended in an Error.
    pub(crate) failed: f64,
}

pub(crate) struct Stores {
    // Before the engine, which closes them.
    sessions: Vec<Session>,
    engine: Engine,
    object: Object,
    programs: BTreeMap<Subject, Program>,
    draws: u32,
}

impl Stores {
    /// Both stores with all records, and the draws.
    pub(crate) fn new(plan: &Plan) -> Result<Self> {
        let memory = u64::from(plan.kernel_records) * BYTES_PER_RECORD;
        let engine = Engine::create(&Options {
            memory_limit: memory,
            memory_ahead: memory,
            ..Options::default()
        })?;
        let object = load(&engine, plan)?;
        let program = |subject: Subject| Ok((subject, find(&object, subject.program())?));
        let stores = Self {
            sessions: (0..THREADS)
                .map(|_| engine.session())
                .collect::<bpfdb::Result<_>>()?,
            programs: Subject::ALL
                .into_iter()
                .map(program)
                .collect::<Result<_>>()?,
            draws: plan.kernel_draws,
            engine,
            object,
        };
        stores.fill(plan.kernel_records)?;
        stores.draw(plan.kernel_records)?;
        Ok(stores)
    }

    fn fill(&self, records: u32) -> Result<()> {
        let session = self.sessions[0].index();
        for name in ["plain_fill", "engine_fill"] {
            let missing = find(&self.object, name)?.run(&context(session, 0, 0, 0, records))?;
            ensure!(missing == 0, "{name}: {missing} records were not inserted");
        }
        let stats = self.engine.stats()?;
        ensure!(stats.records == u64::from(records), "records were lost");
        Ok(())
    }

    /// Writes a sequence for each distribution, one behind the other.
    fn draw(&self, records: u32) -> Result<()> {
        let map = map(&self.object, "sequence")?;
        let keys: Vec<u8> = (0..self.draws * Distribution::ALL.len() as u32)
            .flat_map(u32::to_ne_bytes)
            .collect();
        let values: Vec<u8> = Distribution::ALL
            .into_iter()
            .flat_map(|distribution| sequence(distribution, records, self.draws, SEED))
            .flat_map(u32::to_ne_bytes)
            .collect();
        map.update_batch(
            &keys,
            &values,
            (keys.len() / 4) as u32,
            MapFlags::ANY,
            MapFlags::ANY,
        )?;
        Ok(())
    }

    /// Runs `operations` of `subject` on each of `threads` processors, from
    /// place `first` of the sequence on.
    pub(crate) fn time(
        &self,
        subject: Subject,
        distribution: Distribution,
        threads: usize,
        first: u32,
        operations: u32,
    ) -> Result<Timing> {
        let program = &self.programs[&subject];
        let count = operations / subject.draws();
        let start = distribution as u32 * self.draws;
        let draws = self.draws;
        let sessions: Vec<u32> = self.sessions.iter().map(Session::index).collect();
        let barrier = Barrier::new(threads);
        let run = &|thread: usize| -> Result<(f64, u32)> {
            pin(thread)?;
            let first = first + thread as u32 * (draws / 2);
            barrier.wait();
            let clock = Instant::now();
            let failed = program.run(&context(sessions[thread], start, first, draws - 1, count))?;
            Ok((clock.elapsed().as_nanos() as f64, failed))
        };
        let results = thread::scope(|scope| {
            let handles: Vec<_> = (0..threads)
                .map(|thread| scope.spawn(move || run(thread)))
                .collect();
            handles
                .into_iter()
                .map(|handle| handle.join().map_err(|_| anyhow!("a thread panicked"))?)
                .collect::<Result<Vec<_>>>()
        })?;
        let total = f64::from(count) * threads as f64;
        let longest = results.iter().map(|result| result.0).fold(0.0, f64::max);
        let failed: u32 = results.iter().map(|result| result.1).sum();

        Ok(Timing {
            nanos: longest / total,
            failed: f64::from(failed) / total,
        })
    }
}

/// The arguments of the programs, as bpf/bench/bench.bpf.c explains them.
fn context(session: u32, start: u32, first: u32, mask: u32, count: u32) -> [u64; 5] {
    [session, start, first, mask, count].map(u64::from)
}

fn load(engine: &Engine, plan: &Plan) -> Result<Object> {
    let mut object = bpfdb::open_object(crate::objects::BENCH, "bench")?;
    engine.adopt(&mut object)?;
    for mut map in object.maps_mut() {
        let entries = match map.name().to_str() {
            Some("plain" | "lines") => plan.kernel_records,
            Some("sequence") => plan.kernel_draws * Distribution::ALL.len() as u32,
            _ => continue,
        };
        map.set_max_entries(entries)?;
    }
    object.load().context("load the benchmark programs")
}

pub(crate) fn find(object: &Object, name: &str) -> Result<Program> {
    Ok(bpfdb::find_program(object, &format!("bench_{name}"))?)
}

pub(crate) fn map<'a>(object: &'a Object, name: &str) -> Result<libbpf_rs::Map<'a>> {
    object
        .maps()
        .find(|map| map.name() == name)
        .with_context(|| format!("the benchmark has no map {name}"))
}
