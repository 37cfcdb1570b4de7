//! Garbage: pages of large collections whose head is gone. A command that finds no memory asks for all of it to be
//! removed, and is tried again when that is done.
//!
//! ```text
//!  command     no memory ─► ask ─► waits, while others are served ─► is tried again
//!  collector                 └──► looks at all collections, removes ──┘ answers
//! ```
//!
//! One thread serves an instance; what these two tell each other is here.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use super::known;
use crate::eviction::Garbage;

/// After a round that found nothing no other is made for so many times as long as it took. So a server whose memory
/// is full of other things does not look at its collections for each write that it refuses.
const REST_FACTOR: u32 = 10;
/// A command waits for the end of such a rest if that is so near. No rest is shorter: writes that wait for something else
/// hear meanwhile that memory is full.
const NEAR: Duration = Duration::from_millis(5);
/// A command that has waited for so long is tried again before all is removed.
const PATIENCE: Duration = Duration::from_millis(100);
/// Pages that a round removes besides those that a command has left in its last attempt: for less it
/// is not tried again.
const LEAST: u64 = 64;

#[derive(Debug, Default)]
struct Told {
    /// Requests so far: the number of the last one.
    asked: u64,
    /// What was garbage when these were made is gone.
    answered: u64,
    /// Records of pages that were removed, about.
    removed: u64,
    /// Pages that were written for collections that came to nothing, since the last request.
    abandoned: u64,
    /// After a round that found nothing.
    rests_until: Option<Instant>,
    /// Not all collections are known yet that were there before this process.
    is_searching: bool,
}

thread_local! {
    static TOLD: RefCell<Told> = RefCell::default();
}

/// What a command waits for that has found no memory.
#[derive(Debug)]
pub(in super::super) struct Request {
    number: u64,
    since: Instant,
    /// Pages that had been removed before.
    removed: u64,
    /// Pages that the attempt before has left.
    abandoned: u64,
}

/// Asks for all garbage to be removed; `None`: there is none.
pub(in super::super) fn ask() -> Option<Request> {
    if !may_be_there() {
        return None;
    }
    let since = Instant::now();
    TOLD.with_borrow_mut(|told| {
        let abandoned = std::mem::take(&mut told.abandoned);
        if !known::has_suspects() && told.rests_until.is_some_and(|end| end > since + NEAR) {
            return None;
        }
        told.asked += 1;
        Some(Request {
            number: told.asked,
            since,
            removed: told.removed,
            abandoned,
        })
    })
}

impl Request {
    /// Is the command to be tried again now?
    pub(in super::super) fn is_over(&self) -> bool {
        self.is_answered() || self.since.elapsed() >= PATIENCE
    }

    fn is_answered(&self) -> bool {
        TOLD.with_borrow(|told| told.answered >= self.number)
    }

    /// Is there more memory for another attempt than for the one before? What that has left itself is
    /// no more, unless it is the `first`, which may have found little.
    pub(in super::super) fn has_helped(&self, first: bool) -> bool {
        let removed = TOLD.with_borrow(|told| told.removed) - self.removed;
        let own = match first {
            true => 0,
            false => self.abandoned + self.abandoned / 4 + LEAST,
        };
        removed > own || !self.is_answered()
    }
}

/// Pages were written for a collection that came to nothing.
pub(super) fn note_abandoned(pages: u64) {
    TOLD.with_borrow_mut(|told| told.abandoned += pages);
}

pub(super) fn note_removed(pages: u64) {
    TOLD.with_borrow_mut(|told| {
        told.removed += pages;
        told.rests_until = None;
    });
}

/// The last request, if it is not answered yet, and a round may begin.
pub(super) fn open_request(now: Instant) -> Option<u64> {
    if rests_until(now).is_some() && !known::has_suspects() {
        return None;
    }
    TOLD.with_borrow(|told| (told.asked > told.answered).then_some(told.asked))
}

/// What was garbage when this request was made is gone. `in_vain`: there was none, and that took so long to find out.
pub(super) fn answer(number: u64, in_vain: Option<Duration>) {
    TOLD.with_borrow_mut(|told| {
        told.answered = told.answered.max(number);
        told.rests_until = in_vain.map(|time| Instant::now() + NEAR.max(time * REST_FACTOR));
    });
}

/// When the rest after a round that found nothing ends, if it has not.
pub(super) fn rests_until(now: Instant) -> Option<Instant> {
    TOLD.with_borrow(|told| told.rests_until.filter(|&end| end > now))
}

pub(super) fn note_search(goes_on: bool) {
    TOLD.with_borrow_mut(|told| told.is_searching = goes_on);
}

fn may_be_there() -> bool {
    known::len() > 0 || TOLD.with_borrow(|told| told.is_searching)
}

/// May there be any?
pub(crate) fn garbage(now: Instant) -> Garbage {
    let is_unlikely = rests_until(now).is_some() && !known::has_suspects();
    match may_be_there() {
        false => Garbage::Impossible,
        true if is_unlikely => Garbage::Unlikely,
        true => Garbage::Possible,
    }
}
