//! LOCKS: the clients that hold a lock on a key.

use bpfdb::{LockHolder, LockMode, LockSearch};

use super::super::conflict;
use super::super::prelude::*;
use super::super::time_slice::TimeSlice;

pub(crate) static COMMAND: Command = Command {
    name: "locks",
    summary: "The transactions that hold a lock on a key, from which a CONFLICT on it comes",
    since: "0.1.0",
    group: Group::Transactions,
    complexity: "O(sessions + locks)",
    arity: 2,
    arguments: "key:key",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Transaction],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly])],
    differences: "Redis has no such command; [conflicts.md](conflicts.md) explains it. The reply has a map for each session that has locked the key: client, addr and name as in CLIENT LIST, or null; session, as `bpfdb locks` has it; idle, in seconds; mode, read or write. Transactions that begin or end at that moment may be missed, or named when they are over.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let search = context.session.search_locks(&arguments[0])?;
    context.go_on_with(Locks {
        search,
        found: Vec::new(),
    });
    Ok(())
}

/// The sessions that were looked at, and those that are left.
#[derive(Debug)]
struct Locks {
    search: LockSearch,
    found: Vec<LockHolder>,
}

impl Job for Locks {
    fn step(&mut self, context: &mut Context<'_>, _: &[Vec<u8>]) -> Result<Progress, Failure> {
        let slice = TimeSlice::begin();
        while let Some(looked_at) = context.session.next_lock_holder(&mut self.search)? {
            self.found.extend(looked_at);
            if slice.is_over() {
                return Ok(Progress::More);
            }
        }
        context.replies.array(self.found.len());
        for holder in std::mem::take(&mut self.found) {
            reply(context, holder);
        }
        Ok(Progress::Done)
    }

    fn is_short(&self) -> bool {
        self.search.is_short()
    }
}

/// What is null is not known: the session belongs to no client of this server.
fn reply(context: &mut Context<'_>, holder: LockHolder) {
    let client = conflict::client(context, holder.session);
    let id = client.map(|info| info.id);
    let addr = client.map(|info| info.peer.to_string().into_bytes());
    let name = client.map(|info| info.name.clone());
    let replies = &mut *context.replies;
    replies.map(6);
    replies.bulk("client");
    match id {
        Some(id) => replies.integer(id as i64),
        None => replies.null(),
    }
    replies.bulk("addr");
    replies.bulk_or_null(addr.as_deref());
    replies.bulk("name");
    replies.bulk_or_null(name.as_deref());
    replies.bulk("session");
    replies.integer(holder.session.into());
    replies.bulk("idle");
    replies.integer(holder.idle.as_secs() as i64);
    replies.bulk("mode");
    replies.bulk(match holder.mode {
        LockMode::Shared => "read",
        LockMode::Exclusive => "write",
    });
}
