//! Random choice among the elements of a collection. Nothing secret depends on it.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A series of random numbers (SplitMix64) from a seed of the process.
#[derive(Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new() -> Self {
        Self(RandomState::new().build_hasher().finish())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> u64::BITS) as usize
    }

    /// `count` different numbers below `end`, or all of them if there are no more: each set of so many is
    /// equally probable (Floyd's method).
    pub(super) fn some_below(&mut self, end: usize, count: usize) -> BTreeSet<usize> {
        let mut chosen = BTreeSet::new();
        for last in end.saturating_sub(count)..end {
            let any = self.below(last + 1);
            if !chosen.insert(any) {
                chosen.insert(last);
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_chosen_about_as_often() {
        let mut chance = Chance::new();
        let mut times = [0; 10];
        for _ in 0..10_000 {
            let chosen = chance.some_below(10, 3);
            assert_eq!(chosen.len(), 3);
            chosen.into_iter().for_each(|number| times[number] += 1);
            assert!(chance.below(3) < 3);
        }
        // 3,000 each, and a standard deviation of 46.
        assert!(
            times.iter().all(|times| (2500..3500).contains(times)),
            "{times:?}"
        );
    }

    #[test]
    fn no_more_than_there_are() {
        let mut chance = Chance::new();
        assert_eq!(chance.some_below(3, 7), BTreeSet::from([0, 1, 2]));
        assert_eq!(chance.some_below(3, 0), BTreeSet::new());
        assert_eq!(chance.some_below(0, 2), BTreeSet::new());
    }
}
