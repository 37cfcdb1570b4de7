//! WATCH; EXEC compares what it has noted.

use bpfdb::abi;

use super::super::atomic::is_open;
use super::super::prelude::*;
use super::multi_state::Watched;

/// EXEC locks what is watched, and compares all of it at once.
const WATCHED_MAX: usize = abi::BPFDB_LOCKS_NEAR as usize;

pub(crate) static COMMAND: Command = Command {
    name: "watch",
    summary: "Notes keys: the next EXEC is void if one of them is written before",
    since: "2.2.0",
    group: Group::Transactions,
    complexity: "O(keys)",
    arity: -2,
    arguments: "key:key...",
    flags: &[
        Flag::NoScript,
        Flag::Loading,
        Flag::Stale,
        Flag::Fast,
        Flag::AllowBusy,
    ],
    categories: &[Category::Transaction],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly]).last(-1)],
    differences: "Refused inside BEGIN. For an absent key, EXEC may reply nil although it was not written: with a probability of 1 in 65,536 for each other key that is deleted or expires meanwhile. SET of an absent key with a time that is over changes nothing, so EXEC goes on.",
    queued: false,
    misses: Misses::None,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, keys: &[Vec<u8>]) -> Outcome {
    if context.multi.queue.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    if is_open(context.session) {
        return Err("ERR WATCH inside BEGIN is not allowed; COMMIT or ROLLBACK first".into());
    }
    for key in keys {
        let watched = &context.multi.watched;
        let database = context.session.database();
        let is_same = |other: &Watched| other.database == database && other.key == *key;
        if watched.iter().any(is_same) {
            continue;
        }
        if watched.len() == WATCHED_MAX {
            return Err(format!("ERR more than {WATCHED_MAX} keys are watched").into());
        }
        let token = context.session.watch(key)?;
        context.multi.watched.push(Watched {
            database,
            key: key.clone(),
            token,
            swaps: context.instance.databases.swaps(),
        });
    }
    context.replies.ok();
    Ok(())
}
