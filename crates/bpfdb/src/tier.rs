//! What the owner of an engine needs to keep values in files: docs/tier.md.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cold::{ColdValues, Demotion, RunUse};
use crate::engine::Engine;
use crate::error::Result;
use crate::memory::grace::Grace;
use crate::memory::usage::Usage;
use crate::session::Session;
use crate::{Status, abi};

/// What one run of the program gives back of what is retired.
const STEP: u64 = 512;

/// Gives values to files. One for each engine, in the process that owns it.
#[derive(Debug)]
pub struct Demoter {
    session: Session,
    grace: Grace,
}

impl Drop for Demoter {
    fn drop(&mut self) {
        self.promise_memory(false);
    }
}

impl Engine {
    /// From now on sessions of this process read cold values by this. False, and nothing changes: they read
    /// them by another already.
    #[must_use]
    pub fn set_cold_values(&self, values: Arc<dyn ColdValues>) -> bool {
        self.inner.cold.set(values).is_ok()
    }

    /// What versions have in the files of cold values; the place of a file is its number modulo the
    /// number of places. A file that is newer than another of its place must not be made while a session
    /// names that.
    pub fn run_uses(&self) -> Vec<RunUse> {
        let state = self.inner.memory.state();
        let of = |run: &abi::bpfdb_run_use| RunUse {
            values: run.values,
            bytes: run.bytes,
        };
        state.runs.iter().map(of).collect()
    }

    /// [`Engine::memory_used`] of this moment.
    pub fn memory_used_now(&self) -> u64 {
        let state = self.inner.memory.state();
        Usage::take(&state, &self.inner.slabs).memory_used()
    }

    /// Pages that data may still take, without those that are kept ([`Demoter::keep_pages`]).
    pub fn pages_left(&self) -> u64 {
        let state = self.inner.memory.state();
        let limit = state.segments_limit.value * u64::from(abi::BPFDB_PAGES_PER_SEGMENT);
        let used = state
            .pages_taken
            .value
            .saturating_sub(state.pages_free_count.value);
        limit.saturating_sub(used + state.tier_reserve.value)
    }

    /// Ends what a [`Demoter`] has promised and kept, in a process that was killed: nothing goes to files
    /// any more.
    ///
    /// # Errors
    /// [`crate::Error::Attached`].
    pub fn forget_demoter(&self) -> Result<()> {
        self.owned("give values to files")?;
        let state = self.inner.memory.state_pointer();
        // SAFETY: aligned u64s inside the mapping, which lives as long as the engine.
        unsafe {
            (&raw mut (*state).demoting.value).write_volatile(0);
            (&raw mut (*state).tier_reserve.value).write_volatile(0);
        }
        Ok(())
    }

    /// Random, and no other engine has it.
    pub fn identity(&self) -> u64 {
        self.config().identity
    }

    /// Gives values to files. Takes one of the sessions, and of the buffers of `user_sessions`.
    ///
    /// # Errors
    /// [`crate::Error::Attached`]; or there is no session.
    pub fn demoter(&self) -> Result<Demoter> {
        self.owned("give values to files")?;
        let mut session = self.session()?;
        // What it brings back was read before, and that counted.
        session.set_untracked(true);
        Ok(Demoter {
            session,
            grace: Grace::new()?,
        })
    }
}

impl Demoter {
    /// Waits for a grace period, gives back the memory of what became cold before, and returns an
    /// epoch: all commits up to it are decided, and a later one has a later timestamp.
    ///
    /// # Errors
    /// Those of the system calls; what is left is given back by the next call.
    pub fn settle(&mut self) -> Result<u64> {
        let inner = &self.session.engine().inner;
        let waits = inner.driver.run(abi::BPFDB_DRIVER_RETIRE, &[])? != 0;
        let state = inner.memory.state_pointer();
        // SAFETY: an aligned u64 in memory that lives as long as the engine, and that is only
        // changed atomically.
        let clock = unsafe { AtomicU64::from_ptr(&raw mut (*state).clock.value) };
        let epoch = clock.fetch_add(1, Ordering::SeqCst);
        self.grace.wait()?;
        while waits && inner.driver.run(abi::BPFDB_DRIVER_RETIRED, &[STEP])? != 0 {}
        Ok(epoch)
    }

    /// Whether there is memory that [`Demoter::settle`] gives back: values that came back to memory have left
    /// the places of the cold ones.
    pub fn has_retired(&self) -> bool {
        let state = self.session.engine().inner.memory.state_pointer();
        // SAFETY: aligned u64s inside the mapping, which lives as long as the engine.
        unsafe {
            (&raw const (*state).retired.value).read_volatile() != 0
                || (&raw const (*state).retiring.value).read_volatile() != 0
        }
    }

    /// Whether operators that find no memory are told that there will be some: for as long as values can be
    /// given to files.
    pub fn promise_memory(&self, promise: bool) {
        let state = self.session.engine().inner.memory.state_pointer();
        // SAFETY: an aligned u64 inside the mapping, which lives as long as the engine.
        unsafe { (&raw mut (*state).demoting.value).write_volatile(promise.into()) };
    }

    /// Keeps an eighth of the memory limit for what cold values take: no other data gets these pages.
    pub fn keep_pages(&self) {
        let state = self.session.engine().inner.memory.state_pointer();
        // SAFETY: aligned u64s inside the mapping, which lives as long as the engine.
        unsafe {
            let segments = (&raw const (*state).segments_limit.value).read_volatile();
            let pages = segments * u64::from(abi::BPFDB_PAGES_PER_SEGMENT) / 8;
            (&raw mut (*state).tier_reserve.value).write_volatile(pages);
        }
    }

    /// Gives pages without values back, for data of any kind.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn reclaim(&self) -> Result<()> {
        let driver = &self.session.engine().inner.driver;
        for class in 0..abi::BPFDB_CLASSES {
            driver.run(abi::BPFDB_DRIVER_RECLAIM, &[class.into()])?;
        }
        Ok(())
    }

    /// Reads the value of this stored key, which brings it back to memory if it is cold and
    /// [`ColdValues::admits`] says so.
    ///
    /// # Errors
    /// Those of reading a value.
    pub fn promote(&mut self, key: &[u8]) -> Result<(), Status> {
        self.session.promote_key(key)
    }

    /// Makes a value cold, if it still is the one that was read, and no transaction has it locked.
    ///
    /// # Errors
    /// Those of the operator: of [`Status::OutOfMemory`], which is about the 96 bytes that this takes
    /// before it gives back more; [`Status::BadRequest`], if it is a row of an ordered table or a node of an
    /// index ([`crate::is_of_ordered_table`]).
    pub fn demote(&mut self, demotion: &Demotion<'_>) -> Result<bool, Status> {
        self.session.demote(demotion)
    }

    /// The same for many, by as few system calls as their requests have room in a buffer: to `swapped` goes for each,
    /// in order, what [`Demoter::demote`] returns. After an error the rest has none, and may be cold all the same.
    ///
    /// # Errors
    /// As [`Demoter::demote`].
    pub fn demote_all(
        &mut self,
        demotions: &[Demotion<'_>],
        swapped: &mut Vec<bool>,
    ) -> Result<(), Status> {
        self.session.demote_all(demotions, swapped)
    }
}
