//! Several operations in one system call.

use super::operation::{Operation, Place};
use super::{Entry, Session, WatchToken};
use crate::error::{Error, Result};
use crate::{Status, ValueType, abi};

/// Prepared requests: fill once, run many times (what a benchmark or a bulk
/// load does), or use [`Session::batch`].
#[derive(Debug, Default)]
pub struct Batch {
    places: Vec<Place>,
}

impl Batch {
    pub(super) fn with_capacity(operations: usize) -> Self {
        Self {
            places: Vec::with_capacity(operations),
        }
    }

    pub(super) fn push(&mut self, place: Place) {
        self.places.push(place);
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

impl Session {
    /// Executes `operations` in one system call, in order; the outcome of each,
    /// with the value that a GET found. `room` is the longest value, in bytes,
    /// that a GET may bring; a longer one gives `BAD_REQUEST`, and a large one (more
    /// than `BPFDB_VALUE_MAX`) always [`Status::FoundLarge`]: read it by
    /// [`Session::get`]. A SET of a large value is refused with `VALUE_TOO_LARGE`:
    /// use [`Session::set`].
    ///
    /// A BEGIN that is refused ends the batch, and so does a session that is busy for too
    /// long: what follows is not executed, and has the same status. Else the writes of a
    /// transaction would each be a commit of its own, or be missing in it. After any other
    /// Error the batch goes on: inside a transaction it has failed that, and COMMIT rolls
    /// it back.
    ///
    /// # Errors
    /// The operations do not fit the session's buffer.
    pub fn batch(
        &mut self,
        operations: &[Operation<'_>],
        room: usize,
    ) -> Result<Vec<Result<Option<Vec<u8>>, Status>>> {
        let batch = self.prepare(operations, room)?;
        self.run(&batch)?;
        Ok((0..batch.len()).map(|i| self.outcome(&batch, i)).collect())
    }

    /// Writes `operations` to the buffer without executing them. A later
    /// `prepare`, `batch` or operation overwrites them.
    pub fn prepare(&mut self, operations: &[Operation<'_>], room: usize) -> Result<Batch> {
        let mut batch = Batch {
            places: Vec::with_capacity(operations.len()),
        };
        let mut at = 0;

        self.stop_keeping()?;
        self.flush()?;
        if operations.len() > abi::BPFDB_BATCH_MAX as usize {
            return Err(Error::Invalid(format!(
                "a batch has at most {} operations",
                abi::BPFDB_BATCH_MAX
            )));
        }
        for operation in operations {
            let flags = match operation {
                Operation::Begin | Operation::BeginReadOnly => abi::BPFDB_OR_STOP,
                _ => 0,
            };
            let place = self.put(at, operation, operation.room(room), flags)?;
            if let Some(&last) = batch.places.last() {
                self.link(last, at as u32);
            }
            at = place.end();
            batch.places.push(place);
        }
        Ok(batch)
    }

    /// Executes a prepared batch: one system call. Returns how many of its
    /// operations were executed, the refused one included that [ended](Session::batch) it.
    pub fn run(&mut self, batch: &Batch) -> Result<usize> {
        if batch.is_empty() {
            return Ok(0);
        }
        let executed = self.submit()?;
        if let Some(&last) = batch.places[..executed].last() {
            let refusal = self.status(last);
            for &place in &batch.places[executed..] {
                self.set_status(place, refusal);
            }
        }
        Ok(executed)
    }

    /// Outcome of operation `i` of the batch that ran last; `FOUND_LARGE` as an Error.
    pub fn outcome(&self, batch: &Batch, i: usize) -> Result<Option<Vec<u8>>, Status> {
        let status = self.status(batch.places[i]);
        if status.is_error() || status == Status::FoundLarge {
            return Err(status);
        }
        let found = batch.places[i].reads && status == Status::Found;
        Ok(found.then(|| self.value_of(batch.places[i])))
    }

    /// The value that operation `i` of the batch that ran last found, where it is; `None`: it found none.
    ///
    /// # Errors
    /// Its Error; `FOUND_LARGE` as one.
    pub fn value_in(&self, batch: &Batch, i: usize) -> Result<Option<&[u8]>, Status> {
        let status = self.status(batch.places[i]);
        if status.is_error() || status == Status::FoundLarge {
            return Err(status);
        }
        let found = batch.places[i].reads && status == Status::Found;
        Ok(found.then(|| self.value_at(batch.places[i])))
    }

    /// What operation `i` of the batch that ran last found, with its expiry.
    pub fn entry_of(&self, batch: &Batch, i: usize) -> Result<Option<Entry>, Status> {
        let status = self.status(batch.places[i]);
        if status.is_error() || status == Status::FoundLarge {
            return Err(status);
        }
        let found = batch.places[i].reads && status == Status::Found;
        Ok(found.then(|| self.entry_at(batch.places[i])))
    }

    /// The type of the value that operation `i` of the batch that ran last found; a string, if it found
    /// none.
    pub fn type_of(&self, batch: &Batch, i: usize) -> ValueType {
        match self.status(batch.places[i]) {
            Status::Found | Status::FoundLarge if batch.places[i].reads => {
                self.type_at(batch.places[i])
            }
            _ => ValueType::STRING,
        }
    }

    /// The token of a [`Operation::Watch`], operation `i` of the batch that ran
    /// last.
    pub fn token_of(&self, batch: &Batch, i: usize) -> Result<WatchToken, Status> {
        match self.status(batch.places[i]) {
            Status::Ok => Ok(self.token_at(batch.places[i])),
            status => Err(status),
        }
    }

    /// Status of operation `i` of the batch that ran last.
    pub fn status_of(&self, batch: &Batch, i: usize) -> Status {
        self.status(batch.places[i])
    }
}
