//! MULTI … EXEC of nothing but FLUSHALL and FLUSHDB.
//!
//! FLUSHALL by itself deletes key by key, outside of a transaction, however many there are: one that
//! holds the locks of all keys may be too large. A block of nothing else promises no more than its
//! commands do. With anything else beside it, or with keys watched, FLUSHALL is a part of the
//! block's transaction.

use super::super::invoke::count;
use super::super::prelude::*;
use super::super::time_slice::TimeSlice;
use super::queue::Queue;
use std::time::{Duration, Instant};

use crate::protocol::reply::Replies;

/// The commands of such a block, on their way.
#[derive(Debug)]
pub(super) struct Flushes {
    queue: Queue,
    next: usize,
    /// What the next command has left to be done, if it has begun.
    job: Option<Box<dyn Job>>,
    /// Time that it has taken.
    spent: Duration,
    replies: Replies,
}

impl Flushes {
    /// The commands of `queue` with the array that their replies go to; or `queue`, if it
    /// is not such a block.
    pub(super) fn of(queue: Queue, mut replies: Replies) -> Result<Self, Queue> {
        let flushes = |name| matches!(name, "flushall" | "flushdb");
        let mut commands = queue.commands.iter();
        if queue.len() == 0 || !commands.all(|queued| flushes(queued.command.name)) {
            return Err(queue);
        }
        replies.array(queue.len());
        Ok(Self {
            queue,
            next: 0,
            job: None,
            spent: Duration::ZERO,
            replies,
        })
    }

    /// One step of the next command; true if that was its last.
    fn advance(&mut self, context: &mut Context<'_>) -> Result<bool, Failure> {
        let (queued, begun) = (&self.queue.commands[self.next], Instant::now());
        context.connection.tells_of_all |= queued.command.tells_of_all();
        let mut inner = context.with_replies(&mut self.replies);
        let progress = match &mut self.job {
            Some(job) => job.step(&mut inner, queued.arguments())?,
            None => {
                (queued.command.run)(&mut inner, queued.arguments())?;
                self.job = inner.job.take();
                Progress::More
            }
        };
        self.spent += begun.elapsed();
        Ok(progress == Progress::Done)
    }

    /// A command has come to its end.
    fn conclude(&mut self, context: &mut Context<'_>, error: Option<Vec<u8>>) {
        let command = self.queue.commands[self.next].command;
        count(
            context,
            command,
            std::mem::take(&mut self.spent),
            error.is_some(),
        );
        if let Some(text) = error {
            context.instance.count_error(&text);
            self.replies.error(text);
        }
        self.job = None;
        self.next += 1;
    }
}

impl Job for Flushes {
    /// After an Error of the engine the step may be made again.
    fn step(&mut self, context: &mut Context<'_>, _: &[Vec<u8>]) -> Result<Progress, Failure> {
        let slice = TimeSlice::begin();
        let mut has_advanced = false;
        while self.next < self.queue.len() {
            if slice.is_over() {
                return Ok(Progress::More);
            }
            match self.advance(context) {
                Ok(true) => self.conclude(context, None),
                Ok(false) => {}
                Err(Failure::Text(text)) => self.conclude(context, Some(text)),
                // The next step meets it again, with tries of its own.
                Err(_) if has_advanced => return Ok(Progress::More),
                Err(failure) => return Err(failure),
            }
            has_advanced = true;
        }
        context.replies.absorb(&mut self.replies);
        Ok(Progress::Done)
    }

    fn keeps_steps(&self) -> bool {
        true
    }

    fn memory(&self) -> usize {
        self.queue.memory()
    }
}
