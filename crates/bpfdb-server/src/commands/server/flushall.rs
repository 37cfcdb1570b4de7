//! FLUSHALL; FLUSHDB is the same, there is one database.

use bpfdb::{Operation, Session};

use super::super::arguments::{is, syntax_error};
use super::super::atomic::is_open;
use super::super::prelude::*;

/// Keys deleted at a time.
const STEP: usize = 512;

pub(crate) static COMMAND: Command = Command {
    name: "flushall",
    summary: "Deletes every key",
    since: "1.0.0",
    group: Group::Server,
    complexity: "O(keys in the database)",
    arity: -1,
    flags: &[Flag::Write],
    categories: &[Category::Keyspace, Category::Dangerous],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    differences: "Not one moment: deletes key by key, except in a transaction, which must hold all of them. ASYNC is as SYNC.",
    run,
    ..Command::BASE
};

pub(super) fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    match arguments {
        [] => {}
        [how] if is(how, "async") || is(how, "sync") => {}
        _ => return Err(syntax_error()),
    }
    flush(context.session)?;
    context.replies.ok();
    Ok(())
}

fn flush(session: &mut Session) -> Outcome {
    let in_transaction = is_open(session);
    let mut cursor = 0;
    loop {
        let (next, keys) = session.scan(cursor, STEP)?;
        if in_transaction {
            for key in &keys {
                session.delete(key)?;
            }
        } else {
            delete(session, &keys)?;
        }
        if next == 0 {
            return Ok(());
        }
        cursor = next;
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
