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
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use crate::driver::Driver;
use crate::engine::Engine;
use crate::error::Result;
use crate::memory::usage::{Class, Usage, slots_used};
use crate::session::Session;
use crate::victims::{CELL, EVICTED_AT_ONCE, Sampled, Victim};
use crate::{Status, abi};

/// The largest classes of slots: halves and pages of large values, which no record names.
const PIECES: u32 = 2;
/// What a step of the hand over closing slabs looks for, and at how many pages of the index.
const CLOSING_COUNT: u32 = 512;
const CLOSING_PAGES: u32 = 64;
/// Records of closing slabs that are kept from the first look: those beyond are looked for once more.
const KEPT_MOST: usize = 65_536;
/// For so long pages are left out that could not be made free.
const IN_VAIN: Duration = Duration::from_secs(5);
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
    /// Pages of slots that are looked at for these, at most, and pairs of pages of the index: there may be
    /// something in a page that cannot go.
    pub looks: usize,
    /// Only records with an expiry go.
    pub expiring_only: bool,
}

/// What [`Session::make_pages`] asks its caller, and says to it.
pub struct Emptier<'a> {
    /// Of two pages of the index those records go that are ranked highest.
    pub rank: &'a mut dyn FnMut(&Victim) -> u64,
    /// Called with each record that was evicted.
    pub gone: &'a mut dyn FnMut(&Victim),
    /// A lock that is held while some records go, 256 at most. `None`: no more may go.
    pub permit: &'a dyn Fn() -> Option<MutexGuard<'a, ()>>,
    /// From one call to the next.
    pub in_vain: &'a mut InVain,
}

/// Pages that could not be made free: for some seconds others are tried.
#[derive(Debug, Default)]
pub struct InVain {
    pages: HashSet<u32>,
    /// Since the first of them.
    since: Option<Instant>,
}

impl InVain {
    fn note(&mut self, pages: impl IntoIterator<Item = u32>) {
        self.pages.extend(pages);
        if self.since.is_none() && !self.pages.is_empty() {
            self.since = Some(Instant::now());
        }
    }

    /// Leaves these pages out, unless they have been left out for long, or there are no others.
    fn leave_out(&mut self, slabs: &mut Vec<Source>, pairs: &mut Vec<Source>) {
        let is_old = self.since.is_some_and(|since| since.elapsed() > IN_VAIN);
        let is_new = |source: &Source| !self.pages.contains(&source.page);
        if is_old || !slabs.iter().chain(&*pairs).any(is_new) {
            *self = Self::default();
            return;
        }
        slabs.retain(is_new);
        pairs.retain(is_new);
    }
}

/// Why pages are not made free any more.
enum End {
    /// [`Emptier::permit`] says so.
    Stopped,
    Failed(Status),
}

impl From<Status> for End {
    fn from(status: Status) -> Self {
        Self::Failed(status)
    }
}

/// What is tried, the cheapest first.
struct Sources {
    slabs: Vec<u32>,
    pairs: Vec<(u32, Pair)>,
    /// So many of the pairs are among the cheapest of both.
    cheap_pairs: usize,
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

    /// The cheapest sources of each kind.
    fn sources(&self, emptying: &Emptying, in_vain: &mut InVain) -> Sources {
        let (mut slabs, mut pairs) = (self.slab_sources(), self.pair_sources());
        in_vain.leave_out(&mut slabs, &mut pairs);
        let slabs = cheapest(slabs, emptying.looks);
        let pairs = cheapest(pairs, emptying.looks);
        let mut all: Vec<&Source> = slabs.iter().chain(&pairs).collect();
        all.sort_by_key(|source| source.cost);
        let cheapest = all.iter().take(emptying.pages);
        Sources {
            cheap_pairs: cheapest.filter(|source| source.pair.is_some()).count(),
            slabs: slabs.iter().map(|source| source.page).collect(),
            pairs: (pairs.iter())
                .filter_map(|source| Some((source.page, source.pair?)))
                .collect(),
        }
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
                _ => drop(upper.insert((slab.level, slab.prefix), (page, slab))),
            }
        }
        let source = |(page, slab): (u32, abi::bpfdb_slab)| {
            let buddy = (slab.level, slab.prefix | half(slab.level));
            let &(upper, other) = upper.get(&buddy)?;
            let excess = match (slab.next, other.next) {
                (0, 0) => (slab.word + other.word).saturating_sub(MERGED),
                // A merge has begun that could not be finished.
                (to, of) if to == page && of == page => 0,
                _ => return None,
            };
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

/// Is it a page of the index that is not being split?
fn may_be_merged(slab: &abi::bpfdb_slab) -> bool {
    u32::from(slab.class_) == abi::BPFDB_PAGE_INDEX
        && slab.level > 0
        && slab.sibling == 0
        && slab.word <= CELLS
}

/// So many of them, the cheapest first.
fn cheapest(mut sources: Vec<Source>, count: usize) -> Vec<Source> {
    if sources.len() > count {
        sources.select_nth_unstable_by_key(count, |source| source.cost);
        sources.truncate(count);
    }
    sources.sort_by_key(|source| source.cost);
    sources
}

impl Session {
    /// Makes pages free for data of any size, those for which the least data goes. For a page of slots all
    /// goes that lies in it; for one of the index, what `rank` ranks highest of two pages. It may go over all
    /// records. How many pages came free: there may be none, and then nothing was evicted but of pages of the
    /// index that could not be merged, or it was in use again at once.
    ///
    /// For when there is enough free memory, but no write finds a slot of its size.
    ///
    /// # Errors
    /// As [`Session::evict`]. Some pages may be free.
    pub fn make_pages(
        &mut self,
        emptying: &Emptying,
        emptier: &mut Emptier<'_>,
    ) -> Result<u64, Status> {
        let mut made = 0;
        match self.make_some(emptying, emptier, &mut made) {
            Ok(()) | Err(End::Stopped) => Ok(made),
            Err(End::Failed(status)) => Err(status),
        }
    }

    /// Adds to `made` what came free.
    fn make_some(
        &mut self,
        emptying: &Emptying,
        emptier: &mut Emptier<'_>,
        made: &mut u64,
    ) -> Result<(), End> {
        let (pages, which) = (emptying.pages, expiring(emptying.expiring_only));
        let sources = self.engine().clone().sources(emptying, emptier.in_vain);
        let (cheap, dear) = sources.pairs.split_at(sources.cheap_pairs);
        *made += self.join_pairs(cheap, which, emptier)?;
        let left = pages.saturating_sub(*made as usize);
        if left > 0 {
            *made += self.empty_slabs(&sources.slabs, left, which, emptier)?;
        }
        // The pages of slots were cheaper, and have something that cannot go.
        for some in dear.chunks(pages.max(1)) {
            if *made > 0 {
                break;
            }
            *made += self.join_pairs(some, which, emptier)?;
        }
        Ok(())
    }

    /// Makes one page of each of these pairs. How many came free.
    fn join_pairs(
        &mut self,
        pairs: &[(u32, Pair)],
        which: u32,
        emptier: &mut Emptier<'_>,
    ) -> Result<u64, End> {
        let mut thinned = Vec::new();
        for &(page, pair) in pairs {
            match self.thin_pair(page, pair, which, emptier)? {
                true => thinned.push(page),
                false => emptier.in_vain.note([page]),
            }
        }
        if thinned.is_empty() {
            return Ok(0);
        }
        let engine = self.engine().clone();
        let shrinker = &engine
            .owned("merge pages of the index")
            .map_err(|_| Status::BadRequest)?
            .shrinker;
        let most = MERGED + MERGED_BESIDE;
        let made = (shrinker.merge_pairs(&mut thinned, most, &engine.inner.memory))
            .map_err(|_| Status::BadRequest)?;
        emptier.in_vain.note(thinned);
        Ok(made)
    }

    /// Evicts what is too much for one page. False: too few records may go, and none went.
    fn thin_pair(
        &mut self,
        page: u32,
        pair: Pair,
        which: u32,
        emptier: &mut Emptier<'_>,
    ) -> Result<bool, End> {
        if pair.excess == 0 {
            return Ok(true);
        }
        let mut victims = self.records_of_page(page, which)?;
        victims.extend(self.records_of_page(pair.upper, which)?);
        if victims.len() < pair.excess {
            return Ok(false);
        }
        // Of equal ranks any: if neighbours went, the rest would lie as densely as before, and find no room
        // near its homes.
        let chance = RandomState::new();
        victims.sort_by_cached_key(|victim| {
            let rank = (emptier.rank)(victim);
            (Reverse(rank), chance.hash_one(&victim.key))
        });
        victims.truncate(pair.excess);
        self.evict_permitted(&victims, emptier)?;
        Ok(true)
    }

    /// Evicts them, as long as that is permitted.
    fn evict_permitted(
        &mut self,
        victims: &[Victim],
        emptier: &mut Emptier<'_>,
    ) -> Result<(), End> {
        for some in victims.chunks(EVICTED_AT_ONCE) {
            let _permit = (emptier.permit)().ok_or(End::Stopped)?;
            self.evict_each(some, &mut *emptier.gone)?;
        }
        Ok(())
    }

    /// The records of a page of the index that may be evicted; fewer if it is none any more.
    fn records_of_page(&mut self, page: u32, which: u32) -> Result<Vec<Victim>, Status> {
        let (mut found, mut cursor) = (Vec::new(), u64::from(page) * CELLS);
        let end = cursor + CELLS;
        while cursor < end {
            let reply = self.run_sample(abi::bpfdb_sample {
                cursor,
                wanted: CELLS as u32,
                pages: 1,
                which,
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
            found.extend(self.unexpired(&reply).victims);
        }
        Ok(found)
    }

    /// What a step of the hand has found, but for what has expired: that stays until the sweeper comes by, since
    /// no operator finds it any more.
    fn unexpired(&mut self, reply: &abi::bpfdb_sample) -> Sampled {
        let mut sampled = self.sampled(reply);
        let now = self.engine().now_ms();
        let lives = |victim: &Victim| victim.expires_at.is_none_or(|time| time > now);
        sampled.victims.retain(lives);
        sampled
    }

    /// Empties `most` of these pages of slots. How many came free.
    fn empty_slabs(
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
