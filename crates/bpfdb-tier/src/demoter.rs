//! Gives values to runs, a batch at a time; and has what is left of runs that are mostly dead rewritten.
//!
//! One pass over the index goes round and round. While memory is short it gives values to runs, and rewrites what it
//! comes by. Else runs are read and rewritten (`compact`), and then the pass rewrites what they have left, in small
//! steps.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bpfdb::{CheckpointPass, ColdPlace, Demotion, Engine, RunUse, Status};
use bpfdb_log::Disk;
use bpfdb_log::record::{Entries, Value};

use crate::compact::{CompactionError, Compactor};
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
/// The same while nothing but rewriting is to be done.
const STEPS_REWRITING: usize = 1000;

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

/// What a step of the pass did.
enum Stepped {
    Found,
    /// It found nothing out, and the next one tries again.
    Nothing,
    /// A pass begins with the next step.
    End,
}

/// A value, and how the engine knows it.
struct Chosen {
    id: u64,
    value: NewValue,
    /// It is cold already, and goes from one run to another.
    moves: bool,
}

/// Does its value stay in memory, however long it was not used? Rows of ordered tables are read by programs in
/// the kernel, and nodes of their indexes by each look-up of a row that comes or goes. The engine refuses both.
fn is_kept(stored_key: &[u8]) -> bool {
    bpfdb::is_of_ordered_table(stored_key)
}

/// What is to go, by value and in bytes.
#[derive(Default)]
struct Batch {
    chosen: Vec<Chosen>,
    /// Of values in memory, and of those that move.
    bytes: usize,
    moving: usize,
}

impl Batch {
    fn push(&mut self, one: Chosen) {
        let bytes = match one.moves {
            true => &mut self.moving,
            false => &mut self.bytes,
        };
        *bytes += one.value.value.len();
        self.chosen.push(one);
    }
}

/// What a batch did.
#[derive(Clone, Copy, Debug, Default)]
struct Given {
    demoted: u64,
    bytes: u64,
    moved: u64,
}

/// Runs of which less than half is named, and in how many ends of a pass what is named has moved.
#[derive(Default)]
struct Rewriting {
    runs: Vec<u64>,
    /// Of these, those that were not read yet.
    unread: Vec<u64>,
    passes_left: u32,
    /// All were read since the last look at what is named of them.
    were_read: bool,
}

/// What was named of a run when it had been read in vain: it is not read again before that has changed.
type Left = BTreeMap<u64, RunUse>;

fn use_of(uses: &[RunUse], run: u64) -> RunUse {
    uses[(run % uses.len() as u64) as usize]
}

pub(crate) struct Demoting<D: Disk> {
    engine: Engine,
    demoter: bpfdb::Demoter,
    pass: CheckpointPass,
    /// [`CheckpointPass::step`].
    step_pass: fn(&mut CheckpointPass) -> Result<bool, Status>,
    writer: RunWriter<D>,
    runs: Arc<Runs<D>>,
    counts: Arc<Counts>,
    victims: Victims,
    epoch: u64,
    /// The pass is somewhere in the middle.
    is_under_way: bool,
    rewriting: Rewriting,
    compactor: Compactor<D>,
    left: Left,
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
            step_pass: CheckpointPass::step,
            writer: RunWriter::new(Arc::clone(&runs), run_size),
            compactor: Compactor::new(engine, Arc::clone(&runs)),
            left: Left::new(),
            runs,
            counts,
            victims: Victims::new(engine.identity()),
            epoch: 0,
            is_under_way: false,
            rewriting: Rewriting::default(),
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

    /// Brings these values back, which transactions have read. A read of one that cannot be read gets the
    /// error.
    pub(crate) fn promote(&mut self, keys: &[Vec<u8>]) {
        for key in keys {
            let _ = self.demoter.promote(key);
        }
    }

    /// Gives back what values that came back to memory have left, so that their files can go.
    pub(crate) fn dispose(&mut self) -> Result<(), Failed> {
        if self.demoter.has_retired() {
            self.epoch = self.demoter.settle()?;
        }
        Ok(())
    }

    /// Gives a batch of values to a run, when `excess` of `used` bytes are too many. How many values
    /// went; 0: there was none to be found.
    pub(crate) fn demote(&mut self, excess: u64, used: u64) -> Result<u64, Failed> {
        if self.epoch == 0 {
            self.epoch = self.demoter.settle()?;
        }
        self.victims.aim(excess, used);
        let most = BATCH.min(usize::try_from(excess).unwrap_or(BATCH).max(1 << 16));
        let mut batch = self.choose(most, STEPS)?;
        if batch.bytes == 0 {
            // Everything may be younger than the epoch.
            let moving = self.give(batch)?;
            if moving.moved == 0 {
                self.epoch = self.demoter.settle()?;
            }
            batch = self.choose(most, STEPS)?;
        }
        Ok(self.give(batch)?.demoted)
    }

    /// Up to `most` bytes of values, or one value; and of values that move.
    fn choose(&mut self, most: usize, steps: usize) -> Result<Batch, Failed> {
        let (mut batch, mut begun) = (Batch::default(), 0);
        for _ in 0..steps {
            if batch.bytes >= most || batch.moving >= BATCH {
                break;
            }
            match self.step()? {
                Stepped::Found => {
                    self.take_entries(&mut batch)?;
                    self.take_others(&mut batch)?;
                }
                Stepped::Nothing => {}
                Stepped::End => {
                    begun += 1;
                    // Twice: the first may have begun in the middle.
                    if begun > 2 {
                        break;
                    }
                }
            }
        }
        Ok(batch)
    }

    fn step(&mut self) -> Result<Stepped, Failed> {
        if !self.is_under_way {
            self.pass.begin(self.epoch);
        }
        self.pass.set_epoch(self.epoch);
        let stepped = (self.step_pass)(&mut self.pass);
        // After another error it begins anew.
        self.is_under_way = matches!(stepped, Ok(true) | Err(Status::Exhausted));
        match stepped {
            Ok(true) => Ok(Stepped::Found),
            // A record that changes all the time is for another step.
            Err(Status::Exhausted) => Ok(Stepped::Nothing),
            Ok(false) => {
                let left = &mut self.rewriting.passes_left;
                *left = left.saturating_sub(1);
                Ok(Stepped::End)
            }
            Err(status) => Err(status.into()),
        }
    }

    fn take_entries(&mut self, batch: &mut Batch) -> Result<(), Failed> {
        let victims = &mut self.victims;
        for entry in Entries::new(self.pass.entries().0) {
            let entry = entry.map_err(|_| Status::Corrupt)?;
            let (kind, value) = match entry.value {
                Value::Inline(value) => (0, value),
                Value::Typed(kind, value) => (kind.code(), value),
                Value::Deleted | Value::Large { .. } => continue,
            };
            let len = value.len() as u64;
            if len < LEN_MIN || is_kept(entry.key) || !victims.takes(entry.key, len) {
                continue;
            }
            batch.push(Chosen {
                id: 0,
                value: NewValue {
                    key: entry.key.to_vec(),
                    kind,
                    value: value.to_vec(),
                    timestamp: self.pass.epoch(),
                },
                moves: false,
            });
        }
        Ok(())
    }

    fn take_others(&mut self, batch: &mut Batch) -> Result<(), Failed> {
        for other in self.pass.others() {
            let moves = other.run != 0;
            let is_wanted = match moves {
                true => self.is_rewriting() && self.rewriting.runs.contains(&other.run),
                false => !is_kept(&other.key) && self.victims.takes(&other.key, other.len),
            };
            if !is_wanted {
                continue;
            }
            if let Some(value) = self.read(&other)? {
                batch.push(Chosen {
                    id: other.id,
                    value,
                    moves,
                });
            }
        }
        Ok(())
    }

    /// `None`: it is another one by now, or cannot be read, which the next read of it finds.
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
            timestamp: self.pass.epoch(),
        }))
    }

    /// Writes the values, swaps the versions that have them, and gives back what they had in memory.
    fn give(&mut self, batch: Batch) -> Result<Given, Failed> {
        let mut given = Given::default();
        if batch.chosen.is_empty() {
            return Ok(given);
        }
        // Values that move give back more room than they take.
        let takes_room = batch.bytes > 0;
        let (known, values): (Vec<(u64, bool)>, Vec<NewValue>) = batch
            .chosen
            .into_iter()
            .map(|one| ((one.id, one.moves), one.value))
            .unzip();
        let uses = self.engine.run_uses();
        self.writer.keep_free(match takes_room {
            true => self.checkpoint_size(&uses),
            false => 0,
        });
        let places = self.writer.append(&values, &uses)?;
        let all = known.into_iter().zip(&values).zip(places);
        let swapped = all
            .map(|((known, value), to)| (known, value, to))
            .try_for_each(|one| self.swap(one, &mut given));
        Counts::add(&self.counts.demotions, given.demoted);
        Counts::add(&self.counts.demoted_bytes, given.bytes);
        Counts::add(&self.counts.moved, given.moved);
        // After an error, too: what was swapped, or came back, has memory that others may lack.
        self.epoch = self.demoter.settle()?;
        match swapped {
            // What was given so far has given memory back.
            Err(Status::OutOfMemory | Status::MemoryPending) if given.demoted + given.moved > 0 => {
                Ok(given)
            }
            swapped => swapped.map(|()| given).map_err(Failed::from),
        }
    }

    /// Has the version name the place of its value, if it still is the one that was read.
    fn swap(
        &mut self,
        ((id, moves), new, to): ((u64, bool), &NewValue, ColdPlace),
        given: &mut Given,
    ) -> Result<(), Status> {
        let len = new.value.len() as u64;
        let demotion = Demotion {
            key: &new.key,
            id,
            epoch: new.timestamp,
            len,
            to,
        };
        if self.demoter.demote(&demotion)? {
            match moves {
                true => given.moved += 1,
                false => {
                    given.demoted += 1;
                    given.bytes += len;
                }
            }
        }
        Ok(())
    }

    /// Bytes that the next checkpoint takes, about: it has all values.
    fn checkpoint_size(&self, uses: &[RunUse]) -> u64 {
        let cold: u64 = uses.iter().map(|run| run.bytes).sum();
        cold + self.engine.memory_used_now()
    }

    /// Removes the runs of other engines: the disk is this engine's.
    pub(crate) fn remove_foreign(&self) -> Result<(), Failed> {
        Ok(self.runs.remove_foreign()?)
    }

    /// Removes runs that no version names, and looks for those of which less than half is named: these are
    /// rewritten from now on.
    pub(crate) fn tidy(&mut self) -> Result<(), Failed> {
        let uses = self.engine.run_uses();
        let removed = self.runs.remove_unused(&uses)?;
        Counts::add(&self.counts.runs_removed, removed as u64);
        let is_used = |run: u64| use_of(&uses, run).values > 0;
        self.rewriting.unread.retain(|&run| is_used(run));
        self.compactor.leave_unused(is_used);
        if !self.is_rewriting() {
            let runs = self.runs.sparse(&uses);
            self.left.retain(|run, _| runs.contains(run));
            let is_new = |run: &&u64| self.left.get(run) != Some(&use_of(&uses, **run));
            self.rewriting = Rewriting {
                unread: match self.compactor.is_on() {
                    true => runs.iter().filter(is_new).copied().collect(),
                    false => Vec::new(),
                },
                // The one that is under way has come by some records already.
                passes_left: match runs.is_empty() {
                    true => 0,
                    false => 1 + u32::from(self.is_under_way),
                },
                runs,
                were_read: false,
            };
        }
        Ok(())
    }

    /// Is there something to be rewritten?
    pub(crate) fn is_rewriting(&self) -> bool {
        self.rewriting.passes_left > 0 || self.rewriting.were_read || self.is_reading()
    }

    /// Is there a run to be read?
    fn is_reading(&self) -> bool {
        self.compactor.is_under_way() || !self.rewriting.unread.is_empty()
    }

    /// Goes on with rewriting, by a batch at most. A server that is killed meanwhile leaves values in the
    /// old run or in the new one, and both runs in the manifest.
    pub(crate) fn rewrite(&mut self) -> Result<(), Failed> {
        if self.is_reading() {
            return self.compact();
        }
        if self.rewriting.were_read {
            return self.look_for_the_rest();
        }
        if self.epoch == 0 {
            self.epoch = self.demoter.settle()?;
        }
        self.victims.spare_all();
        let chosen = self.choose(BATCH, STEPS_REWRITING)?;
        self.give(chosen).map(|_| ())
    }

    /// Goes on with the run that is read, or begins with the next one. One that cannot be read keeps its values.
    fn compact(&mut self) -> Result<(), Failed> {
        let outcome = self.compact_some();
        self.rewriting.were_read = !self.is_reading();
        match outcome {
            Ok(()) => Ok(()),
            Err(error @ CompactionError::Read(_)) => {
                tracing::warn!(%error, "it is rewritten by the keys of its values");
                Ok(())
            }
            Err(CompactionError::Write(error)) => Err(error.into()),
            Err(CompactionError::Engine(status)) => Err(status.into()),
        }
    }

    fn compact_some(&mut self) -> Result<(), CompactionError> {
        if !self.compactor.is_under_way() {
            let next = self.rewriting.unread.pop();
            next.map_or(Ok(()), |run| self.compactor.begin(run))?;
        }
        let rewritten = self.compactor.step(&mut self.writer, &mut self.demoter)?;
        Counts::add(&self.counts.moved, rewritten.moved);
        Counts::add(&self.counts.read_bytes, rewritten.bytes_read);
        Ok(())
    }

    /// What is named of the runs that were read is found by its keys, if there is any.
    fn look_for_the_rest(&mut self) -> Result<(), Failed> {
        self.epoch = self.demoter.settle()?;
        // So that no value counts that has moved.
        self.demoter.reclaim()?;
        let uses = self.engine.run_uses();
        let sparse = self.runs.sparse(&uses);
        let rewriting = &mut self.rewriting;
        rewriting.were_read = false;
        rewriting.runs.retain(|run| sparse.contains(run));
        let left = rewriting.runs.iter();
        self.left.extend(left.map(|&run| (run, use_of(&uses, run))));
        rewriting.passes_left = match rewriting.runs.is_empty() {
            true => 0,
            false => 1 + u32::from(self.is_under_way),
        };
        Ok(())
    }
}

/// Rewrites runs as it was done before runs were read: to be compared with that.
#[derive(Debug)]
pub struct ByKeys<D: Disk>(Demoting<D>);

impl<D: Disk> std::fmt::Debug for Demoting<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Demoting").finish_non_exhaustive()
    }
}

impl<D: Disk> ByKeys<D> {
    /// # Errors
    /// The engine refuses.
    pub fn new(engine: &Engine, runs: Arc<Runs<D>>, run_size: u64) -> io::Result<Self> {
        let demoting = Demoting::new(engine, runs, run_size, Arc::default());
        Ok(Self(demoting.map_err(io::Error::other)?))
    }

    /// Has all that is named of this run name another one.
    ///
    /// # Errors
    /// Those of the disk, or of the engine.
    pub fn rewrite(&mut self, run: u64) -> io::Result<()> {
        self.0.rewriting = Rewriting {
            runs: vec![run],
            passes_left: 1,
            ..Rewriting::default()
        };
        while self.0.is_rewriting() {
            self.0.rewrite().map_err(io::Error::other)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bpfdb::Options;
    use bpfdb_log::simulation::SimulatedDisk;

    use super::*;
    use crate::values::RunValues;

    fn demoting() -> (Engine, Demoting<SimulatedDisk>) {
        let options = Options {
            ordered_tables: 1,
            ..Options::default()
        };
        let engine = Engine::create(&options).expect("an engine");
        let runs = Runs::open(SimulatedDisk::new(1), engine.identity()).expect("runs");
        let (runs, counts) = (Arc::new(runs), Arc::<Counts>::default());
        let values = RunValues::new(Arc::clone(&runs), Arc::clone(&counts));
        assert!(engine.set_cold_values(Arc::new(values)));
        let demoting = Demoting::new(&engine, runs, 1 << 20, counts).expect("a demoter");
        (engine, demoting)
    }

    /// In the buffer there is what the step before has found, in another epoch.
    #[test]
    fn a_step_that_fails_gives_no_value_of_the_one_before() {
        let (engine, mut demoting) = demoting();
        let mut session = engine.session().expect("a session");
        let (old, new) = (vec![1; 200], vec![2; 200]);
        session.set(b"a", &old).expect("set");
        demoting.epoch = demoting.demoter.settle().expect("an epoch");
        demoting.victims.spare_all();
        while demoting.pass.entries().1 == 0 {
            assert!(matches!(demoting.step(), Ok(Stepped::Found)));
        }
        session.set(b"a", &new).expect("set");
        demoting.epoch = demoting.demoter.settle().expect("an epoch");
        demoting.victims.aim(1, 1);
        demoting.step_pass = |_| Err(Status::Exhausted);
        let batch = demoting.choose(1, 1).expect("chosen");
        assert_eq!(batch.chosen.len(), 0);
        demoting.give(batch).expect("given");
        assert_eq!(session.get(b"a"), Ok(Some(new.clone())));
        // Another step finds it.
        demoting.step_pass = CheckpointPass::step;
        let batch = demoting.choose(1, STEPS).expect("chosen");
        assert_eq!(demoting.give(batch).expect("given").demoted, 1);
        assert_eq!(session.get(b"a"), Ok(Some(new)));
    }

    #[test]
    fn rows_and_nodes_of_ordered_tables_stay_in_memory() {
        let (engine, mut demoting) = demoting();
        let table = engine.ordered_table(0).expect("declared");
        let mut session = engine.session().expect("a session");
        // A large row, and so many others that there are several nodes.
        let large = vec![1; 100_000];
        table.set(&mut session, b"large", &large).expect("set");
        for number in 0..500_u32 {
            let key = number.to_be_bytes();
            table.set(&mut session, &key, &[1; 200]).expect("set");
        }
        session.set(b"a", &[1; 200]).expect("set");
        session.set(b"b", &large).expect("set");
        demoting.epoch = demoting.demoter.settle().expect("an epoch");
        // All that may go does; a pass that begins anew comes by it again.
        demoting.victims.aim(1, 1);
        let batch = demoting.choose(BATCH, STEPS).expect("chosen");
        let gone = batch.chosen.iter().map(|one| one.value.key.clone());
        let mut gone: Vec<_> = gone.collect();
        gone.sort();
        gone.dedup();
        assert_eq!(gone, [b"a".to_vec(), b"b".to_vec()]);
        assert_eq!(demoting.give(batch).expect("given").demoted, 2);
        let found = table.scan::<&[u8]>(&mut session, .., 1000).expect("scan");
        assert_eq!(found.rows.len(), 501);
    }

    /// Whatever asks for it.
    #[test]
    fn the_engine_refuses_to_demote_rows_and_nodes() {
        let (engine, mut demoting) = demoting();
        let table = engine.ordered_table(0).expect("declared");
        let mut session = engine.session().expect("a session");
        table.set(&mut session, b"row", &[1; 200]).expect("set");
        let epoch = demoting.demoter.settle().expect("an epoch");
        let (_, keys) = session.scan(0, 1000).expect("scanned");
        // The row, and the leaf that has it.
        assert_eq!(keys.len(), 2);
        for key in keys {
            let len = session.value_len(&key).expect("read").expect("there");
            let to = ColdPlace {
                run: 1,
                offset: 0,
                checksum: 0,
            };
            let (key, id) = (&key[..], 0);
            let demotion = Demotion {
                key,
                id,
                epoch,
                len: len.max(17),
                to,
            };
            let outcome = demoting.demoter.demote(&demotion);
            assert_eq!(outcome, Err(Status::BadRequest));
        }
    }
}
