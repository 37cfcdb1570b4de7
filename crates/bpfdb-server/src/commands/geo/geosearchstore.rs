//! GEOSEARCHSTORE.

use super::super::prelude::*;
use super::search::{Centre, Form, Storing, search};

pub(crate) static COMMAND: Command = Command {
    name: "geosearchstore",
    summary: "Keeps places within a circle or a box under another key",
    since: "6.2.0",
    group: Group::Geo,
    complexity: "O(length of the sorted set)",
    arity: -8,
    arguments: "destination:key, source:key, from(FROMMEMBER member|FROMLONLAT longitude_latitude{longitude:double, latitude:double}), by(circle{BYRADIUS radius:double, unit(M|KM|FT|MI)}|box{BYBOX width:double, height:double, unit(M|KM|FT|MI)}), [order(ASC|DESC)], [count{COUNT count:integer, [ANY]}], [STOREDIST]",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::Geo],
    keys: &[
        Keys::at(1, &[KeyFlag::Overwrite, KeyFlag::Update]),
        Keys::at(2, &[KeyFlag::ReadOnly, KeyFlag::Access]),
    ],
    differences: "Errors name the command in capital letters.",
    events: Events::Stored("geosearchstore"),
    run,
    ..Command::BASE
};

const FORM: Form = Form {
    name: "GEOSEARCHSTORE",
    centre: Centre::Options,
    storing: Storing::Always,
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    search(context, arguments, &FORM)
}
