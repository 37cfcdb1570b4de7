//! Pages of slots: the allocator takes none from a slab that is closed, and what lies in it is evicted.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{Emptier, End, Source};
use crate::driver::Driver;
use crate::engine::Engine;
use crate::error::Result;
use crate::memory::usage::{Class, slots_used};
use crate::session::Session;
use crate::victims::{CELL, Victim};
use crate::{Status, abi};

/// The largest classes of slots: halves and pages of large values, which no record names.
const PIECES: u32 = 2;
/// What a step of the hand over closing slabs looks for, and at how many pages of the index.
const CLOSING_COUNT: u32 = 512;
const CLOSING_PAGES: u32 = 64;
/// Records of closing slabs that are kept from the first look: those beyond are looked for once more.
const KEPT_MOST: usize = 65_536;
/// How often the records of pages are looked for once more that were used before they went.
const ROUNDS: usize = 3;

impl Engine {
    /// Has the allocator take slots again from all slabs that an owner has closed that was killed.
    pub(crate) fn reopen_slabs(&self) -> Result<()> {
        let inner = &self.inner;
        let taken = inner.memory.state().pages_taken.value as usize;
        for page in 1..taken.min(inner.slabs.len()) {
            if inner.slabs.read(page).closing != 0 {
                close_slab(&inner.driver, page as u32, false)?;
            }
        }
        Ok(())
    }

    /// Pages of slots, but for those from which processors take slots now.
    pub(super) fn slab_sources(&self) -> Vec<Source> {
        let state = self.inner.memory.state();
        let open: HashSet<u32> = (state.classes.iter())
            .flat_map(|class| class.open)
            .collect();
        let source = |(page, slab): (u32, abi::bpfdb_slab)| {
            let class = u32::from(slab.class_);
            let is_one = class < abi::BPFDB_CLASSES - PIECES && !open.contains(&page);
            let size = u64::from(Class::numbered(class.min(abi::BPFDB_CLASSES - 1)).size);
            is_one.then(|| Source {
                cost: slots_used(&slab) * (size + CELL),
                page,
                pair: None,
            })
        };
        self.slabs().filter_map(source).collect()
    }

    /// Slots in use of a page.
    fn slots_used(&self, page: u32) -> u64 {
        let slab = self.inner.slabs.read(page as usize);
        match u32::from(slab.class_) < abi::BPFDB_CLASSES {
            true => slots_used(&slab),
            // It was given back.
            false => 0,
        }
    }
}

impl Session {
    /// Empties `most` of these pages of slots. How many came free.
    pub(super) fn empty_slabs(
        &mut self,
        pages: &[u32],
        most: usize,
        which: u32,
        emptier: &mut Emptier<'_>,
    ) -> Result<u64, End> {
        if pages.is_empty() {
            return Ok(0);
        }
        let engine = self.engine().clone();
        let mut closed = ClosedSlabs::close(&engine.inner.driver, pages)?;
        // Slots that processors keep ready are free.
        closed.reclaim();
        let (slots, mut victims) = self.look_at_closing(which, emptier)?;
        let all = |page: &u32| slots.get(page).copied().unwrap_or(0) >= engine.slots_used(*page);
        let (whole, stuck): (Vec<u32>, Vec<u32>) = pages.iter().partition(|page| all(page));
        emptier.in_vain.note(stuck);
        let emptied: HashSet<u32> = whole.into_iter().take(most).collect();
        closed.keep(&emptied);
        victims.retain(|victim| {
            let mut closing = victim.closing.iter().flatten();
            closing.any(|page| emptied.contains(&page.get()))
        });
        let mut outcome = self.evict_permitted(&victims, emptier);
        drop(victims);
        for _ in 0..ROUNDS {
            if outcome.is_err() || emptied.iter().all(|&page| engine.slots_used(page) == 0) {
                break;
            }
            outcome = self.over_closing(which, emptier, |session, victims, emptier| {
                session.evict_permitted(&victims, emptier)
            });
        }
        let (empty, rest): (Vec<u32>, Vec<u32>) =
            (emptied.iter()).partition(|&&page| engine.slots_used(page) == 0);
        emptier.in_vain.note(rest);
        closed.reclaim();
        outcome.map(|()| empty.len() as u64)
    }

    /// How many slots of each slab that is closing have records that may go, and some of these records.
    fn look_at_closing(
        &mut self,
        which: u32,
        emptier: &mut Emptier<'_>,
    ) -> Result<(HashMap<u32, u64>, Vec<Victim>), End> {
        let (mut slots, mut some) = (HashMap::new(), Vec::new());
        self.over_closing(which, emptier, |_, victims, _| {
            for page in victims.iter().flat_map(|victim| victim.closing).flatten() {
                *slots.entry(page.get()).or_default() += 1;
            }
            if some.len() < KEPT_MOST {
                some.extend(victims);
            }
            Ok(())
        })?;
        Ok((slots, some))
    }

    /// One round over all records, and what to do with those that have something in a slab that is closing.
    fn over_closing<'a>(
        &mut self,
        which: u32,
        emptier: &mut Emptier<'a>,
        mut some: impl FnMut(&mut Self, Vec<Victim>, &mut Emptier<'a>) -> Result<(), End>,
    ) -> Result<(), End> {
        let mut cursor = 0;
        loop {
            drop((emptier.permit)().ok_or(End::Stopped)?);
            let reply = self.run_sample(abi::bpfdb_sample {
                cursor,
                wanted: CLOSING_COUNT,
                pages: CLOSING_PAGES,
                which: abi::BPFDB_SAMPLE_CLOSING | which,
                ended: 0,
            })?;
            cursor = reply.cursor;
            let sampled = self.unexpired(&reply);
            some(self, sampled.victims, emptier)?;
            if sampled.round_ended {
                return Ok(());
            }
        }
    }
}

/// Slabs from which no slot is taken, until this is dropped.
struct ClosedSlabs<'a> {
    driver: &'a Driver,
    pages: Vec<u32>,
    /// Of all that were closed.
    classes: BTreeSet<u32>,
}

impl<'a> ClosedSlabs<'a> {
    fn close(driver: &'a Driver, pages: &[u32]) -> Result<Self, Status> {
        let mut closed = Self {
            driver,
            pages: Vec::new(),
            classes: BTreeSet::new(),
        };
        for &page in pages {
            closed.pages.push(page);
            let class = close_slab(driver, page, true).map_err(|_| Status::BadRequest)?;
            closed.classes.insert(class);
        }
        Ok(closed)
    }

    /// Only these stay closed.
    fn keep(&mut self, pages: &HashSet<u32>) {
        self.pages.retain(|page| {
            let stays = pages.contains(page);
            if !stays {
                let _ = close_slab(self.driver, *page, false);
            }
            stays
        });
    }

    /// Gives those back that are empty, and before that slots that processors keep ready.
    fn reclaim(&self) {
        for &class in &self.classes {
            let _ = self.driver.run(abi::BPFDB_DRIVER_RECLAIM, &[class.into()]);
        }
    }
}

impl Drop for ClosedSlabs<'_> {
    fn drop(&mut self) {
        for &page in &self.pages {
            // A page whose slab was not closed stays as it is.
            let _ = close_slab(self.driver, page, false);
        }
    }
}

/// Has the allocator take no slot from a slab any more, or take some again; its class.
fn close_slab(driver: &Driver, page: u32, closes: bool) -> Result<u32> {
    driver.run(
        abi::BPFDB_DRIVER_CLOSE_SLAB,
        &[page.into(), u64::from(closes)],
    )
}
