//! A ziplist, Redis's packed form before 7.0.
//!
//! ```text
//! bytes of all, 4 | where the last entry begins, 4 | entries, 2; 65535: not known | entry | … | 0xff
//! entry: bytes of the entry before, 1; or 254 and 4 bytes | head | text
//!
//! head, first byte   00xxxxxx   6 bits: length of the text     11000000   2 bytes: an integer
//!                    01xxxxxx  14 bits                          11010000   4 bytes
//!                    10……      4 bytes behind it                11100000   8 bytes
//!                    1111xxxx  1 to 13: the integers 0 to 12    11110000   3 bytes
//!                                                               11111110   1 byte
//! ```
//!
//! Numbers have the lowest byte first; only the lengths of texts have the highest one first.

use bpfdb_values::listpack::Element;

use super::{Each, big, give, little, signed, take};
use crate::collection::Fault;

const HEADER: usize = 10;
const END: u8 = 0xff;
const UNKNOWN: u64 = 0xffff;
/// Marks a length of four bytes.
const LONG: u8 = 254;

/// Gives every string of a ziplist.
pub(crate) fn read(bytes: &[u8], each: Each<'_>) -> Result<(), Fault> {
    let (tail, count, mut rest) = body(bytes).ok_or(Fault::Damaged("no ziplist"))?;
    let end = HEADER + rest.len();
    let (mut found, mut before, mut last) = (0, 0, HEADER);
    while !rest.is_empty() {
        let damaged = Fault::Damaged("an entry of a ziplist that cannot be");
        last = end - rest.len();
        give(entry(&mut rest, before).ok_or(damaged)?, each)?;
        before = end - rest.len() - last;
        found += 1;
    }
    if count != UNKNOWN && count != found {
        return Err(Fault::Damaged("a ziplist of another number of entries"));
    }
    if tail != last as u64 {
        return Err(Fault::Damaged(
            "the last entry of a ziplist is not where it should be",
        ));
    }
    Ok(())
}

/// Where it says that the last entry begins, how many there are, and their bytes.
fn body(bytes: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEADER)?;
    let (&end, entries) = rest.split_last()?;
    let is_whole = little(&head[..4]) == bytes.len() as u64 && end == END;
    is_whole.then(|| (little(&head[4..8]), little(&head[8..]), entries))
}

/// The next entry, behind one of `before` bytes.
fn entry<'a>(rest: &mut &'a [u8], before: usize) -> Option<Element<'a>> {
    let stated = match take(rest, 1)?[0] {
        END => return None,
        LONG => little(take(rest, 4)?),
        len => len.into(),
    };
    if stated != before as u64 {
        return None;
    }
    let first = take(rest, 1)?[0];
    let integer_len = match first {
        0..=0xbf => return text(rest, first).map(Element::Text),
        0xf1..=0xfd => return Some(Element::Integer(i64::from(first & 0x0f) - 1)),
        0xc0 => 2,
        0xd0 => 4,
        0xe0 => 8,
        0xf0 => 3,
        0xfe => 1,
        _ => return None,
    };
    Some(Element::Integer(signed(take(rest, integer_len)?)))
}

fn text<'a>(rest: &mut &'a [u8], first: u8) -> Option<&'a [u8]> {
    let len = match first >> 6 {
        0 => first.into(),
        1 => big(&[first & 0x3f, take(rest, 1)?[0]]),
        _ => big(take(rest, 4)?),
    };
    take(rest, usize::try_from(len).ok()?)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::tests::{read_by, survives};
    use super::*;

    /// Entries, each without the length of the one before.
    fn written(entries: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        let (mut before, mut last) = (0, HEADER);
        for entry in entries {
            last = bytes.len();
            if before < usize::from(LONG) {
                bytes.push(before as u8);
            } else {
                bytes.push(LONG);
                bytes.extend_from_slice(&(before as u32).to_le_bytes());
            }
            bytes.extend_from_slice(entry);
            before = bytes.len() - last;
        }
        bytes.push(END);
        let size = bytes.len() as u32;
        bytes[..4].copy_from_slice(&size.to_le_bytes());
        bytes[4..8].copy_from_slice(&(last as u32).to_le_bytes());
        bytes[8..10].copy_from_slice(&(entries.len() as u16).to_le_bytes());
        bytes
    }

    fn long(len: usize) -> Vec<u8> {
        let head = [&[0x80][..], &(len as u32).to_be_bytes()].concat();
        [head, vec![b'x'; len]].concat()
    }

    #[test]
    fn every_kind_of_entry() {
        let entries = [
            b"\x03abc".to_vec(),
            b"\x40\x03abc".to_vec(),
            long(300),
            long(3),
            b"\xf1".to_vec(),
            b"\xfd".to_vec(),
            b"\xfe\x80".to_vec(),
            b"\xc0\x00\x80".to_vec(),
            b"\xf0\x00\x00\x80".to_vec(),
            b"\xd0\xff\xff\xff\x7f".to_vec(),
            [&b"\xe0"[..], &i64::MIN.to_le_bytes()].concat(),
        ];
        let x = "x".repeat(300);
        let texts = [
            "abc",
            "abc",
            &x,
            "xxx",
            "0",
            "12",
            "-128",
            "-32768",
            "-8388608",
            "2147483647",
            "-9223372036854775808",
        ];
        let texts = texts.map(|text| text.as_bytes().to_vec());
        assert_eq!(read_by(read, &written(&entries)), Ok(texts.to_vec()));
        assert_eq!(read_by(read, &written(&[])), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_ziplist() {
        let good = written(&[b"\x03abc".to_vec(), b"\xf1".to_vec()]);
        for len in 0..good.len() {
            assert!(read_by(read, &good[..len]).is_err(), "{len}");
        }
        // Bytes of all, the last entry, the number of entries, the entry before, a head, the end.
        for (at, byte) in [
            (0, 1),
            (4, 10),
            (8, 3),
            (10, 1),
            (11, 0x04),
            (16, 0xf5),
            (15, 4),
            (17, 0),
        ] {
            let mut bad = good.clone();
            bad[at] = byte;
            let is_read = read_by(read, &bad).is_ok();
            assert_eq!(is_read, at == 16, "byte {at}");
        }
        for entry in [
            &b"\xff"[..],
            b"\xc1\0\0",
            b"\x80\xff\xff\xff\xff",
            b"\xe0\0",
            b"\x7f\xff",
        ] {
            assert!(
                read_by(read, &written(&[entry.to_vec()])).is_err(),
                "{entry:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn changed_bytes_are_no_harm(
            texts in vec(vec(any::<u8>(), 0..60), 0..9),
            changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let entries: Vec<_> = texts.iter().map(|text| [&[text.len() as u8], &text[..]].concat()).collect();
            let mut bytes = written(&entries);
            prop_assert_eq!(read_by(read, &bytes), Ok(texts));
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            survives(read, &bytes);
        }

        #[test]
        fn noise_is_no_harm(noise in vec(any::<u8>(), 0..100), first in 0..4_u8) {
            let size = (HEADER + noise.len() + 2) as u32;
            let head = [&size.to_le_bytes()[..], &[10, 0, 0, 0, 0xff, 0xff], &[first]].concat();
            survives(read, &[&head[..], &noise, &[END]].concat());
            survives(read, &noise);
        }
    }
}
