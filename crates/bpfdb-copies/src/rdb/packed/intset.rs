//! An intset: a set of integers in ascending order.
//!
//! ```text
//! bytes of each integer, 4: 2, 4 or 8 | integers, 4 | integer | …      the lowest byte first
//! ```

use bpfdb_values::listpack::Element;

use super::{Each, give, little, signed};
use crate::collection::Fault;

const HEADER: usize = 8;

/// Gives every integer of an intset.
pub(crate) fn read(bytes: &[u8], each: Each<'_>) -> Result<(), Fault> {
    let (width, integers) = body(bytes).ok_or(Fault::Damaged("no intset"))?;
    let mut before = None;
    for integer in integers.chunks_exact(width) {
        let integer = signed(integer);
        if before.is_some_and(|before| before >= integer) {
            return Err(Fault::Damaged("the integers of an intset are not in order"));
        }
        before = Some(integer);
        give(Element::Integer(integer), each)?;
    }
    Ok(())
}

/// Bytes of each integer, and the integers.
fn body(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (head, integers) = bytes.split_at_checked(HEADER)?;
    let (width, count) = (little(&head[..4]), little(&head[4..]));
    let is_whole = matches!(width, 2 | 4 | 8) && width * count == integers.len() as u64;
    is_whole.then_some((width as usize, integers))
}

/// The intset of these integers, each of which is there once.
pub(crate) fn write(mut integers: Vec<i64>) -> Vec<u8> {
    integers.sort_unstable();
    let fits = |width: u32| {
        let unused = 64 - 8 * width;
        integers.iter().all(|&one| one << unused >> unused == one)
    };
    let width = [2_u32, 4]
        .into_iter()
        .find(|&width| fits(width))
        .unwrap_or(8);
    let mut bytes = Vec::with_capacity(HEADER + integers.len() * width as usize);
    bytes.extend_from_slice(&width.to_le_bytes());
    bytes.extend_from_slice(&(integers.len() as u32).to_le_bytes());
    for integer in &integers {
        bytes.extend_from_slice(&integer.to_le_bytes()[..width as usize]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::super::tests::{read_by, survives};
    use super::*;

    fn texts(integers: &BTreeSet<i64>) -> Vec<Vec<u8>> {
        let texts = integers.iter().map(ToString::to_string);
        texts.map(String::into_bytes).collect()
    }

    #[test]
    fn integers_take_as_many_bytes_as_the_widest() {
        for (integers, width) in [
            ([-0x8000, 0x7fff], 2),
            ([-0x8001, 0], 4),
            ([0, 0x8000], 4),
            ([-0x8000_0000, 0x7fff_ffff], 4),
            ([0, 0x8000_0000], 8),
            ([i64::MAX, i64::MIN], 8),
        ] {
            let bytes = write(integers.to_vec());
            assert_eq!(
                (bytes[0], bytes.len()),
                (width, HEADER + 2 * usize::from(width))
            );
            assert_eq!(read_by(read, &bytes), Ok(texts(&integers.into())));
        }
    }

    #[test]
    fn what_is_no_intset() {
        let good = write(vec![1, 2, 3]);
        for len in 0..good.len() {
            assert!(read_by(read, &good[..len]).is_err(), "{len}");
        }
        for (at, byte) in [(0, 3), (0, 0), (4, 4), (4, 2), (8, 2), (8, 3)] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert!(read_by(read, &bad).is_err(), "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn integers_come_back(integers in btree_set(any::<i64>(), 0..50), shift in 0..60_u32) {
            let integers: BTreeSet<i64> = integers.into_iter().map(|one| one >> shift).collect();
            let bytes = write(integers.iter().rev().copied().collect());
            prop_assert_eq!(read_by(read, &bytes), Ok(texts(&integers)));
        }

        #[test]
        fn noise_is_no_harm(noise in vec(any::<u8>(), 0..100), width in 0..9_u8, count in 0..20_u8) {
            survives(read, &[&[width, 0, 0, 0, count, 0, 0, 0], &noise[..]].concat());
            survives(read, &noise);
        }
    }
}
