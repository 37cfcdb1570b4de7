//! XREADGROUP.

use super::super::blocking::DIFFERENCES;
use super::super::prelude::*;
use super::reading::{OPTIONS, read};

pub(crate) static COMMAND: Command = Command {
    name: "xreadgroup",
    summary: "Reads entries for a consumer of a group, and waits for them",
    since: "5.0.0",
    group: Group::Stream,
    complexity: "O(log B + M + G) with B blocks of entries, M entries that are replied, and G bytes of all groups",
    arity: -7,
    arguments: "GROUP group_consumer{group, consumer}, [COUNT count:integer], [BLOCK milliseconds:integer], [NOACK], STREAMS streams{key:key..., id...}",
    flags: &[Flag::Write, Flag::Blocking, Flag::MovableKeys],
    categories: &[Category::Stream],
    keys: &[Keys::after(
        "STREAMS",
        4,
        OPTIONS,
        &[KeyFlag::ReadOnly, KeyFlag::Access],
    )],
    differences: DIFFERENCES,
    events: Events::Noted,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    read(context, arguments, true)
}
