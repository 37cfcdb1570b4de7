//! EXISTS.

use super::super::many::{Reader, read_many};
use super::super::prelude::*;
use crate::protocol::reply::Protocol;

pub(crate) static COMMAND: Command = Command {
    name: "exists",
    summary: "Counts those of the keys given that have a value",
    since: "1.0.0",
    group: Group::Generic,
    complexity: "O(keys)",
    arity: -2,
    arguments: "key:key...",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::Keyspace],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly]).last(-1)],
    batching: Batching::Reads,
    run: read_many::<Count<false>>,
    ..Command::BASE
};

#[derive(Debug)]
pub(super) struct Count<const TRACKED: bool>(i64);

impl<const TRACKED: bool> Reader for Count<TRACKED> {
    const VALUES: bool = false;
    const TRACKED: Option<bool> = Some(TRACKED);

    fn new(_: Protocol, _: usize) -> Self {
        Self(0)
    }

    fn take(&mut self, value: Option<Vec<u8>>) -> Outcome {
        self.0 += i64::from(value.is_some());
        Ok(())
    }

    fn reply(&mut self, context: &mut Context<'_>) {
        context.replies.integer(self.0);
    }
}
