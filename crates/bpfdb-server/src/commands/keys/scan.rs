//! SCAN.

use super::super::arguments::is;
use super::super::prelude::*;
use super::super::scanning::{Accepts, Options, cursor};
use crate::protocol::reply::Replies;

/// Keys at a time, whatever COUNT says: others wait meanwhile.
const COUNT_MAX: usize = 4096;
/// The same with TYPE, for which each value is read.
const COUNT_MAX_TYPED: usize = 256;

pub(crate) static COMMAND: Command = Command {
    name: "scan",
    summary: "Lists keys in steps; a cursor leads from one to the next",
    since: "2.8.0",
    group: Group::Generic,
    complexity: "O(count) for a step, O(keys in the database) for all",
    arity: -2,
    arguments: "cursor:integer, [MATCH pattern:pattern], [COUNT count:integer], [TYPE type@6.0.0]",
    flags: &[Flag::Readonly],
    categories: &[Category::Keyspace],
    tips: &["nondeterministic_output", "request_policy:special"],
    differences: "Cursors are not those of Redis. In a transaction that writes (BEGIN, a MULTI with a command that writes, a script that writes) others get CONFLICT if they make a key of the database come or go, be it by giving it a time, until it ends; in one that only reads it sees the snapshot.",
    lists_keys: true,
    run,
    ..Command::BASE
};

/// With a bound for what one call does, whatever COUNT says.
fn parse(words: &[Vec<u8>]) -> Result<Options<'_>, Failure> {
    let mut options = Options::parse(words, Accepts::Type)?;
    let most = match options.value_type {
        Some(_) => COUNT_MAX_TYPED,
        None => COUNT_MAX,
    };
    options.count = options.count.min(most);
    Ok(options)
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let cursor = cursor(&arguments[0])?;
    let options = parse(&arguments[1..])?;
    let mut keys = Replies::new(context.replies.protocol());
    let mut count = 0;
    let database = context.session.database();
    let mut of_any_type: Vec<Vec<u8>> = Vec::new();
    let next = (context.session).scan_of(database.into(), cursor, options.count, |key| {
        match (
            database.key_of(key).filter(|key| options.wants(key)),
            options.value_type,
        ) {
            (None, _) => {}
            (Some(key), Some(_)) => of_any_type.push(key.to_vec()),
            (Some(key), None) => {
                keys.bulk(key);
                count += 1;
            }
        }
    })?;
    // A call for each key, and only now: a scan and a read use the same buffer.
    if let Some(name) = options.value_type {
        for key in of_any_type {
            let head = context.session.head(&key)?;
            if head.is_some_and(|head| is(name, head.value_type.name())) {
                keys.bulk(&key);
                count += 1;
            }
        }
    }
    context.replies.array(2);
    context.replies.bulk(next.to_string());
    context.replies.array(count);
    context.replies.absorb(&mut keys);
    Ok(())
}
