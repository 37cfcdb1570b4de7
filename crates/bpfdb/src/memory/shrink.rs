//! Taking memory back from an index that has become too large for its records.
//!
//! Programs merge pages that are nearly empty and retire one of each two. A
//! retired page may still be read by a program that found it before, so it is
//! given back after a grace period, which only user space can wait for.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::abi;
use crate::driver::Driver;
use crate::error::Result;
use crate::mapped::Mapped;
use crate::memory::Memory;
use crate::memory::grace::Grace;
use crate::memory::usage::Usage;

/// Pages of one program run: to look at one takes nanoseconds, to merge two
/// tens of microseconds.
const STEP: u64 = 128;
/// The same where others wait: a page full of expired records takes some hundred
/// microseconds.
const SHORT_STEP: u64 = 8;
/// No further run begins after so long.
const SHORT_TIME: Duration = Duration::from_micros(250);
/// How often a merge of two pages is tried, and after what time again: an operator may hold a latch.
const MERGE_TRIES: u32 = 4;
const MERGE_PAUSE: Duration = Duration::from_millis(1);
/// A merge may make two pages mergeable that were not: rounds at most.
const ROUNDS: usize = 24;

#[derive(Debug)]
pub(crate) struct Shrinker {
    driver: Arc<Driver>,
    slabs: Arc<Mapped<abi::bpfdb_slab>>,
    grace: Grace,
    one_at_a_time: Mutex<()>,
}

impl Shrinker {
    pub(crate) fn new(driver: &Arc<Driver>, slabs: &Arc<Mapped<abi::bpfdb_slab>>) -> Result<Self> {
        Ok(Self {
            driver: Arc::clone(driver),
            slabs: Arc::clone(slabs),
            grace: Grace::new()?,
            one_at_a_time: Mutex::new(()),
        })
    }

    /// Removes every record and version that no reader needs any more.
    pub(crate) fn sweep(&self, memory: &Memory) -> Result<()> {
        self.over_all_pages(abi::BPFDB_DRIVER_SWEEP, memory)
            .map(drop)
    }

    /// The same for some pages from one on, while others wait: the next one, 0 behind the
    /// last. The first runs are the shortest, since none can be stopped.
    pub(crate) fn sweep_some(&self, memory: &Memory, first: u64) -> Result<u64> {
        let begun = Instant::now();
        let taken = memory.state().pages_taken.value;
        let (mut next, mut pages) = (first.max(1), 1);
        while next < taken && begun.elapsed() < SHORT_TIME {
            let count = pages.min(taken - next);
            self.driver.run(abi::BPFDB_DRIVER_SWEEP, &[next, count])?;
            next += count;
            pages = (2 * pages).min(SHORT_STEP);
        }
        Ok(if next < taken { next } else { 0 })
    }

    /// Gives the empty slabs of all size classes back. Operators that find no memory do
    /// that too, for some of them.
    pub(crate) fn reclaim(&self) -> Result<()> {
        for class in 0..abi::BPFDB_CLASSES {
            self.driver
                .run(abi::BPFDB_DRIVER_RECLAIM, &[class.into()])?;
        }
        Ok(())
    }

    /// Gives back what `usage` says is idle.
    pub(crate) fn give_back(&self, usage: &Usage, memory: &Memory) -> Result<()> {
        for (number, class) in usage.classes.iter().enumerate() {
            if class.empty > 0 {
                self.driver
                    .run(abi::BPFDB_DRIVER_RECLAIM, &[number as u64])?;
            }
        }
        if usage.index_pages_sparse > 1 {
            self.shrink(memory)?;
        }
        Ok(())
    }

    /// Looks for memory that is not needed: pages that it found. Slabs keep what they
    /// have, unless that is more than may be in use.
    pub(crate) fn make_room(&self, memory: &Memory) -> Result<u64> {
        let before = memory.pages_used();
        if memory.is_over() {
            self.reclaim()?;
        }
        let reclaimed = before.saturating_sub(memory.pages_used());
        Ok(reclaimed + self.shrink(memory)?)
    }

    /// Gives back what slabs and index keep without need, if a large value of so many
    /// bytes would find no room else. Operators do that too, a little at a time.
    pub(crate) fn make_room_for(&self, bytes: u64, memory: &Memory) -> Result<()> {
        if memory.has_room_for(bytes) {
            return Ok(());
        }
        self.reclaim()?;
        if memory.has_room_for(bytes) {
            return Ok(());
        }
        self.shrink(memory).map(drop)
    }

    /// Gives back all that is not needed any more.
    pub(crate) fn clean(&self, memory: &Memory) -> Result<()> {
        self.sweep(memory)?;
        self.reclaim()?;
        self.shrink(memory).map(drop)
    }

    /// Merges what can be merged and gives the pages back. How many.
    pub(crate) fn shrink(&self, memory: &Memory) -> Result<u64> {
        let _guard = self
            .one_at_a_time
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut freed = 0;
        for _ in 0..ROUNDS {
            // A thread that needs memory meanwhile does not wait for all rounds.
            memory.answer()?;
            self.over_all_pages(abi::BPFDB_DRIVER_MERGE, memory)?;
            match self.release_retired(memory)? {
                0 => break,
                released => freed += released,
            }
        }
        Ok(freed)
    }

    /// Merges these pages of the index with their buddies, if both have no more than so many records, and
    /// gives the pages back that are left over. How many; those stay in `lower` that were not merged.
    pub(crate) fn merge_pairs(
        &self,
        lower: &mut Vec<u32>,
        most: u64,
        memory: &Memory,
    ) -> Result<u64> {
        let _guard = self
            .one_at_a_time
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let wanted = lower.len();
        for attempt in 0..MERGE_TRIES {
            if attempt > 0 {
                thread::sleep(MERGE_PAUSE);
            }
            for page in std::mem::take(lower) {
                let merged = (self.driver).run(abi::BPFDB_DRIVER_MERGE, &[page.into(), 1, most])?;
                if merged == 0 {
                    lower.push(page);
                }
            }
            if lower.is_empty() {
                break;
            }
        }
        match wanted - lower.len() {
            0 => Ok(0),
            _ => self.release_retired(memory),
        }
    }

    /// Gives back the pages that an owner before retired and did not come to release.
    pub(crate) fn take_over(&self, memory: &Memory) -> Result<()> {
        let _guard = self
            .one_at_a_time
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.release_retired(memory).map(drop)
    }

    /// Gives the retired pages back after a grace period; how many. Only those that were
    /// retired before it begins: operators retire pages at any time.
    fn release_retired(&self, memory: &Memory) -> Result<u64> {
        let retired = self.retired(memory);
        if retired.is_empty() {
            return Ok(0);
        }
        self.grace.wait()?;
        let mut released = 0;
        for page in retired {
            released += u64::from(self.driver.run(abi::BPFDB_DRIVER_RELEASE, &[page, 1])?);
        }
        Ok(released)
    }

    fn retired(&self, memory: &Memory) -> Vec<u64> {
        let taken = memory.pages_taken().min(self.slabs.len() as u64);
        (1..taken)
            .filter(|&page| {
                let slab = self.slabs.at(page as usize);
                // SAFETY: at() points into the mapping, which lives as long as self.
                let class = unsafe { (&raw const (*slab).class_).read_volatile() };
                u32::from(class) == abi::BPFDB_PAGE_RETIRED
            })
            .collect()
    }

    /// Waits until every program that runs now has ended: some ten milliseconds, and longer on a
    /// busy machine.
    pub(crate) fn wait_for_readers(&self) -> Result<()> {
        self.grace.wait()
    }

    fn over_all_pages(&self, call: u32, memory: &Memory) -> Result<u64> {
        let taken = memory.state().pages_taken.value;
        let mut count = 0;
        for first in (1..taken).step_by(STEP as usize) {
            count += u64::from(self.driver.run(call, &[first, STEP.min(taken - first)])?);
        }
        Ok(count)
    }
}
