//! TIME.

use std::time::{SystemTime, UNIX_EPOCH};

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "time",
    summary: "The server's clock: seconds and microseconds",
    since: "2.6.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: 1,
    flags: &[Flag::Loading, Flag::Stale, Flag::Fast],
    tips: &["nondeterministic_output"],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    context.replies.array(2);
    context.replies.bulk(now.as_secs().to_string());
    context.replies.bulk(now.subsec_micros().to_string());
    Ok(())
}
