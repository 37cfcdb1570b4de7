//! Pages as records of the engine.

use std::rc::Rc;

use bpfdb::{Keyspace, Session, Status};
use bpfdb_values::big::{Page, PageKey, Pages, Place};

use super::super::Failure;
use super::known;
use crate::instance::page_cache::PageCache;

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

/// The pages of a collection, as commands see them.
#[derive(Debug)]
pub(in super::super) struct SessionPages<'s>(Source<'s>);

#[derive(Debug)]
enum Source<'s> {
    /// Those that the open transaction sees.
    Session(&'s mut Session, Access),
    /// Those that the process has kept, of this version. What it has not ends the command with
    /// [`Failure::NotFetched`].
    Cache(&'s mut PageCache, u64),
}

impl<'s> SessionPages<'s> {
    pub(in super::super) fn new(session: &'s mut Session, access: Access) -> Self {
        known::note_use();
        Self(Source::Session(session, access))
    }

    pub(in super::super) fn kept(cache: &'s mut PageCache, version: u64) -> Self {
        known::note_use();
        Self(Source::Cache(cache, version))
    }

    /// For a write: what is kept is only read.
    fn session(&mut self) -> Result<&mut Session, Failure> {
        match &mut self.0 {
            Source::Session(session, _) => Ok(session),
            Source::Cache(..) => Err(Status::ReadOnly.into()),
        }
    }
}

impl Pages for SessionPages<'_> {
    type Error = Failure;

    fn read(&mut self, page: PageKey) -> Result<Option<Rc<Page>>, Failure> {
        let key = stored_key(page);
        let bytes = match &mut self.0 {
            Source::Session(session, Access::Shared) => session.get(&key)?,
            Source::Session(session, Access::Exclusive) => session.get_for_update(&key)?,
            Source::Cache(cache, version) => {
                let kept = cache.page(page, *version);
                return kept.map(Some).ok_or(Failure::NotFetched);
            }
        };
        Ok(bytes.map(|bytes| Rc::new(Page::new(bytes))))
    }

    fn announce(&mut self, pages: &[PageKey]) {
        if let Source::Cache(cache, version) = &mut self.0 {
            for &page in pages {
                cache.announce(page, *version);
            }
        }
    }

    fn admit(&mut self, pages: u64) -> Result<(), Failure> {
        if let Source::Cache(cache, _) = &mut self.0
            && !cache.admits(pages)
        {
            return Err(Failure::NotFetched);
        }
        Ok(())
    }

    fn write(&mut self, page: PageKey, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.session()?.set(&stored_key(page), bytes)?)
    }

    fn remove(&mut self, page: PageKey) -> Result<(), Failure> {
        self.session()?.delete(&stored_key(page))?;
        Ok(())
    }
}
