//! Words of commands for sorted sets.

use super::lists::{count, counted, maybe};
use super::words::{Part, float, key, many, offset, one_of, option, seq, some_of, word};

/// Keys of sorted sets only, most of the time: other commands would make strings of them.
pub fn sorted_set() -> Part {
    let set = || one_of([word("zset:1"), word("zset:2"), word("zset:3")]);
    one_of([set(), set(), set(), set(), set(), set(), key()])
}

pub fn member() -> Part {
    one_of([
        word("a"),
        word("b"),
        word("bb"),
        word("c"),
        word("d"),
        word(""),
        word("-1"),
        word(b"\0\xff"),
    ])
}

pub fn score() -> Part {
    one_of([
        word("0"),
        word("1"),
        word("2"),
        word("-3"),
        word("0.1"),
        word("2.5"),
        word("1e17"),
        word("inf"),
        word("-inf"),
        word("nan"),
        float(),
    ])
}

/// Options of ZADD.
pub fn adding_options() -> Part {
    let options = ["NX", "XX", "GT", "LT", "CH", "INCR"].map(option);
    some_of(3, options)
}

pub fn score_end() -> Part {
    one_of([
        word("(1"),
        word("(-3"),
        word("0"),
        word("2"),
        word("+inf"),
        word("-inf"),
        word(""),
        word("("),
        score(),
    ])
}

pub fn lex_end() -> Part {
    one_of([
        word("-"),
        word("+"),
        word("[a"),
        word("(a"),
        word("[bb"),
        word("(c"),
        word("["),
        word("b"),
    ])
}

pub fn limit() -> Part {
    seq([option("LIMIT"), count(), count()])
}

/// The two ends of a range of any kind, with its word.
pub fn range() -> Part {
    one_of([
        seq([offset(), offset()]),
        seq([score_end(), score_end(), option("BYSCORE")]),
        seq([lex_end(), lex_end(), option("BYLEX")]),
    ])
}

pub fn range_options() -> Part {
    some_of(3, [limit(), option("REV"), option("WITHSCORES")])
}

pub fn min_or_max() -> Part {
    one_of([option("MIN"), option("MAX")])
}

/// Arguments of ZUNION and ZINTER, and of those that keep the result.
pub fn operation(replies: bool) -> Part {
    let aggregate = one_of([option("SUM"), option("MIN"), option("MAX")]);
    let weights = seq([option("WEIGHTS"), many(score(), 1..=3)]);
    let options = [
        weights,
        seq([option("AGGREGATE"), aggregate]),
        option(if replies { "WITHSCORES" } else { "AGGREGATE" }),
    ];
    seq([counted(sorted_set()), maybe(some_of(2, options))])
}
