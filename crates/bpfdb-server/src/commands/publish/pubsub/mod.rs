//! PUBSUB: what has subscribers.

mod channels;
mod help;
mod numpat;
mod numsub;
mod shardchannels;
mod shardnumsub;

use super::super::prelude::*;
use super::super::table::wrong_subcommand_arity;
use crate::connection::subscribed::Kind;
use crate::values::glob;

pub(crate) static COMMAND: Command = Command {
    name: "pubsub",
    summary: "About subscriptions",
    since: "2.8.0",
    group: Group::Pubsub,
    complexity: "That of the subcommand",
    arity: -2,
    subcommands: &[
        &channels::COMMAND,
        &help::COMMAND,
        &numpat::COMMAND,
        &numsub::COMMAND,
        &shardchannels::COMMAND,
        &shardnumsub::COMMAND,
    ],
    ..Command::BASE
};

/// The channels that have subscribers, and whose names match.
fn channels(context: &mut Context<'_>, kind: Kind, arguments: &[Vec<u8>]) -> Outcome {
    let pattern = match arguments {
        [] => None,
        [pattern] => Some(pattern),
        _ => return Err(wrong_subcommand_arity(context, "PUBSUB")),
    };
    let all = context.instance.subscriptions.all(kind);
    let names = all.map(|(name, _)| name);
    let matching = names.filter(|name| pattern.is_none_or(|it| glob::matches(it, name)));
    let matching: Vec<&[u8]> = matching.collect();
    context.replies.array(matching.len());
    for name in matching {
        context.replies.bulk(name);
    }
    Ok(())
}

/// How many have subscribed to each channel.
fn receivers(context: &mut Context<'_>, kind: Kind, names: &[Vec<u8>]) -> Outcome {
    context.replies.array(2 * names.len());
    for name in names {
        let count = context.instance.subscriptions.count(kind, name);
        context.replies.bulk(name);
        context.replies.integer(count as i64);
    }
    Ok(())
}
