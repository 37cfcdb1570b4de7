//! A listpack, Redis's packed form from 7.0 on: the blocks of a stream are listpacks.
//!
//! ```text
//! bytes of all, 4 | elements, 2; 65535: not known | element | … | 0xff
//! element: head | text | bytes of head and text
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
//!
//! Invariants
//!  1. Every length is compared with the bytes that there are before they are looked at.
//!  2. An element takes at least two bytes, so what is read ends.
//!  3. What stands behind an element is what its head says.

use std::borrow::Cow;

use crate::integer;
use crate::run::Malformed;

/// Bytes before the first element.
pub const HEADER: usize = 6;
const END: u8 = 0xff;
/// More elements than a header can say.
const UNKNOWN: u16 = u16::MAX;
/// Texts that are shorter have a head of one byte, of two, and of five.
const SHORT: usize = 1 << 6;
const MIDDLE: usize = 1 << 12;
/// Bytes that say how long an element is, at most.
const BACK_MAX: usize = 5;

/// An element, as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<'a> {
    Integer(i64),
    Text(&'a [u8]),
}

impl<'a> Element<'a> {
    /// Its bytes: of an integer its digits.
    pub fn text(self) -> Cow<'a, [u8]> {
        match self {
            Self::Integer(number) => number.to_string().into_bytes().into(),
            Self::Text(text) => text.into(),
        }
    }

    pub(crate) fn integer(self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(number),
            Self::Text(_) => None,
        }
    }
}

/// The elements of a listpack, each with the place where it begins in these bytes. Ends after the
/// first error.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    /// Without the last byte.
    bytes: &'a [u8],
    at: usize,
    /// How many are to come; `None`: not known.
    left: Option<usize>,
}

/// The elements of a listpack of these bytes.
///
/// # Errors
/// Another length than it says, or another last byte.
pub fn elements(bytes: &[u8]) -> Result<Elements<'_>, Malformed> {
    let is_whole = bytes.len() > HEADER
        && little(&bytes[..4]) == bytes.len() as u64
        && bytes.last() == Some(&END);
    if !is_whole {
        return Err(Malformed("no listpack"));
    }
    let count = little(&bytes[4..HEADER]);
    Ok(Elements {
        bytes: &bytes[..bytes.len() - 1],
        at: HEADER,
        left: (count != UNKNOWN.into()).then_some(count as usize),
    })
}

impl<'a> Elements<'a> {
    /// Where the next one begins.
    pub(crate) fn place(&self) -> usize {
        self.at
    }

    /// From the element on that begins there, however many there are.
    pub(crate) fn starting_at(&self, place: usize) -> Self {
        Self {
            at: place,
            left: None,
            ..self.clone()
        }
    }

    /// The next one, which is there.
    pub(crate) fn element(&mut self) -> Result<Element<'a>, Malformed> {
        let element = self.next();
        element.unwrap_or(Err(Malformed("a listpack ends too early")))
    }

    /// Passes so many, which are there.
    pub(crate) fn skip_elements(&mut self, count: usize) -> Result<(), Malformed> {
        for _ in 0..count {
            self.element()?;
        }
        Ok(())
    }

    /// The next one, which is an integer.
    pub(crate) fn integer(&mut self) -> Result<i64, Malformed> {
        let integer = self.element()?.integer();
        integer.ok_or(Malformed("a text where a listpack has an integer"))
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Element<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut rest = &self.bytes[self.at..];
        if rest.is_empty() {
            let left = self.left.take();
            let what = Malformed("a listpack of another number of elements");
            return left.is_some_and(|left| left > 0).then_some(Err(what));
        }
        let read = match self.left {
            Some(0) => None,
            _ => element(&mut rest),
        };
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.at = self.bytes.len() - rest.len();
        if read.is_none() {
            (self.at, self.left) = (self.bytes.len(), None);
        }
        Some(read.ok_or(Malformed("an element of a listpack that cannot be")))
    }
}

fn element<'a>(rest: &mut &'a [u8]) -> Option<Element<'a>> {
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
            let len = usize::from(first & 0x0f) << 8 | usize::from(take(rest, 1)?[0]);
            Element::Text(take(rest, len)?)
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

/// What stands behind an element of so many bytes, and how many of these bytes it is.
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

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

/// A number with its lowest byte first.
fn little(bytes: &[u8]) -> u64 {
    let bytes = bytes.iter().rev();
    bytes.fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// A number of 1 to 8 bytes with a sign, its lowest byte first.
fn signed(bytes: &[u8]) -> i64 {
    let unused = 64 - 8 * bytes.len() as u32;
    (little(bytes) << unused) as i64 >> unused
}

/// A listpack that is being written.
#[derive(Debug)]
pub struct Listpack {
    /// Without the last byte.
    bytes: Vec<u8>,
    /// Elements; `None`: not known.
    count: Option<usize>,
}

impl Default for Listpack {
    fn default() -> Self {
        Self::new()
    }
}

impl Listpack {
    pub fn new() -> Self {
        Self {
            bytes: vec![0; HEADER],
            count: Some(0),
        }
    }

    /// Goes on with a listpack that was finished.
    ///
    /// # Errors
    /// Another length than it says, or another last byte.
    pub fn open(mut bytes: Vec<u8>) -> Result<Self, Malformed> {
        let count = elements(&bytes)?.left;
        bytes.pop();
        Ok(Self { bytes, count })
    }

    pub fn is_empty(&self) -> bool {
        self.count == Some(0)
    }

    /// Bytes that it has when nothing more is added.
    pub fn size(&self) -> usize {
        self.bytes.len() + 1
    }

    /// Adds a string, as an integer if it is one.
    pub fn push(&mut self, string: &[u8]) {
        match integer::parse(string) {
            Some(number) => self.push_integer(number),
            None => self.push_with(|bytes| put_text(bytes, string)),
        }
    }

    pub fn push_integer(&mut self, number: i64) {
        self.push_with(|bytes| put_integer(bytes, number));
    }

    fn push_with(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        put_element(&mut self.bytes, put);
        self.count = self.count.map(|count| count + 1);
    }

    /// Where the element ends that begins there. Its form may be longer than its value needs.
    ///
    /// # Errors
    /// No element begins there.
    pub(crate) fn behind(&self, at: usize) -> Result<usize, Malformed> {
        let mut rest = self.bytes.get(at..).unwrap_or_default();
        element(&mut rest).ok_or(Malformed("no element of a listpack begins there"))?;
        Ok(self.bytes.len() - rest.len())
    }

    /// Puts an integer in place of the element that begins there.
    ///
    /// # Errors
    /// No element begins there.
    pub(crate) fn replace_integer(&mut self, at: usize, number: i64) -> Result<(), Malformed> {
        let end = self.behind(at)?;
        let mut new = Vec::new();
        put_element(&mut new, |bytes| put_integer(bytes, number));
        self.bytes.splice(at..end, new);
        Ok(())
    }

    /// Removes the element that begins there, and all behind it.
    ///
    /// # Errors
    /// No element begins there.
    pub(crate) fn truncate(&mut self, at: usize) -> Result<(), Malformed> {
        let (mut end, mut count) = (HEADER, 0);
        while end < at {
            end = self.behind(end)?;
            count += 1;
        }
        if end != at {
            return Err(Malformed("no element of a listpack begins there"));
        }
        self.bytes.truncate(at);
        self.count = Some(count);
        Ok(())
    }

    /// The bytes of the listpack.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(END);
        let size = (self.bytes.len() as u32).to_le_bytes();
        let count = self.count.and_then(|count| u16::try_from(count).ok());
        let count = count.unwrap_or(UNKNOWN).to_le_bytes();
        self.bytes[..4].copy_from_slice(&size);
        self.bytes[4..HEADER].copy_from_slice(&count);
        self.bytes
    }
}

fn put_element(bytes: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let start = bytes.len();
    put(bytes);
    let (back, len) = back(bytes.len() - start);
    bytes.extend_from_slice(&back[..len]);
}

fn put_integer(bytes: &mut Vec<u8>, number: i64) {
    let digits = number.to_le_bytes();
    let (head, len) = match number {
        0..=127 => return bytes.push(digits[0]),
        -4096..=4095 => {
            let bits = 0xc000 | number as u16 & 0x1fff;
            return bytes.extend_from_slice(&bits.to_be_bytes());
        }
        -0x8000..=0x7fff => (0xf1, 2),
        -0x80_0000..=0x7f_ffff => (0xf2, 3),
        -0x8000_0000..=0x7fff_ffff => (0xf3, 4),
        _ => (0xf4, 8),
    };
    bytes.push(head);
    bytes.extend_from_slice(&digits[..len]);
}

fn put_text(bytes: &mut Vec<u8>, text: &[u8]) {
    let len = text.len();
    if len < SHORT {
        bytes.push(0x80 | len as u8);
    } else if len < MIDDLE {
        let bits = 0xe000 | len as u16;
        bytes.extend_from_slice(&bits.to_be_bytes());
    } else {
        bytes.push(0xf0);
        bytes.extend_from_slice(&(len as u32).to_le_bytes());
    }
    bytes.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
        let texts = elements(bytes)?.map(|element| Ok(element?.text().into_owned()));
        texts.collect()
    }

    fn written(strings: &[Vec<u8>]) -> Vec<u8> {
        let mut listpack = Listpack::new();
        strings.iter().for_each(|string| listpack.push(string));
        listpack.finish()
    }

    /// Of `RPUSH l a 1 300 -5 70000 abc`, made by Redis 7.0.
    const OF_REDIS: &[u8] = b"\x1c\0\0\0\x06\0\x81a\x02\x01\x01\xc1\x2c\x02\xdf\xfb\x02\
                              \xf2\x70\x11\x01\x04\x83abc\x04\xff";

    #[test]
    fn what_redis_writes() {
        let strings = ["a", "1", "300", "-5", "70000", "abc"].map(Vec::from);
        assert_eq!(written(&strings), OF_REDIS);
        assert_eq!(read(OF_REDIS), Ok(strings.to_vec()));
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
        assert_eq!(read(&written(&strings)), Ok(strings));
    }

    #[test]
    fn another_integer_in_place_of_one() {
        let mut listpack = Listpack::open(OF_REDIS.to_vec()).expect("a listpack");
        let mut before = elements(OF_REDIS).expect("a listpack");
        before.element().expect("a");
        let at = before.place();
        listpack.replace_integer(at, 1 << 40).expect("an element");
        let bytes = listpack.finish();
        let wanted = ["a", "1099511627776", "300", "-5", "70000", "abc"].map(Vec::from);
        assert_eq!(read(&bytes), Ok(wanted.to_vec()));
    }

    #[test]
    fn more_elements_than_it_can_say() {
        let strings = vec![b"1".to_vec(); 70_000];
        let bytes = written(&strings);
        assert_eq!(bytes[4..6], [0xff; 2]);
        assert_eq!(read(&bytes), Ok(strings));
        let again = Listpack::open(bytes.clone()).expect("a listpack").finish();
        assert_eq!(again, bytes);
    }

    #[test]
    fn what_is_no_listpack() {
        let good = written(&[b"abc".to_vec(), b"300".to_vec()]);
        for len in 0..good.len() {
            assert!(read(&good[..len]).is_err(), "{len}");
        }
        for bad in [
            // Another length, another number of elements (more, fewer), another end.
            b"\x08\0\0\0\0\0\xff".to_vec(),
            b"\x07\0\0\0\x01\0\xff".to_vec(),
            b"\x09\0\0\0\0\0\x05\x01\xff".to_vec(),
            b"\x07\0\0\0\0\0\xfe".to_vec(),
            // An end in the middle, a head that there is not, a text that is too long, another back.
            b"\x08\0\0\0\x01\0\xff\xff".to_vec(),
            b"\x09\0\0\0\x01\0\xf5\x01\xff".to_vec(),
            b"\x0d\0\0\0\x01\0\xf0\xff\xff\xff\xff\x05\xff".to_vec(),
            b"\x09\0\0\0\x01\0\x05\x02\xff".to_vec(),
        ] {
            assert!(read(&bad).is_err(), "{}", bad.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn strings_come_back(strings in vec(vec(any::<u8>(), 0..200), 0..50)) {
            prop_assert_eq!(read(&written(&strings)), Ok(strings));
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
            let _ = read(&bytes);
        }
    }
}
