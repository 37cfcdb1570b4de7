//! PUBSUB NUMPAT.

use super::super::super::prelude::*;
use crate::connection::subscribed::Kind;

pub(crate) static COMMAND: Command = Command {
    name: "pubsub|numpat",
    summary: "How many patterns have subscribers",
    since: "2.8.0",
    group: Group::Pubsub,
    complexity: "O(1)",
    arity: 2,
    flags: super::super::TELLS,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let patterns = context.instance.subscriptions.len(Kind::Pattern);
    context.replies.integer(patterns as i64);
    Ok(())
}
