//! RANDOMKEY.

use bpfdb::{Session, Status};

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "randomkey",
    summary: "Picks a key by chance",
    since: "1.0.0",
    group: Group::Generic,
    complexity: "O(1) unless most of the index is empty",
    arity: 1,
    flags: &[Flag::Readonly],
    categories: &[Category::Keyspace],
    tips: &["request_policy:all_shards", "nondeterministic_output"],
    differences: "Keys after a gap in the index are more probable than others. Refused in a transaction that writes (BEGIN, a MULTI with a command that writes), which could not keep others from adding keys meanwhile; in one that only reads it sees the snapshot.",
    misses: Misses::None,
    run,
    ..Command::BASE
};

/// How often chance may hit a key that is in another database, or in none.
const ATTEMPTS: u32 = 16;
/// Keys that a scan asks for.
const SCANNED: usize = 64;

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let key = pick(context.session)?;
    context.replies.bulk_or_null(key.as_deref());
    Ok(())
}

fn pick(session: &mut Session) -> Result<Option<Vec<u8>>, Status> {
    for _ in 0..ATTEMPTS {
        let Some(key) = session.random_key()? else {
            return Ok(None);
        };
        if let Some(key) = session.database().key_of(&key) {
            return Ok(Some(key.to_vec()));
        }
    }
    any_other(session)
}

/// There are few others, or none.
fn any_other(session: &mut Session) -> Result<Option<Vec<u8>>, Status> {
    let mut cursor = 0;
    loop {
        let (next, keys) = session.scan(cursor, SCANNED)?;
        let database = session.database();
        let found = keys.iter().find_map(|key| database.key_of(key));
        if found.is_some() || next == 0 {
            return Ok(found.map(<[u8]>::to_vec));
        }
        cursor = next;
    }
}
