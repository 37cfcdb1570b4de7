//! MSET: all or nothing.

use bpfdb::Session;

use super::super::many_writes::{Writer, write_many};
use super::super::prelude::*;
use super::super::table::wrong_arity;

pub(crate) static COMMAND: Command = Command {
    name: "mset",
    summary: "Sets several keys, all at once",
    since: "1.0.1",
    group: Group::String,
    complexity: "O(keys and bytes written)",
    arity: -3,
    arguments: "key_value{key:key, value}...",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::String],
    tips: &[
        "request_policy:multi_shard",
        "response_policy:all_succeeded",
    ],
    keys: &[Keys::at(1, &[KeyFlag::Overwrite, KeyFlag::Update])
        .last(-1)
        .step(2)],
    batching: Batching::Writes,
    events: Events::Named("set"),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, pairs: &[Vec<u8>]) -> Outcome {
    if !pairs.len().is_multiple_of(2) {
        return Err(wrong_arity("mset"));
    }
    write_many::<Setting>(context, pairs)
}

#[derive(Debug, Default)]
struct Setting;

impl Writer for Setting {
    const WORDS: usize = 2;

    fn write(&mut self, session: &mut Session, pair: &[Vec<u8>]) -> Outcome {
        Ok(session.set(&pair[0], &pair[1])?)
    }

    fn reply(&self, context: &mut Context<'_>) {
        context.replies.ok();
    }
}
