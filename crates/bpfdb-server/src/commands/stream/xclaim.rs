//! XCLAIM.

use super::super::prelude::*;
use super::claims::xclaim;

pub(crate) static COMMAND: Command = Command {
    name: "xclaim",
    summary: "Gives pending entries to another consumer",
    since: "5.0.0",
    group: Group::Stream,
    complexity: "O(G) with G bytes of all groups",
    arity: -6,
    arguments: "key:key, group, consumer, min-idle-time, id..., [IDLE ms:integer], [TIME unix-time-milliseconds:unix-time], [RETRYCOUNT count:integer], [FORCE=force], [JUSTID=justid], [LASTID id]",
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::Stream],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Update])],
    events: Events::Noted,
    misses: Misses::All,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    xclaim(context, arguments)
}
