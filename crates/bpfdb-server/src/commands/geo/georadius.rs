//! GEORADIUS.

use super::super::definition::{Deprecated, OfOption};
use super::super::prelude::*;
use super::search::{Centre, Form, OPTIONS, Storing, search};

pub(crate) static COMMAND: Command = Command {
    name: "georadius",
    summary: "Finds places within a distance of a place",
    since: "3.2.0",
    deprecated: Some(Deprecated {
        since: "6.2.0",
        replaced_by: "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument",
    }),
    group: Group::Geo,
    complexity: "O(length of the sorted set)",
    arity: -6,
    arguments: "key:key, longitude:double, latitude:double, radius:double, unit(M|KM|FT|MI), [WITHCOORD], [WITHDIST], [WITHHASH], [count{COUNT count:integer, [ANY@6.2.0]}], [order(ASC|DESC)], [STORE key:key], [STOREDIST key:key]",
    flags: &[Flag::Write, Flag::DenyOom, Flag::MovableKeys],
    categories: &[Category::Geo],
    keys: &[
        Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access]),
        Keys::of_option(
            OfOption::Behind {
                keyword: "STORE",
                from: 6,
                options: OPTIONS,
            },
            &[KeyFlag::Overwrite, KeyFlag::Update],
        ),
        Keys::of_option(
            OfOption::Behind {
                keyword: "STOREDIST",
                from: 6,
                options: OPTIONS,
            },
            &[KeyFlag::Overwrite, KeyFlag::Update],
        ),
    ],
    events: Events::Stored("georadiusstore"),
    run,
    ..Command::BASE
};

const FORM: Form = Form {
    name: "GEORADIUS",
    centre: Centre::Coordinates,
    storing: Storing::ByOption,
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    search(context, arguments, &FORM)
}
