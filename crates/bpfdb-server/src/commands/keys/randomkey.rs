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
    differences: "Where there are more than 16 keys (or, in a database with few keys beside others with many, 65,536 in all), keys after a gap in the index are more probable than others. Refused in a transaction that writes (BEGIN, a MULTI with a command that writes), which could not keep others from adding keys meanwhile; in one that only reads it sees the snapshot.",
    misses: Misses::None,
    run,
    ..Command::BASE
};

/// How often chance may hit a key that is in another database, or in none.
const ATTEMPTS: u32 = 16;
/// Keys that a scan asks for.
const SCANNED: usize = 256;
/// Keys of all databases among which the ones of this are equally probable. The search ends
/// there if it has found one.
const SEARCHED: usize = 1 << 16;

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
        searched: 0,
        matches: 0,
        chosen: None,
    });
    Ok(())
}

/// Looks for a key where there are few among many others: at most once around the index, from
/// anywhere.
#[derive(Debug)]
struct Search {
    /// That of the first step.
    database: Option<Database>,
    start: u64,
    cursor: u64,
    /// The end of the index is behind it.
    has_turned: bool,
    /// Keys that were looked at.
    searched: usize,
    /// Those of them that are in the database.
    matches: usize,
    /// One of the matches, by chance.
    chosen: Option<Vec<u8>>,
}

impl Job for Search {
    fn step(&mut self, context: &mut Context<'_>, _: &[Vec<u8>]) -> Result<Progress, Failure> {
        let database = *(self.database).get_or_insert_with(|| context.session.database());
        let slice = TimeSlice::begin();
        while !self.is_over() {
            if slice.is_over() {
                return Ok(Progress::More);
            }
            self.look(context.session, database)?;
        }
        context.replies.bulk_or_null(self.chosen.as_deref());
        Ok(Progress::Done)
    }
}

impl Search {
    fn is_over(&self) -> bool {
        let has_found = self.chosen.is_some() && self.searched >= SEARCHED;
        has_found || (self.has_turned && self.cursor >= self.start)
    }

    /// Looks at the next keys. The n-th match takes the place of the chosen one with a
    /// probability of 1 / n, so that in the end each match is equally probable.
    fn look(&mut self, session: &mut Session, database: Database) -> Result<(), Status> {
        let next = session.scan_each(self.cursor, SCANNED, |key| {
            self.searched += 1;
            let Some(key) = database.key_of(key) else {
                return;
            };
            self.matches += 1;
            if (Session::random_cursor() as usize).is_multiple_of(self.matches) {
                self.chosen = Some(key.to_vec());
            }
        })?;
        self.cursor = next;
        if next == 0 {
            // Once around is enough, also from the start of the index.
            self.start = if self.has_turned { 0 } else { self.start };
            self.has_turned = true;
        }
        Ok(())
    }
}
