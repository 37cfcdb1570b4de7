//! Pages as records of the engine.

use bpfdb::{Keyspace, Session};
use bpfdb_values::big::{PageKey, Pages, Place};

use super::super::Failure;

/// What stored keys of pages begin with.
pub(super) const PREFIX: [u8; 8] = Keyspace::PAGES.prefix();

/// The key of a page's record.
pub(super) fn stored_key(page: PageKey) -> [u8; 24] {
    page.stored(PREFIX)
}

/// The key of the record that names the key of a collection's head.
pub(super) fn anchor(identity: u64) -> [u8; 24] {
    stored_key(PageKey {
        identity,
        place: Place::ANCHOR,
    })
}

/// How pages are locked in a read-write transaction that reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Access {
    Shared,
    /// No lock that is shared with others becomes exclusive: what may write begins with that.
    Exclusive,
}

/// The pages that a transaction sees.
#[derive(Debug)]
pub(in super::super) struct SessionPages<'s> {
    session: &'s mut Session,
    access: Access,
}

impl<'s> SessionPages<'s> {
    pub(in super::super) fn new(session: &'s mut Session, access: Access) -> Self {
        Self { session, access }
    }
}

impl Pages for SessionPages<'_> {
    type Error = Failure;

    fn read(&mut self, page: PageKey) -> Result<Option<Vec<u8>>, Failure> {
        let key = stored_key(page);
        Ok(match self.access {
            Access::Shared => self.session.get(&key)?,
            Access::Exclusive => self.session.get_for_update(&key)?,
        })
    }

    fn write(&mut self, page: PageKey, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.session.set(&stored_key(page), bytes)?)
    }

    fn remove(&mut self, page: PageKey) -> Result<(), Failure> {
        self.session.delete(&stored_key(page))?;
        Ok(())
    }
}
