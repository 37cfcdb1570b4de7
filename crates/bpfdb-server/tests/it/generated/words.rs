//! Parts that requests are put together from: words, valid and invalid, and
//! ways to combine them.

use std::time::{SystemTime, UNIX_EPOCH};

use proptest::prelude::*;
use proptest::strategy::Union;

/// A request, or some words of it.
pub type Words = Vec<Vec<u8>>;
pub type Part = BoxedStrategy<Words>;

// ---- Combinations -------------------------------------------------------------

pub fn seq<const N: usize>(parts: [Part; N]) -> Part {
    Vec::from(parts).prop_map(|words| words.concat()).boxed()
}

pub fn one_of<const N: usize>(parts: [Part; N]) -> Part {
    Union::new(parts).boxed()
}

/// From none to `most` of these, in any order, also the same again: options.
pub fn some_of<const N: usize>(most: usize, parts: [Part; N]) -> Part {
    // Mostly one or none: most options exclude each other.
    let count = prop_oneof![4 => 0..2usize, 1 => 0..=most];
    let parts = Union::new(parts);
    count
        .prop_flat_map(move |count| proptest::collection::vec(parts.clone(), count))
        .prop_map(|words| words.concat())
        .boxed()
}

pub fn many(part: Part, count: std::ops::RangeInclusive<usize>) -> Part {
    proptest::collection::vec(part, count)
        .prop_map(|words| words.concat())
        .boxed()
}

pub fn none() -> Part {
    Just(Words::new()).boxed()
}

pub fn word(text: impl AsRef<[u8]>) -> Part {
    Just(vec![text.as_ref().to_vec()]).boxed()
}

/// A word of the command language, in capitals or in small letters.
pub fn option(text: &str) -> Part {
    one_of([word(text), word(text.to_ascii_lowercase())])
}

fn one_word(strategy: impl Strategy<Value = Vec<u8>> + 'static) -> Part {
    strategy.prop_map(|word| vec![word]).boxed()
}

fn text(number: impl ToString) -> Vec<u8> {
    number.to_string().into_bytes()
}

// ---- Keys and values ----------------------------------------------------------

pub const KEYS: usize = 6;

/// Few, so that commands meet: in the cell and outside, as binary as can be,
/// the longest.
pub fn key_at(index: usize) -> Vec<u8> {
    match index {
        0 => b"a".to_vec(),
        1 => b"key:1".to_vec(),
        2 => b"*[sixteen bytes]".to_vec(),
        3 => b"seventeen bytes:3".to_vec(),
        4 => b"\0\r\n$1\r\n\xff".to_vec(),
        _ => vec![b'k'; 512],
    }
}

/// Where collections are, most of the time: commands of one type meet here.
pub const HASHES: &[&str] = &["hash:1", "hash:2"];
pub const LISTS: &[&str] = &["list:1", "list:2"];
/// The last one has integers, most of the time: else no set would be an intset for long.
pub const SETS: &[&str] = &["set:1", "set:2", "set:ints"];
pub const SORTED_SETS: &[&str] = &["zset:1", "zset:2"];
/// Sorted sets whose scores are all 0: a range by names has a meaning in these only.
pub const LEXICONS: &[&str] = &["lex:1", "lex:2"];

pub const STREAMS: &[&str] = &["stream:1", "stream:2"];
pub const PLACES: &[&str] = &["geo:1", "geo:2"];
/// Lists of numbers, and what SORT makes of them.
pub const SORTED: &[&str] = &["sort:1", "sort:2"];
pub const BITS: &[&str] = &["bits:1", "bits:2"];

fn homes() -> impl Iterator<Item = &'static str> {
    [HASHES, LISTS, SETS, SORTED_SETS].concat().into_iter()
}

pub fn all_keys() -> Words {
    let others = [LEXICONS, STREAMS, PLACES, SORTED, BITS].concat();
    let homes = homes().chain(others);
    (0..KEYS)
        .map(key_at)
        .chain(homes.map(|key| key.as_bytes().to_vec()))
        .collect()
}

/// Of any type: a string, most of the time.
pub fn key() -> Part {
    let home = prop::sample::select(homes().collect::<Vec<_>>());
    one_word(prop_oneof![
        12 => (0..KEYS).prop_map(key_at),
        1 => home.prop_map(|key| key.as_bytes().to_vec()),
    ])
}

/// One of these, most of the time: else of any type.
pub fn key_of(homes: &'static [&'static str]) -> Part {
    let home = prop::sample::select(homes).prop_map(|key| vec![key.as_bytes().to_vec()]);
    Union::new_weighted(vec![(15, home.boxed()), (1, any_home()), (1, key())]).boxed()
}

pub fn any_home() -> Part {
    one_word(prop::sample::select(homes().collect::<Vec<_>>()).prop_map(|key| key.into()))
}

/// One of these and no other.
pub fn word_of(words: &'static [&'static str]) -> Part {
    one_word(prop::sample::select(words).prop_map(|word| word.into()))
}

/// Keys that only LCS uses, with short values: its time grows with their
/// product.
pub fn short_key() -> Part {
    one_of([word("short:1"), word("short:2")])
}

pub fn short_value() -> Part {
    one_word("[ab\\x00é]{0,40}".prop_map(String::into_bytes))
}

pub fn value() -> Part {
    let lengths = prop::sample::select(vec![
        0usize, 1, 8, 15, 16, 17, 31, 100, 1000, 5000, 20_000, 28_672, 28_673, 65_536,
    ]);
    one_word(prop_oneof![
        6 => (-3..100i64).prop_map(text),
        1 => boundary().prop_map(text),
        1 => floating(),
        2 => "[ -~]{0,20}".prop_map(String::into_bytes),
        2 => proptest::collection::vec(any::<u8>(), 0..24),
        1 => Just(b"007".to_vec()),
        1 => Just(b"\r\n$-1\r\n\0*1".to_vec()),
        2 => (lengths, any::<u8>()).prop_map(|(len, seed)| {
            (0..len).map(|i| (i as u8).wrapping_mul(seed | 1)).collect()
        }),
    ])
}

/// What may be appended, or written into a value, again and again.
pub fn piece() -> Part {
    one_word(prop_oneof![
        3 => "[ -~]{0,20}".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => (0..3000usize).prop_map(|len| vec![b'p'; len]),
    ])
}

/// An element or a field: few, so that they meet; on both sides of 64 bytes, the longest in a
/// compact encoding.
pub fn element() -> Part {
    let few = prop::sample::select(vec![
        &b"a"[..],
        b"b",
        b"c",
        b"d",
        b"e",
        b"A",
        b"",
        b"0",
        b"1",
        b"2",
        b"-3",
        b"07",
        b"1.5",
        b"two words",
        b"\0\r\n\xff",
        b"\xff\xff",
        b"9223372036854775807",
        b"9223372036854775808",
        &[b'x'; 64],
        &[b'y'; 65],
    ]);
    Union::new_weighted(vec![
        (24, one_word(few.prop_map(<[u8]>::to_vec))),
        (4, one_word((-3..40i64).prop_map(text))),
        (1, value()),
    ])
    .boxed()
}

pub fn small_integer() -> Part {
    one_word(prop_oneof![
        20 => (-5..30i64).prop_map(text),
        1 => boundary().prop_map(text),
    ])
}

// ---- Numbers ------------------------------------------------------------------

fn boundary() -> impl Strategy<Value = i64> {
    prop::sample::select(vec![
        i64::MAX,
        i64::MAX - 1,
        i64::MIN,
        i64::MIN + 1,
        i64::from(i32::MAX),
        i64::from(i32::MIN),
        1 << 32,
        (1 << 53) + 1,
    ])
}

fn no_number() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(vec![
        "",
        " 1",
        "1 ",
        "+1",
        "-0",
        "01",
        "1.0",
        "1e2",
        "0x10",
        "x",
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999999999",
        "nan",
    ])
    .prop_map(|text| text.as_bytes().to_vec())
}

pub fn integer() -> Part {
    one_word(prop_oneof![
        8 => (-20..200i64).prop_map(text),
        2 => any::<i64>().prop_map(text),
        1 => boundary().prop_map(text),
        1 => no_number(),
    ])
}

/// A place in a value: mostly where one is.
pub fn offset() -> Part {
    one_word(prop_oneof![
        8 => (-30..40i64).prop_map(text),
        2 => (0..50_000i64).prop_map(text),
        1 => boundary().prop_map(text),
        1 => no_number(),
    ])
}

/// The number of a bit, to be set: not so far that values of hundreds of megabytes come
/// together, of which each server has room for another number.
pub fn bit() -> Part {
    one_word(prop_oneof![
        8 => (-30..40i64).prop_map(text),
        2 => (0..50_000i64).prop_map(text),
        1 => (0..20_000_000i64).prop_map(text),
        1 => boundary()
            .prop_filter("a bit of a smaller value", |&bit| bit != i64::from(i32::MAX))
            .prop_map(text),
        1 => no_number(),
    ])
}

fn floating() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => (-10_000..10_000i64, 0..6u32)
            .prop_map(|(digits, scale)| text(digits as f64 / 10f64.powi(scale as i32))),
        1 => prop::sample::select(vec![
            "0.1", "-0.0", "3.0e3", "5.0e-3", "1e17", "1e300", "-1e-10", ".5", "5.", "1e5000",
            "inf", "-inf", "nan", "0x1p3", "3.14159265358979", "12345678901234567890",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        1 => no_number(),
    ]
}

pub fn float() -> Part {
    one_word(floating())
}

/// A score, or what is none. Sums of most of them are exact, in whatever order.
pub fn score() -> Part {
    one_word(prop_oneof![
        16 => (-8..9i64).prop_map(text),
        6 => (-20..20i64).prop_map(|quarters| text(quarters as f64 / 4.0)),
        1 => prop::sample::select(vec!["inf", "-inf", "+inf", "Infinity"])
            .prop_map(|text| text.as_bytes().to_vec()),
        2 => floating(),
    ])
}

/// The end of a range of scores.
pub fn score_bound() -> Part {
    let excluded = score().prop_map(|words| vec![[b"(", words[0].as_slice()].concat()]);
    Union::new_weighted(vec![
        (6, score()),
        (3, excluded.boxed()),
        (2, word_of(&["-inf", "+inf", "inf"])),
        (1, word_of(&["(", "[1", "((1", "(nan", "-", "+", ""])),
    ])
    .boxed()
}

/// The end of a range of names.
pub fn name_bound() -> Part {
    let with = |mark: &'static [u8]| {
        element()
            .prop_map(move |words| vec![[mark, words[0].as_slice()].concat()])
            .boxed()
    };
    Union::new_weighted(vec![
        (4, with(b"[")),
        (4, with(b"(")),
        (3, word_of(&["-", "+"])),
        (1, word_of(&["", "a", "-inf", "--", "++"])),
    ])
    .boxed()
}

/// A number of elements that chance chooses: of a negative one, each counts, and the servers would
/// send as many as it says.
pub fn chosen() -> Part {
    one_word(prop_oneof![
        8 => (-40..40i64).prop_map(text),
        1 => (0..=i64::MAX).prop_map(text),
        1 => Just(text(i64::MIN)),
        1 => no_number(),
    ])
}

/// So many things, and how many they are: mostly the truth.
pub fn counted(part: Part, count: std::ops::RangeInclusive<usize>) -> Part {
    let number = prop_oneof![
        16 => Just(None),
        1 => prop::sample::select(vec!["0", "-1", "x", "9", "2", "9223372036854775807"])
            .prop_map(Some),
    ];
    (proptest::collection::vec(part, count), number)
        .prop_map(|(parts, number)| {
            let said = number.map_or_else(|| text(parts.len()), |said| said.into());
            [vec![said], parts.concat()].concat()
        })
        .boxed()
}

// ---- Time ---------------------------------------------------------------------

/// Seconds within which the two servers execute one command, surely.
pub const TOLERANCE: i64 = 100;
/// Times to live begin here: none ends within a test.
const FAR: i64 = 1000 * TOLERANCE;

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("after 1970").as_secs() as i64
}

/// Times from now, in units of which `per_second` make a second. Two of them
/// are never as close as the tolerance, also when a failure is made smaller:
/// else GT and LT would depend on the moment.
fn from_now(per_second: i64) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        12 => (1..1_000_000i64)
            .prop_map(move |far| text((FAR + far * 2 * TOLERANCE) * per_second))
            .no_shrink(),
        2 => (-5..1i64).prop_map(text),
        1 => prop::sample::select(vec![
            i64::MAX,
            i64::MIN,
            i64::MAX / 1000,
            i64::MAX / 1000 + 1,
            i64::MIN / 1000,
            // Only the addition of the present overflows.
            i64::MAX - 1_000_000,
            i64::MAX / 1000 - 1_000_000,
        ])
        .prop_map(text),
        1 => no_number(),
    ]
}

fn moment(per_second: i64) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        12 => (1..1_000_000i64)
            .prop_map(move |far| text((now() + FAR + far * 2 * TOLERANCE + TOLERANCE) * per_second))
            .no_shrink(),
        2 => (-5..1000i64).prop_map(text),
        1 => prop::sample::select(vec![
            i64::MAX,
            i64::MIN,
            i64::MAX / 1000,
            i64::MAX / 1000 + 1,
            i64::MIN / 1000,
        ])
        .prop_map(text),
        1 => no_number(),
    ]
}

pub fn seconds() -> Part {
    one_word(from_now(1))
}

pub fn milliseconds() -> Part {
    one_word(from_now(1000))
}

pub fn at_second() -> Part {
    one_word(moment(1))
}

pub fn at_millisecond() -> Part {
    one_word(moment(1000))
}

// ---- Damage -------------------------------------------------------------------

/// What may happen to a request that was well made.
#[derive(Clone, Debug)]
pub enum Damage {
    Drop(prop::sample::Index),
    Double(prop::sample::Index),
    Replace(prop::sample::Index, &'static str),
    Append(&'static str),
}

/// No empty word (it might become a key), and no number that is a short time.
pub const JUNK: &[&str] = &[
    "x",
    "-1",
    "0",
    "1.5",
    "NX",
    "xx",
    "GET",
    "EX",
    "KEEPTTL",
    "PERSIST",
    "MATCH",
    "*",
    "\r\n",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
];

pub fn damage() -> impl Strategy<Value = Option<Damage>> {
    let place = any::<prop::sample::Index>;
    let junk = || prop::sample::select(JUNK);
    prop_oneof![
        30 => Just(None),
        1 => place().prop_map(|at| Some(Damage::Drop(at))),
        1 => place().prop_map(|at| Some(Damage::Double(at))),
        1 => (place(), junk()).prop_map(|(at, junk)| Some(Damage::Replace(at, junk))),
        1 => junk().prop_map(|junk| Some(Damage::Append(junk))),
    ]
}

/// Never touches the name.
pub fn damaged(mut words: Words, damage: Option<&Damage>) -> Words {
    let arguments = words.len() - 1;
    match damage {
        Some(Damage::Append(junk)) => words.push(junk.as_bytes().to_vec()),
        Some(Damage::Drop(at)) if arguments > 0 => {
            words.remove(1 + at.index(arguments));
        }
        Some(Damage::Double(at)) if arguments > 0 => {
            let at = 1 + at.index(arguments);
            words.insert(at, words[at].clone());
        }
        Some(Damage::Replace(at, junk)) if arguments > 0 => {
            words[1 + at.index(arguments)] = junk.as_bytes().to_vec();
        }
        _ => {}
    }
    words
}
