//! XAUTOCLAIM.

use super::super::prelude::*;
use super::claims::xautoclaim;

pub(crate) static COMMAND: Command = Command {
    name: "xautoclaim",
    summary: "Gives pending entries that were idle to another consumer",
    since: "6.2.0",
    group: Group::Stream,
    complexity: "O(G) with G bytes of all groups",
    arity: -6,
    arguments: "key:key, group, consumer, min-idle-time, start, [COUNT count:integer], [JUSTID=justid]",
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::Stream],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Delete])],
    events: Events::Noted,
    misses: Misses::All,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    xautoclaim(context, arguments)
}
