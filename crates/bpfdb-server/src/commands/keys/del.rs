//! DEL.

use bpfdb::Session;

use super::super::many_writes::{Writer, write_many};
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "del",
    summary: "Deletes keys, all at once",
    since: "1.0.0",
    group: Group::Generic,
    complexity: "O(keys)",
    arity: -2,
    arguments: "key:key...",
    flags: &[Flag::Write],
    categories: &[Category::Keyspace],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    keys: &[Keys::at(1, &[KeyFlag::Remove, KeyFlag::Delete]).last(-1)],
    differences: "All at one moment. If there is no memory for the locks of so many keys, they are deleted one after the other.",
    batching: Batching::Reads,
    events: Events::Stored("del"),
    run,
    ..Command::BASE
};

pub(super) fn run(context: &mut Context<'_>, keys: &[Vec<u8>]) -> Outcome {
    let [key] = keys else {
        return write_many::<Deleting>(context, keys);
    };
    let deleted = context.session.delete(key)?;
    context.replies.integer(deleted.into());
    Ok(())
}

/// How many of the keys were there.
#[derive(Debug, Default)]
struct Deleting(i64);

impl Writer for Deleting {
    const WORDS: usize = 1;
    const FREES: bool = true;

    fn write(&mut self, session: &mut Session, words: &[Vec<u8>]) -> Outcome {
        self.0 += i64::from(session.delete(&words[0])?);
        Ok(())
    }

    fn reply(&self, context: &mut Context<'_>) {
        context.replies.integer(self.0);
    }
}
