//! RANDOMKEY.

use bpfdb::{Database, Session, Status};

use super::super::prelude::*;
use super::super::time_slice::TimeSlice;

pub(crate) static COMMAND: Command = Command {
    name: "randomkey",
    summary: "Picks a key at random",
    since: "1.0.0",
    group: Group::Generic,
    complexity: "O(1) unless most of the index is empty, or of other databases and of pages",
    arity: 1,
    flags: &[Flag::Readonly],
    categories: &[Category::Keyspace],
    tips: &["request_policy:all_shards", "nondeterministic_output"],
    differences: "Where there are more than 16 keys, those after a gap in the index are more probable than others. In a transaction that writes (BEGIN, a MULTI with a command that writes, a script that writes) others get CONFLICT if they make a key of the database come or go, be it by giving it a time, until it ends; in one that only reads it sees the snapshot.",
    misses: Misses::None,
    lists_keys: true,
    run,
    ..Command::BASE
};

/// Keys among which one is picked: if there are no more, each is equally probable.
const CANDIDATES: usize = 16;

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let start = Session::random_cursor();
    let mut search = Search {
        database: context.session.database(),
        start,
        cursor: start,
        has_turned: false,
        candidates: Vec::with_capacity(CANDIDATES),
    };
    search.look(context.session)?;
    if search.is_over() {
        context.replies.bulk_or_null(search.picked());
        return Ok(());
    }
    context.go_on_with(search);
    Ok(())
}

/// Looks for keys behind a place by chance: at most once around the index.
#[derive(Debug)]
struct Search {
    database: Database,
    start: u64,
    cursor: u64,
    /// The end of the index is behind it.
    has_turned: bool,
    candidates: Vec<Vec<u8>>,
}

impl Job for Search {
    fn step(&mut self, context: &mut Context<'_>, _: &[Vec<u8>]) -> Result<Progress, Failure> {
        let slice = TimeSlice::begin();
        while !self.is_over() {
            if slice.is_over() {
                return Ok(Progress::More);
            }
            self.look(context.session)?;
        }
        context.replies.bulk_or_null(self.picked());
        Ok(Progress::Done)
    }
}

impl Search {
    fn is_over(&self) -> bool {
        let has_enough = self.candidates.len() >= CANDIDATES;
        has_enough || (self.has_turned && self.cursor >= self.start)
    }

    fn look(&mut self, session: &mut Session) -> Result<(), Status> {
        let database = self.database;
        let (candidates, has_turned) = (&mut self.candidates, self.has_turned);
        let next = session.scan_of(database.into(), self.cursor, CANDIDATES, |key| {
            let Some(key) = database.key_of(key) else {
                return;
            };
            // The last step reaches beyond the start, to keys that are there already.
            if !has_turned || !candidates.iter().any(|known| known == key) {
                candidates.push(key.to_vec());
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

    fn picked(&self) -> Option<&[u8]> {
        let any = Session::random_cursor() as usize % self.candidates.len().max(1);
        self.candidates.get(any).map(Vec::as_slice)
    }
}
