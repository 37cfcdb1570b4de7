//! Reads of one moment, in one call: BEGIN read-only, the reads, COMMIT.

use super::operation::Operation;
use super::{Batch, HEADER, KEY_PREFIX, ROOM, Session};
use crate::{Status, abi};

impl Session {
    /// Executes `reads` in a read-only transaction of their own, in one call: each is [`Operation::Get`],
    /// [`Operation::GetAny`] or [`Operation::Watch`]. The first of them for which the session's buffer has
    /// room are executed; [`Batch::len`] says how many. `room` is the longest value, in bytes, that a GET may bring;
    /// a longer one gives `BAD_REQUEST`, and a large or a cold one [`Status::FoundLarge`]. What was found is
    /// told by [`Session::value_in`], [`Session::entry_of`], [`Session::type_of`] and [`Session::token_of`] until
    /// the next operation, and the moment by [`Session::snapshot`]. Not in a transaction.
    ///
    /// # Errors
    /// Those of the transaction. Each read has a status of its own.
    pub fn read_at_one_moment(
        &mut self,
        reads: &[Operation<'_>],
        room: usize,
    ) -> Result<Batch, Status> {
        self.catch_up()?;
        debug_assert!(!self.deferred.is_open() && !self.in_transaction());
        let outcome = self.try_moment(reads, room);
        // The COMMIT was not executed: a read has found the session busy.
        if outcome.is_err() {
            self.end_for_certain()?;
        }
        outcome
    }

    fn try_moment(&mut self, reads: &[Operation<'_>], room: usize) -> Result<Batch, Status> {
        self.flush()?;
        let mut last = None;
        let begin = self.put_behind(&mut last, &Operation::BeginReadOnly, 0)?;
        let mut batch = Batch::with_capacity(reads.len());
        for read in reads.iter().take(abi::BPFDB_BATCH_MAX as usize - 2) {
            let end = last.map_or(0, |place| place.end());
            let len = HEADER + KEY_PREFIX + read.key().len() + 8 + read.room(room);
            if end + len + HEADER > ROOM {
                break;
            }
            batch.push(self.put_behind(&mut last, read, read.room(room))?);
        }
        let commit = self.put_behind(&mut last, &Operation::Commit, 0)?;
        self.submit().map_err(|_| Status::BadRequest)?;
        for place in [begin, commit] {
            let status = self.status(place);
            if status.is_error() {
                return Err(status);
            }
        }
        Ok(batch)
    }
}
