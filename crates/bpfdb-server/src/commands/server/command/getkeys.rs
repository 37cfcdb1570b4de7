//! COMMAND GETKEYS, COMMAND GETKEYSANDFLAGS: the keys of a request.

use super::super::super::prelude::*;
use super::super::super::table;

pub(crate) static COMMAND: Command = Command {
    name: "command|getkeys",
    summary: "Returns which words of a request are keys",
    since: "2.8.13",
    group: Group::Server,
    complexity: "O(words)",
    arity: -4,
    flags: &[Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    run: keys,
    ..Command::BASE
};

pub(crate) static WITH_FLAGS: Command = Command {
    name: "command|getkeysandflags",
    summary: "Returns which words of a request are keys, and what becomes of them",
    since: "7.0.0",
    group: Group::Server,
    complexity: "O(words)",
    arity: -4,
    flags: &[Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    run: keys_and_flags,
    ..Command::BASE
};

fn keys(context: &mut Context<'_>, words: &[Vec<u8>]) -> Outcome {
    let found = find(words)?;
    context.replies.array(found.len());
    for (key, _) in found {
        context.replies.bulk(key);
    }
    Ok(())
}

fn keys_and_flags(context: &mut Context<'_>, words: &[Vec<u8>]) -> Outcome {
    let found = find(words)?;
    context.replies.array(found.len());
    for (key, flags) in found {
        context.replies.array(2);
        context.replies.bulk(key);
        context.replies.set(flags.len());
        for flag in flags {
            context.replies.simple(flag.name());
        }
    }
    Ok(())
}

type Found<'a> = Vec<(&'a [u8], KeyFlags)>;

fn find(words: &[Vec<u8>]) -> Result<Found<'_>, Failure> {
    let Ok(call) = table::find(words) else {
        return Err("ERR Invalid command specified".into());
    };
    if call.command.keys.iter().all(|keys| keys.are_none()) {
        return Err("ERR The command has no key arguments".into());
    }
    if !call.command.fits(words.len()) {
        return Err("ERR Invalid number of arguments specified for command".into());
    }
    let found: Found<'_> = (call.command.keys.iter())
        .flat_map(|keys| {
            keys.positions(words)
                .map(|position| (&*words[position], keys.flags_of(words)))
        })
        .collect();
    if found.is_empty() && !call.command.has(Flag::NoMandatoryKeys) {
        return Err("ERR Invalid arguments specified for command".into());
    }
    Ok(found)
}
