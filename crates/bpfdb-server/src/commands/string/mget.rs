//! MGET: all values at one moment.

use super::super::many::{Reader, read_many};
use super::super::prelude::*;
use crate::protocol::reply::{Protocol, Replies};
use crate::settings::limits::MESSAGE_MAX;

pub(crate) static COMMAND: Command = Command {
    name: "mget",
    summary: "Reads the values of several keys at one moment",
    since: "1.0.0",
    group: Group::String,
    complexity: "O(keys and bytes read)",
    arity: -2,
    arguments: "key:key...",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::String],
    tips: &["request_policy:multi_shard"],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access]).last(-1)],
    differences: "The reply has at most 640 MiB.",
    run: read_many::<Values>,
    ..Command::BASE
};

#[derive(Debug)]
struct Values(Replies);

impl Reader for Values {
    fn new(protocol: Protocol, keys: usize) -> Self {
        let mut replies = Replies::new(protocol);
        replies.array(keys);
        Self(replies)
    }

    fn take(&mut self, value: Option<Vec<u8>>) -> Outcome {
        self.0.bulk_or_null(value.as_deref());
        if self.0.len() > MESSAGE_MAX {
            return Err("ERR reply is longer than 640 MiB; ask for fewer keys".into());
        }
        Ok(())
    }

    fn reply(&mut self, context: &mut Context<'_>) {
        context.replies.absorb(&mut self.0);
    }

    fn memory(&self) -> usize {
        self.0.len()
    }
}
