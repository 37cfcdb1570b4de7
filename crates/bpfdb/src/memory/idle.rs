//! Memory that data had and that has been empty for a while goes back to the free
//! pages, where data of any size finds it.
//!
//! Not at once: a client that overwrites, or fills again what it deleted, needs the same pages, and
//! to take them from where they are is cheaper. When memory is short operators do not
//! wait for this.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::abi;
use crate::error::Result;
use crate::mapped::Mapped;
use crate::memory::Memory;
use crate::memory::shrink::Shrinker;
use crate::memory::usage::Usage;

/// How often it looks.
const PERIOD: Duration = Duration::from_secs(1);
/// For how long pages must be idle; up to this while nothing comes of it.
const WHILE: Duration = Duration::from_secs(5);
const WHILE_MAX: Duration = Duration::from_secs(120);
/// What is less may stay: pages, and a part of all that are in use.
const LEAST_PAGES: u64 = 16;
const LEAST_PART: u64 = 8;

/// The part of the memory thread that gives back pages that are not used.
#[derive(Debug)]
pub(crate) struct IdleMemory {
    slabs: Arc<Mapped<abi::bpfdb_slab>>,
    next: Instant,
    /// Since when there has been enough to give back.
    since: Option<Instant>,
    patience: Duration,
}

impl IdleMemory {
    pub(crate) fn new(slabs: Arc<Mapped<abi::bpfdb_slab>>) -> Self {
        Self {
            slabs,
            next: Instant::now(),
            since: None,
            patience: WHILE,
        }
    }

    /// Called often; does something once in a second.
    pub(crate) fn look(&mut self, memory: &Memory, shrinker: &Shrinker) -> Result<()> {
        let now = Instant::now();
        if now < self.next {
            return Ok(());
        }
        self.next = now + PERIOD;
        let usage = Usage::take(&memory.state(), &self.slabs);
        memory.note_used(usage.memory_used());
        let in_use = memory.pages_used();
        if usage.pages_idle() < LEAST_PAGES.max(in_use / LEAST_PART) {
            self.since = None;
            self.patience = WHILE;
            return Ok(());
        }
        let since = *self.since.get_or_insert(now);
        if now.duration_since(since) >= self.patience {
            shrinker.give_back(&usage, memory)?;
            self.settle(in_use.saturating_sub(memory.pages_used()));
        }
        Ok(())
    }

    /// What cannot be given back now, because what it would be merged with is fuller, is
    /// asked for less and less often.
    fn settle(&mut self, given_back: u64) {
        self.since = None;
        self.patience = if given_back < LEAST_PAGES {
            (2 * self.patience).min(WHILE_MAX)
        } else {
            WHILE
        };
    }
}
