//! Gives values to runs, a batch at a time; and rewrites what is left of runs that are mostly dead.

use std::io;
use std::sync::Arc;

use bpfdb::{CheckpointPass, Demotion, Engine, Status};
use bpfdb_log::Disk;
use bpfdb_log::record::{Entries, Value};

use crate::figures::Counts;
use crate::runs::Runs;
use crate::victims::{LEN_MIN, Victims};
use crate::writer::{NewValue, RunWriter};

/// Bytes of values that are written together.
const BATCH: usize = 8 << 20;
/// Pages of 64 KiB that are to be left for new data.
const PAGES_LEAST: u64 = 32;
/// Steps of the pass after which a batch is written, however small it is.
const STEPS: usize = 20_000;

/// Why a batch came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    #[error("cannot write cold values: {0}")]
    Disk(#[from] io::Error),
    #[error("the engine refuses: {0}")]
    Engine(#[from] Status),
    #[error(transparent)]
    System(#[from] bpfdb::Error),
}

/// A value, and how the engine knows it.
struct Chosen {
    id: u64,
    value: NewValue,
}

pub(crate) struct Demoting<D: Disk> {
    engine: Engine,
    demoter: bpfdb::Demoter,
    pass: CheckpointPass,
    writer: RunWriter<D>,
    runs: Arc<Runs<D>>,
    counts: Arc<Counts>,
    victims: Victims,
    epoch: u64,
    /// The pass is somewhere in the middle.
    is_under_way: bool,
}

impl<D: Disk> Demoting<D> {
    pub(crate) fn new(
        engine: &Engine,
        runs: Arc<Runs<D>>,
        run_size: u64,
        counts: Arc<Counts>,
    ) -> Result<Self, Failed> {
        engine.forget_demoter()?;
        Ok(Self {
            engine: engine.clone(),
            demoter: engine.demoter()?,
            pass: engine.checkpoint_pass()?,
            writer: RunWriter::new(Arc::clone(&runs), run_size),
            runs,
            counts,
            victims: Victims::new(engine.identity()),
            epoch: 0,
            is_under_way: false,
        })
    }

    /// Fewer pages are left than new data takes in a moment, whatever the values take of them. False after
    /// empty ones were given back, if that was enough.
    pub(crate) fn is_short_of_pages(&self) -> Result<bool, Failed> {
        self.demoter.keep_pages();
        if self.engine.pages_left() >= PAGES_LEAST {
            return Ok(false);
        }
        self.demoter.reclaim()?;
        Ok(self.engine.pages_left() < PAGES_LEAST)
    }

    pub(crate) fn promise_memory(&self, promise: bool) {
        self.demoter.promise_memory(promise);
    }

    /// Gives a batch of values to a run, when `excess` of `used` bytes are too many. How many values
    /// went; 0: there was none to be found.
    pub(crate) fn demote(&mut self, excess: u64, used: u64) -> Result<u64, Failed> {
        if self.epoch == 0 {
            self.epoch = self.demoter.settle()?;
        }
        self.victims.aim(excess, used);
        let most = BATCH.min(usize::try_from(excess).unwrap_or(BATCH).max(1 << 16));
        let mut chosen = self.choose(most)?;
        if chosen.is_empty() {
            // Everything may be younger than the epoch.
            self.epoch = self.demoter.settle()?;
            chosen = self.choose(most)?;
        }
        if chosen.is_empty() {
            return Ok(0);
        }
        let (values, bytes) = self.give(chosen)?;
        Counts::add(&self.counts.demotions, values);
        Counts::add(&self.counts.demoted_bytes, bytes);
        Ok(values)
    }

    /// Up to `most` bytes of values, or one value.
    fn choose(&mut self, most: usize) -> Result<Vec<Chosen>, Failed> {
        let (mut chosen, mut bytes, mut begun) = (Vec::new(), 0, 0);
        for _ in 0..STEPS {
            if bytes >= most {
                break;
            }
            if !self.step()? {
                begun += 1;
                // Twice: the first may have begun in the middle.
                if begun > 2 {
                    break;
                }
                continue;
            }
            self.take_entries(&mut chosen, &mut bytes)?;
            self.take_others(&mut chosen, &mut bytes)?;
        }
        Ok(chosen)
    }

    /// False: a pass begins with the next step.
    fn step(&mut self) -> Result<bool, Failed> {
        if !self.is_under_way {
            self.pass.begin(self.epoch);
            self.is_under_way = true;
        }
        self.pass.set_epoch(self.epoch);
        match self.pass.step() {
            // A record that changes all the time is for another pass.
            Err(Status::Exhausted) => Ok(true),
            outcome => {
                self.is_under_way = outcome?;
                Ok(self.is_under_way)
            }
        }
    }

    fn take_entries(&mut self, chosen: &mut Vec<Chosen>, bytes: &mut usize) -> Result<(), Failed> {
        let victims = &mut self.victims;
        for entry in Entries::new(self.pass.entries().0) {
            let entry = entry.map_err(|_| Status::Corrupt)?;
            let (kind, value) = match entry.value {
                Value::Inline(value) => (0, value),
                Value::Typed(kind, value) => (kind.code(), value),
                Value::Deleted | Value::Large { .. } => continue,
            };
            if (value.len() as u64) < LEN_MIN || !victims.takes(entry.key, value.len() as u64) {
                continue;
            }
            *bytes += value.len();
            chosen.push(Chosen {
                id: 0,
                value: NewValue {
                    key: entry.key.to_vec(),
                    kind,
                    value: value.to_vec(),
                    timestamp: self.epoch,
                },
            });
        }
        Ok(())
    }

    fn take_others(&mut self, chosen: &mut Vec<Chosen>, bytes: &mut usize) -> Result<(), Failed> {
        for other in self.pass.others() {
            if other.run != 0 || !self.victims.takes(&other.key, other.len) {
                continue;
            }
            if let Some(new) = self.read(&other)? {
                *bytes += new.value.len();
                chosen.push(Chosen {
                    id: other.id,
                    value: new,
                });
            }
        }
        Ok(())
    }

    /// `None`: it is another one by now, or cannot be read, which whoever needs it will be told.
    fn read(&mut self, other: &bpfdb::OtherRecord) -> Result<Option<NewValue>, Failed> {
        let entry = match self.pass.read(other) {
            Err(Status::TierCorrupt | Status::TierUnavailable | Status::Exhausted) => None,
            entry => entry?,
        };
        let entry = entry.filter(|entry| entry.value.len() as u64 == other.len);
        Ok(entry.map(|entry| NewValue {
            key: other.key.clone(),
            kind: other.value_type.code(),
            value: entry.value,
            timestamp: self.epoch,
        }))
    }

    /// Writes the values, tells the engine where they are, and gives back what they had in memory. How
    /// many there are, and their bytes.
    fn give(&mut self, chosen: Vec<Chosen>) -> Result<(u64, u64), Failed> {
        let (ids, values): (Vec<u64>, Vec<NewValue>) =
            chosen.into_iter().map(|one| (one.id, one.value)).unzip();
        let places = self.writer.append(&values, &self.engine.run_uses())?;
        let (mut count, mut bytes) = (0, 0);
        for ((id, new), to) in ids.into_iter().zip(&values).zip(places) {
            let len = new.value.len() as u64;
            let demotion = Demotion {
                key: &new.key,
                id,
                epoch: self.epoch,
                len,
                to,
            };
            match self.demoter.demote(&demotion) {
                Ok(true) => {
                    count += 1;
                    bytes += len;
                }
                Ok(false) => {}
                // What was given so far gives memory back.
                Err(Status::OutOfMemory | Status::MemoryPending) if count > 0 => break,
                Err(status) => return Err(status.into()),
            }
        }
        self.epoch = self.demoter.settle()?;
        Ok((count, bytes))
    }

    /// Removes runs that nobody names, and rewrites those of which less than half is named.
    pub(crate) fn tidy(&mut self) -> Result<(), Failed> {
        let uses = self.engine.run_uses();
        let removed = self.runs.remove_unused(&uses)?;
        Counts::add(&self.counts.runs_removed, removed as u64);
        let sparse = self.runs.sparse(&uses);
        if sparse.is_empty() {
            return Ok(());
        }
        self.epoch = self.demoter.settle()?;
        self.pass.begin(self.epoch);
        self.is_under_way = true;
        let (mut chosen, mut bytes) = (Vec::new(), 0);
        while self.step()? {
            for other in self.pass.others() {
                if !sparse.contains(&other.run) {
                    continue;
                }
                if let Some(value) = self.read(&other)? {
                    bytes += value.value.len();
                    let id = other.id;
                    chosen.push(Chosen { id, value });
                }
            }
            if bytes >= BATCH {
                self.rewrite(std::mem::take(&mut chosen))?;
                bytes = 0;
            }
        }
        self.rewrite(chosen)
    }

    fn rewrite(&mut self, chosen: Vec<Chosen>) -> Result<(), Failed> {
        if chosen.is_empty() {
            return Ok(());
        }
        let (moved, _) = self.give(chosen)?;
        Counts::add(&self.counts.moved, moved);
        Ok(())
    }
}
