//! Pages that are written in transactions of their own, before there is a head.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;

use bpfdb::{Session, Status};
use bpfdb_values::big::{Page, PageKey, Pages};

use super::super::Failure;
use super::garbage;
use super::pages::{anchor, stored_key};

/// Bytes of pages that one transaction writes.
const BYTES: usize = 256 * 1024;

thread_local! {
    static LOGGED: Cell<u64> = const { Cell::new(0) };
}

/// Bytes of pages that this thread has committed before their heads. The thread does not wait, so the log's ring has to
/// have room for those of one attempt, but for what is written out meanwhile.
pub(in super::super) fn logged_apart() -> u64 {
    LOGGED.get()
}

/// An identity that no collection has. Invariant 4 of [`super`].
pub(super) fn draw(session: &mut Session) -> Result<u64, Status> {
    loop {
        let identity = chance();
        if session.get_for_update(&anchor(identity))?.is_none() {
            return Ok(identity);
        }
    }
}

/// 64 bits that clients cannot foresee: SipHash with a key of the process's, drawn by the kernel.
fn chance() -> u64 {
    RandomState::new().hash_one(0)
}

/// Pages of a collection that no key has yet.
#[derive(Debug)]
pub(super) struct PagesApart {
    session: Session,
    /// Keys and values that the next transaction writes.
    waiting: Vec<([u8; 24], Vec<u8>)>,
    bytes: usize,
    /// Pages that were committed, and of which nobody has taken the head.
    written: u64,
}

impl PagesApart {
    /// In the engine of this session.
    pub(super) fn new(session: &Session) -> Result<Self, Failure> {
        let mut session = session.engine().session()?;
        session.never_wait();
        Ok(Self {
            session,
            waiting: Vec::new(),
            bytes: 0,
            written: 0,
        })
    }

    /// They become those of a key.
    pub(super) fn keep(mut self) {
        self.written = 0;
    }

    /// An identity whose anchor names this key. It is committed: from here on the collector removes what no head
    /// has.
    pub(super) fn draw(&mut self, stored: &[u8]) -> Result<u64, Failure> {
        let identity = self.once(|session, _| {
            let identity = draw(session)?;
            session.set(&anchor(identity), stored)?;
            Ok(identity)
        })?;
        Ok(identity)
    }

    /// Commits what waits.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.once(|session, waiting| {
            for (key, bytes) in waiting {
                session.set(key, bytes)?;
            }
            Ok(())
        })?;
        self.written += self.waiting.len() as u64;
        LOGGED.set(LOGGED.get() + self.bytes as u64);
        self.waiting.clear();
        self.bytes = 0;
        Ok(())
    }

    /// Does `work` in a transaction. MEMORY_PENDING and LOG_FULL are those of the command, which is tried again a
    /// moment later, from its beginning: the collector removes the pages that were written by then.
    fn once<T>(
        &mut self,
        work: impl Fn(&mut Session, &[([u8; 24], Vec<u8>)]) -> Result<T, Status>,
    ) -> Result<T, Status> {
        self.session.begin_deferred()?;
        match work(&mut self.session, &self.waiting) {
            Ok(result) => {
                self.session.commit()?;
                Ok(result)
            }
            Err(status) => {
                self.session.rollback()?;
                Err(status)
            }
        }
    }
}

impl Drop for PagesApart {
    fn drop(&mut self) {
        garbage::note_abandoned(self.written);
    }
}

impl Pages for &mut PagesApart {
    type Error = Failure;

    fn read(&mut self, page: PageKey) -> Result<Option<Rc<Page>>, Failure> {
        self.flush()?;
        Ok(self
            .session
            .get(&stored_key(page))?
            .map(|bytes| Rc::new(Page::new(bytes))))
    }

    fn write(&mut self, page: PageKey, bytes: &[u8]) -> Result<(), Failure> {
        self.waiting.push((stored_key(page), bytes.to_vec()));
        self.bytes += bytes.len();
        if self.bytes > BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn remove(&mut self, page: PageKey) -> Result<(), Failure> {
        self.flush()?;
        self.session.delete(&stored_key(page))?;
        Ok(())
    }
}
