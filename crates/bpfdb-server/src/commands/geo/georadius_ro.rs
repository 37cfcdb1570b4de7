//! GEORADIUS_RO.

use super::super::definition::Deprecated;
use super::super::prelude::*;
use super::search::{Centre, Form, Storing, search};

pub(crate) static COMMAND: Command = Command {
    name: "georadius_ro",
    summary: "Finds places within a distance of a place",
    since: "3.2.10",
    deprecated: Some(Deprecated {
        since: "6.2.0",
        replaced_by: "`GEOSEARCH` with the `BYRADIUS` argument",
    }),
    group: Group::Geo,
    complexity: "O(length of the sorted set)",
    arity: -6,
    arguments: "key:key, longitude:double, latitude:double, radius:double, unit(M|KM|FT|MI), [WITHCOORD], [WITHDIST], [WITHHASH], [count{COUNT count:integer, [ANY@6.2.0]}], [order(ASC|DESC)]",
    flags: &[Flag::Readonly],
    categories: &[Category::Geo],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    run,
    ..Command::BASE
};

const FORM: Form = Form {
    name: "GEORADIUS_RO",
    centre: Centre::Coordinates,
    storing: Storing::Never,
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    search(context, arguments, &FORM)
}
