//! The commands of hashes, lists, sets and sorted sets: how their arguments are made, and how two
//! replies are compared.
//!
//! Redis has no order of a hash's fields and of a set's elements, so that these come in any order;
//! small hashes have one in fact, which grown.rs compares. What SPOP has taken is chance: what is left
//! of the set is deleted behind it ([`super::case`]).
//!
//! And those of streams, of places, of SORT and of BITFIELD.

mod bits;
mod geo;
mod hash;
mod list;
mod set;
mod sort;
mod sorted_set;
mod stream;

use super::commands::{Command, command};
use super::compare::Compare::*;
use super::words::*;
use proptest::prelude::*;

pub use bits::COMMANDS as BITFIELD;
pub use geo::COMMANDS as GEO;
pub use hash::COMMANDS as HASH;
pub use list::COMMANDS as LIST;
pub use set::COMMANDS as SET;
pub use sort::{COMMANDS as SORT, FILLED};
pub use sorted_set::COMMANDS as SORTED_SET;
pub use stream::COMMANDS as STREAM;

pub const TYPES: [(&str, &[Command]); 4] = [
    ("hash", HASH),
    ("list", LIST),
    ("set", SET),
    ("sorted set", SORTED_SET),
];

/// Those of no collection that has a type of its own there.
pub const OTHERS: [&[Command]; 4] = [STREAM, GEO, SORT, BITFIELD];

pub fn all() -> impl Iterator<Item = &'static Command> {
    TYPES.into_iter().flat_map(|(_, commands)| commands)
}

pub fn find(name: &[u8]) -> Option<&'static Command> {
    all().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
}

/// HSCAN, SSCAN and ZSCAN, from the start.
fn scan(key: Part) -> Part {
    let patterns = one_of(["*", "[a-c]", "?", "x*", "\\*", "", "[^a]*"].map(word));
    let options = [
        seq([option("MATCH"), patterns]),
        seq([
            option("COUNT"),
            word_of(&["1", "3", "1000", "0", "-1", "x"]),
        ]),
        word_of(&["NOVALUES", "TYPE"]),
    ];
    let cursor = word_of(&["0", "0", "0", "0", "0", "0", "x", "-1", "1.5", ""]);
    seq([key, cursor, some_of(3, options)])
}

/// At most so many.
fn limit() -> Part {
    seq([option("LIMIT"), offset(), offset()])
}
