//! XINFO: what is known of a stream.

mod consumers;
mod groups;
mod help;
mod stream;

use super::super::prelude::*;
use super::store::{self, Kept};
use crate::protocol::reply::Replies;

pub(crate) static COMMAND: Command = Command {
    name: "xinfo",
    summary: "Returns what is known of a stream",
    since: "5.0.0",
    group: Group::Stream,
    complexity: "That of the subcommand",
    arity: -2,
    subcommands: &[
        &consumers::COMMAND,
        &groups::COMMAND,
        &help::COMMAND,
        &stream::COMMAND,
    ],
    ..Command::BASE
};

/// Replies what `work` says of the stream of a key.
fn show(
    context: &mut Context<'_>,
    key: &[u8],
    mut work: impl FnMut(&mut Replies, &mut Kept<'_>) -> Outcome,
) -> Outcome {
    let mut replies = Replies::new(context.replies.protocol());
    let found = store::look(context.session, key, |stream| {
        replies.truncate(0);
        work(&mut replies, stream)
    })?;
    found.ok_or("ERR no such key")?;
    context.replies.absorb(&mut replies);
    Ok(())
}

/// A number, or nothing if it is not known.
fn number_or_null(replies: &mut Replies, number: Option<i64>) {
    match number {
        Some(number) => replies.integer(number),
        None => replies.null(),
    }
}
