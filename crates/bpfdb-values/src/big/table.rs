//! Elements by key: linear hashing. Buckets are split one by one, in their order, as the collection grows,
//! and joined again, the last one first, as it shrinks.
//!
//! ```text
//!  5 buckets, 4 of which have numbers of two bits:
//!
//!  number     0    1    2    3    4         next to be split: 1, into 1 and 5
//!  low bits  000   01   10   11  100
//! ```
//!
//! The positions of a scan are hashes with their bits in reverse order: a bucket has a range of these, and a
//! split or a join divides or unites ranges. So an element that stays is met once, whatever comes and goes.

use std::ops::Range;

use super::page::{Pages, TARGET};
use super::place::Place;
use super::{Big, siphash};
use crate::run::{self, HEADER, History, Malformed, NARROW_ENTRY, Run};

/// Splits or joins that one change makes, at most.
const STEPS: usize = 2;
/// Draws among the places of buckets until an element is taken anyway.
const DRAWS: usize = 64;

const NO_ELEMENT: Malformed = Malformed("a table without elements");

/// An element and its value.
pub type Element = (Vec<u8>, Vec<u8>);

/// An empty run.
pub(super) const EMPTY: [u8; HEADER] = [0; HEADER];

/// The bucket of an element with this hash, among so many.
pub(super) fn bucket_of(hash: u64, buckets: u64) -> u64 {
    let mask = buckets.next_power_of_two() - 1;
    let bucket = hash & mask;
    if bucket < buckets {
        bucket
    } else {
        bucket & mask >> 1
    }
}

/// The bucket that was split into itself and this one.
fn origin(bucket: u64) -> u64 {
    bucket ^ 1 << bucket.ilog2()
}

/// The positions of a bucket, among so many.
fn positions(bucket: u64, buckets: u64) -> Range<u128> {
    let high = buckets.next_power_of_two();
    let is_split = bucket >= high >> 1 || bucket + (high >> 1) < buckets;
    let bits = if is_split { high } else { high >> 1 }.max(1).ilog2();
    let start = u128::from(bucket.reverse_bits());
    start..start + (1 << (u64::BITS - bits))
}

impl<P: Pages> Big<P> {
    fn hash(&self, key: &[u8]) -> u64 {
        siphash::hash(self.head.secret, key)
    }

    fn bucket(&self, key: &[u8]) -> Place {
        Place::bucket(bucket_of(self.hash(key), self.head.buckets))
    }

    /// The value of an element; of a sorted set its score's bytes.
    ///
    /// # Errors
    /// Those of the pages, as of all that follow.
    pub fn find(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, P::Error> {
        let bucket = self.bucket(key);
        let run = Run::parse(self.cache.page(bucket)?)?;
        Ok(run.find(key)?.map(<[u8]>::to_vec))
    }

    pub fn contains(&mut self, key: &[u8]) -> Result<bool, P::Error> {
        let bucket = self.bucket(key);
        let run = Run::parse(self.cache.page(bucket)?)?;
        Ok(run.find(key)?.is_some())
    }

    /// Gives an element of a hash or a set a value: whether it is new.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, P::Error> {
        let old = self.insert_into_table(key, value)?;
        Ok(old.is_none())
    }

    /// Removes an element of a hash or a set: whether there was one.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool, P::Error> {
        Ok(self.remove_from_table(key)?.is_some())
    }

    /// The value that it had.
    pub(super) fn insert_into_table(
        &mut self,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Vec<u8>>, P::Error> {
        let bucket = self.bucket(key);
        let run = Run::parse(self.cache.page(bucket)?)?;
        let (place, old) = match run.place(key)? {
            Some((place, old)) => (place..place + 1, Some(old.to_vec())),
            None => (run.len()..run.len(), None),
        };
        let new = run.replace(place, std::iter::once((key, value)))?;
        self.cache.put(bucket, new);
        let gone = old
            .as_ref()
            .map_or((0, 0), |old| (1, key.len() + old.len()));
        self.count((1, key.len() + value.len()), gone);
        self.note(key, value);
        self.settle_table()?;
        Ok(old)
    }

    /// The value that it had.
    pub(super) fn remove_from_table(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, P::Error> {
        let bucket = self.bucket(key);
        let run = Run::parse(self.cache.page(bucket)?)?;
        let Some((place, old)) = run.place(key)? else {
            return Ok(None);
        };
        let old = old.to_vec();
        let new = run.replace(place..place + 1, std::iter::empty())?;
        self.cache.put(bucket, new);
        self.count((0, 0), (1, key.len() + old.len()));
        self.settle_table()?;
        Ok(Some(old))
    }

    // ---- Splits and joins -----------------------------------------------------

    /// Bytes of all buckets, about, but for their headers.
    fn load(&self) -> u64 {
        self.head.bytes + self.head.elements * NARROW_ENTRY as u64
    }

    /// Of elements that are long each may have a bucket of its own, and not more.
    fn is_full(&self) -> bool {
        let buckets = self.head.buckets;
        self.load() > buckets * TARGET as u64 && self.head.elements > buckets
    }

    fn is_sparse(&self) -> bool {
        let (buckets, elements) = (self.head.buckets, self.head.elements);
        buckets > 1 && (self.load() < buckets * TARGET as u64 / 4 || elements < buckets / 4)
    }

    fn settle_table(&mut self) -> Result<(), P::Error> {
        for _ in 0..STEPS {
            if self.is_full() {
                self.split()?;
            } else if self.is_sparse() {
                self.join()?;
            } else {
                break;
            }
        }
        Ok(())
    }

    fn split(&mut self) -> Result<(), P::Error> {
        let (new, secret) = (self.head.buckets, self.head.secret);
        let old = origin(new);
        let run = Run::parse(self.cache.page(Place::bucket(old))?)?;
        let entries: Vec<(&[u8], &[u8])> = run.iter().collect::<Result<_, _>>()?;
        let moves = |key: &[u8]| bucket_of(siphash::hash(secret, key), new + 1) == new;
        let (moved, kept): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(key, _)| moves(key));
        let moved = run::write(moved.into_iter(), History::default());
        let kept = run::write(kept.into_iter(), History::default());
        self.cache.put(Place::bucket(old), kept);
        self.cache.put(Place::bucket(new), moved);
        self.head.buckets += 1;
        Ok(())
    }

    fn join(&mut self) -> Result<(), P::Error> {
        let last = self.head.buckets - 1;
        let old = origin(last);
        let moved = self.cache.page(Place::bucket(last))?.to_vec();
        let moved: Vec<(&[u8], &[u8])> = Run::parse(&moved)?.iter().collect::<Result<_, _>>()?;
        let run = Run::parse(self.cache.page(Place::bucket(old))?)?;
        let joined = run.replace(run.len()..run.len(), moved.into_iter())?;
        self.cache.put(Place::bucket(old), joined);
        self.cache.remove(Place::bucket(last));
        self.head.buckets = last;
        Ok(())
    }

    // ---- Any element, and all of them -------------------------------------------

    /// A random element, each about as probable as any other; `below` draws a number below another.
    /// The table has one.
    ///
    /// # Errors
    /// A table without elements, and those of the pages.
    pub fn pick(&mut self, below: &mut dyn FnMut(u64) -> u64) -> Result<Element, P::Error> {
        let buckets = self.head.buckets;
        if buckets == 0 {
            return Err(NO_ELEMENT.into());
        }
        // A bucket is taken as often as it has elements: others of its places are drawn in vain.
        let places = (self.head.elements.div_ceil(buckets))
            .saturating_mul(4)
            .saturating_add(16);
        for _ in 0..DRAWS {
            let bucket = below(buckets);
            let len = self.len_of(bucket)?;
            let place = below(places.max(len));
            if place < len {
                return self.element_at(bucket, place);
            }
        }
        // The first bucket that has one, from any on.
        let start = below(buckets);
        for bucket in (start..buckets).chain(0..start) {
            let len = self.len_of(bucket)?;
            if len > 0 {
                return self.element_at(bucket, below(len));
            }
        }
        Err(NO_ELEMENT.into())
    }

    /// Elements of a bucket.
    fn len_of(&mut self, bucket: u64) -> Result<u64, P::Error> {
        Ok(Run::parse(self.cache.page(Place::bucket(bucket))?)?.len() as u64)
    }

    /// The element in a place of a bucket.
    fn element_at(&mut self, bucket: u64, place: u64) -> Result<Element, P::Error> {
        let run = Run::parse(self.cache.page(Place::bucket(bucket))?)?;
        let entry = run.iter().nth(place as usize).ok_or(NO_ELEMENT)?;
        let (key, value) = entry?;
        Ok((key.to_vec(), value.to_vec()))
    }

    /// The elements of the bucket with this position, from the position on, and the position behind it;
    /// `None`: that was the last.
    pub fn scan(&mut self, position: u64) -> Result<(Vec<Element>, Option<u64>), P::Error> {
        let (secret, buckets) = (self.head.secret, self.head.buckets);
        let bucket = bucket_of(position.reverse_bits(), buckets);
        let bytes = self.cache.passing(Place::bucket(bucket))?;
        let mut elements = Vec::new();
        for entry in Run::parse(&bytes)?.iter() {
            let (key, value) = entry?;
            if siphash::hash(secret, key).reverse_bits() >= position {
                elements.push((key.to_vec(), value.to_vec()));
            }
        }
        let end = positions(bucket, buckets).end;
        Ok((elements, u64::try_from(end).ok()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_moves_elements_of_one_bucket() {
        for buckets in 1..40 {
            for hash in (0..4000_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
                let (old, new) = (bucket_of(hash, buckets), bucket_of(hash, buckets + 1));
                assert!(old < buckets);
                assert!(new == old || (new == buckets && old == origin(buckets)));
                let position = u128::from(hash.reverse_bits());
                assert!(
                    positions(old, buckets).contains(&position),
                    "{buckets} {hash}"
                );
            }
        }
    }

    #[test]
    fn positions_have_no_gaps() {
        for buckets in 1..40 {
            let mut ranges: Vec<_> = (0..buckets)
                .map(|bucket| positions(bucket, buckets))
                .collect();
            ranges.sort_by_key(|range| range.start);
            assert_eq!(ranges[0].start, 0);
            assert_eq!(ranges[ranges.len() - 1].end, 1 << 64);
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }
}
