//! Words of commands for lists, and those that they share with sorted sets.

use proptest::prelude::*;

use super::words::{Part, Words, integer, key, many, none, one_of, option, seq, word};

/// Keys of lists only, most of the time: other commands would make strings of them.
pub fn list() -> Part {
    let list = || one_of([word("list:1"), word("list:2"), word("list:3")]);
    one_of([list(), list(), list(), list(), list(), list(), key()])
}

pub fn element() -> Part {
    one_of([
        word("a"),
        word("b"),
        word("c"),
        word(""),
        word("17"),
        word("\0\r\n"),
        word("e".repeat(300)),
    ])
}

/// These words or none.
pub fn maybe(part: Part) -> Part {
    one_of([none(), part])
}

pub fn count() -> Part {
    let small = (-4..6i64).prop_map(|count| vec![count.to_string().into_bytes()]);
    let small = || small.clone().boxed();
    one_of([small(), small(), small(), integer()])
}

/// Keys, and how many there are.
pub fn counted(key: Part) -> Part {
    let right = many(key.clone(), 1..=3)
        .prop_map(|keys| -> Words {
            let count = keys.len().to_string().into_bytes();
            std::iter::once(count).chain(keys).collect()
        })
        .boxed();
    let wrong = seq([count(), many(key, 1..=2)]);
    one_of([right.clone(), right.clone(), right.clone(), right, wrong])
}

pub fn count_option() -> Part {
    maybe(seq([option("COUNT"), count()]))
}

pub fn end() -> Part {
    one_of([option("LEFT"), option("RIGHT")])
}

pub fn side() -> Part {
    one_of([option("BEFORE"), option("AFTER")])
}

/// Options of LPOS.
pub fn position_options() -> Part {
    let options = one_of([
        seq([option("RANK"), count()]),
        seq([option("COUNT"), count()]),
        seq([option("MAXLEN"), count()]),
    ]);
    many(options, 0..=3)
}
