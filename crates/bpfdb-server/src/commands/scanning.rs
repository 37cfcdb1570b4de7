//! Code that SCAN, HSCAN, SSCAN and ZSCAN share, and how collections are listed in pieces.
//!
//! A collection of up to [`WHOLE`] elements is listed at once, whatever the cursor is, and the next cursor
//! is 0. A larger one is listed in the order of a hash of its elements, and a cursor is the least hash that
//! is still to come:
//!
//! ```text
//!  hash   0 ────────── cursor ────────────── next ──────────── 2^48
//!           listed before │  listed by this call │  still to come
//! ```
//!
//! So an element that is there from the first call to the last is listed, and is listed once as long as the
//! collection is large: its hash depends on nothing else. Elements with equal hashes are listed together.
//! Each call reads the whole collection, so it lists no less than a 64th of it.
//!
//! A large collection is listed bucket by bucket, in the same way ([`bpfdb_values::big::table`]).

use std::hash::{DefaultHasher, Hasher};

use bpfdb::ValueType;
use bpfdb_values::big::table::Element;
use bpfdb_values::run::{History, Malformed, Run};

use super::arguments::{is, number, syntax_error};
use super::collection::{Collection, Large, check_reply, read};
use super::prelude::*;
use crate::protocol::reply::Replies;
use crate::values::glob;

/// Elements of the largest collection that is listed at once; of others a piece has at least as many.
const WHOLE: usize = 512;
/// A collection is read so often to be listed, at most.
const PIECES: usize = 64;
/// Bits of the hash in a cursor of a small collection.
const HASH_BITS: u32 = 48;
/// Bits of a cursor: clients keep it in a floating-point number, perhaps.
const CURSOR_BITS: u32 = 49;

/// Options of a scan.
#[derive(Debug)]
pub(super) struct Options<'a> {
    pub(super) count: usize,
    pattern: Option<&'a [u8]>,
    /// Name of the type that is wanted; `None`: any.
    pub(super) value_type: Option<&'a [u8]>,
}

/// Is there an option TYPE?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepts {
    Type,
    NoType,
}

impl<'a> Options<'a> {
    pub(super) fn parse(words: &'a [Vec<u8>], accepts: Accepts) -> Result<Self, Failure> {
        let mut options = Self {
            count: 10,
            pattern: None,
            value_type: None,
        };
        for pair in words.chunks(2) {
            let [option, value] = pair else {
                return Err(syntax_error());
            };
            if is(option, "count") {
                let count = usize::try_from(number(value)?).unwrap_or(0);
                if count < 1 {
                    return Err(syntax_error());
                }
                options.count = count;
            } else if is(option, "match") {
                options.pattern = Some(value);
            } else if is(option, "type") && accepts == Accepts::Type {
                options.value_type = Some(value);
            } else {
                return Err(syntax_error());
            }
        }
        Ok(options)
    }

    /// Does this key or element match the pattern?
    pub(super) fn wants(&self, name: &[u8]) -> bool {
        self.pattern
            .is_none_or(|pattern| glob::matches(pattern, name))
    }
}

/// What strtoul() reads of a whole word: it may be empty, or negative.
pub(super) fn cursor(text: &[u8]) -> Result<u64, Failure> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if text.is_empty() {
        return Ok(0);
    }
    let value: Option<u64> = std::str::from_utf8(digits)
        .ok()
        .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))
        .and_then(|digits| digits.parse().ok());
    value
        .map(|value| {
            if negative {
                value.wrapping_neg()
            } else {
                value
            }
        })
        .ok_or_else(|| "ERR invalid cursor".into())
}

/// How the value of an element of a run with this history is replied behind it.
pub(super) type ReplyValue = fn(&mut Replies, History, &[u8]);

/// Executes HSCAN and its kin: key, cursor, options. `value`: elements have values, which are listed too.
pub(super) fn scan_collection(
    context: &mut Context<'_>,
    words: &[Vec<u8>],
    kind: ValueType,
    value: Option<ReplyValue>,
) -> Outcome {
    let cursor = cursor(&words[1])?;
    let listed = read(context.session, &words[0], kind, |collection| {
        let options = Options::parse(&words[2..], Accepts::NoType)?;
        list(collection, cursor, &options)
    })?;
    // Of an absent key, as in Redis, without a look at the options.
    let listed = listed.unwrap_or_default();
    reply(context.replies, &listed, value)
}

/// What one call lists.
#[derive(Debug, Default)]
struct Listed {
    /// The next cursor.
    next: u64,
    elements: Vec<Element>,
    history: History,
}

fn list(collection: Collection<'_>, cursor: u64, options: &Options<'_>) -> Result<Listed, Failure> {
    match collection {
        Collection::Small(bytes) => {
            let run = Run::parse(&bytes)?;
            let (next, mut elements) = piece(&run, of_small(cursor), options.count)?;
            elements.retain(|(element, _)| options.wants(element));
            let elements = elements.into_iter();
            Ok(Listed {
                next: next << 1,
                elements: elements
                    .map(|(element, value)| (element.to_vec(), value.to_vec()))
                    .collect(),
                history: run.history(),
            })
        }
        Collection::Large(mut large) if large.len() <= WHOLE as u64 => {
            list(Collection::Small(large.whole()?), 0, options)
        }
        Collection::Large(mut large) => {
            let (next, mut elements) = piece_of_large(&mut large, cursor, options.count)?;
            elements.retain(|(element, _)| options.wants(element));
            Ok(Listed {
                next,
                elements,
                history: large.head().history,
            })
        }
    }
}

/// Positions of small and of large collections are in other orders: the lowest bit of a cursor says whose it is.
/// A collection that has become another is listed from the start again.
fn of_small(cursor: u64) -> u64 {
    if cursor & 1 == 0 { cursor >> 1 } else { 0 }
}

/// Bits of a position of a large collection that are in a cursor: the highest. Buckets begin at such positions.
const POSITION_BITS: u32 = CURSOR_BITS - 1;

/// The elements of buckets, about `count`, and the next cursor.
fn piece_of_large(
    large: &mut Large<'_>,
    cursor: u64,
    count: usize,
) -> Result<(u64, Vec<Element>), Failure> {
    let shift = u64::BITS - POSITION_BITS;
    let mut position = if cursor & 1 == 1 {
        cursor >> 1 << shift
    } else {
        0
    };
    let mut listed = Vec::new();
    loop {
        let (mut elements, next) = large.scan(position)?;
        listed.append(&mut elements);
        let Some(next) = next else {
            return Ok((0, listed));
        };
        if listed.len() >= count {
            return Ok((next >> shift << 1 | 1, listed));
        }
        position = next;
    }
}

/// Elements and their values.
type Elements<'a> = Vec<(&'a [u8], &'a [u8])>;

fn reply(replies: &mut Replies, listed: &Listed, value: Option<ReplyValue>) -> Outcome {
    let Listed {
        next,
        elements,
        history,
    } = listed;
    let start = replies.len();
    replies.array(2);
    replies.bulk(next.to_string());
    replies.array(elements.len() * if value.is_some() { 2 } else { 1 });
    for (element, bytes) in elements {
        replies.bulk(element);
        if let Some(reply_value) = value {
            reply_value(replies, *history, bytes);
        }
        check_reply(replies, start)?;
    }
    Ok(())
}

/// The elements that a call with this cursor lists, about `count`, and the next cursor.
fn piece<'a>(run: &Run<'a>, cursor: u64, count: usize) -> Result<(u64, Elements<'a>), Malformed> {
    if run.len() <= WHOLE {
        let all: Result<Elements<'a>, _> = run.iter().collect();
        return Ok((0, all?));
    }
    let least = count.max(WHOLE).max(run.len() / PIECES);
    let next = next_cursor(run, cursor, least)?;
    let mut elements = Elements::new();
    for entry in run.iter() {
        let (element, value) = entry?;
        let hash = hash(element);
        if hash >= cursor && (next == 0 || hash < next) {
            elements.push((element, value));
        }
    }
    Ok((next, elements))
}

/// The hash behind the `count` least that are not below the cursor; 0: there are no more.
fn next_cursor(run: &Run<'_>, cursor: u64, count: usize) -> Result<u64, Malformed> {
    let mut hashes = Vec::with_capacity(run.len());
    for entry in run.iter() {
        let hash = hash(entry?.0);
        if hash >= cursor {
            hashes.push(hash);
        }
    }
    if hashes.len() <= count {
        return Ok(0);
    }
    let (_, &mut last, behind) = hashes.select_nth_unstable(count - 1);
    let next = behind.iter().filter(|&&hash| hash > last).min();
    Ok(next.copied().unwrap_or(0))
}

/// The same in every process of this version: cursors outlive a restart.
fn hash(element: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(element);
    hasher.finish() >> (u64::BITS - HASH_BITS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bpfdb_values::run::{History, write};

    use super::*;

    fn run_of(names: &[String]) -> Vec<u8> {
        let entries = names.iter().map(|name| (name.as_bytes(), &b""[..]));
        write(entries, History::default())
    }

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("element {n}")).collect()
    }

    #[test]
    fn every_element_is_listed_once() {
        for (count, wanted) in [
            (1, 1),
            (512, 1),
            (513, 1),
            (5000, 7),
            (5000, 900),
            (70_000, 1),
        ] {
            let bytes = run_of(&names(count));
            let run = Run::parse(&bytes).expect("a run");
            let (mut cursor, mut calls, mut listed) = (0, 0, BTreeMap::new());
            loop {
                let (next, elements) = piece(&run, cursor, wanted).expect("sound");
                for (element, _) in elements {
                    *listed.entry(element.to_vec()).or_insert(0) += 1;
                }
                calls += 1;
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
            assert_eq!(listed.len(), count);
            assert!(listed.values().all(|&times| times == 1));
            assert!(calls <= PIECES + 1 && calls <= count / wanted + 1);
        }
    }

    /// While a scan goes on others come and go, until the collection is small.
    #[test]
    fn an_element_that_stays_is_listed() {
        let all = names(3000);
        let stay = &all[..400];
        let (mut cursor, mut listed) = (0, BTreeMap::new());
        for others in [2000, 600, 2600, 1000, 50] {
            let bytes = run_of(&all[..stay.len() + others]);
            let run = Run::parse(&bytes).expect("a run");
            let (next, elements) = piece(&run, cursor, 1).expect("sound");
            for (element, _) in elements {
                listed.insert(element.to_vec(), ());
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(cursor, 0);
        assert!(stay.iter().all(|name| listed.contains_key(name.as_bytes())));
    }
}
