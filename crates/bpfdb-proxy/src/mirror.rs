//! What clients send, sent to a second database as well.
//!
//! A client whose database has a mirror has a *shadow*: a client without a connection, which sends the same bytes
//! to the mirror's pool. Its replies go nowhere. It is served as any other client is, so all that a session relies
//! on holds for it, too: pooling, parameters, prepared statements.
//!
//! ```text
//!   client ──► its server
//!      └─ copy, if there is room ──► queue of the shadow ──► a server of the mirror ──► nowhere
//! ```
//!
//! 1. A client never waits for its shadow: what has no room in the queue is lost.
//! 2. Transactions are lost as a whole. One that is lost after it has begun there is rolled back.
//! 3. A shadow sends what it has at once, as far as that is plain (`wire::hint`), and the next when all of that was
//!    answered. Whatever else its client has sent waits for the answer to what is in front of it, as it did there.
//! 4. After a loss a shadow gets nothing until it has done all that it has: then it has its client's statements and
//!    parameters again.
//! 5. Shadows whose clients are gone are lost first.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::io::slab::Id;

/// What a transaction takes of a queue besides its bytes.
const TRANSACTION_SIZE: usize = size_of::<Begin>();

/// What a client has of its shadow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mirrored {
    /// `None`: there is none at the moment.
    pub(crate) shadow: Option<Id>,
    /// The transaction that is under way is mirrored.
    pub(crate) takes: bool,
}

/// Where a transaction begins.
#[derive(Clone, Copy, Debug)]
struct Begin {
    at: u64,
    since: Instant,
}

/// What a shadow has beyond other clients.
#[derive(Debug)]
pub(crate) struct Shadow {
    /// The database that is mirrored.
    pub(crate) database: String,
    /// Bytes that were put into its queue, ever.
    put: u64,
    /// Transactions that are not done.
    begins: VecDeque<Begin>,
    /// What of its queue is in the figures of its mirror.
    counted: usize,
    /// Bytes that it takes itself, and that count as if they were queued: its client is gone.
    own_size: usize,
    /// Its client may have statements and parameters that it has not.
    pub(crate) is_stale: bool,
    /// It is lost for want of room, and for no fault of the mirror's.
    pub(crate) gives_way: bool,
    /// It will be served when the mirrors have their turn.
    pub(crate) is_fed: bool,
}

impl Shadow {
    pub(crate) fn new(database: String) -> Self {
        Self {
            database,
            put: 0,
            begins: VecDeque::new(),
            counted: 0,
            own_size: 0,
            is_stale: false,
            gives_way: false,
            is_fed: false,
        }
    }

    /// Its client is gone: nothing else bounds how many of these there are than their own size, bytes.
    pub(crate) fn is_left(&mut self, own_size: usize) {
        self.own_size = own_size;
    }

    /// A transaction begins behind all that was put in.
    pub(crate) fn begin(&mut self) {
        let (at, since) = (self.put, Instant::now());
        self.begins.push_back(Begin { at, since });
    }

    pub(crate) fn put(&mut self, bytes: usize) {
        self.put += bytes as u64;
    }

    /// Takes the transaction that was begun last out of a queue of `queued` bytes, if nothing of it has left that.
    /// How long the queue is then.
    pub(crate) fn take_back_last(&mut self, queued: usize) -> Option<usize> {
        let begin = self.begins.back()?;
        let bytes = (self.put - begin.at) as usize;
        let left = queued.checked_sub(bytes)?;
        self.put = begin.at;
        self.begins.pop_back();
        Some(left)
    }

    /// Transactions that are done now. `queued`: bytes of the queue; `unanswered`: requests that were sent; `is_done`:
    /// the shadow has nothing to do.
    pub(crate) fn done(&mut self, queued: usize, unanswered: usize, is_done: bool) -> u64 {
        let taken = self.put - queued as u64;
        let begun = self.begins.partition_point(|begin| begin.at < taken);
        // Of those that were begun the last one may go on, and each that is not done has a request without an answer.
        let done = match is_done {
            true => self.begins.len(),
            false => begun.saturating_sub(unanswered.max(1)),
        };
        self.begins.drain(..done);
        done as u64
    }

    /// Transactions that are not done.
    pub(crate) fn undone(&self) -> u64 {
        self.begins.len() as u64
    }

    /// How much longer, or shorter, its queue is than when this was asked before; bytes.
    pub(crate) fn grown(&mut self, queued: usize) -> isize {
        let counted = queued + self.begins.len() * TRANSACTION_SIZE + self.own_size;
        let before = std::mem::replace(&mut self.counted, counted);
        counted as isize - before as isize
    }

    /// What of its queue was counted when it was asked last, bytes.
    pub(crate) fn counted(&self) -> usize {
        self.counted
    }

    /// The age of the oldest transaction that is not done.
    pub(crate) fn lag(&self) -> Duration {
        let oldest = self.begins.front();
        oldest.map_or(Duration::ZERO, |begin| begin.since.elapsed())
    }
}

/// What is counted of a database's mirror.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mirror {
    /// Bytes in the queues of all shadows.
    pub(crate) queued: usize,
    /// Transactions that the mirror has done.
    pub(crate) transactions: u64,
    pub(crate) lost: u64,
    /// Errors that it has answered with.
    pub(crate) errors: u64,
    /// It was not there: nothing is sent to it until then.
    pub(crate) rests_until: Option<Instant>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_are_done_when_later_ones_are_taken() {
        let mut shadow = Shadow::new("a".into());
        for _ in 0..3 {
            shadow.begin();
            shadow.put(10);
        }
        assert_eq!((shadow.done(30, 0, false), shadow.undone()), (0, 3));
        // Part of the second one.
        assert_eq!((shadow.done(15, 1, false), shadow.undone()), (1, 2));
        // All of them, and none is answered.
        assert_eq!((shadow.done(0, 2, false), shadow.undone()), (0, 2));
        assert_eq!((shadow.done(0, 1, false), shadow.undone()), (1, 1));
        assert_eq!((shadow.done(0, 0, true), shadow.undone()), (1, 0));
        assert_eq!(shadow.lag(), Duration::ZERO);
    }

    #[test]
    fn the_last_transaction_is_taken_back_while_it_is_whole() {
        let mut shadow = Shadow::new("a".into());
        shadow.begin();
        shadow.put(10);
        shadow.begin();
        shadow.put(20);
        assert_eq!(shadow.take_back_last(25), Some(5));
        assert_eq!(shadow.undone(), 1);
        assert_eq!(shadow.take_back_last(5), None);
        assert_eq!(shadow.grown(5), 5 + TRANSACTION_SIZE as isize);
        assert_eq!(shadow.grown(5), 0);
        shadow.is_left(100);
        assert_eq!(shadow.grown(5), 100);
    }
}
