//! Pages of the index: two that were one before a split become one again.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::{Emptier, End, Source};
use crate::engine::Engine;
use crate::memory::usage::Usage;
use crate::session::Session;
use crate::victims::Victim;
use crate::{Status, abi};

const CELLS: u64 = abi::BPFDB_CELLS_PER_PAGE as u64;
/// Two pages of the index become one with so many records. It is split when a record finds no cell near its
/// home: of a page that is fuller that may be soon, and the two would be merged again for the next write.
const MERGED: u64 = CELLS / 2;
/// Records that may come to a pair of pages between the look at it and the merge.
const MERGED_BESIDE: u64 = CELLS / 16;

/// Two pages of the index that were one before a split.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    upper: u32,
    /// Records that are too many for one page.
    excess: usize,
}

impl Engine {
    /// Pages of the index with their buddies.
    pub(super) fn pair_sources(&self) -> Vec<Source> {
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
}

/// Is it a page of the index that is not being split?
fn may_be_merged(slab: &abi::bpfdb_slab) -> bool {
    u32::from(slab.class_) == abi::BPFDB_PAGE_INDEX
        && slab.level > 0
        && slab.sibling == 0
        && slab.word <= CELLS
}

impl Session {
    /// Makes one page of each of these pairs. How many came free.
    pub(super) fn join_pairs(
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
}
