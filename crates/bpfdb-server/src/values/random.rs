//! Chance for commands that pick elements, and for policies that evict any record. What is drawn says nothing of what will be; it is not for
//! secrets.

use std::hash::{BuildHasher, RandomState};

/// Numbers by splitmix64.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// From a random seed.
    pub(crate) fn new() -> Self {
        Self(RandomState::new().hash_one(0))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// One of 0, 1, … `end` - 1, all as probable as each other but for 1 in 2^32; `end` is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let product = u128::from(self.next()) * end as u128;
        (product >> 64) as usize
    }

    /// So many of 0, 1, … `end` - 1, each at most once, in any order.
    pub(crate) fn some_below(&mut self, end: usize, count: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..end).collect();
        let count = count.min(end);
        for place in 0..count {
            let other = place + self.below(end - place);
            all.swap(place, other);
        }
        all.truncate(count);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_drawn_once() {
        let mut random = Random::new();
        for count in 0..12 {
            let mut drawn = random.some_below(10, count);
            assert_eq!(drawn.len(), count.min(10));
            drawn.sort_unstable();
            drawn.dedup();
            assert_eq!(drawn.len(), count.min(10));
            assert!(drawn.iter().all(|&number| number < 10));
        }
    }

    #[test]
    fn all_are_drawn() {
        let mut random = Random::new();
        let mut seen = [0_u32; 8];
        (0..8000).for_each(|_| seen[random.below(8)] += 1);
        assert!(
            seen.iter().all(|&count| (600..1400).contains(&count)),
            "{seen:?}"
        );
    }
}
