//! A client: draws a key, reads or writes it, one by one or in batches.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bpfdb::{Engine, Operation, Session, Status};
use hdrhistogram::Histogram;

use crate::random::Random;
use crate::records::{KEY_LEN, Key, key_of};

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mix {
    pub(crate) set_percent: u32,
    /// Operations in one system call; 1: the crate's single operators.
    pub(crate) batch: usize,
    /// Bytes of a value.
    pub(crate) value: usize,
}

/// What it got.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) operations: u64,
    pub(crate) errors: BTreeMap<Status, u64>,
    pub(crate) took: Duration,
    /// Nanoseconds of each system call and what surrounds it.
    pub(crate) latency: Histogram<u64>,
}

impl Outcome {
    pub(crate) fn new() -> Self {
        Self {
            operations: 0,
            errors: BTreeMap::new(),
            took: Duration::ZERO,
            latency: latency(),
        }
    }

    /// Operations per second that did what they should.
    pub(crate) fn rate(&self) -> f64 {
        let errors: u64 = self.errors.values().sum();
        (self.operations - errors) as f64 / self.took.as_secs_f64()
    }

    /// Adds what another client got at the same time.
    pub(crate) fn join(&mut self, other: &Self) {
        self.took = self.took.max(other.took);
        self.add_counts(other);
    }

    /// Adds what was got in another round.
    pub(crate) fn add(&mut self, other: &Self) {
        self.took += other.took;
        self.add_counts(other);
    }

    fn add_counts(&mut self, other: &Self) {
        self.operations += other.operations;
        for (&status, count) in &other.errors {
            *self.errors.entry(status).or_default() += count;
        }
        self.latency += &other.latency;
    }

    /// `CONFLICT 0.02, …` in percent of the operations, or a dash.
    pub(crate) fn errors(&self) -> String {
        let parts: Vec<String> = self
            .errors
            .iter()
            .map(|(status, &count)| {
                let percent = count as f64 * 100.0 / self.operations as f64;
                format!("{} {percent:.3}", status.name())
            })
            .collect();
        if parts.is_empty() {
            "–".into()
        } else {
            parts.join(", ")
        }
    }

    /// Microseconds at `percentile`.
    pub(crate) fn micros(&self, percentile: f64) -> f64 {
        self.latency.value_at_percentile(percentile) as f64 / 1e3
    }
}

/// Up to 10 s, to three digits.
fn latency() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("constant bounds")
}

/// One client with its session.
pub(crate) struct Worker<'a> {
    session: Session,
    mix: Mix,
    draws: &'a [u32],
    at: usize,
    random: Random,
    keys: Vec<Key>,
    values: Vec<Vec<u8>>,
    writes: Vec<bool>,
    outcome: Outcome,
}

impl<'a> Worker<'a> {
    /// Takes its keys from `draws`, beginning at `at`.
    pub(crate) fn new(engine: &Engine, mix: Mix, draws: &'a [u32], at: usize) -> Result<Self> {
        Ok(Self {
            session: engine.session()?,
            mix,
            draws,
            at,
            random: Random::new(at as u64),
            keys: vec![[0; KEY_LEN]; mix.batch],
            values: vec![vec![0; mix.value]; mix.batch],
            writes: vec![false; mix.batch],
            outcome: Outcome::new(),
        })
    }

    /// As fast as it goes.
    pub(crate) fn run(mut self, time: Duration) -> Result<Outcome> {
        let start = Instant::now();
        while start.elapsed() < time {
            self.step()?;
        }
        self.outcome.took = start.elapsed();
        Ok(self.outcome)
    }

    /// One step each `period`, waiting in a loop; a late one at once.
    pub(crate) fn run_paced(mut self, time: Duration, period: Duration) -> Result<Outcome> {
        let start = Instant::now();
        let mut due = period;
        while start.elapsed() < time {
            while start.elapsed() < due {
                std::hint::spin_loop();
            }
            due += period;
            self.step()?;
        }
        self.outcome.took = start.elapsed();
        Ok(self.outcome)
    }

    fn step(&mut self) -> Result<()> {
        for i in 0..self.mix.batch {
            self.at = (self.at + 1) % self.draws.len();
            self.keys[i] = key_of(self.draws[self.at]);
            self.writes[i] = self.random.below(100) < u64::from(self.mix.set_percent);
            self.values[i][..KEY_LEN].copy_from_slice(&self.keys[i]);
        }
        let start = Instant::now();
        if self.mix.batch == 1 {
            self.single()?;
        } else {
            self.batch()?;
        }
        let nanos = start.elapsed().as_nanos() as u64;
        self.outcome.latency.saturating_record(nanos);
        Ok(())
    }

    fn single(&mut self) -> Result<()> {
        let (key, value) = (&self.keys[0], &self.values[0]);
        let outcome = if self.writes[0] {
            self.session.set(key, value).map(|()| None)
        } else {
            self.session.get(key)
        };
        self.count(0, outcome)
    }

    fn batch(&mut self) -> Result<()> {
        let operations: Vec<Operation> = (0..self.mix.batch)
            .map(|i| {
                if self.writes[i] {
                    Operation::Set(&self.keys[i], &self.values[i])
                } else {
                    Operation::Get(&self.keys[i])
                }
            })
            .collect();
        let batch = self.session.prepare(&operations, self.mix.value)?;
        let done = self.session.run(&batch)?;
        ensure!(done == batch.len(), "{done} of {} were run", batch.len());
        for i in 0..done {
            let outcome = self.session.outcome(&batch, i);
            self.count(i, outcome)?;
        }
        Ok(())
    }

    /// A value that was read begins with its key.
    fn count(&mut self, i: usize, outcome: Result<Option<Vec<u8>>, Status>) -> Result<()> {
        self.outcome.operations += 1;
        match outcome {
            Ok(None) => ensure!(self.writes[i], "a record is gone"),
            Ok(Some(value)) => ensure!(
                value.len() == self.mix.value && value.starts_with(&self.keys[i]),
                "a read brought another value"
            ),
            Err(status) => *self.outcome.errors.entry(status).or_default() += 1,
        }
        Ok(())
    }
}
