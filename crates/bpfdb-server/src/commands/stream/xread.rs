//! XREAD.

use super::super::blocking::DIFFERENCES;
use super::super::prelude::*;
use super::reading::{OPTIONS, read};

pub(crate) static COMMAND: Command = Command {
    name: "xread",
    summary: "Reads the entries behind given ones, of some streams, and waits for them",
    since: "5.0.0",
    group: Group::Stream,
    complexity: "O(length of the streams)",
    arity: -4,
    arguments: "[COUNT count:integer], [BLOCK milliseconds:integer], STREAMS streams{key:key..., id...}",
    flags: &[Flag::Readonly, Flag::Blocking, Flag::MovableKeys],
    categories: &[Category::Stream],
    keys: &[Keys::after(
        "STREAMS",
        1,
        OPTIONS,
        &[KeyFlag::ReadOnly, KeyFlag::Access],
    )],
    differences: DIFFERENCES,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    read(context, arguments, false)
}
