//! RANDOMKEY.

use bpfdb::{Database, Session, Status};

use super::super::prelude::*;
use super::super::time_slice::TimeSlice;

pub(crate) static COMMAND: Command = Command {
    name: "randomkey",
    summary: "Picks a key by chance",
    since: "1.0.0",
    group: Group::Generic,
    complexity: "O(1) unless most of the index is empty, or of other databases and of pages",
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
const SCANNED: usize = 256;

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let session = &mut *context.session;
    for _ in 0..ATTEMPTS {
        let key = session.random_key()?;
        let found = key.as_deref().map(|key| session.database().key_of(key));
        // There is none at all, or it is one of this database.
        if found.is_none_or(|found| found.is_some()) {
            context.replies.bulk_or_null(found.flatten());
            return Ok(());
        }
    }
    let start = Session::random_cursor();
    context.go_on_with(Search {
        database: None,
        start,
        cursor: start,
        has_turned: false,
    });
    Ok(())
}

/// Looks for a key where there are few among many others: once around the index, from anywhere.
#[derive(Debug)]
struct Search {
    /// That of the first step.
    database: Option<Database>,
    start: u64,
    cursor: u64,
    /// The end of the index is behind it.
    has_turned: bool,
}

impl Job for Search {
    fn step(&mut self, context: &mut Context<'_>, _: &[Vec<u8>]) -> Result<Progress, Failure> {
        let database = *(self.database).get_or_insert_with(|| context.session.database());
        let slice = TimeSlice::begin();
        while !self.is_over() {
            if slice.is_over() {
                return Ok(Progress::More);
            }
            if let Some(key) = self.look(context.session, database)? {
                context.replies.bulk(key);
                return Ok(Progress::Done);
            }
        }
        context.replies.null();
        Ok(Progress::Done)
    }
}

impl Search {
    fn is_over(&self) -> bool {
        self.has_turned && self.cursor >= self.start
    }

    /// One of the next keys, by chance.
    fn look(
        &mut self,
        session: &mut Session,
        database: Database,
    ) -> Result<Option<Vec<u8>>, Status> {
        let mut found = Vec::new();
        let next = session.scan_each(self.cursor, SCANNED, |key| {
            found.extend(database.key_of(key).map(<[u8]>::to_vec));
        })?;
        self.cursor = next;
        if next == 0 {
            // Once around is enough, also from the start of the index.
            self.start = if self.has_turned { 0 } else { self.start };
            self.has_turned = true;
        }
        if found.is_empty() {
            return Ok(None);
        }
        let any = Session::random_cursor() as usize % found.len();
        Ok(Some(found.swap_remove(any)))
    }
}
