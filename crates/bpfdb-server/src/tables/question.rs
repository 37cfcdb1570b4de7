//! A question to a table: from the command that asks to the thread that answers, and back.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bpfdb_table::Field;

use crate::io::bell::Bell;
use crate::protocol::reply::Protocol;

#[derive(Debug)]
pub(crate) enum Question {
    /// Is it open?
    Open,
    Get {
        key: Vec<u8>,
    },
    Range {
        from: Vec<u8>,
        to: Vec<u8>,
        /// `None`: all that there are.
        limit: Option<usize>,
    },
    Aggregate {
        from: Vec<u8>,
        to: Vec<u8>,
        what: What,
        field: Option<Field>,
    },
}

/// What of an aggregate is replied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Entries; with a field, those that have it.
    Count,
    Sum,
    Least,
    Greatest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnsweredBy {
    /// Chains in the kernel.
    Kernel,
    /// Blocks that are kept in memory.
    Pool,
    /// This process, by reading the file.
    Process,
    /// What was asked needed no block.
    Nobody,
}

/// A reply in the client's protocol.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Vec<u8>,
    pub(crate) by: AnsweredBy,
}

/// Or the text of an error.
pub(crate) type Outcome = Result<Answer, Vec<u8>>;

#[derive(Debug, Default)]
struct Slot(Mutex<Option<Outcome>>);

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<Outcome>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The side of the command. Nobody answers any more once it is dropped.
#[derive(Debug)]
pub(crate) struct Pending(Arc<Slot>);

impl Pending {
    /// What has become of it, once; `None`: nothing yet.
    pub(crate) fn take(&self) -> Option<Outcome> {
        self.0.lock().take()
    }

    /// Bytes of the answer.
    pub(crate) fn memory(&self) -> usize {
        match &*self.0.lock() {
            Some(Ok(answer)) => answer.reply.capacity(),
            _ => 0,
        }
    }
}

/// Sessions that have an answer, and the bell that says so.
pub(super) struct Ended {
    sessions: Mutex<Vec<u32>>,
    /// The bell was rung, which others ring, too.
    has_rung: AtomicBool,
    bell: Bell,
}

impl fmt::Debug for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ended").finish_non_exhaustive()
    }
}

impl Ended {
    pub(super) fn new(bell: &Bell) -> Self {
        Self {
            sessions: Mutex::default(),
            has_rung: AtomicBool::new(false),
            bell: bell.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u32>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take(&self) -> Vec<u32> {
        std::mem::take(&mut *self.lock())
    }

    /// Was it rung for this since it was asked last?
    pub(super) fn has_rung(&self) -> bool {
        self.has_rung.swap(false, Ordering::Acquire)
    }

    pub(super) fn ring(&self) {
        self.has_rung.store(true, Ordering::Release);
        self.bell.ring();
    }

    fn tell(&self, session: u32) {
        let mut sessions = self.lock();
        let was_silent = sessions.is_empty();
        sessions.push(session);
        drop(sessions);
        if was_silent {
            self.ring();
        }
    }
}

/// The side of the thread. If it is dropped without an answer, that is the answer.
#[derive(Debug)]
pub(super) struct Ticket {
    slot: Arc<Slot>,
    session: u32,
    protocol: Protocol,
    ended: Arc<Ended>,
    has_ended: bool,
}

impl Ticket {
    pub(super) fn new(session: u32, protocol: Protocol, ended: &Arc<Ended>) -> (Self, Pending) {
        let slot = Arc::new(Slot::default());
        let ticket = Self {
            slot: Arc::clone(&slot),
            session,
            protocol,
            ended: Arc::clone(ended),
            has_ended: false,
        };
        (ticket, Pending(slot))
    }

    pub(super) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Does somebody wait for the answer?
    pub(super) fn is_wanted(&self) -> bool {
        Arc::strong_count(&self.slot) > 1
    }

    pub(super) fn end(mut self, outcome: Outcome) {
        self.set(outcome);
    }

    fn set(&mut self, outcome: Outcome) {
        self.has_ended = true;
        if self.is_wanted() {
            *self.slot.lock() = Some(outcome);
            self.ended.tell(self.session);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.has_ended {
            self.set(Err(
                b"ERR the table was closed before it could answer".to_vec()
            ));
        }
    }
}
