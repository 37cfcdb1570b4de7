//! GEORADIUSBYMEMBER_RO.

use super::super::definition::Deprecated;
use super::super::prelude::*;
use super::search::{Centre, Form, Storing, search};

pub(crate) static COMMAND: Command = Command {
    name: "georadiusbymember_ro",
    summary: "Finds places within a distance of a member",
    since: "3.2.10",
    deprecated: Some(Deprecated {
        since: "6.2.0",
        replaced_by: "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments",
    }),
    group: Group::Geo,
    complexity: "O(length of the sorted set)",
    arity: -5,
    arguments: "key:key, member, radius:double, unit(M|KM|FT|MI), [WITHCOORD], [WITHDIST], [WITHHASH], [count{COUNT count:integer, [ANY]}], [order(ASC|DESC)]",
    flags: &[Flag::Readonly],
    categories: &[Category::Geo],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    run,
    ..Command::BASE
};

const FORM: Form = Form {
    name: "GEORADIUSBYMEMBER_RO",
    centre: Centre::Member,
    storing: Storing::Never,
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    search(context, arguments, &FORM)
}
