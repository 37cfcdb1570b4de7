//! KEYS.

use std::collections::HashSet;

use super::super::REPLY_MAX;
use super::super::prelude::*;
use crate::glob;

/// Keys taken from the index at a time.
const STEP: usize = 4096;

pub(crate) static COMMAND: Command = Command {
    name: "keys",
    summary: "Lists the keys that match a pattern",
    since: "1.0.0",
    group: Group::Generic,
    complexity: "O(keys in the database)",
    arity: 2,
    flags: &[Flag::Readonly],
    categories: &[Category::Keyspace, Category::Dangerous],
    tips: &["request_policy:all_shards", "nondeterministic_output_order"],
    differences: "Not one moment: keys that come or go meanwhile may be missing or not. The reply has at most 64 MiB.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let pattern = &arguments[0];
    // While the index is reorganised a key may be met twice.
    let mut found = HashSet::new();
    let (mut cursor, mut bytes) = (0, 0);
    loop {
        let (next, keys) = context.session.scan(cursor, STEP)?;
        for key in keys {
            if glob::matches(pattern, &key) {
                bytes += key.len() + b"$512\r\n\r\n".len();
                found.insert(key);
            }
        }
        if bytes > REPLY_MAX {
            return Err("ERR reply is longer than 64 MiB; use SCAN".into());
        }
        if next == 0 {
            break;
        }
        cursor = next;
    }
    context.replies.array(found.len());
    for key in found {
        context.replies.bulk(key);
    }
    Ok(())
}
