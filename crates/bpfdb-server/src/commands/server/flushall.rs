//! FLUSHALL, and FLUSHDB for one database. Functions stay, as in Redis.

use bpfdb::{Database, Keyspaces, Operation, Session};

use super::super::arguments::{is, syntax_error};
use super::super::atomic;
use super::super::prelude::*;
use crate::commands::time_slice::TimeSlice;

/// Keys deleted at a time.
const STEP: usize = 512;

pub(crate) static COMMAND: Command = Command {
    name: "flushall",
    summary: "Deletes every key of all databases",
    since: "1.0.0",
    group: Group::Server,
    complexity: "O(keys in the database)",
    arity: -1,
    arguments: "[async(ASYNC@4.0.0|SYNC@6.2.0)]",
    flags: &[Flag::Write],
    categories: &[Category::Keyspace, Category::Dangerous],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    differences: "Deletes key by key, and others see it half done: so does a MULTI of nothing but FLUSHALL and FLUSHDB. Any other transaction deletes all keys at once, if they are not more than the locks of a transaction. ASYNC is as SYNC.",
    events: Events::None,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    flush(context, arguments, None)
}

/// Deletes the keys of this database, or of all.
pub(super) fn flush(
    context: &mut Context<'_>,
    arguments: &[Vec<u8>],
    database: Option<Database>,
) -> Outcome {
    match arguments {
        [] => {}
        [how] if is(how, "async") || is(how, "sync") => {}
        _ => return Err(syntax_error()),
    }
    context.go_on_with(Flush {
        database,
        cursor: 0,
        records: None,
    });
    Ok(())
}

#[derive(Debug)]
struct Flush {
    /// `None`: all of them.
    database: Option<Database>,
    cursor: u64,
    /// All keys are deleted; records of expired ones may be left from this page on.
    records: Option<u64>,
}

impl Job for Flush {
    fn step(&mut self, context: &mut Context<'_>, _: &[Vec<u8>]) -> Result<Progress, Failure> {
        if let Some(page) = self.records {
            return self.clear_away(context, page);
        }
        let session = &mut *context.session;
        let keyspaces = match self.database {
            Some(database) => database.into(),
            None => Keyspaces::of_databases(),
        };
        let mut keys = Vec::new();
        let next = session.scan_of(keyspaces, self.cursor, STEP, |stored| {
            // An embedded program may have reserved keys that are of no database.
            if Database::split(stored).is_some() {
                keys.push(stored.to_vec());
            }
        })?;
        // As stored keys, of which those of this database are as they are.
        let own = session.database();
        session.set_database(Database::default());
        let deleted = delete(session, &keys);
        session.set_database(own);
        deleted?;
        self.cursor = next;
        if next == 0 && self.database.is_none() {
            context.instance.page_cache.forget_all();
        }
        if next == 0 && atomic::is_open(context.session) {
            context.replies.ok();
            return Ok(Progress::Done);
        }
        if next == 0 {
            self.records = Some(0);
        }
        Ok(Progress::More)
    }

    fn keeps_steps(&self) -> bool {
        true
    }
}

impl Flush {
    /// DBSIZE counts records, also those that no key is seen in.
    fn clear_away(
        &mut self,
        context: &mut Context<'_>,
        mut page: u64,
    ) -> Result<Progress, Failure> {
        let slice = TimeSlice::begin();
        loop {
            page = context.engine.clear_away(page)?;
            if page == 0 {
                context.instance.expiring.forget_keys_of(self.database);
                context.replies.ok();
                return Ok(Progress::Done);
            }
            if slice.is_over() {
                self.records = Some(page);
                return Ok(Progress::More);
            }
        }
    }
}

/// Each key by itself, many in one system call.
fn delete(session: &mut Session, keys: &[Vec<u8>]) -> Outcome {
    for keys in keys.chunks(STEP) {
        let operations: Vec<_> = keys.iter().map(|key| Operation::Delete(key)).collect();
        for outcome in session.batch(&operations, 0)? {
            outcome?;
        }
    }
    Ok(())
}
