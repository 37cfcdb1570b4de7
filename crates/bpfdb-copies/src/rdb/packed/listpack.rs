//! A listpack, Redis's packed form from 7.0 on.
//!
//! ```text
//! bytes of all, 4 | entries, 2; 65535: not known | entry | … | 0xff
//! entry: head | text | bytes of head and text
//!
//! head, first byte   0xxxxxxx   7 bits: an integer        11110000   4 bytes: length of the text
//!                    10xxxxxx   6 bits: length            11110001   2 bytes: an integer
//!                    110xxxxx  13 bits: an integer        11110010   3 bytes
//!                    1110xxxx  12 bits: length            11110011   4 bytes
//!                                                         11110100   8 bytes
//! ```
//!
//! Numbers of whole bytes have the lowest one first, those of 12 and 13 bits the highest bits. What
//! is behind the text is read from its last byte on: groups of 7 bits, the lowest one last, each but
//! the first with the highest bit set.

use super::{Each, Element, big, little, signed, take};
use crate::collection::Fault;
use crate::integer;

const HEADER: usize = 6;
const END: u8 = 0xff;
/// More entries than a header can say.
const UNKNOWN: u16 = u16::MAX;
/// Texts that are shorter have a head of one byte, of two, and of five.
const SHORT: usize = 1 << 6;
const MIDDLE: usize = 1 << 12;
/// Bytes that say how long an entry is, at most.
const BACK_MAX: usize = 5;

/// Gives every string of a listpack.
pub(crate) fn read(bytes: &[u8], each: Each<'_>) -> Result<(), Fault> {
    let (count, mut rest) = body(bytes).ok_or(Fault::Damaged("no listpack"))?;
    let mut found = 0;
    while !rest.is_empty() {
        let damaged = Fault::Damaged("an entry of a listpack that cannot be");
        entry(&mut rest).ok_or(damaged)?.give(each)?;
        found += 1;
    }
    if count != UNKNOWN && usize::from(count) != found {
        return Err(Fault::Damaged("a listpack of another number of entries"));
    }
    Ok(())
}

/// How many entries it says that it has, and their bytes.
fn body(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEADER)?;
    let (&end, entries) = rest.split_last()?;
    let is_whole = little(&head[..4]) == bytes.len() as u64 && end == END;
    is_whole.then_some((little(&head[4..]) as u16, entries))
}

fn entry<'a>(rest: &mut &'a [u8]) -> Option<Element<'a>> {
    let all = *rest;
    let first = take(rest, 1)?[0];
    let element = match first {
        0..=0x7f => Element::Integer(first.into()),
        0x80..=0xbf => Element::Text(take(rest, usize::from(first & 0x3f))?),
        0xc0..=0xdf => {
            let high = u16::from(first & 0x1f) << 8;
            let bits = high | u16::from(take(rest, 1)?[0]);
            // The sign is that of 13 bits.
            Element::Integer(i64::from((bits << 3) as i16 >> 3))
        }
        0xe0..=0xef => {
            let len = big(&[first & 0x0f, take(rest, 1)?[0]]);
            Element::Text(take(rest, len as usize)?)
        }
        0xf0 => {
            let len = little(take(rest, 4)?);
            Element::Text(take(rest, usize::try_from(len).ok()?)?)
        }
        0xf1..=0xf3 => Element::Integer(signed(take(rest, usize::from(first) - 0xf1 + 2)?)),
        0xf4 => Element::Integer(signed(take(rest, 8)?)),
        _ => return None,
    };
    let (back, len) = back(all.len() - rest.len());
    (take(rest, len)? == &back[..len]).then_some(element)
}

/// What stands behind an entry of so many bytes, and how many of these bytes it is.
fn back(size: usize) -> ([u8; BACK_MAX], usize) {
    let len = match size {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => BACK_MAX,
    };
    let mut bytes = [0; BACK_MAX];
    for (group, byte) in bytes[..len].iter_mut().rev().enumerate() {
        *byte = (size >> (7 * group)) as u8 | 0x80;
    }
    bytes[0] &= 0x7f;
    (bytes, len)
}

/// A listpack that is being written.
#[derive(Debug)]
pub(crate) struct Listpack {
    bytes: Vec<u8>,
    count: usize,
}

impl Listpack {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; HEADER],
            count: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes that it has when nothing more is added.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + 1
    }

    /// Adds a string, as an integer if it is one.
    pub(crate) fn push(&mut self, string: &[u8]) {
        let start = self.bytes.len();
        match integer::parse(string) {
            Some(number) => self.put_integer(number),
            None => self.put_text(string),
        }
        let (back, len) = back(self.bytes.len() - start);
        self.bytes.extend_from_slice(&back[..len]);
        self.count += 1;
    }

    fn put_integer(&mut self, number: i64) {
        let bytes = number.to_le_bytes();
        let (head, len) = match number {
            0..=127 => return self.bytes.push(bytes[0]),
            -4096..=4095 => {
                let bits = 0xc000 | number as u16 & 0x1fff;
                return self.bytes.extend_from_slice(&bits.to_be_bytes());
            }
            -0x8000..=0x7fff => (0xf1, 2),
            -0x80_0000..=0x7f_ffff => (0xf2, 3),
            -0x8000_0000..=0x7fff_ffff => (0xf3, 4),
            _ => (0xf4, 8),
        };
        self.bytes.push(head);
        self.bytes.extend_from_slice(&bytes[..len]);
    }

    fn put_text(&mut self, text: &[u8]) {
        let len = text.len();
        if len < SHORT {
            self.bytes.push(0x80 | len as u8);
        } else if len < MIDDLE {
            let bits = 0xe000 | len as u16;
            self.bytes.extend_from_slice(&bits.to_be_bytes());
        } else {
            self.bytes.push(0xf0);
            self.bytes.extend_from_slice(&(len as u32).to_le_bytes());
        }
        self.bytes.extend_from_slice(text);
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(END);
        let size = (self.bytes.len() as u32).to_le_bytes();
        let count = u16::try_from(self.count).unwrap_or(UNKNOWN).to_le_bytes();
        self.bytes[..4].copy_from_slice(&size);
        self.bytes[4..HEADER].copy_from_slice(&count);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::tests::{read_by, survives};
    use super::*;

    fn written(strings: &[Vec<u8>]) -> Vec<u8> {
        let mut listpack = Listpack::new();
        for string in strings {
            listpack.push(string);
        }
        listpack.finish()
    }

    /// Of `RPUSH l a 1 300 -5 70000 abc`, made by Redis 7.0.
    const OF_REDIS: &[u8] = b"\x1c\0\0\0\x06\0\x81a\x02\x01\x01\xc1\x2c\x02\xdf\xfb\x02\
                              \xf2\x70\x11\x01\x04\x83abc\x04\xff";

    #[test]
    fn what_redis_writes() {
        let strings = ["a", "1", "300", "-5", "70000", "abc"].map(Vec::from);
        assert_eq!(
            written(&strings).escape_ascii().to_string(),
            OF_REDIS.escape_ascii().to_string()
        );
        assert_eq!(read_by(read, OF_REDIS), Ok(strings.to_vec()));
    }

    #[test]
    fn every_length_and_integer() {
        let mut strings: Vec<Vec<u8>> = [
            0, 63, 64, 125, 126, 127, 128, 4095, 4096, 16_376, 16_377, 16_378, 16_379, 2_100_000,
        ]
        .map(|len| vec![b'x'; len])
        .to_vec();
        for bits in [0, 6, 7, 12, 13, 15, 16, 23, 24, 31, 32, 62, 63] {
            for number in [
                (1_i128 << bits) - 1,
                1 << bits,
                -(1 << bits) - 1,
                -(1 << bits),
            ] {
                strings.push(number.to_string().into_bytes());
            }
        }
        assert_eq!(read_by(read, &written(&strings)), Ok(strings));
    }

    #[test]
    fn more_entries_than_it_can_say() {
        let strings = vec![b"1".to_vec(); 70_000];
        let bytes = written(&strings);
        assert_eq!(bytes[4..6], [0xff; 2]);
        assert_eq!(read_by(read, &bytes), Ok(strings));
    }

    #[test]
    fn what_is_no_listpack() {
        let good = written(&[b"abc".to_vec(), b"300".to_vec()]);
        for len in 0..good.len() {
            assert!(read_by(read, &good[..len]).is_err(), "{len}");
        }
        for bad in [
            // Another length, another number of entries, another end.
            b"\x08\0\0\0\0\0\xff".to_vec(),
            b"\x07\0\0\0\x01\0\xff".to_vec(),
            b"\x07\0\0\0\0\0\xfe".to_vec(),
            // An end in the middle, a head that there is not, a text that is too long, another back.
            b"\x08\0\0\0\x01\0\xff\xff".to_vec(),
            b"\x09\0\0\0\x01\0\xf5\x01\xff".to_vec(),
            b"\x0d\0\0\0\x01\0\xf0\xff\xff\xff\xff\x05\xff".to_vec(),
            b"\x09\0\0\0\x01\0\x05\x02\xff".to_vec(),
        ] {
            assert!(read_by(read, &bad).is_err(), "{}", bad.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn strings_come_back(strings in vec(vec(any::<u8>(), 0..200), 0..50)) {
            prop_assert_eq!(read_by(read, &written(&strings)), Ok(strings));
        }

        #[test]
        fn changed_bytes_are_no_harm(
            strings in vec(vec(any::<u8>(), 0..20), 0..9),
            changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let mut bytes = written(&strings);
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            survives(read, &bytes);
        }

        #[test]
        fn noise_is_no_harm(noise in vec(any::<u8>(), 0..100)) {
            let size = (HEADER + noise.len() + 1) as u32;
            survives(read, &[&size.to_le_bytes()[..], &[0xff; 2], &noise, &[END]].concat());
            survives(read, &noise);
        }
    }
}
