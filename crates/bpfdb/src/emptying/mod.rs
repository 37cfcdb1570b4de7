//! Pages made free for data of any size, where memory is full of slots of other sizes
//! (docs/decisions/0032-eviction.md).
//!
//! Two kinds of pages can be made free, and those go first for which the fewest bytes of data go:
//!
//! - a page of slots (`slabs.rs`): all records of which something lies in it are evicted;
//! - one of two pages of the index, buddies (`pairs.rs`): records of both are evicted, those first that the
//!   caller ranks first, until the rest finds room in one of them.
//!
//! A page of slots may hold what cannot be evicted: pages of large collections, older versions, locked
//! records. So the records are counted before any of them goes, and nothing goes for a page that would stay.

mod pairs;
mod slabs;

use std::collections::HashSet;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use self::pairs::Pair;
use crate::engine::Engine;
use crate::session::Session;
use crate::victims::{EVICTED_AT_ONCE, Sampled, Victim};
use crate::{Status, abi};

/// For so long pages are left out that could not be made free.
const IN_VAIN: Duration = Duration::from_secs(5);

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

impl Engine {
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

    fn slabs(&self) -> impl Iterator<Item = (u32, abi::bpfdb_slab)> {
        let inner = &self.inner;
        let taken = (inner.memory.pages_taken() as usize).min(inner.slabs.len());
        // Page 0 is never handed out.
        (1..taken).map(|page| (page as u32, inner.slabs.read(page)))
    }
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

    /// What a step of the hand has found, but for what has expired: that stays until the sweeper comes by, since
    /// no operator finds it any more.
    fn unexpired(&mut self, reply: &abi::bpfdb_sample) -> Sampled {
        let mut sampled = self.sampled(reply);
        let now = self.engine().now_ms();
        let lives = |victim: &Victim| victim.expires_at.is_none_or(|time| time > now);
        sampled.victims.retain(lives);
        sampled
    }
}

fn expiring(expiring_only: bool) -> u32 {
    match expiring_only {
        true => abi::BPFDB_SAMPLE_EXPIRING,
        false => 0,
    }
}
