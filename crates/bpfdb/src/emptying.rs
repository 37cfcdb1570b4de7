//! Pages made free for data of any size, where memory is full of slots of other sizes
//! (docs/decisions/0032-eviction.md).
//!
//! Two kinds of pages can be made free, and those go first for which the fewest bytes of data go:
//!
//! - a page of slots: all records of which something lies in it are evicted;
//! - one of two pages of the index, buddies: records of both are evicted, those first that the caller
//!   ranks first, until the rest finds room in one of them.
//!
//! A page of slots may hold what cannot be evicted: pages of large collections, older versions, locked
//! records. So the records are counted before any of them goes, and nothing goes for a page that would stay.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use crate::driver::Driver;
use crate::engine::Engine;
use crate::error::Result;
use crate::memory::usage::{Class, Usage, slots_used};
use crate::session::Session;
use crate::victims::{CELL, Victim};
use crate::{Status, abi};

/// The largest classes of slots: halves and pages of large values, which no record names.
const PIECES: u32 = 2;
/// What a step of the hand over closing slabs looks for, and at how many pages of the index.
const CLOSING_COUNT: u32 = 512;
const CLOSING_PAGES: u32 = 64;
/// How often the records of pages are looked for once more that were used before they went.
const ROUNDS: usize = 3;
const CELLS: u64 = abi::BPFDB_CELLS_PER_PAGE as u64;
/// Two pages of the index become one with so many records. It is split when a record finds no cell near its
/// home: of a page that is fuller that may be soon, and the two would be merged again for the next write.
const MERGED: u64 = CELLS / 2;
/// Records that may come to a pair of pages between the look at it and the merge.
const MERGED_BESIDE: u64 = CELLS / 16;

/// What [`Session::make_pages`] is to do.
#[derive(Clone, Copy, Debug)]
pub struct Emptying {
    /// Pages that are to be free, at most.
    pub pages: usize,
    /// Pages of slots that are looked at for these, at most: there may be something in a page that cannot
    /// go.
    pub looks: usize,
    /// Only records with an expiry go.
    pub expiring_only: bool,
}

/// A page that can be made free.
#[derive(Clone, Copy, Debug)]
struct Source {
    /// Bytes of data that go for it, about.
    cost: u64,
    /// Of a pair, the lower half.
    page: u32,
    pair: Option<Pair>,
}

/// Two pages of the index that were one before a split.
#[derive(Clone, Copy, Debug)]
struct Pair {
    upper: u32,
    /// Records that are too many for one page.
    excess: usize,
}

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

    /// The cheapest sources: so many pages of slots, and so many pairs, the cheapest first.
    fn sources(&self, slabs: usize, pairs: usize) -> Vec<Source> {
        let mut sources = cheapest(self.slab_sources(), slabs);
        sources.extend(cheapest(self.pair_sources(), pairs));
        sources.sort_by_key(|source| source.cost);
        sources
    }

    /// Pages of slots, but for those from which processors take slots now.
    fn slab_sources(&self) -> Vec<Source> {
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

    /// Pages of the index with their buddies.
    fn pair_sources(&self) -> Vec<Source> {
        let usage = Usage::take(&self.inner.memory.state(), &self.inner.slabs);
        let per_record = usage.memory_used() / usage.records.max(1);
        let half = |level: u8| 1 << u32::from(level - 1);
        let (mut lower, mut upper) = (Vec::new(), HashMap::new());
        for (page, slab) in self.slabs().filter(|(_, slab)| may_be_merged(slab)) {
            match slab.prefix & half(slab.level) {
                0 => lower.push((page, slab)),
                _ => drop(upper.insert((slab.level, slab.prefix), (page, slab.word))),
            }
        }
        let source = |(page, slab): (u32, abi::bpfdb_slab)| {
            let buddy = (slab.level, slab.prefix | half(slab.level));
            let &(upper, records) = upper.get(&buddy)?;
            let excess = (slab.word + records).saturating_sub(MERGED);
            Some(Source {
                cost: excess * per_record,
                page,
                pair: Some(Pair {
                    upper,
                    excess: excess as usize,
                }),
            })
        };
        lower.into_iter().filter_map(source).collect()
    }

    fn slabs(&self) -> impl Iterator<Item = (u32, abi::bpfdb_slab)> {
        let inner = &self.inner;
        let taken = (inner.memory.pages_taken() as usize).min(inner.slabs.len());
        // Page 0 is never handed out.
        (1..taken).map(|page| (page as u32, inner.slabs.read(page)))
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

/// Is it a page of the index that is not being split or merged?
fn may_be_merged(slab: &abi::bpfdb_slab) -> bool {
    u32::from(slab.class_) == abi::BPFDB_PAGE_INDEX
        && slab.level > 0
        && slab.sibling == 0
        && slab.next == 0
        && slab.word <= CELLS
}

fn cheapest(mut sources: Vec<Source>, count: usize) -> Vec<Source> {
    if sources.len() > count {
        sources.select_nth_unstable_by_key(count, |source| source.cost);
        sources.truncate(count);
    }
    sources
}

impl Session {
    /// Makes pages free for data of any size, those for which the least data goes. For a page of slots all
    /// goes that lies in it; for one of the index, what `rank` ranks highest of two pages. It may go over all
    /// records. `gone` is called with each record that was evicted. How many pages came free: there may
    /// be none, and then nothing was evicted, or it was in use again at once.
    ///
    /// For when there is enough free memory, but no write finds a slot of its size.
    ///
    /// # Errors
    /// As [`Session::evict`]. Some pages may be free.
    pub fn make_pages(
        &mut self,
        emptying: &Emptying,
        mut rank: impl FnMut(&Victim) -> u64,
        mut gone: impl FnMut(&Victim),
    ) -> Result<u64, Status> {
        let engine = self.engine().clone();
        let Emptying {
            pages,
            looks,
            expiring_only,
        } = *emptying;
        let sources = engine.sources(looks, pages);
        let pairs: Vec<_> = (sources.iter().take(pages))
            .filter_map(|source| Some((source.page, source.pair?)))
            .collect();
        let slabs: Vec<u32> = (sources.iter())
            .filter(|source| source.pair.is_none())
            .map(|source| source.page)
            .collect();
        let mut made = self.join_pairs(&pairs, expiring_only, &mut rank, &mut gone)?;
        let left = pages.saturating_sub(made as usize);
        if left > 0 {
            made += self.empty_slabs(&slabs, left, expiring_only, &mut gone)?;
        }
        Ok(made)
    }

    /// Makes one page of each of these pairs. How many came free.
    fn join_pairs(
        &mut self,
        pairs: &[(u32, Pair)],
        expiring_only: bool,
        rank: &mut impl FnMut(&Victim) -> u64,
        gone: &mut impl FnMut(&Victim),
    ) -> Result<u64, Status> {
        if pairs.is_empty() {
            return Ok(0);
        }
        let mut thinned = Vec::new();
        for &(page, pair) in pairs {
            if self.thin_pair(page, pair, expiring_only, rank, gone)? {
                thinned.push(page);
            }
        }
        let engine = self.engine().clone();
        let shrinker = &engine
            .owned("merge pages of the index")
            .map_err(|_| Status::BadRequest)?
            .shrinker;
        (shrinker.merge_pairs(&thinned, MERGED + MERGED_BESIDE, &engine.inner.memory))
            .map_err(|_| Status::BadRequest)
    }

    /// Evicts what is too much for one page. False: too few records may go, and none went.
    fn thin_pair(
        &mut self,
        page: u32,
        pair: Pair,
        expiring_only: bool,
        rank: &mut impl FnMut(&Victim) -> u64,
        gone: &mut impl FnMut(&Victim),
    ) -> Result<bool, Status> {
        if pair.excess == 0 {
            return Ok(true);
        }
        let mut victims = self.records_of_page(page, expiring_only)?;
        victims.extend(self.records_of_page(pair.upper, expiring_only)?);
        if victims.len() < pair.excess {
            return Ok(false);
        }
        // Of equal ranks any: if neighbours went, the rest would lie as densely as before, and find no room
        // near its homes.
        let chance = RandomState::new();
        victims.sort_by_cached_key(|victim| (Reverse(rank(victim)), chance.hash_one(&victim.key)));
        victims.truncate(pair.excess);
        self.evict_each(&victims, gone)?;
        Ok(true)
    }

    /// The records of a page of the index that may be evicted; fewer if it is none any more.
    fn records_of_page(&mut self, page: u32, expiring_only: bool) -> Result<Vec<Victim>, Status> {
        let (mut found, mut cursor) = (Vec::new(), u64::from(page) * CELLS);
        let end = cursor + CELLS;
        while cursor < end {
            let reply = self.run_sample(abi::bpfdb_sample {
                cursor,
                wanted: CELLS as u32,
                pages: 1,
                which: expiring(expiring_only),
                ended: 0,
            })?;
            // Behind the last page of all the hand is at the first one again.
            let is_last = u64::from(page) + 1 == self.engine().inner.memory.pages_taken();
            let next = match reply.ended != 0 && is_last {
                true => end,
                false => reply.cursor,
            };
            // It has gone on to another page of the index.
            if next <= cursor || next > end {
                break;
            }
            cursor = next;
            found.extend(self.sampled(&reply).victims);
        }
        Ok(found)
    }

    /// Empties `most` of these pages of slots. How many came free.
    fn empty_slabs(
        &mut self,
        pages: &[u32],
        most: usize,
        expiring_only: bool,
        gone: &mut impl FnMut(&Victim),
    ) -> Result<u64, Status> {
        let engine = self.engine().clone();
        let mut closed = ClosedSlabs::close(&engine.inner.driver, pages)?;
        // Slots that processors keep ready are free.
        closed.reclaim();
        let found = self.look_at_closing(expiring_only)?;
        let mut slots: HashMap<u32, u64> = HashMap::new();
        for page in found.iter().flat_map(|victim| victim.closing).flatten() {
            *slots.entry(page.get()).or_default() += 1;
        }
        let all = |page: &u32| slots.get(page).copied().unwrap_or(0) >= engine.slots_used(*page);
        let emptied: HashSet<u32> = pages.iter().copied().filter(all).take(most).collect();
        closed.keep(&emptied);
        let is_in = |victim: &&Victim| {
            let mut closing = victim.closing.iter().flatten();
            closing.any(|page| emptied.contains(&page.get()))
        };
        let victims: Vec<Victim> = found.iter().filter(is_in).cloned().collect();
        drop(found);
        let mut outcome = self.evict_each(&victims, &mut *gone).map(drop);
        for _ in 0..ROUNDS {
            if outcome.is_err() || emptied.iter().all(|&page| engine.slots_used(page) == 0) {
                break;
            }
            outcome = self.evict_closing(expiring_only, gone);
        }
        let is_empty = |&&page: &&u32| engine.slots_used(page) == 0;
        let made = emptied.iter().filter(is_empty).count() as u64;
        closed.reclaim();
        outcome.map(|()| made)
    }

    /// All records of which something lies in a slab that is closing.
    fn look_at_closing(&mut self, expiring_only: bool) -> Result<Vec<Victim>, Status> {
        let mut found = Vec::new();
        self.over_closing(expiring_only, |_, victims| {
            found.extend(victims);
            Ok(())
        })?;
        Ok(found)
    }

    /// Evicts them.
    fn evict_closing(
        &mut self,
        expiring_only: bool,
        gone: &mut impl FnMut(&Victim),
    ) -> Result<(), Status> {
        self.over_closing(expiring_only, |session, victims| {
            session.evict_each(&victims, &mut *gone).map(drop)
        })
    }

    /// One round over all records, and what to do with those that have something in a slab that is closing.
    fn over_closing(
        &mut self,
        expiring_only: bool,
        mut some: impl FnMut(&mut Self, Vec<Victim>) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let mut cursor = 0;
        loop {
            let reply = self.run_sample(abi::bpfdb_sample {
                cursor,
                wanted: CLOSING_COUNT,
                pages: CLOSING_PAGES,
                which: abi::BPFDB_SAMPLE_CLOSING | expiring(expiring_only),
                ended: 0,
            })?;
            cursor = reply.cursor;
            let sampled = self.sampled(&reply);
            some(self, sampled.victims)?;
            if sampled.round_ended {
                return Ok(());
            }
        }
    }
}

fn expiring(expiring_only: bool) -> u32 {
    match expiring_only {
        true => abi::BPFDB_SAMPLE_EXPIRING,
        false => 0,
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
