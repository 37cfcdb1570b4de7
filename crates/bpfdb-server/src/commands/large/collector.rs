//! Removes large collections whose head is gone.
//!
//! ```text
//!  known ──► look: anchor, head ──► alive
//!              │
//!              ▼ no head
//!            lock anchor and head, look again ──► remove some pages ──► … ──► remove the last, and the anchor
//! ```
//!
//! What it does is done in slices of some tenths of a millisecond, and between these others are served. It has at most a
//! quarter of the thread's time, and all of what others leave while a command waits for memory ([`super::garbage`]).
//! A lock that another transaction has ends the slice; the collection's turn comes again.

use std::time::{Duration, Instant};

use bpfdb::{Engine, Session, Status};
use bpfdb_values::big::{Head, PageKey, Place, remains};

use super::super::Failure;
use super::super::time_slice::TimeSlice;
use super::pages::{Access, PREFIX, SessionPages, anchor};
use super::{garbage, known};

/// Its part of the time: one divided by so many; and the longest slice.
const SHARE: u32 = 4;
const SLICE_MAX: Duration = Duration::from_millis(5);
/// How often a round is made longer for locks that were in the way, a pause each.
const DELAYS: u32 = 8;
/// Pages that one transaction removes, about.
const PAGES: usize = 64;
/// Collections that are looked at in one round of the loop.
const LOOKS: usize = 32;
/// Records that a step looks at to find anchors.
const SCANNED: usize = 1024;
/// Between two slices while there is something to be removed.
const BUSY: Duration = Duration::from_millis(1);
/// How often others are looked at, and what a lock was in the way of.
const IDLE: Duration = Duration::from_millis(100);
/// The same while there are no large collections.
const NOTHING: Duration = Duration::from_secs(1);

/// What is to be done about a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Alive,
    /// Some pages were removed, others are left.
    Begun,
    /// Nothing is left of it.
    Gone,
}

/// A look at all collections for commands that have found no memory.
#[derive(Debug)]
struct Round {
    /// Answers the requests up to this one.
    request: u64,
    /// The time of its slices.
    spent: Duration,
    has_removed: bool,
    /// How often it was made longer.
    delays: u32,
}

#[derive(Debug)]
pub(crate) struct Collector {
    engine: Engine,
    /// While there is something to do.
    session: Option<Session>,
    /// Where the search for anchors goes on; `None`: all were found.
    search: Option<u64>,
    /// The one that is being removed.
    dying: Option<u64>,
    /// The one that was looked at last.
    last: u64,
    due: Instant,
    /// When the last slice ended, if there was more to be done.
    ended: Option<Instant>,
    /// What commands wait for that have found no memory.
    round: Option<Round>,
    /// Those that could not be looked at now, mostly because a lock was in the way: for the end of the round.
    put_off: Vec<u64>,
    /// They are tried again after a pause.
    is_delayed: bool,
    /// What the engine has counted of them.
    shortages: u64,
    /// How many are still to be looked at, one after the other, because some have lost their heads.
    hurried: usize,
}

impl Collector {
    /// `has_records`: does the engine have any already?
    pub(crate) fn new(engine: &Engine, has_records: bool) -> Self {
        Self {
            engine: engine.clone(),
            session: None,
            search: has_records.then_some(0),
            dying: None,
            last: 0,
            due: Instant::now(),
            ended: None,
            round: None,
            put_off: Vec::new(),
            is_delayed: false,
            shortages: engine.shortages(),
            hurried: 0,
        }
    }

    /// Some collection has lost its head without notice: all are looked at soon.
    pub(crate) fn hurry(&mut self) {
        self.hurried = known::len();
        self.due = self.due.min(Instant::now() + BUSY);
    }

    /// How long until there is something to do.
    pub(crate) fn left(&self, now: Instant) -> Duration {
        match self.is_asked(now) {
            true => Duration::ZERO,
            false => self.due.saturating_duration_since(now),
        }
    }

    /// Is a command waiting? Then there is no pause.
    fn is_asked(&self, now: Instant) -> bool {
        !self.is_delayed && (self.round.is_some() || garbage::open_request(now).is_some())
    }

    /// Does what is due.
    pub(crate) fn work(&mut self) {
        let now = Instant::now();
        if now < self.due && !self.is_asked(now) {
            // What this round has left without a head.
            if known::has_suspects() {
                self.due = self.due.min(now + BUSY);
            }
            return;
        }
        garbage::note_search(self.search.is_some());
        self.ask_for_others();
        self.begin_round(now);
        let is_busy = self.slice(now);
        let end = Instant::now();
        if let Some(round) = &mut self.round {
            round.spent += end - now;
        }
        self.ended = is_busy.then_some(end);
        self.is_delayed = false;
        if !is_busy {
            self.session = None;
        }
        // A search may take long: what it finds is for later.
        if !is_busy || known::len() == 0 {
            self.end_round();
        }
        let pause = match is_busy || self.is_delayed {
            true => BUSY,
            false if known::len() == 0 => NOTHING,
            false => IDLE,
        };
        self.due = end + pause;
        if let Some(rested) = garbage::rests_until(end) {
            // From then on writes wait again for what may be found.
            self.due = self.due.min(rested);
        }
    }

    /// Some steps; true: there is more to be done.
    fn slice(&mut self, now: Instant) -> bool {
        let others = self.ended.map_or(Duration::ZERO, |ended| now - ended);
        let slice = match self.round {
            Some(_) => TimeSlice::begin(),
            None => TimeSlice::of((others / SHARE).min(SLICE_MAX)),
        };
        loop {
            let is_busy = self.step().unwrap_or_else(|failure| {
                tracing::debug!(?failure, "large collections are not collected now");
                false
            });
            if !is_busy || slice.is_over() {
                return is_busy;
            }
        }
    }

    /// A write that is none of a command's has found no memory: one of a program that embeds the engine, or is
    /// attached to it. It is tried again by itself.
    fn ask_for_others(&mut self) {
        let shortages = self.engine.shortages();
        if shortages != self.shortages && self.engine.has_all_memory() {
            let _ = garbage::ask();
        }
        self.shortages = shortages;
    }

    /// A command has found no memory: all collections are looked at.
    fn begin_round(&mut self, now: Instant) {
        if self.round.is_none()
            && let Some(request) = garbage::open_request(now)
        {
            self.hurried = known::len();
            self.round = Some(Round {
                request,
                spent: Duration::ZERO,
                has_removed: false,
                delays: 0,
            });
        }
    }

    /// There is nothing left to be done, but for what was put off.
    fn end_round(&mut self) {
        let Some(round) = &mut self.round else {
            return;
        };
        let is_left = !self.put_off.is_empty() || self.hurried > 0;
        if is_left && round.delays < DELAYS {
            round.delays += 1;
            self.is_delayed = true;
            self.put_off.drain(..).for_each(known::suspect);
            return;
        }
        self.put_off.clear();
        let in_vain = (!round.has_removed).then_some(round.spent);
        garbage::answer(round.request, in_vain);
        self.round = None;
    }

    fn session(&mut self) -> Result<&mut Session, Failure> {
        if self.session.is_none() {
            let mut session = self.engine.session()?;
            session.never_wait();
            // What it looks at is not used by that.
            session.set_untracked(true);
            self.session = Some(session);
        }
        Ok(self.session.as_mut().expect("it was opened"))
    }

    /// Is there more to be done at once?
    fn step(&mut self) -> Result<bool, Failure> {
        if let Some(identity) = self.dying {
            return self.go_on_with(identity);
        }
        if let Some(identity) = known::take_suspect() {
            self.go_on_with(identity)?;
            return Ok(true);
        }
        let searched = self.search();
        if let Err(failure) = &searched {
            tracing::debug!(?failure, "cannot look for large collections of before");
        }
        for _ in 0..known::len().min(LOOKS) {
            let Some(identity) = known::after(self.last) else {
                break;
            };
            self.last = identity;
            self.hurried = self.hurried.saturating_sub(1);
            if !self.is_alive(identity)? {
                return Ok(self.go_on_with(identity)? || self.hurried > 0);
            }
        }
        Ok((self.search.is_some() && searched.is_ok()) || self.hurried > 0)
    }

    /// Those that were there before this process.
    fn search(&mut self) -> Result<(), Failure> {
        let Some(cursor) = self.search else {
            return Ok(());
        };
        let next = self.session()?.scan_each(cursor, SCANNED, |key| {
            if let Some(page) = PageKey::from_stored(PREFIX, key)
                && page.place == Place::ANCHOR
            {
                known::add(page.identity);
            }
        })?;
        self.search = (next != 0).then_some(next);
        if self.search.is_none() {
            self.hurried = known::len();
        }
        Ok(())
    }

    /// Without locks: an anchor that is absent is that of a collection that is not committed yet, perhaps.
    fn is_alive(&mut self, identity: u64) -> Result<bool, Failure> {
        let session = self.session()?;
        let Some(key) = session.get(&anchor(identity))? else {
            return Ok(false);
        };
        let head = session.head(&key)?;
        let value = head.and_then(|head| head.value);
        Ok(value.is_some_and(|value| is_head_of(identity, &value)))
    }

    fn go_on_with(&mut self, identity: u64) -> Result<bool, Failure> {
        let collected = self.collect(identity);
        self.dying = None;
        match collected {
            Ok(Verdict::Begun) => self.dying = Some(identity),
            Ok(Verdict::Gone) => known::forget(identity),
            Ok(Verdict::Alive) => return Ok(false),
            Err(_) if self.round.is_some() => self.put_off.push(identity),
            // A lock was in the way.
            Err(Failure::Engine(Status::Conflict)) => return Ok(false),
            Err(failure) => return Err(failure),
        }
        Ok(true)
    }

    /// Removes some pages, in a transaction.
    fn collect(&mut self, identity: u64) -> Result<Verdict, Failure> {
        let is_first = self.dying != Some(identity);
        let session = self.session()?;
        let before = session.writes();
        session.begin_deferred()?;
        let verdict = match collect_locked(session, identity, is_first) {
            Ok(verdict @ (Verdict::Begun | Verdict::Gone)) => {
                session.commit()?;
                verdict
            }
            other => {
                session.rollback()?;
                other?
            }
        };
        let removed = session.writes() - before;
        if matches!(verdict, Verdict::Begun | Verdict::Gone) && removed > 0 {
            garbage::note_removed(removed);
            if let Some(round) = &mut self.round {
                round.has_removed = true;
            }
        }
        Ok(verdict)
    }
}

/// `is_first`: no page has been removed yet, as far as is known.
fn collect_locked(
    session: &mut Session,
    identity: u64,
    is_first: bool,
) -> Result<Verdict, Failure> {
    let anchor = anchor(identity);
    let Some(key) = session.get_for_update(&anchor)? else {
        return Ok(Verdict::Gone);
    };
    let head = session.head_for_update(&key)?;
    let is_absent = head.is_none();
    let value = head.and_then(|head| head.value);
    if value.is_some_and(|value| is_head_of(identity, &value)) {
        return Ok(Verdict::Alive);
    }
    if is_absent && is_first {
        // It has expired, perhaps, and to a transaction that began before it has not: that must not keep it
        // without its pages. To delete what has expired writes nothing; a value that is there is replaced.
        session.set(&key, b"")?;
        session.delete(&key)?;
    }
    let mut pages = SessionPages::new(session, Access::Exclusive);
    if !remains::remove(&mut pages, identity, PAGES)? {
        return Ok(Verdict::Begun);
    }
    session.delete(&anchor)?;
    Ok(Verdict::Gone)
}

fn is_head_of(identity: u64, value: &[u8]) -> bool {
    matches!(Head::parse(value), Ok(Some(head)) if head.identity == identity)
}
