//! OBJECT: how a value is kept.

use super::super::help;
use super::super::prelude::*;
use crate::integer;

pub(crate) static COMMAND: Command = Command {
    name: "object",
    summary: "A container for object introspection commands",
    since: "2.2.3",
    group: Group::Generic,
    complexity: "Depends on subcommand.",
    arity: -2,
    subcommands: &[&ENCODING, &FREQ, &HELP, &IDLETIME, &REFCOUNT],
    ..Command::BASE
};

pub(crate) static ENCODING: Command = Command {
    name: "object|encoding",
    summary: "Inspect the internal encoding of a Redis object",
    since: "2.2.3",
    group: Group::Generic,
    complexity: "O(1)",
    arity: 3,
    flags: &[Flag::Readonly],
    categories: &[Category::Keyspace],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(2, &["RO"])],
    differences: "What Redis would say of a value that was just set.",
    run: encoding,
    ..Command::BASE
};

pub(crate) static FREQ: Command = Command {
    name: "object|freq",
    summary: "Get the logarithmic access frequency counter of a Redis object",
    since: "4.0.0",
    group: Group::Generic,
    complexity: "O(1)",
    arity: 3,
    flags: &[Flag::Readonly],
    categories: &[Category::Keyspace],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(2, &["RO"])],
    run: freq,
    ..Command::BASE
};

pub(crate) static HELP: Command = Command {
    name: "object|help",
    summary: "Show helpful text about the different subcommands",
    since: "6.2.0",
    group: Group::Generic,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Loading, Flag::Stale],
    categories: &[Category::Keyspace],
    run: help,
    ..Command::BASE
};

pub(crate) static IDLETIME: Command = Command {
    name: "object|idletime",
    summary: "Get the time since a Redis object was last accessed",
    since: "2.2.3",
    group: Group::Generic,
    complexity: "O(1)",
    arity: 3,
    flags: &[Flag::Readonly],
    categories: &[Category::Keyspace],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(2, &["RO"])],
    differences: "Accesses are not recorded: an error.",
    run: idletime,
    ..Command::BASE
};

pub(crate) static REFCOUNT: Command = Command {
    name: "object|refcount",
    summary: "Get the number of references to the value of the key",
    since: "2.2.3",
    group: Group::Generic,
    complexity: "O(1)",
    arity: 3,
    flags: &[Flag::Readonly],
    categories: &[Category::Keyspace],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(2, &["RO"])],
    differences: "Always 1: values are not shared.",
    run: refcount,
    ..Command::BASE
};

const LINES: &[&str] = &[
    "ENCODING <key>",
    "    Return the kind of internal representation used in order to store the value",
    "    associated with a <key>.",
    "FREQ <key>",
    "    Return the access frequency index of the <key>. The returned integer is",
    "    proportional to the logarithm of the recent access frequency of the key.",
    "IDLETIME <key>",
    "    Return the idle time of the <key>, that is the approximated number of",
    "    seconds elapsed since the last access to the key.",
    "REFCOUNT <key>",
    "    Return the number of references of the value associated with the specified",
    "    <key>.",
];

/// Longest string that Redis keeps in its header.
const EMBEDDED_MAX: usize = 44;

/// Has the key a value? If not, that is the reply.
fn exists(context: &mut Context<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
    let value = context.session.get(key)?;
    if value.is_none() {
        context.replies.null();
    }
    Ok(value)
}

fn encoding(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    if let Some(value) = exists(context, &arguments[0])? {
        context.replies.bulk(if integer::parse(&value).is_some() {
            "int"
        } else if value.len() <= EMBEDDED_MAX {
            "embstr"
        } else {
            "raw"
        });
    }
    Ok(())
}

fn refcount(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    if exists(context, &arguments[0])?.is_some() {
        context.replies.integer(1);
    }
    Ok(())
}

fn idletime(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    match exists(context, &arguments[0])? {
        None => Ok(()),
        Some(_) => Err("ERR bpfdb does not record accesses, idle time not tracked.".into()),
    }
}

fn freq(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    match exists(context, &arguments[0])? {
        None => Ok(()),
        Some(_) => Err(
            "ERR An LFU maxmemory policy is not selected, access frequency not \
                        tracked. Please note that when switching between policies at runtime \
                        LRU and LFU data will take some time to adjust."
                .into(),
        ),
    }
}

fn help(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    help::help(context.replies, "OBJECT", LINES);
    Ok(())
}
