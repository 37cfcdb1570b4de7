//! KEYS.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use bpfdb::Database;

use super::super::prelude::*;
use crate::protocol::reply::Replies;
use crate::settings::limits::MESSAGE_MAX;
use crate::values::glob;

/// Keys taken from the index at a time.
const STEP: usize = 4096;

pub(crate) static COMMAND: Command = Command {
    name: "keys",
    summary: "Lists the keys that match a pattern",
    since: "1.0.0",
    group: Group::Generic,
    complexity: "O(keys in the database)",
    arity: 2,
    arguments: "pattern:pattern",
    flags: &[Flag::Readonly],
    categories: &[Category::Keyspace, Category::Dangerous],
    tips: &["request_policy:all_shards", "nondeterministic_output_order"],
    differences: "Without a transaction it is no snapshot: keys that come or go meanwhile may be in the reply or not. In a transaction that writes (BEGIN, a MULTI with a command that writes, a script that writes) others get CONFLICT if they make a key of the database come or go, be it by giving it a time, until it ends; in one that only reads it sees the snapshot. The reply has at most 640 MiB.",
    lists_keys: true,
    run,
    ..Command::BASE
};

/// In a set of many keys some steps would take long: when it has to grow.
const SETS: usize = 256;

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    context.go_on_with(Listing::default());
    Ok(())
}

#[derive(Debug)]
struct Listing {
    cursor: u64,
    /// That of the first step.
    database: Option<Database>,
    /// While the index is reorganised a key may be met twice.
    found: Vec<HashSet<Vec<u8>>>,
    hasher: RandomState,
    bytes: usize,
    /// When all were found. The client has it whole or not at all, also if its log fails meanwhile.
    reply: Option<Replies>,
}

impl Default for Listing {
    fn default() -> Self {
        Self {
            cursor: 0,
            database: None,
            found: vec![HashSet::new(); SETS],
            hasher: RandomState::new(),
            bytes: 0,
            reply: None,
        }
    }
}

impl Job for Listing {
    fn step(
        &mut self,
        context: &mut Context<'_>,
        arguments: &[Vec<u8>],
    ) -> Result<Progress, Failure> {
        if self.reply.is_some() {
            return Ok(self.reply(context));
        }
        let database = *(self.database).get_or_insert_with(|| context.session.database());
        let next = (context.session).scan_of(database.into(), self.cursor, STEP, |key| {
            if let Some(key) = database.key_of(key)
                && glob::matches(&arguments[0], key)
            {
                self.add(key);
            }
        })?;
        if self.bytes > MESSAGE_MAX {
            return Err("ERR reply is longer than 640 MiB; use SCAN".into());
        }
        self.cursor = next;
        if next == 0 {
            let mut reply = Replies::new(context.replies.protocol());
            reply.array(self.found.iter().map(HashSet::len).sum());
            self.reply = Some(reply);
        }
        Ok(Progress::More)
    }

    fn memory(&self) -> usize {
        self.bytes
    }
}

impl Listing {
    fn add(&mut self, key: &[u8]) {
        let set = self.hasher.hash_one(key) as usize % SETS;
        let len = key.len() + b"$512\r\n\r\n".len();
        if self.found[set].insert(key.to_vec()) {
            self.bytes += len;
        }
    }

    /// Some of what was found; at last all of it to the client.
    fn reply(&mut self, context: &mut Context<'_>) -> Progress {
        let reply = self.reply.get_or_insert_default();
        let mut replied = 0;
        while let Some(set) = self.found.pop() {
            replied += set.len();
            for key in set {
                reply.bulk(key);
            }
            if replied >= STEP {
                return Progress::More;
            }
        }
        context.replies.absorb(reply);
        Progress::Done
    }
}
