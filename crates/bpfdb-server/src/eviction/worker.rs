//! The thread of the evictor.
//!
//! While memory is full, records go by the policy until each size of slots has some free, compared with what
//! it uses: so that the next writes find a slot of their size, if they are like those before. A write that
//! finds none all the same asks, and some more go.
//!
//! What goes so is free for data of its own size. If that becomes much ([`spare`]), sizes have changed, and
//! nothing more goes by the policy: a write that finds nothing gets whole pages, those for which the least
//! goes. So does one that has asked some times. Memory is never emptied for writes of a size for which it has
//! no slots.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use bpfdb::{Emptier, Emptying, Engine, Hand, InVain, Sample, Session, Status, ValueType, Victim};
use bpfdb_values::big::head;

use super::Shared;
use super::held::Held;
use super::policy::Rules;
use super::pool::Pool;
use crate::error::Result;
use crate::values::random::Random;

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
/// The same for a write that has asked again and again: of so many sizes its values are at most.
const PAGES_BESIDE_MOST: u64 = 64;
/// What may be free without use, before pages are made free instead of more: of so many bytes one, and some
/// pages, because each size has some that are not full. Never more than the second share.
const SPARE_SHARE: u64 = 16;
const SPARE_PAGES: u64 = 64;
const SPARE_SHARE_MOST: u64 = 8;
/// For so long nothing is tried without the kernel's programs.
const UNPREPARED: Duration = Duration::from_secs(1);
/// Pages that are made free at once: at least, of so many one at most, and at most. It goes up while writes
/// come again soon after: to make one takes a look at all records.
const MADE_LEAST: u64 = 4;
const MADE_SHARE: u64 = 32;
const MADE_MOST: u64 = 1024;
const SOON: Duration = Duration::from_millis(200);
/// What is made free at once for a large value, and looked at: more goes when it asks again.
const MADE_ONCE: u64 = 4096;
const LOOKED_ONCE: u64 = 8192;
/// Pages that are looked at for each one that is made free: some have what cannot go.
const LOOKS: u64 = 2;
const LOOKS_MOST: u64 = 64;

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
    held: Held,
    /// Pages that were to be made free last time, and when.
    made: u64,
    made_at: Instant,
    /// Pages that are looked at for each of them: more after such a look in vain.
    looks: u64,
    /// Free pages that a write needs for what is short: more while it asks again.
    pages_beside: u64,
    in_vain: InVain,
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
            held: Held::default(),
            made: 0,
            made_at: Instant::now(),
            looks: LOOKS,
            pages_beside: PAGES_BESIDE,
            in_vain: InVain::default(),
            is_hopeless: false,
            rests_until: Instant::now(),
        }
    }

    pub(super) fn run(mut self) {
        while !self.shared.stopped.load(Ordering::Relaxed) {
            let pause = self.work().unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot evict now");
                self.note_pass();
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
            self.in_vain = InVain::default();
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
        // Before memory is full: while a snapshot runs, what goes needs some itself.
        if let Err(error) = self.engine.prepare_eviction() {
            // Writes hear that there is no memory, as without a policy.
            self.rests_until = begun + UNPREPARED;
            self.give_up(asked)?;
            return Err(error.into());
        }
        // Writes of programs that embed the engine, or are attached, ask for memory only.
        let is_asked = self.engine.take_shortage() || asked != self.answered;
        let memory = self.engine.memory_missing(SHARE);
        let cost = begun.elapsed() * COST_FACTOR;
        self.held.release(self.engine.oldest_snapshot());
        let missing = memory.missing.saturating_sub(self.held.bytes());
        let insists = self.shared.insisted.swap(false, Ordering::Relaxed);
        let pause = if missing > 0 && !insists && self.is_full() {
            self.free(missing, asked)?
        } else if is_asked {
            self.answer(asked, memory.pages_left, insists)?
        } else {
            self.set_hopeless(false)?;
            return Ok(cost.max(if memory.is_near { NEAR } else { FAR }));
        };
        self.note_pass();
        // A caller that asks wakes this thread: not more often than that.
        self.rests_until = Instant::now() + REST;
        Ok(pause.unwrap_or(cost.max(NEAR)))
    }

    fn note_pass(&self) {
        self.shared.passes.fetch_add(1, Ordering::AcqRel);
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

    /// Is more memory in use than must be, if sizes of slots had what is free?
    fn is_full(&self) -> bool {
        self.engine.memory_unused() < spare(self.engine.memory_limit())
    }

    /// A write has found no memory, though each size has something free, or much is: it is the first of its
    /// size, or needs whole pages. Some records go by the policy, if memory is full, and it does not insist;
    /// else pages are made free.
    fn answer(&mut self, asked: u64, pages_left: u64, insists: bool) -> Result<Option<Duration>> {
        let wanted = self.engine.take_room_wanted();
        // A transaction whose values are of many sizes needs a page for each. It gives them back when it finds none
        // for the next, so that as many would be left as before.
        self.pages_beside = match insists {
            true => (2 * self.pages_beside).min(PAGES_BESIDE_MOST),
            false => PAGES_BESIDE,
        };
        let needed = wanted.div_ceil(PAGE) + self.pages_beside;
        if pages_left >= needed {
            // It has another reason, which passes.
            self.answered = asked;
            return Ok(None);
        }
        if self.held.bytes() >= wanted.max(PAGE) {
            // Snapshots keep what has gone for such writes: if more went, they would keep that, too.
            self.answered = asked;
            return Ok(Some(HELD));
        }
        self.engine.reclaim_pages()?;
        if self.engine.data_pages_left() < needed && !insists && self.is_full() {
            let pause = self.free(wanted.max(PAGE), asked)?;
            if pause.is_some() || wanted == 0 {
                // Perhaps a slot of the right size is free now. Else it asks again.
                return Ok(pause);
            }
            self.engine.reclaim_pages()?;
        }
        let missing = needed.saturating_sub(self.engine.data_pages_left());
        if missing > 0 && self.make_pages(missing) == 0 {
            return self.free(PAGE, asked);
        }
        // All writes that wait share these pages: one that finds none asks again.
        self.shared.insisted.store(false, Ordering::Relaxed);
        self.answered = self.shared.asked.load(Ordering::Acquire);
        Ok(None)
    }

    /// Makes so many pages free, or some more, but not too many at once: how many.
    fn make_pages(&mut self, missing: u64) -> u64 {
        let pages = missing.max(self.pages_at_once()).min(MADE_ONCE);
        let (shared, rules) = (Arc::clone(&self.shared), self.rules);
        let emptying = Emptying {
            pages: pages as usize,
            looks: (pages * self.looks).min(LOOKED_ONCE) as usize,
            expiring_only: rules.expiring_only(),
        };
        let (mut freed, mut collections) = (0, false);
        let mut random = Random::new();
        let mut in_vain = std::mem::take(&mut self.in_vain);
        let mut emptier = Emptier {
            rank: &mut |victim| rules.score(victim, &mut random),
            gone: &mut |victim| {
                shared.note_evicted(victim);
                freed += victim.memory();
                collections |= may_be_head(victim);
            },
            permit: &|| shared.permit(&rules),
            in_vain: &mut in_vain,
        };
        let outcome =
            (self.session()).and_then(|session| session.make_pages(&emptying, &mut emptier));
        self.in_vain = in_vain;
        self.note_held(freed);
        if collections {
            self.shared.collections.store(true, Ordering::Relaxed);
        }
        (self.made, self.made_at) = (pages, Instant::now());
        let made = outcome.unwrap_or_else(|status| {
            put_off(status);
            0
        });
        self.looks = match made {
            0 => (2 * self.looks).min(LOOKS_MOST),
            _ => LOOKS,
        };
        made
    }

    /// How many pages are made free, if fewer are needed.
    fn pages_at_once(&self) -> u64 {
        if self.made_at.elapsed() > SOON {
            return MADE_LEAST;
        }
        let most = (self.engine.memory_limit() / PAGE / MADE_SHARE).min(MADE_MOST);
        (2 * self.made).min(most).max(MADE_LEAST)
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
        self.shared
            .is_hopeless
            .store(is_hopeless, Ordering::Relaxed);
        self.shared.say_shortage(&self.engine, *rules)?;
        Ok(())
    }

    /// So many bytes were evicted, which snapshots keep if there are any.
    fn note_held(&mut self, freed: u64) {
        if self.engine.oldest_snapshot().is_some() {
            self.held.note(self.engine.coarse_now(), freed);
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
        let Some(_permit) = shared.permit(&self.rules) else {
            return Ok(step);
        };
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

/// Bytes of a memory of `limit` that may be free without use.
fn spare(limit: u64) -> u64 {
    (limit / SPARE_SHARE + SPARE_PAGES * PAGE).min(limit / SPARE_SHARE_MOST)
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

/// The log has no room, or takes nothing: writers get the Error. How long to wait.
fn put_off(status: Status) -> Duration {
    tracing::debug!(?status, "nothing is evicted now");
    HOPELESS
}

fn may_be_head(victim: &Victim) -> bool {
    let len = match victim.value_type() {
        ValueType::STRING => return false,
        ValueType::STREAM => head::STREAM_LEN,
        _ => head::LEN,
    };
    victim.len == len as u64
}
