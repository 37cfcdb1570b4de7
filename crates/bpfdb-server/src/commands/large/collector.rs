//! Removes large collections whose head is gone.
//!
//! ```text
//!  known ──► look: anchor, head ──► alive
//!              │
//!              ▼ no head
//!            lock anchor and head, look again ──► remove some pages ──► … ──► remove the last, and the anchor
//! ```
//!
//! What it does is done in slices of about a tenth of a millisecond, and between these others are served. A lock that
//! another transaction has ends the slice; the collection's turn comes again.

use std::time::{Duration, Instant};

use bpfdb::{Engine, Session, Status};
use bpfdb_values::big::{Head, PageKey, Place, remains};

use super::super::Failure;
use super::known;
use super::pages::{Access, PREFIX, SessionPages, anchor};

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
    /// A lock was in the way.
    Later,
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
        self.due.saturating_duration_since(now)
    }

    /// Does what is due.
    pub(crate) fn work(&mut self) {
        let now = Instant::now();
        if now < self.due {
            // What this round has left without a head.
            if known::has_suspects() {
                self.due = self.due.min(now + BUSY);
            }
            return;
        }
        let is_busy = self.step().unwrap_or_else(|failure| {
            tracing::debug!(?failure, "large collections are not collected now");
            false
        });
        if !is_busy {
            self.session = None;
        }
        let pause = match is_busy {
            true => BUSY,
            false if known::len() == 0 => NOTHING,
            false => IDLE,
        };
        self.due = Instant::now() + pause;
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
                return self.go_on_with(identity);
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
        let verdict = match self.collect(identity) {
            Ok(verdict) => verdict,
            Err(Failure::Engine(Status::Conflict)) => Verdict::Later,
            Err(failure) => {
                self.dying = None;
                return Err(failure);
            }
        };
        self.dying = (verdict == Verdict::Begun).then_some(identity);
        if verdict == Verdict::Gone {
            known::forget(identity);
        }
        Ok(matches!(verdict, Verdict::Begun | Verdict::Gone))
    }

    /// Removes some pages, in a transaction.
    fn collect(&mut self, identity: u64) -> Result<Verdict, Failure> {
        let is_first = self.dying != Some(identity);
        let session = self.session()?;
        session.begin_deferred()?;
        match collect_locked(session, identity, is_first) {
            Ok(verdict @ (Verdict::Begun | Verdict::Gone)) => {
                session.commit()?;
                Ok(verdict)
            }
            other => {
                session.rollback()?;
                other
            }
        }
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
