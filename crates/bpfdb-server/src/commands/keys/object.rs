//! OBJECT: how a value is kept.

use bpfdb::{Access, Head, Session, ValueType};
use bpfdb_values::list::List;
use bpfdb_values::run::{self, Run};
use bpfdb_values::{Hash, Set, sorted_set};

use super::super::atomic::{Kind, atomically};
use super::super::collection::large_head;
use super::super::help;
use super::super::prelude::*;
use crate::values::integer;

pub(crate) static COMMAND: Command = Command {
    name: "object",
    summary: "Returns how a value is kept",
    since: "2.2.3",
    group: Group::Generic,
    complexity: "See the subcommands",
    arity: -2,
    subcommands: &[&ENCODING, &FREQ, &HELP, &IDLETIME, &REFCOUNT],
    ..Command::BASE
};

pub(crate) static ENCODING: Command = Command {
    name: "object|encoding",
    summary: "Returns which of Redis's encodings fits a value",
    since: "2.2.3",
    group: Group::Generic,
    complexity: "O(length of the value)",
    arity: 3,
    arguments: "key:key",
    flags: &[Flag::Readonly],
    categories: &[Category::Keyspace],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(2, &[KeyFlag::ReadOnly])],
    differences: "The encoding that Redis would give to a string that was just set, or to a collection by its default settings.",
    batching: Batching::Reads,
    misses: Misses::None,
    run: encoding,
    ..Command::BASE
};

pub(crate) static FREQ: Command = Command {
    name: "object|freq",
    summary: "Returns how often a value is used, by the counter of the LFU policies",
    since: "4.0.0",
    group: Group::Generic,
    complexity: "O(1)",
    arity: 3,
    arguments: "key:key",
    flags: &[Flag::Readonly],
    categories: &[Category::Keyspace],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(2, &[KeyFlag::ReadOnly])],
    batching: Batching::Reads,
    misses: Misses::None,
    run: freq,
    ..Command::BASE
};

pub(crate) static HELP: Command = Command {
    name: "object|help",
    summary: "Lists the subcommands",
    since: "6.2.0",
    group: Group::Generic,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Loading, Flag::Stale],
    categories: &[Category::Keyspace],
    differences: "In its own words.",
    run: help,
    ..Command::BASE
};

pub(crate) static IDLETIME: Command = Command {
    name: "object|idletime",
    summary: "Returns for how many seconds a value has not been used",
    since: "2.2.3",
    group: Group::Generic,
    complexity: "O(1)",
    arity: 3,
    arguments: "key:key",
    flags: &[Flag::Readonly],
    categories: &[Category::Keyspace],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(2, &[KeyFlag::ReadOnly])],
    differences: "With noeviction accesses are not recorded: an error.",
    batching: Batching::Reads,
    misses: Misses::None,
    run: idletime,
    ..Command::BASE
};

pub(crate) static REFCOUNT: Command = Command {
    name: "object|refcount",
    summary: "Returns how many keys share a value",
    since: "2.2.3",
    group: Group::Generic,
    complexity: "O(1)",
    arity: 3,
    arguments: "key:key",
    flags: &[Flag::Readonly],
    categories: &[Category::Keyspace],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(2, &[KeyFlag::ReadOnly])],
    differences: "Always 1: values are not shared.",
    batching: Batching::Reads,
    misses: Misses::None,
    run: refcount,
    ..Command::BASE
};

/// Longest string that Redis keeps in its header.
const EMBEDDED_MAX: u64 = 44;

/// Has the key a value? If not, that is the reply.
fn exists(context: &mut Context<'_>, key: &[u8]) -> Result<Option<Head>, Failure> {
    let head = (context.session).tracked(false, |session| session.head(key))?;
    if head.is_none() {
        context.replies.null();
    }
    Ok(head)
}

fn encoding(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let key = &arguments[0];
    let head = context.session.tracked(false, |session| {
        let head = session.head(key)?;
        match head {
            Some(head) if head.value.is_none() && head.value_type != ValueType::STRING => {
                whole(session, key)
            }
            head => Ok(head),
        }
    })?;
    let encoding = head.as_ref().map(encoding_of).transpose()?;
    context.replies.bulk_or_null(encoding.map(str::as_bytes));
    Ok(())
}

/// A large value is read as a whole, at the same moment as its type.
fn whole(session: &mut Session, key: &[u8]) -> Result<Option<Head>, Failure> {
    atomically(session, Kind::Read, |session| {
        let Some(mut head) = session.head(key)? else {
            return Ok(None);
        };
        let entry = session.entry_of_any_type(key)?;
        head.value = entry.map(|entry| entry.value);
        Ok(Some(head))
    })
}

fn encoding_of(head: &Head) -> Result<&'static str, Failure> {
    if let Some(large) = large_head(head)? {
        // It follows from the history alone.
        let empty = run::write(std::iter::empty(), large.history);
        return encoding_of_value(head, &empty);
    }
    encoding_of_value(head, head.value.as_deref().unwrap_or_default())
}

fn encoding_of_value(head: &Head, value: &[u8]) -> Result<&'static str, Failure> {
    Ok(match head.value_type {
        ValueType::STRING => encoding_of_string(head),
        ValueType::HASH => Hash::read(value)?.encoding(),
        ValueType::SET => Set::read(value)?.encoding(),
        ValueType::LIST => List::parse(value)?.encoding(),
        ValueType::SORTED_SET => sorted_set::encoding(&Run::parse(value)?),
        other => other.name(),
    })
}

fn encoding_of_string(head: &Head) -> &'static str {
    let value = head.value.as_deref().unwrap_or_default();
    if integer::parse(value).is_some() {
        "int"
    } else if head.len <= EMBEDDED_MAX {
        "embstr"
    } else {
        "raw"
    }
}

fn refcount(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    if exists(context, &arguments[0])?.is_some() {
        context.replies.integer(1);
    }
    Ok(())
}

/// What Redis says of data of the other kind of policy.
const ADJUSTS: &str = "Please note that when switching between policies at runtime LRU and LFU data \
                       will take some time to adjust.";

fn idletime(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let key = &arguments[0];
    if exists(context, key)?.is_none() {
        return Ok(());
    }
    let rules = context.instance.evictor.rules();
    if rules.is_lfu() {
        let why = "ERR An LFU maxmemory policy is selected, idle time not tracked.";
        return Err(format!("{why} {ADJUSTS}").into());
    }
    if !rules.evicts() {
        return Err(
            "ERR accesses are not recorded with maxmemory-policy noeviction, idle time not tracked."
                .into(),
        );
    }
    let idle = match context.session.access_of(key)? {
        Some(Access::Idle(idle)) => idle.as_secs(),
        _ => 0,
    };
    context.replies.integer(idle as i64);
    Ok(())
}

fn freq(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let key = &arguments[0];
    if exists(context, key)?.is_none() {
        return Ok(());
    }
    if !context.instance.evictor.rules().is_lfu() {
        let why = "ERR An LFU maxmemory policy is not selected, access frequency not tracked.";
        return Err(format!("{why} {ADJUSTS}").into());
    }
    let frequency = match context.session.access_of(key)? {
        Some(Access::Frequency(counter)) => counter,
        _ => Access::FREQUENCY_FIRST,
    };
    context.replies.integer(frequency.into());
    Ok(())
}

fn help(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    help::show(context.replies, &COMMAND);
    Ok(())
}
