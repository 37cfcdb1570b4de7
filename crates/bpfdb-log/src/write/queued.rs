//! Groups that are under way together: rule 8 of `writer.rs`.
//!
//! ```text
//!                       ┌────────────── the first of them has ended well ──► durable
//! submit ──► under way ─┤
//!                       ├── it has found no space: it and all behind it are none ──► Full
//!                       └── any of them has failed: none of them counts ──► Failed
//! ```
//!
//! Each is one batch, with the checksum of the one before it as its seed, although that one may
//! never be there. So a reader needs no more than before: the log ends with the first batch that
//! is not valid. What each calls durable are the batches before the first that had not
//! ended when it was written.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::Arc;

use crate::disk::buffer::AlignedBuffer;
use crate::disk::queue::{CompletedWrite, QueuedWrite, WriteQueue};
use crate::disk::{Disk, DiskFile};
use crate::error::{LogError, Result, StepError, heals, step};
use crate::format::batch;
use crate::write::writer::{Batch, Durable, LogWriter, Tail, UnderWay};

impl<D: Disk> LogWriter<D> {
    /// The same log, to whose groups this queue may be [given](Self::submit). None is under way.
    #[must_use]
    pub fn with_queue(self, queue: Box<dyn WriteQueue<D::File>>) -> Self {
        let queue = Some(queue);
        Self { queue, ..self }
    }

    /// Begins to write a group, and does not wait for it: the sequence number of its batch, which
    /// counts when [`complete`](Self::complete) says so of it or of a later one. `None`: nothing was
    /// done, because it takes more than one batch, or one in the next segment, because there is no
    /// queue, or because the segment is not [direct](DiskFile::is_direct). Then it is to be
    /// [appended](Self::append), when no other is under way.
    ///
    /// # Errors
    /// [`crate::LogError::Refused`]: not even tried. [`crate::LogError::Failed`]: this log is over.
    pub fn submit(&mut self, group: Batch<'_>) -> Result<Option<u64>> {
        self.usable()?;
        let takes_several = self.queue.is_some() && self.current.file.is_direct();
        if !takes_several || self.control_is_late || !self.has_room(&group) {
            return Ok(None);
        }
        let plan = self.plan(&group)?;
        let [chunk] = &plan.chunks[..] else {
            return Ok(None);
        };
        let before = self.tail;
        let checksum = self.encode(&group, &plan, chunk, before);
        self.tail = Tail {
            offset: before.offset + chunk.size,
            sequence: before.sequence + 1,
            checksum,
        };
        let positions = group.positions.to_vec();
        self.under_way.push_back(UnderWay {
            sequence: self.tail.sequence,
            epoch: group.epoch,
            before,
            floor_before: self.floor,
            positions_before: mem::replace(&mut self.positions, positions),
            result: None,
        });
        self.floor = self.floor.max(group.epoch);
        self.has_remains = true;
        let next = self.buffers.pop();
        let next = next.unwrap_or_else(|| AlignedBuffer::zeroed(0));
        let write = QueuedWrite {
            id: self.tail.sequence,
            file: Arc::clone(&self.current.file),
            offset: before.offset,
            bytes: mem::replace(&mut self.buffer, next),
        };
        if let Some(queue) = &mut self.queue {
            queue.submit(write);
        }
        Ok(Some(self.tail.sequence))
    }

    /// Takes note of the batches that have ended: what is durable, if it is more than before. If it
    /// `waits`, it returns when more is durable or none is under way.
    ///
    /// # Errors
    /// [`crate::LogError::Full`]: no batch is under way any more, and of those that were none is in the
    /// log; the caller appends their records again, alone or with more.
    /// [`crate::LogError::Failed`]: this log is over, and what ended beside the failure does not count.
    /// Writes may still be under way, until this is dropped.
    pub fn complete(&mut self, waits: bool) -> Result<Option<Durable>> {
        self.usable()?;
        self.collect(false);
        loop {
            if let Some(failure) = self.take_failure() {
                return Err(self.end_before_under_way(self.cannot_write(failure)));
            }
            let must_wait = self.must_wait();
            let Some(first) = self.under_way.front_mut() else {
                return Ok(None);
            };
            match first.result.take_if(|_| !must_wait) {
                Some(Ok(())) => return self.count_ended().map(Some),
                Some(Err(error)) => {
                    return Err(self.end_before_under_way(self.cannot_write(error)));
                }
                None if waits => self.collect(true),
                None => return Ok(None),
            }
        }
    }

    /// Whether the first batch cannot count before all others have ended. A file that was direct when
    /// they were submitted has gone over to the page cache: the error of one may be reported to another.
    fn must_wait(&self) -> bool {
        let mut batches = self.under_way.iter();
        !self.current.file.is_direct() && batches.any(|batch| batch.result.is_none())
    }

    /// What came of the first batch whose write has failed for another reason than lack of space.
    fn take_failure(&mut self) -> Option<io::Error> {
        self.under_way.iter_mut().find_map(|batch| {
            let failed = batch.result.take_if(|result| is_failure(result));
            failed.and_then(io::Result::err)
        })
    }

    fn cannot_write(&self, error: io::Error) -> StepError {
        step("write", self.current.name())(error)
    }

    /// Whether batches were submitted that do not count yet.
    pub fn is_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Whether a group is a batch in the current segment.
    fn has_room(&self, group: &Batch<'_>) -> bool {
        let size = batch::size(group.positions.len(), group.records.len() as u64);
        let options = &self.options;
        size <= options.batch_size && self.tail.offset + size <= options.segment_size
    }

    /// Notes which writes have ended; `waits` for one at least.
    fn collect(&mut self, waits: bool) {
        let Some(queue) = &mut self.queue else {
            return;
        };
        let mut waits = waits;
        while let Some(ended) = queue.completed(waits) {
            waits = false;
            note_end(&mut self.under_way, &mut self.buffers, ended);
        }
        // Nothing is under way in the queue, whatever it was given.
        let mut batches = self.under_way.iter_mut();
        if waits && let Some(lost) = batches.find(|batch| batch.result.is_none()) {
            lost.result = Some(Err(io::Error::other("the write was lost")));
        }
    }

    /// The first batch that is under way has ended well, and perhaps some behind it.
    fn count_ended(&mut self) -> Result<Durable> {
        if let Err(error) = self.find_names() {
            return Err(self.end_before_under_way(error));
        }
        let mut last = self.under_way.pop_front();
        while let Some(batch) = &last {
            self.durable = Durable {
                segment: self.segment(),
                sequence: batch.sequence,
                epoch: batch.epoch,
            };
            let next = self.under_way.front();
            let has_ended = next.is_some_and(|next| matches!(next.result, Some(Ok(()))));
            last = match has_ended {
                true => self.under_way.pop_front(),
                false => None,
            };
        }
        self.is_unconfirmed = true;
        self.has_remains = !self.under_way.is_empty();
        Ok(self.durable)
    }

    /// Ends the log before the first batch that is under way, because of this error, or of a worse one
    /// of another batch.
    fn end_before_under_way(&mut self, error: StepError) -> LogError {
        // All writes are waited for, because others follow in the same places. After a failure none
        // follow, and the queue waits when it is dropped.
        let worse = match error.heals {
            true => self.wait_for_all(),
            false => None,
        };
        let error = worse.map_or(error, |failure| self.cannot_write(failure));
        if let Some(first) = self.under_way.pop_front() {
            self.tail = first.before;
            self.floor = first.floor_before;
            self.positions = first.positions_before;
        }
        self.under_way.clear();
        self.stop(error)
    }

    /// No write is under way any more. Returns what came of the first batch whose write has failed for
    /// another reason than lack of space.
    fn wait_for_all(&mut self) -> Option<io::Error> {
        while let Some(ended) = self.queue.as_mut().and_then(|queue| queue.completed(true)) {
            note_end(&mut self.under_way, &mut self.buffers, ended);
        }
        self.take_failure()
    }
}

/// A write has ended: what came of it, and its memory for the next one.
fn note_end(
    under_way: &mut VecDeque<UnderWay>,
    buffers: &mut Vec<AlignedBuffer>,
    ended: CompletedWrite,
) {
    let mut batches = under_way.iter_mut();
    if let Some(batch) = batches.find(|batch| batch.sequence == ended.id) {
        batch.result = Some(ended.result);
    }
    buffers.push(ended.bytes);
}

fn is_failure(result: &io::Result<()>) -> bool {
    result.as_ref().is_err_and(|error| !heals(error))
}
