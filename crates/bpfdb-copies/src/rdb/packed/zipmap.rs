//! A zipmap: a small hash before Redis 2.6.
//!
//! ```text
//! fields, 1; 254 and more: not known | length | field | length | unused, 1 | value, unused bytes | … | 0xff
//! length: 1 byte, or 254 and 4 bytes, the lowest first
//! ```

use super::{Each, little, take};
use crate::collection::Fault;

const END: u8 = 0xff;
/// Marks a length of four bytes, and a number of fields that is not known.
const LONG: u8 = 254;

/// Gives every field, and its value behind it.
pub(crate) fn read(bytes: &[u8], each: Each<'_>) -> Result<(), Fault> {
    let (count, mut rest) = body(bytes).ok_or(Fault::Damaged("no zipmap"))?;
    let mut found = 0;
    while !rest.is_empty() {
        let damaged = Fault::Damaged("an entry of a zipmap that cannot be");
        let (field, value) = entry(&mut rest).ok_or(damaged)?;
        each(field)?;
        each(value)?;
        found += 1;
    }
    if count < LONG && usize::from(count) != found {
        return Err(Fault::Damaged("a zipmap of another number of fields"));
    }
    Ok(())
}

fn body(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (&count, rest) = bytes.split_first()?;
    let (&end, entries) = rest.split_last()?;
    (end == END).then_some((count, entries))
}

fn entry<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let field_len = length(rest)?;
    let field = take(rest, field_len)?;
    let value_len = length(rest)?;
    let unused = take(rest, 1)?[0];
    let value = take(rest, value_len)?;
    take(rest, unused.into())?;
    Some((field, value))
}

fn length(rest: &mut &[u8]) -> Option<usize> {
    match take(rest, 1)?[0] {
        END => None,
        LONG => usize::try_from(little(take(rest, 4)?)).ok(),
        len => Some(len.into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::tests::{read_by, survives};
    use super::*;

    const GOOD: &[u8] = b"\x02\x01f\x03\x02abc..\xfe\x02\0\0\0gg\0\0\xff";

    #[test]
    fn fields_and_values() {
        let strings = ["f", "abc", "gg", ""].map(|text| text.as_bytes().to_vec());
        assert_eq!(read_by(read, GOOD), Ok(strings.to_vec()));
        assert_eq!(read_by(read, b"\0\xff"), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_zipmap() {
        for len in 0..GOOD.len() {
            assert!(read_by(read, &GOOD[..len]).is_err(), "{len}");
        }
        for (at, byte) in [(0, 3), (1, 0xff), (1, 200), (3, 200), (4, 200), (19, 1)] {
            let mut bad = GOOD.to_vec();
            bad[at] = byte;
            assert!(read_by(read, &bad).is_err(), "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn noise_is_no_harm(noise in vec(any::<u8>(), 0..100)) {
            survives(read, &[&[LONG], &noise[..], &[END]].concat());
            survives(read, &noise);
        }
    }
}
