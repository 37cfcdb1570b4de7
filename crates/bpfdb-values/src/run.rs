//! A packed run: the bytes of a collection.
//!
//! ```text
//! offset  bytes  header
//!      0      4  entries
//!      4      4  bytes of all entries
//!      8      4  bytes of the longest key or value that was ever in the collection
//!     12      1  flags: 1 WIDE, 2 NOT_INTEGERS, 4 NOT_COMPACT
//!     13      3  zero
//!
//!                entry, narrow                      entry, WIDE
//!      0      1  bytes of the key                4  bytes of the key
//!             1  fingerprint of the key          4  bytes of the value
//!             2  bytes of the value              4  fingerprint of the key
//!                key, value                         key, value
//! ```
//!
//! Numbers are little-endian, and nothing is aligned. A narrow run has keys and values of at most
//! [`NARROW_MAX`] bytes; a run with a longer one is WIDE as a whole. Entries of lists and sets have no
//! value: their keys are the elements. The value of a sorted set's entry is its score in eight bytes
//! ([`crate::run::sortable`]), and the entries are in ascending order of score, then of key.
//!
//! NOT_INTEGERS and NOT_COMPACT stay once they are set. A set with an element that is no integer is
//! NOT_INTEGERS, and a collection that went beyond Redis's limits for its compact encodings is
//! NOT_COMPACT: OBJECT ENCODING is computed from both.

use thiserror::Error;

/// Bytes of the header.
pub const HEADER: usize = 16;
/// Bytes of the longest key or value in a narrow run.
pub const NARROW_MAX: usize = 255;

pub(crate) const WIDE: u8 = 1;
pub(crate) const NOT_INTEGERS: u8 = 2;
pub(crate) const NOT_COMPACT: u8 = 4;
/// No run, but the head of a large collection: [`crate::big::head`].
pub(crate) const BIG: u8 = 8;
const KNOWN: u8 = WIDE | NOT_INTEGERS | NOT_COMPACT;

/// Bytes of an entry before its key, in a narrow run and in a WIDE one.
pub const NARROW_ENTRY: usize = 4;
pub const WIDE_ENTRY: usize = 12;

/// Bytes that are no packed run.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the bytes of a collection are damaged: {0}")]
pub struct Malformed(pub(crate) &'static str);

impl Malformed {
    /// Of a sorted set: the value of an entry is no score.
    pub const SCORE: Self = Self("the value of a member is no score");
    /// A type whose values are no runs.
    pub const TYPE: Self = Self("no collection has this type");

    /// What is wrong with them.
    pub fn what(self) -> &'static str {
        self.0
    }
}

/// What a run remembers of its past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Bytes of the longest key or value there ever was.
    pub longest: u32,
    /// A set once had an element that is no integer.
    pub not_integers: bool,
    /// The collection was once beyond Redis's limits for compact encodings.
    pub not_compact: bool,
}

/// A run that was read; it borrows the bytes.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    pub(crate) count: u32,
    pub(crate) history: History,
    pub(crate) is_wide: bool,
    pub(crate) entries: &'a [u8],
}

impl<'a> Run<'a> {
    /// Reads the header. Entries are checked as they are read.
    ///
    /// # Errors
    /// Bytes that are no header of a run, or a run of another length.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let Some((header, entries)) = bytes.split_at_checked(HEADER) else {
            return Err(Malformed("shorter than a header"));
        };
        let word = |at: usize| u32_at(header, at);
        let flags = header[12];
        if flags & !KNOWN != 0 || header[13..] != [0; 3] {
            return Err(Malformed("unknown flags"));
        }
        if word(4) as usize != entries.len() {
            return Err(Malformed("another length than it says"));
        }
        if word(0) as usize > entries.len() / NARROW_ENTRY {
            return Err(Malformed("fewer entries than it says"));
        }
        Ok(Self {
            count: word(0),
            history: History {
                longest: word(8),
                not_integers: flags & NOT_INTEGERS != 0,
                not_compact: flags & NOT_COMPACT != 0,
            },
            is_wide: flags & WIDE != 0,
            entries,
        })
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn history(&self) -> History {
        self.history
    }

    /// All entries in their order: keys and values. Ends after the first error.
    pub fn iter(&self) -> Entries<'a> {
        Entries {
            left: self.count,
            is_wide: self.is_wide,
            bytes: self.entries,
        }
    }

    /// The value of the entry with this key, found by its fingerprint and bytes.
    ///
    /// # Errors
    /// A damaged entry before it.
    pub fn find(&self, key: &[u8]) -> Result<Option<&'a [u8]>, Malformed> {
        let wanted = fingerprint(key);
        let mut entries = self.iter();
        while let Some(entry) = entries.next_entry() {
            let entry = entry?;
            if entry.fingerprint == wanted && entry.key == key {
                return Ok(Some(entry.value));
            }
        }
        Ok(None)
    }

    /// The place of the entry with this key, and its value.
    pub(crate) fn place(&self, key: &[u8]) -> Result<Option<(usize, &'a [u8])>, Malformed> {
        let wanted = fingerprint(key);
        let mut entries = self.iter();
        let mut place = 0;
        while let Some(entry) = entries.next_entry() {
            let entry = entry?;
            if entry.fingerprint == wanted && entry.key == key {
                return Ok(Some((place, entry.value)));
            }
            place += 1;
        }
        Ok(None)
    }
}

/// An iterator over the entries of a [`Run`].
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    pub(crate) left: u32,
    pub(crate) is_wide: bool,
    pub(crate) bytes: &'a [u8],
}

struct Entry<'a> {
    fingerprint: u8,
    key: &'a [u8],
    value: &'a [u8],
}

impl<'a> Entries<'a> {
    fn next_entry(&mut self) -> Option<Result<Entry<'a>, Malformed>> {
        if self.left == 0 {
            let is_end = std::mem::take(&mut self.bytes).is_empty();
            return (!is_end).then_some(Err(Malformed("bytes behind the last entry")));
        }
        self.left -= 1;
        let entry = self.take();
        if entry.is_none() {
            (self.left, self.bytes) = (0, &[]);
        }
        Some(entry.ok_or(Malformed("an entry ends behind the run")))
    }

    fn take(&mut self) -> Option<Entry<'a>> {
        let header = if self.is_wide {
            WIDE_ENTRY
        } else {
            NARROW_ENTRY
        };
        let (words, rest) = self.bytes.split_at_checked(header)?;
        let (key_len, value_len, fingerprint) = if self.is_wide {
            (
                u32_at(words, 0) as usize,
                u32_at(words, 4) as usize,
                words[8],
            )
        } else {
            let value_len = u16::from_le_bytes([words[2], words[3]]);
            (words[0].into(), value_len.into(), words[1])
        };
        let (key, rest) = rest.split_at_checked(key_len)?;
        let (value, rest) = rest.split_at_checked(value_len)?;
        self.bytes = rest;
        Some(Entry {
            fingerprint,
            key,
            value,
        })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.next_entry()?;
        Some(entry.map(|entry| (entry.key, entry.value)))
    }
}

/// The bytes of a run with these entries, which come twice. `history.longest` grows to the longest
/// of them.
///
/// # Panics
/// Entries of 4 GiB and more: callers refuse them long before ([`written_len`]).
pub fn write<'a>(
    entries: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    mut history: History,
) -> Vec<u8> {
    let measures = Measures::of(entries.clone());
    let bytes = measures.bytes();
    history.longest = history.longest.max(number(measures.longest));
    let mut run = Vec::with_capacity(HEADER + bytes);
    run.extend_from_slice(&number(measures.count).to_le_bytes());
    run.extend_from_slice(&number(bytes).to_le_bytes());
    run.extend_from_slice(&history.longest.to_le_bytes());
    run.extend_from_slice(&[flags(measures.is_wide(), history), 0, 0, 0]);
    for (key, value) in entries {
        push_entry(&mut run, measures.is_wide(), key, value);
    }
    run
}

/// Bytes of the run that [`write`] makes of these entries.
pub fn written_len<'a>(entries: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> usize {
    HEADER + Measures::of(entries).bytes()
}

/// What the size of a run follows from.
struct Measures {
    count: usize,
    /// Bytes of keys and values.
    contents: usize,
    /// Bytes of the longest of them.
    longest: usize,
}

impl Measures {
    fn of<'a>(entries: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let (mut count, mut contents, mut longest) = (0, 0, 0);
        for (key, value) in entries {
            count += 1;
            contents += key.len() + value.len();
            longest = longest.max(key.len()).max(value.len());
        }
        Self {
            count,
            contents,
            longest,
        }
    }

    fn is_wide(&self) -> bool {
        self.longest > NARROW_MAX
    }

    /// Of all entries.
    fn bytes(&self) -> usize {
        let header = if self.is_wide() {
            WIDE_ENTRY
        } else {
            NARROW_ENTRY
        };
        self.contents + self.count * header
    }
}

pub(crate) fn flags(is_wide: bool, history: History) -> u8 {
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    flag(is_wide, WIDE)
        | flag(history.not_integers, NOT_INTEGERS)
        | flag(history.not_compact, NOT_COMPACT)
}

pub(crate) fn push_entry(run: &mut Vec<u8>, is_wide: bool, key: &[u8], value: &[u8]) {
    let fingerprint = fingerprint(key);
    if is_wide {
        run.extend_from_slice(&number(key.len()).to_le_bytes());
        run.extend_from_slice(&number(value.len()).to_le_bytes());
        run.extend_from_slice(&u32::from(fingerprint).to_le_bytes());
    } else {
        run.extend_from_slice(&[key.len() as u8, fingerprint]);
        run.extend_from_slice(&(value.len() as u16).to_le_bytes());
    }
    run.extend_from_slice(key);
    run.extend_from_slice(value);
}

/// One byte of a key's first and last eight bytes and its length, so that most other keys are passed
/// without a comparison.
pub fn fingerprint(key: &[u8]) -> u8 {
    let n = key.len().min(8);
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let (first, last) = (word(&key[..n]), word(&key[key.len() - n..]));
    let mixed =
        (first ^ last.rotate_left(29) ^ key.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8
}

/// A score as a number that is ordered as scores are: negative numbers have all bits inverted, others
/// the sign bit alone. Minus zero becomes zero. A score is no NaN.
pub fn sortable(score: f64) -> u64 {
    let bits = (score + 0.0).to_bits();
    if bits >> 63 == 0 {
        bits | 1 << 63
    } else {
        !bits
    }
}

/// Minus zero, as it is stored.
pub const MINUS_ZERO: u64 = (1 << 63) - 1;

/// A score as the value of an entry has it: as [`sortable`], but that minus zero is not zero.
pub fn stored(score: f64) -> u64 {
    if score == 0.0 && score.is_sign_negative() {
        MINUS_ZERO
    } else {
        sortable(score)
    }
}

/// What a stored score is ordered by: minus zero as zero is.
pub fn order_of(stored: u64) -> u64 {
    if stored == MINUS_ZERO {
        sortable(0.0)
    } else {
        stored
    }
}

/// The score that [`stored`] or [`sortable`] was given.
pub fn score(stored: u64) -> f64 {
    let is_positive = stored >> 63 == 1;
    f64::from_bits(if is_positive {
        stored & !(1 << 63)
    } else {
        !stored
    })
}

pub(crate) fn number(len: usize) -> u32 {
    u32::try_from(len).expect("a run has less than 4 GiB")
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let word = bytes[at..at + 4].try_into();
    u32::from_le_bytes(word.expect("four bytes"))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn written(entries: &[(Vec<u8>, Vec<u8>)], history: History) -> Vec<u8> {
        let entries = entries.iter();
        write(entries.map(|(key, value)| (&key[..], &value[..])), history)
    }

    proptest! {
        #[test]
        fn a_run_is_read_as_it_was_written(
            entries in vec((vec(any::<u8>(), 0..300), vec(any::<u8>(), 0..300)), 0..20),
            not_integers: bool,
            not_compact: bool,
        ) {
            let history = History { longest: 7, not_integers, not_compact };
            let bytes = written(&entries, history);
            let run = Run::parse(&bytes).expect("a run");
            prop_assert_eq!(run.len(), entries.len());
            prop_assert_eq!((run.history().not_integers, run.history().not_compact), (not_integers, not_compact));
            let longest = entries.iter().map(|(key, value)| key.len().max(value.len())).max();
            prop_assert_eq!(run.history().longest as usize, longest.unwrap_or(0).max(7));
            let read: Result<Vec<_>, _> = run.iter().collect();
            let read = read.expect("sound entries");
            prop_assert_eq!(read.len(), entries.len());
            for ((key, value), (read_key, read_value)) in entries.iter().zip(read) {
                prop_assert_eq!((&key[..], &value[..]), (read_key, read_value));
            }
            for (key, _) in &entries {
                let first = entries.iter().find(|(other, _)| other == key).map(|(_, value)| &value[..]);
                prop_assert_eq!(run.find(key).expect("sound"), first);
            }
        }

        #[test]
        fn damaged_bytes_are_refused_or_read(bytes in vec(any::<u8>(), 0..200), flags in 0..8_u8) {
            let mut bytes = bytes;
            if let Some(entries) = bytes.len().checked_sub(HEADER) {
                bytes[4..8].copy_from_slice(&(entries as u32).to_le_bytes());
                bytes[12..16].copy_from_slice(&[flags, 0, 0, 0]);
            }
            if let Ok(run) = Run::parse(&bytes) {
                prop_assert!(run.iter().count() <= 200);
                let _ = run.find(b"key");
            }
        }

        #[test]
        fn a_run_that_was_cut_is_refused(entries in vec((vec(any::<u8>(), 0..9), vec(any::<u8>(), 0..9)), 1..9), cut in 1..8_usize) {
            let mut bytes = written(&entries, History::default());
            bytes.truncate(bytes.len().saturating_sub(cut));
            prop_assert!(Run::parse(&bytes).is_err());
        }

        #[test]
        fn sortable_scores_are_in_the_order_of_scores(a: f64, b: f64) {
            prop_assume!(!a.is_nan() && !b.is_nan());
            prop_assert_eq!(sortable(a).cmp(&sortable(b)), a.partial_cmp(&b).expect("no NaN"));
            prop_assert_eq!(score(stored(a)).to_bits(), a.to_bits());
            prop_assert_eq!(order_of(stored(a)), sortable(a));
        }
    }

    #[test]
    fn the_bytes_are_as_documented() {
        let history = History {
            longest: 0,
            not_integers: true,
            not_compact: false,
        };
        let narrow = written(&[(b"f".to_vec(), b"value".to_vec())], history);
        let fp = fingerprint(b"f");
        assert_eq!(
            narrow[..HEADER],
            [1, 0, 0, 0, 10, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0]
        );
        assert_eq!(
            narrow[HEADER..],
            [&[1, fp, 5, 0][..], b"f", b"value"].concat()
        );
        let wide = written(&[(b"f".to_vec(), vec![b'v'; 256])], History::default());
        assert_eq!(
            wide[..HEADER],
            [1, 0, 0, 0, 13, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0]
        );
        assert_eq!(
            wide[HEADER..][..13],
            [1, 0, 0, 0, 0, 1, 0, 0, fp, 0, 0, 0, b'f']
        );
    }

    #[test]
    fn zeros_have_one_sortable_score() {
        assert_eq!(sortable(-0.0), sortable(0.0));
        assert_eq!(order_of(stored(-0.0)), sortable(0.0));
        assert_eq!(score(stored(-0.0)).to_bits(), (-0.0_f64).to_bits());
        assert_eq!(score(stored(0.0)).to_bits(), 0.0_f64.to_bits());
        assert_eq!(score(sortable(f64::NEG_INFINITY)), f64::NEG_INFINITY);
        assert_eq!(score(sortable(f64::INFINITY)), f64::INFINITY);
    }
}
