//! Collections between their bytes in the engine, which are packed runs ([`bpfdb_values::run`]), and
//! what a file has of them: strings, one behind the other.
//!
//! Invariants
//!  1. A run that is given to a sink was written by [`Builder::finish`]: it has at least one entry, no
//!     field or member twice, the members of a sorted set are in order, and it is no longer than a
//!     value may be.
//!  2. Memory is taken for entries that have come, and never for a number of them.

use bpfdb::{ValueType, abi};
use bpfdb_values::limits::{self, Kind};
use bpfdb_values::run::{self, History, Malformed, Run};
use bpfdb_values::stream::{value, words};

use crate::error::{Error, Result, Text, damaged, foreign};
use crate::limits::VALUE_MAX;

/// Why strings are no collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It has no entry. Redis has no such key.
    Empty,
    /// Its run would have more than [`VALUE_MAX`] bytes.
    TooLong,
    Damaged(&'static str),
}

impl From<Malformed> for Fault {
    fn from(why: Malformed) -> Self {
        Self::Damaged(why.what())
    }
}

impl Fault {
    /// As an error of the file, at this byte.
    pub(crate) fn at(self, offset: u64) -> Error {
        match self {
            Self::Empty => damaged(offset, "a collection without entries"),
            Self::TooLong => too_long(offset),
            Self::Damaged(what) => damaged(offset, Text::Borrowed(what)),
        }
    }
}

/// A value that the engine has no place for.
pub(crate) fn too_long(offset: u64) -> Error {
    foreign(offset, format!("a value of more than {VALUE_MAX} bytes"))
}

/// Is this a stream whose bytes are sound?
pub(crate) fn checked_stream(bytes: &[u8]) -> Result<(), Fault> {
    let damaged = |_| Fault::Damaged("the bytes of a stream are not those of one");
    value::check(bytes).map_err(damaged)
}

/// The words of a stream as the run of a list.
///
/// # Errors
/// No stream, or one whose words are more than a value may have.
pub(crate) fn words_of_stream(bytes: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut words = Builder::new(Kind::List);
    words::each(bytes, |word| words.string(word))?;
    words.finish()
}

/// The stream of these words, which is looked at.
pub(crate) fn stream_of_words(run: &[u8]) -> Result<Vec<u8>, Fault> {
    let entries = Run::parse(run)?.iter();
    let stream = words::read(entries.map(|entry| entry.map(|(word, _)| word)))?;
    if stream.len() as u64 > VALUE_MAX {
        return Err(Fault::TooLong);
    }
    checked_stream(&stream)?;
    Ok(stream)
}

/// What a value is in a copy. Every form of a copy says how it writes each of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    String,
    Collection(Kind),
    Stream,
}

/// By the numbers of the types. `None`: no form has a place for it, and a copy with such a value is refused.
const CONTENTS: [Option<Content>; abi::BPFDB_TYPE_COUNT as usize] = [
    Some(Content::String),
    Some(Content::Collection(Kind::Hash)),
    Some(Content::Collection(Kind::List)),
    Some(Content::Collection(Kind::Set)),
    Some(Content::Collection(Kind::SortedSet)),
    Some(Content::Stream),
];

/// `None`: no form of a copy has a place for values of this type.
pub(crate) fn content_of(value_type: ValueType) -> Option<Content> {
    let number = usize::from(value_type.code());
    CONTENTS.get(number).copied().flatten()
}

/// The same of the value of this key.
///
/// # Errors
/// A type that no form of a copy has a place for.
pub(crate) fn content_of_key(name: &[u8], value_type: ValueType) -> Result<Content> {
    content_of(value_type).ok_or_else(|| Error::Type {
        key: String::from_utf8_lossy(name).into_owned(),
        name: value_type.name(),
    })
}

/// `None`: no collection.
pub(crate) fn kind_of(value_type: ValueType) -> Option<Kind> {
    match content_of(value_type) {
        Some(Content::Collection(kind)) => Some(kind),
        Some(Content::String | Content::Stream) | None => None,
    }
}

pub(crate) fn type_of(kind: Kind) -> ValueType {
    match kind {
        Kind::Hash => ValueType::HASH,
        Kind::List => ValueType::LIST,
        Kind::Set => ValueType::SET,
        Kind::SortedSet => ValueType::SORTED_SET,
    }
}

/// The value of a sorted set's entry.
pub(crate) fn score_bytes(score: f64) -> [u8; 8] {
    run::stored(score).to_le_bytes()
}

/// The score of a sorted set's entry; `None`: no value of one.
pub(crate) fn score_of(value: &[u8]) -> Option<f64> {
    let score = run::score(u64::from_le_bytes(value.try_into().ok()?));
    (!score.is_nan()).then_some(score)
}

/// A score that a file has as text. [`Fault::Damaged`] if it is none.
pub(crate) fn parse_score(text: &[u8]) -> Result<f64, Fault> {
    let score = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok());
    score
        .filter(|score: &f64| !score.is_nan())
        .ok_or(Fault::Damaged("a score that is no number"))
}

/// Becomes a collection, string by string.
#[derive(Debug)]
pub(crate) struct Builder {
    kind: Kind,
    /// Keys and values, one behind the other.
    bytes: Vec<u8>,
    /// Where each entry is among them. Of tiny entries these take more memory than the entries do, so
    /// nothing else is kept for each.
    places: Vec<Place>,
    /// Where a key is that has no value yet.
    key: Option<Place>,
    is_wide: bool,
}

/// An entry among the bytes of others: it ends where the next one begins.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u32,
    /// Bytes of its key.
    key: u32,
}

const _: () = assert!(VALUE_MAX <= u32::MAX as u64, "a place is told by 32 bits");

impl Builder {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            bytes: Vec::new(),
            places: Vec::new(),
            key: None,
            is_wide: false,
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The next string of a form that has nothing but strings: an element; a field, and then its
    /// value; a member, and then its score as text.
    pub(crate) fn string(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        match (self.kind, self.key) {
            (Kind::List | Kind::Set, _) => self.entry(bytes, &[]),
            (_, None) => self.key(bytes),
            (Kind::Hash, Some(_)) => self.value(bytes),
            (Kind::SortedSet, Some(_)) => self.value(&score_bytes(parse_score(bytes)?)),
        }
    }

    pub(crate) fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        self.key(key)?;
        self.value(value)
    }

    pub(crate) fn member(&mut self, member: &[u8], score: f64) -> Result<(), Fault> {
        if score.is_nan() {
            return Err(Fault::Damaged("a score that is no number"));
        }
        self.entry(member, &score_bytes(score))
    }

    fn key(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let start = self.bytes.len() as u32;
        self.add(bytes)?;
        let key = self.bytes.len() as u32 - start;
        self.key = Some(Place { start, key });
        Ok(())
    }

    fn value(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.add(bytes)?;
        self.places.extend(self.key.take());
        Ok(())
    }

    /// Nothing is added that is too long.
    fn add(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.is_wide |= bytes.len() > run::NARROW_MAX;
        let head = if self.is_wide {
            run::WIDE_ENTRY
        } else {
            run::NARROW_ENTRY
        };
        let entries = (self.places.len() + 1) * head;
        let all = run::HEADER + entries + self.bytes.len() + bytes.len();
        if all as u64 > VALUE_MAX {
            return Err(Fault::TooLong);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// The bytes of the run.
    pub(crate) fn finish(self) -> Result<Vec<u8>, Fault> {
        self.finish_after(History::default())
    }

    /// The same of a collection that had others before.
    fn finish_after(self, before: History) -> Result<Vec<u8>, Fault> {
        if self.key.is_some() {
            return Err(Fault::Damaged("a field without a value"));
        }
        if self.places.is_empty() {
            return Err(Fault::Empty);
        }
        // Its elements stay where they are, and may come more than once.
        if self.kind == Kind::List {
            return Ok(self.write(self.in_order(), before));
        }
        if self.has_twins() {
            return Err(Fault::Damaged("a field or member is there twice"));
        }
        if self.kind == Kind::SortedSet {
            let by_score = self.sorted_by_key(|(member, score)| (number(score), member));
            return Ok(self.write(by_score.iter().map(|&entry| self.entry_at(entry)), before));
        }
        Ok(self.write(self.in_order(), before))
    }

    fn write<'a>(
        &self,
        entries: impl Iterator<Item = Entry<'a>> + Clone,
        before: History,
    ) -> Vec<u8> {
        let now = limits::history(self.kind, entries.clone());
        let history = History {
            longest: before.longest.max(now.longest),
            not_integers: before.not_integers | now.not_integers,
            not_compact: before.not_compact | now.not_compact,
        };
        if self.kind == Kind::SortedSet && !history.not_compact {
            return run::write(entries.map(without_minus_zero), history);
        }
        run::write(entries, history)
    }

    fn has_twins(&self) -> bool {
        let by_key = self.sorted_by_key(|(key, _)| key);
        let key = |entry: u32| self.entry_at(entry).0;
        by_key.windows(2).any(|pair| key(pair[0]) == key(pair[1]))
    }

    /// The numbers of the entries in an order.
    fn sorted_by_key<'a, K: Ord>(&'a self, key: impl Fn(Entry<'a>) -> K) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..self.places.len() as u32).collect();
        numbers.sort_unstable_by_key(|&number| key(self.entry_at(number)));
        numbers
    }

    fn in_order(&self) -> impl Iterator<Item = Entry<'_>> + Clone {
        (0..self.places.len() as u32).map(|number| self.entry_at(number))
    }

    fn entry_at(&self, number: u32) -> Entry<'_> {
        let number = number as usize;
        let Place { start, key } = self.places[number];
        let next = self.places.get(number + 1);
        let end = next.map_or(self.bytes.len(), |next| next.start as usize);
        self.bytes[start as usize..end].split_at(key as usize)
    }
}

/// A key and its value.
type Entry<'a> = (&'a [u8], &'a [u8]);

/// As Redis keeps a score in its compact encoding.
fn without_minus_zero((member, score): Entry<'_>) -> Entry<'_> {
    const MINUS_ZERO: [u8; 8] = run::MINUS_ZERO.to_le_bytes();
    const ZERO: [u8; 8] = (run::MINUS_ZERO + 1).to_le_bytes();
    (member, if score == MINUS_ZERO { &ZERO } else { score })
}

/// A score's bytes as a number, which is in the order of scores.
fn number(score: &[u8]) -> u64 {
    score
        .try_into()
        .map_or(0, |bytes| run::order_of(u64::from_le_bytes(bytes)))
}

/// A run of another file, or of another program: what invariant 1 says of it is seen to. Its history
/// stays.
pub(crate) fn checked(kind: Kind, bytes: &[u8]) -> Result<Vec<u8>, Fault> {
    let damaged = |_| Fault::Damaged("the bytes of a collection are no run");
    let run = Run::parse(bytes).map_err(damaged)?;
    let mut builder = Builder::new(kind);
    for entry in run.iter() {
        let (key, value) = entry.map_err(damaged)?;
        let is_right = match kind {
            Kind::Hash => true,
            Kind::List | Kind::Set => value.is_empty(),
            Kind::SortedSet => score_of(value).is_some(),
        };
        if !is_right {
            return Err(Fault::Damaged("a value that no entry of this type has"));
        }
        builder.entry(key, value)?;
    }
    builder.finish_after(run.history())
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;

    fn strings(kind: Kind, strings: &[&str]) -> Result<Vec<u8>, Fault> {
        let mut builder = Builder::new(kind);
        for string in strings {
            builder.string(string.as_bytes())?;
        }
        builder.finish()
    }

    fn entries(run: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let run = Run::parse(run).expect("a run");
        let entries = run.iter().map(|entry| entry.expect("sound"));
        entries
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect()
    }

    #[test]
    fn members_are_in_the_order_of_their_scores() {
        let run = strings(
            Kind::SortedSet,
            &["b", "1", "a", "1", "z", "-inf", "c", "0.5"],
        );
        let members = entries(&run.expect("a run")).into_iter();
        let members: Vec<_> = members
            .map(|(member, score)| (member, score_of(&score).expect("a score")))
            .collect();
        let wanted = [("z", f64::NEG_INFINITY), ("c", 0.5), ("a", 1.0), ("b", 1.0)];
        assert_eq!(members, wanted.map(|(name, score)| (name.into(), score)));
    }

    #[test]
    fn what_is_no_collection() {
        for (kind, text) in [
            (Kind::Hash, &["f"][..]),
            (Kind::Hash, &["f", "v", "f", "w"]),
            (Kind::Set, &["a", "a"]),
            (Kind::SortedSet, &["a", "1", "a", "2"]),
            (Kind::SortedSet, &["a", "x"]),
            (Kind::SortedSet, &["a", "nan"]),
            (Kind::SortedSet, &["a", ""]),
        ] {
            let outcome = strings(kind, text);
            assert!(
                matches!(outcome, Err(Fault::Damaged(_))),
                "{text:?}: {outcome:?}"
            );
        }
        assert_eq!(strings(Kind::List, &[]), Err(Fault::Empty));
        assert!(strings(Kind::List, &["a", "a"]).is_ok());
    }

    #[test]
    fn a_run_is_not_longer_than_a_value() {
        let mut builder = Builder::new(Kind::List);
        let part = vec![0; (VALUE_MAX / 2) as usize];
        builder.string(&part).expect("there is room");
        assert_eq!(builder.string(&part), Err(Fault::TooLong));
    }

    #[test]
    fn the_history_of_a_run_stays() {
        let history = History {
            longest: 99,
            not_integers: true,
            not_compact: true,
        };
        let bytes = run::write([(&b"1"[..], &b""[..])].into_iter(), history);
        let checked = checked(Kind::Set, &bytes).expect("right");
        assert_eq!(Run::parse(&checked).expect("a run").history(), history);
    }

    #[test]
    fn runs_that_no_writer_writes_are_refused() {
        let run =
            |entries: &[(&[u8], &[u8])]| run::write(entries.iter().copied(), History::default());
        for (kind, bytes) in [
            (Kind::Set, run(&[(b"a", b""), (b"a", b"")])),
            (Kind::Set, run(&[(b"a", b"b")])),
            (Kind::List, run(&[(b"a", b"b")])),
            (Kind::SortedSet, run(&[(b"a", b"1234567")])),
            (Kind::SortedSet, run(&[(b"a", &[0xff; 8])])),
            (Kind::Hash, run(&[(b"a", b"1"), (b"a", b"2")])),
            (Kind::Hash, b"short".to_vec()),
        ] {
            let outcome = checked(kind, &bytes);
            assert!(matches!(outcome, Err(Fault::Damaged(_))), "{outcome:?}");
        }
        assert_eq!(checked(Kind::Hash, &run(&[])), Err(Fault::Empty));
    }

    /// Eight bytes for each place, and four more to sort them.
    #[test]
    fn tiny_entries_take_little_beside_the_run() {
        assert_eq!(size_of::<Place>(), 8);
        let mut builder = Builder::new(Kind::List);
        for _ in 0..1000 {
            builder.string(b"").expect("there is room");
        }
        assert!(builder.bytes.is_empty() && builder.places.len() == 1000);
        let run = builder.finish().expect("a run");
        assert_eq!(run.len(), run::HEADER + 1000 * run::NARROW_ENTRY);
    }

    proptest! {
        #[test]
        fn hashes_come_back(hash in btree_map(vec(any::<u8>(), 0..300), vec(any::<u8>(), 0..300), 1..20)) {
            let mut builder = Builder::new(Kind::Hash);
            for (field, value) in &hash {
                builder.string(field).expect("room");
                builder.string(value).expect("room");
            }
            let run = builder.finish().expect("a run");
            prop_assert!(entries(&run).into_iter().eq(hash));
            prop_assert_eq!(checked(Kind::Hash, &run).expect("right"), run);
        }
    }
}
