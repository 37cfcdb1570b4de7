//! Cursors of HSCAN, SSCAN and ZSCAN: a collection in pieces, between which it may change.
//!
//! Elements come in the order of a hash of them, and a cursor is the least hash that has not come yet.
//! So what is in the collection from the first step to the last comes exactly once, whatever else is
//! added or removed meanwhile.
//!
//! ```text
//!   hash    0 ───────────────┬──────────────────┬───────────── 2^48
//!   steps     first step     │   second step    │  third step
//!   cursors  0               5123              9217            0
//! ```

use std::hash::{BuildHasher, BuildHasherDefault};

use rustc_hash::FxHasher;

/// Bits of a hash: a cursor is an integer in every language.
const BITS: u32 = 48;

/// Where an element stands in the order of a scan.
fn hash(element: &[u8]) -> u64 {
    BuildHasherDefault::<FxHasher>::default().hash_one(element) >> (u64::BITS - BITS)
}

/// One step: the elements that come, by their numbers, at least `count` of them if there are so many
/// left; and the cursor of the next step, 0 behind the last one.
///
/// Elements of the same hash come together.
pub fn step<'a>(
    elements: impl Iterator<Item = &'a [u8]>,
    cursor: u64,
    count: usize,
) -> (Vec<usize>, u64) {
    let numbered = elements.enumerate();
    let mut left: Vec<(u64, usize)> = numbered
        .map(|(number, element)| (hash(element), number))
        .filter(|&(hash, _)| hash >= cursor)
        .collect();
    let count = count.max(1);
    let mut next = 0;
    if count < left.len() {
        let (_, &mut (last, _), _) = left.select_nth_unstable(count - 1);
        let is_later = left.iter().any(|&(hash, _)| hash > last);
        left.retain(|&(hash, _)| hash <= last);
        next = if is_later { last + 1 } else { 0 };
    }
    left.sort_unstable();
    (left.into_iter().map(|(_, number)| number).collect(), next)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;

    type Elements = BTreeSet<Vec<u8>>;

    /// A step over a set: what comes, and the next cursor.
    fn step_of(set: &Elements, cursor: u64, count: usize) -> (Vec<Vec<u8>>, u64) {
        let all: Vec<&Vec<u8>> = set.iter().collect();
        let (numbers, next) = step(all.iter().map(|element| &element[..]), cursor, count);
        let found = numbers.into_iter().map(|number| all[number].clone());
        (found.collect(), next)
    }

    proptest! {
        #[test]
        fn what_stays_comes_once(
            stays in btree_set(vec(any::<u8>(), 0..6), 0..60),
            comes_and_goes in vec(vec(any::<u8>(), 0..6), 0..60),
            count in 0..9_usize,
        ) {
            let mut others = comes_and_goes.into_iter();
            let (mut set, mut cursor, mut seen) = (stays.clone(), 0, Vec::new());
            loop {
                let (found, next) = step_of(&set, cursor, count);
                prop_assert!(next == 0 || found.len() >= count.max(1));
                seen.extend(found.into_iter().filter(|element| stays.contains(element)));
                if next == 0 {
                    break;
                }
                cursor = next;
                set = stays.clone();
                set.extend(others.by_ref().take(3));
            }
            prop_assert_eq!(seen.len(), stays.len());
            prop_assert_eq!(seen.into_iter().collect::<Elements>(), stays);
        }
    }

    #[test]
    fn a_cursor_that_was_never_given_is_no_error() {
        let set = Elements::from([b"a".to_vec()]);
        assert_eq!(step_of(&set, u64::MAX, 10), (vec![], 0));
    }

    #[test]
    fn pieces_are_small() {
        let set: Elements = (0..1000_u32).map(|n| n.to_string().into_bytes()).collect();
        let (found, next) = step_of(&set, 0, 10);
        assert_eq!(found.len(), 10);
        assert!(next > 0 && next < 1 << BITS);
    }
}
