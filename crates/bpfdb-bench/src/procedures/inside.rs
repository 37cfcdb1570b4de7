//! Voter without a server: compiled, and in C by hand, called by `BPF_PROG_RUN`.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use bpfdb::{Engine, Options, Session, Status, find_program};
use bpfdb_apps::application::Application;
use bpfdb_apps::random::{Distribution, Random};
use bpfdb_apps::voter::{CONTESTANTS, FUNCTION, Voter};
use bpfdb_procedures::inside::{Calls, Compiler, Failure, Library, ReplyRef};
use hdrhistogram::Histogram;

use super::calls::VOTES_OF_PHONE;
use crate::machine::pin;
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;

const NAME: &str = "procedures-inside";
/// Calls of a system call.
const BATCHES: [usize; 2] = [1, 1000];
const CORES: [usize; 2] = [1, 2];
/// Of the time of C by hand that the compiled procedure may take.
const TARGET: f64 = 1.25;
/// Millions of compiled calls per second, in batches, on one core.
const RATE: f64 = 1.0;
/// Memory of the engine for a call, which writes two records, and for what is there before.
const BYTES_OF_CALL: u64 = 1024;
const RECORDS_OF_CALL: u64 = 2;
const BYTES_AT_LEAST: u64 = 64 << 20;
/// Calls with which both are compared.
const COMPARED: usize = 3000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Compiled,
    ByHand,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    batch: usize,
    cores: usize,
    /// The index is made at its size beforehand, as one is that has been loaded
    /// ([`Engine::presize`]). Else it grows with the votes.
    is_presized: bool,
    phones: Distribution,
}

#[derive(Default)]
struct Figures {
    compiled: Sample,
    by_hand: Sample,
    /// Of the system calls of the compiled procedure, in microseconds.
    p50: Sample,
    p99: Sample,
    /// Of a thousand compiled calls, attempts that met a conflict; and calls that met one in each.
    repeated: Sample,
    failed: Sample,
}

/// What a run came to.
struct Run {
    /// Calls per second of all cores together.
    rate: f64,
    /// Nanoseconds of each system call.
    times: Histogram<u64>,
    /// Of a call, as above.
    repeated: f64,
    failed: f64,
}

pub(super) fn measure(plan: &Plan) -> Result<Table> {
    compare()?;
    let points = points();
    let mut figures: Vec<Figures> = points.iter().map(|_| Figures::default()).collect();
    for round in 0..plan.rounds {
        eprintln!("{NAME}: round {} of {}", round + 1, plan.rounds);
        for (&point, figures) in points.iter().zip(&mut figures) {
            for subject in [Subject::Compiled, Subject::ByHand] {
                let run = time(plan, subject, point)?;
                if subject == Subject::ByHand {
                    figures.by_hand.push(run.rate);
                    continue;
                }
                let percentile = |q| run.times.value_at_quantile(q) as f64 / 1e3;
                figures.compiled.push(run.rate);
                figures.p50.push(percentile(0.5));
                figures.p99.push(percentile(0.99));
                figures.repeated.push(run.repeated * 1000.0);
                figures.failed.push(run.failed * 1000.0);
            }
        }
    }
    Ok(table(plan, &points, &figures))
}

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for batch in BATCHES {
        for (is_presized, phones) in [
            (false, Distribution::Uniform),
            (true, Distribution::Uniform),
            (false, Distribution::Zipf),
        ] {
            points.extend(CORES.map(|cores| Point {
                batch,
                cores,
                is_presized,
                phones,
            }));
        }
    }
    points
}

/// An engine with the data that is there before the first vote, and what votes in it.
struct Stage {
    // Before the engine, which closes them.
    sessions: Vec<Session>,
    library: Library,
    engine: Engine,
    voter: Voter,
}

impl Stage {
    fn new(
        subject: Subject,
        (phones, distribution): (u32, Distribution),
        calls: usize,
        is_presized: bool,
    ) -> Result<Self> {
        let memory = BYTES_AT_LEAST + calls as u64 * BYTES_OF_CALL;
        let engine = Engine::create(&Options {
            memory_limit: memory,
            memory_ahead: memory,
            ..Options::default()
        })?;
        if is_presized {
            engine.presize(calls as u64 * RECORDS_OF_CALL)?;
        }
        let voter = Voter::new(CONTESTANTS, phones, VOTES_OF_PHONE, distribution);
        let mut library = Compiler::new(&engine)?.library(voter.library().as_bytes())?;
        if subject == Subject::ByHand {
            let mut object = bpfdb::open_object(crate::objects::VOTER, "voter")?;
            engine.adopt_with_buffers(&mut object)?;
            let object = object.load()?;
            library = library.executed_by(find_program(&object, "voter_by_hand")?);
        }
        let sessions = CORES.map(|_| engine.session()).into_iter();
        let mut sessions = sessions.collect::<bpfdb::Result<Vec<_>>>()?;
        for (key, value) in voter.data() {
            sessions[0].set(key.as_bytes(), value.as_bytes())?;
        }
        Ok(Self {
            sessions,
            library,
            engine,
            voter,
        })
    }
}

/// So many calls, in batches.
fn calls(
    library: &Library,
    voter: &Voter,
    count: usize,
    batch: usize,
    seed: u64,
) -> Result<Vec<Calls>> {
    let mut random = Random::new(seed);
    let mut batches = Vec::with_capacity(count.div_ceil(batch));
    for _ in 0..count.div_ceil(batch) {
        let mut calls = library.calls();
        for _ in 0..batch {
            let vote = voter.next(&mut random);
            let (keys, arguments) = voter.words(&vote);
            let keys = keys.each_ref().map(|key| key.as_bytes());
            let arguments = arguments.each_ref().map(|argument| argument.as_bytes());
            calls.add(FUNCTION, &keys, &arguments)?;
        }
        batches.push(calls);
    }
    Ok(batches)
}

/// Both leave the same data, and reply the same.
fn compare() -> Result<()> {
    let outcomes = [Subject::Compiled, Subject::ByHand].map(|subject| -> Result<_> {
        let mut stage = Stage::new(subject, (500, Distribution::Uniform), COMPARED, false)?;
        let mut batches = calls(&stage.library, &stage.voter, COMPARED, COMPARED, 1)?;
        let mut replies = Vec::new();
        for calls in &mut batches {
            for reply in calls.run(&mut stage.sessions[0])? {
                replies.push(reply?.to_owned());
            }
        }
        let session = &mut stage.sessions[0];
        let mut data = BTreeMap::new();
        let mut cursor = 0;
        loop {
            let (next, keys) = session.scan(cursor, 1000)?;
            for key in keys {
                data.insert(key.clone(), session.get(&key)?);
            }
            if next == 0 {
                break;
            }
            cursor = next;
        }
        let records = stage.engine.stats()?.records;
        ensure!(records == data.len() as u64, "records are missing");
        Ok((replies, data))
    });
    let [compiled, by_hand] = outcomes;
    let (compiled, by_hand) = (compiled?, by_hand?);
    ensure!(compiled.0.len() == COMPARED, "replies are missing");
    ensure!(compiled.0 == by_hand.0, "replies of C by hand differ");
    let mut pairs = compiled.1.iter().zip(&by_hand.1);
    let differs = pairs.find(|(compiled, by_hand)| compiled != by_hand);
    ensure!(differs.is_none(), "data of C by hand differs: {differs:?}");
    ensure!(
        compiled.1.len() == by_hand.1.len(),
        "records of C by hand differ"
    );
    Ok(())
}

/// Attempts that met a conflict.
fn conflicts(engine: &Engine) -> Result<u64> {
    Ok(engine.counters()?.conflicts.iter().sum())
}

/// From a tenth of a microsecond to ten seconds.
fn times() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(100, 10_000_000_000, 3)?)
}

fn time(plan: &Plan, subject: Subject, point: Point) -> Result<Run> {
    let Point { batch, cores, .. } = point;
    let each = plan.kernel_operations as usize;
    let phones = (plan.tcp_keys, point.phones);
    let mut stage = Stage::new(subject, phones, each * cores, point.is_presized)?;
    let before = conflicts(&stage.engine)?;
    let sessions = &mut stage.sessions;
    let (library, voter, barrier) = (&stage.library, &stage.voter, &Barrier::new(cores));
    let run = move |thread: usize, session: &mut Session| -> Result<_> {
        pin(thread)?;
        let mut batches = calls(library, voter, each, batch, 1 + thread as u64)?;
        let mut times = times()?;
        barrier.wait();
        let clock = Instant::now();
        let (mut done, mut failed) = (0, 0);
        for calls in &mut batches {
            let begun = Instant::now();
            let replies = calls.run(session)?;
            times.saturating_record(begun.elapsed().as_nanos() as u64);
            for reply in replies {
                match reply {
                    Ok(ReplyRef::Integer(0 | 1)) => done += 1,
                    Err(Failure::Engine(Status::Conflict)) => failed += 1,
                    other => return Err(anyhow!("{other:?}")),
                }
            }
        }
        Ok((clock.elapsed().as_secs_f64(), done, failed, times))
    };
    let results = thread::scope(|scope| {
        let threads = sessions.iter_mut().take(cores).enumerate();
        let threads: Vec<_> = threads
            .map(|(thread, session)| scope.spawn(move || run(thread, session)))
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<(f64, u32, u32, _)>>| {
            thread.join().map_err(|_| anyhow!("a thread panicked"))?
        };
        threads.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?;
    let longest = results.iter().map(|result| result.0).fold(0.0, f64::max);
    let done: u32 = results.iter().map(|result| result.1).sum();
    let failed: u32 = results.iter().map(|result| result.2).sum();
    let all = f64::from(done + failed);
    let mut merged = times()?;
    for (_, _, _, times) in &results {
        merged.add(times)?;
    }
    Ok(Run {
        rate: f64::from(done) / longest,
        times: merged,
        repeated: (conflicts(&stage.engine)? - before) as f64 / all,
        failed: f64::from(failed) / all,
    })
}

fn table(plan: &Plan, points: &[Point], all: &[Figures]) -> Table {
    let title = format!(
        "Voter by BPF_PROG_RUN, thousands of calls per second: phones: {}",
        plan.tcp_keys
    );
    let columns = [
        "calls of a system call",
        "phones",
        "index",
        "cores",
        "compiled",
        "target, millions",
        "over one core",
        "C by hand",
        "compiled in times of C",
        "target",
        "p50, µs",
        "p99, µs",
        "repeated, ‰",
        "failed, ‰",
    ];
    let mut table = Table::new(NAME, title, &columns);
    for (&point, figures) in points.iter().zip(all) {
        let time = figures.by_hand.over(&figures.compiled);
        let millions = figures.compiled.map(|rate| rate / 1e6);
        let one = points
            .iter()
            .position(|&other| other == Point { cores: 1, ..point });
        let over_one = match one {
            Some(one) if point.cores > 1 => {
                Cell::figure(&figures.compiled.over(&all[one].compiled), 2)
            }
            _ => "".into(),
        };
        let is_uniform = point.phones == Distribution::Uniform;
        let is_target = is_uniform && point.batch > 1 && point.cores == 1;
        table.row([
            point.batch.into(),
            point.phones.to_string().into(),
            match point.is_presized {
                true => "presized".into(),
                false => "grows".into(),
            },
            point.cores.into(),
            Cell::thousands(&figures.compiled),
            match is_target {
                true => Cell::at_least(&millions, RATE),
                false => "".into(),
            },
            over_one,
            Cell::thousands(&figures.by_hand),
            Cell::figure(&time, 2),
            match is_uniform {
                true => Cell::at_most(&time, TARGET),
                false => "".into(),
            },
            Cell::figure(&figures.p50, 1),
            Cell::figure(&figures.p99, 1),
            Cell::figure(&figures.repeated, 2),
            Cell::figure(&figures.failed, 2),
        ]);
    }
    table
}
