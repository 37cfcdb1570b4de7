//! The thread of the evictor.
//!
//! How much is to be freed follows from what each size of slots has free, compared with what it uses:
//! so that the next writes find a slot of their size, if they are like those before. A write that finds
//! none all the same asks, and some records go for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use bpfdb::{Engine, Hand, Sample, Session, Shortage, Status, ValueType, Victim};

use super::Shared;
use super::policy::Rules;
use super::pool::Pool;
use crate::error::Result;

/// One slot is to be free for so many that are in use.
const SHARE: u64 = 64;
/// How often it measures, far from the limit and near it; and how long it rests for its own cost.
const FAR: Duration = Duration::from_millis(20);
const NEAR: Duration = Duration::from_millis(2);
const COST_FACTOR: u32 = 20;
/// At rest: nothing is evicted.
const OFF: Duration = Duration::from_secs(10);
/// After a round without a victim, and after an error.
const HOPELESS: Duration = Duration::from_millis(50);
/// After heads of large collections have gone: their pages go in the server's thread.
const COLLECTED: Duration = Duration::from_millis(50);
/// While snapshots keep what was evicted.
const HELD: Duration = Duration::from_millis(50);
/// Between two shortages.
const REST: Duration = Duration::from_micros(500);
/// Victims of one step, about.
const STEP: u32 = 32;
/// Most records that are looked at for each of them.
const SAMPLES_MAX: u32 = 64;
/// Steps that found victims, of which none went: all were used meanwhile, or locked.
const STEPS_IN_VAIN: u32 = 16;
/// Pages of the index that one step looks at.
const STEP_PAGES: u32 = 16;
const PAGE: u64 = bpfdb::abi::BPFDB_PAGE_SIZE as u64;
/// Pages that a write needs besides those of a large value: for a size of slots, and for the index.
const PAGES_BESIDE: u64 = 2;
/// Pages that are emptied at once: of so many one, and so many at least.
const EMPTIED_SHARE: u64 = 256;
const EMPTIED_LEAST: u64 = 4;

/// A round of the hand that has begun.
#[derive(Debug)]
struct Round {
    /// Requests that had been made then.
    asked: u64,
    found: usize,
}

pub(super) struct Worker {
    engine: Engine,
    shared: Arc<Shared>,
    session: Option<Session>,
    rules: Rules,
    hand: Hand,
    pool: Pool,
    round: Option<Round>,
    /// Requests for which something was evicted.
    answered: u64,
    /// Bytes evicted that snapshots keep, while there are any.
    held: u64,
    is_hopeless: bool,
    /// Nothing is done before.
    rests_until: Instant,
}

impl Worker {
    pub(super) fn new(engine: &Engine, shared: &Arc<Shared>) -> Self {
        Self {
            engine: engine.clone(),
            shared: Arc::clone(shared),
            session: None,
            rules: Rules::default(),
            hand: Hand::default(),
            pool: Pool::new(),
            round: None,
            answered: 0,
            held: 0,
            is_hopeless: false,
            rests_until: Instant::now(),
        }
    }

    pub(super) fn run(mut self) {
        while !self.shared.stopped.load(Ordering::Relaxed) {
            let pause = self.work().unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot evict now");
                HOPELESS
            });
            thread::park_timeout(pause);
        }
    }

    /// Frees what is missing; how long to rest then.
    fn work(&mut self) -> Result<Duration> {
        let rules = self.shared.rules();
        if rules != self.rules {
            self.rules = rules;
            self.pool.clear();
            self.round = None;
            self.is_hopeless = false;
        }
        if !rules.evicts() {
            self.session = None;
            return Ok(OFF);
        }
        let begun = Instant::now();
        if begun < self.rests_until {
            return Ok(self.rests_until - begun);
        }
        let asked = self.shared.asked.load(Ordering::Acquire);
        let memory = self.engine.memory_missing(SHARE);
        let cost = begun.elapsed() * COST_FACTOR;
        if !self.engine.has_snapshots() {
            self.held = 0;
        }
        let missing = memory.missing.saturating_sub(self.held);
        let pause = if missing > 0 {
            self.free(missing, asked)?
        } else if asked != self.answered {
            self.answer(asked, memory.pages_left)?
        } else {
            // What was wanted before has found its room, or was given up; and there is room.
            self.engine.take_room_wanted();
            self.set_hopeless(false)?;
            return Ok(cost.max(if memory.is_near { NEAR } else { FAR }));
        };
        // Who asks wakes this thread: not more often than that.
        self.rests_until = Instant::now() + REST;
        Ok(pause.unwrap_or(cost.max(NEAR)))
    }

    /// Evicts so many bytes, and something in any case. What to wait for then, if not for the next
    /// shortage.
    fn free(&mut self, missing: u64, asked: u64) -> Result<Option<Duration>> {
        let (mut freed, mut in_vain) = (0, 0);
        while freed < missing && in_vain < STEPS_IN_VAIN {
            if self.rules.expiring_only() && self.engine.expiring() == 0 {
                self.give_up(asked)?;
                return Ok(Some(HOPELESS));
            }
            let step = match self.step(missing - freed) {
                Ok(step) => step,
                Err(status) => return Ok(Some(put_off(status))),
            };
            if step.found {
                self.set_hopeless(false)?;
            }
            if step.freed > 0 {
                freed += step.freed;
                in_vain = 0;
                self.answered = asked;
            } else {
                in_vain += u32::from(step.found);
            }
            if let Some(asked) = step.hopeless {
                self.give_up(asked)?;
                return Ok(Some(HOPELESS));
            }
            if step.collections {
                self.shared.collections.store(true, Ordering::Relaxed);
                return Ok(Some(COLLECTED));
            }
            if self.shared.stopped.load(Ordering::Relaxed) || self.shared.rules() != self.rules {
                break;
            }
        }
        Ok(None)
    }

    /// A write has found no memory, though each size has something free: it is the first of its size, or
    /// needs whole pages. Some records go by the policy; and if that gives no pages, all that lie in some
    /// pages.
    fn answer(&mut self, asked: u64, pages_left: u64) -> Result<Option<Duration>> {
        let wanted = self.engine.take_room_wanted();
        let needed = wanted.div_ceil(PAGE) + PAGES_BESIDE;
        if pages_left >= needed {
            // It has another reason, which passes.
            self.answered = asked;
            return Ok(None);
        }
        if self.held >= wanted.max(PAGE) {
            // Snapshots keep what has gone for such writes: if more went, they would keep that, too.
            self.answered = asked;
            return Ok(Some(HELD));
        }
        let pause = self.free(wanted.max(PAGE), asked)?;
        if pause.is_some() {
            return Ok(pause);
        }
        self.engine.reclaim_pages()?;
        if self.engine.memory_missing(SHARE).pages_left < needed {
            self.empty_slabs(needed)?;
        }
        self.answered = asked;
        Ok(None)
    }

    fn empty_slabs(&mut self, needed: u64) -> Result<()> {
        let all = self.engine.memory_limit() / PAGE;
        let pages = needed.max(all / EMPTIED_SHARE).max(EMPTIED_LEAST);
        let (shared, expiring_only) = (Arc::clone(&self.shared), self.rules.expiring_only());
        let mut freed = 0;
        let outcome = self.session().and_then(|session| {
            session.empty_slabs(pages as usize, expiring_only, |victim| {
                shared.note_evicted(victim);
                freed += victim.memory();
            })
        });
        self.note_held(freed);
        if let Err(status) = outcome {
            put_off(status);
        }
        Ok(())
    }

    /// There was nothing to evict since these requests were made.
    fn give_up(&mut self, asked: u64) -> Result<()> {
        self.set_hopeless(true)?;
        self.answered = self.answered.max(asked);
        self.shared.hopeless.fetch_max(asked, Ordering::AcqRel);
        Ok(())
    }

    fn set_hopeless(&mut self, is_hopeless: bool) -> Result<()> {
        if self.is_hopeless == is_hopeless {
            return Ok(());
        }
        let rules = self.shared.locked_rules();
        if *rules != self.rules {
            // What a shortage is by the new ones was said with them.
            return Ok(());
        }
        self.is_hopeless = is_hopeless;
        self.engine.set_shortage(match is_hopeless {
            true => Shortage::Hopeless,
            false => Shortage::Passes,
        })?;
        Ok(())
    }

    /// So many bytes were evicted, which snapshots keep if there are any.
    fn note_held(&mut self, freed: u64) {
        if self.engine.has_snapshots() {
            self.held += freed;
        }
    }

    fn session(&mut self) -> Result<&mut Session, Status> {
        if self.session.is_none() {
            let session = self.engine.session().map_err(|_| Status::NoSession)?;
            self.session = Some(session);
        }
        Ok(self.session.as_mut().expect("it was opened"))
    }

    /// Samples some records, and evicts the best of them: about so many bytes at most.
    fn step(&mut self, bytes: u64) -> Result<Step, Status> {
        let per_victim = self.rules.samples.clamp(1, SAMPLES_MAX);
        let sample = Sample {
            count: STEP * per_victim,
            expiring_only: self.rules.expiring_only(),
            pages: STEP_PAGES,
        };
        let mut hand = self.hand;
        let sampled = self.session()?.sample_victims(&mut hand, &sample)?;
        self.hand = hand;
        let mut step = Step {
            found: !sampled.victims.is_empty(),
            hopeless: self.note_round(sampled.victims.len(), sampled.round_ended),
            ..Step::default()
        };
        if !step.found {
            return Ok(step);
        }
        let victims = self.pool.choose(&self.rules, sampled.victims, bytes);
        let shared = Arc::clone(&self.shared);
        let outcome = self.session()?.evict_each(&victims, |victim| {
            shared.note_evicted(victim);
            step.freed += victim.memory();
            step.collections |= may_be_head(victim);
        });
        self.note_held(step.freed);
        outcome.map(|_| step)
    }

    /// Takes note of what the hand has met. At the end of a round that found nothing: the requests that
    /// had been made before it.
    fn note_round(&mut self, found: usize, has_ended: bool) -> Option<u64> {
        if let Some(round) = &mut self.round {
            round.found += found;
        }
        if !has_ended {
            return None;
        }
        let next = Round {
            asked: self.shared.asked.load(Ordering::Acquire),
            found: 0,
        };
        let ended = self.round.replace(next)?;
        (ended.found == 0).then_some(ended.asked)
    }
}

/// What has come of a step.
#[derive(Debug, Default)]
struct Step {
    /// There were victims.
    found: bool,
    /// Bytes, about.
    freed: u64,
    /// Requests that nothing can be done for.
    hopeless: Option<u64>,
    /// A large collection has lost its head, perhaps.
    collections: bool,
}

/// The log has no room, or takes nothing: whoever writes is told. How long to wait.
fn put_off(status: Status) -> Duration {
    tracing::debug!(?status, "nothing is evicted now");
    HOPELESS
}

fn may_be_head(victim: &Victim) -> bool {
    victim.value_type() != ValueType::STRING && victim.len == bpfdb_values::big::head::LEN as u64
}
