//! The pages that a command works on: each is read once, and written once if it has changed.

use std::collections::hash_map::Entry;
use std::rc::Rc;

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::page::{Page, Pages};
use super::place::{PageKey, Place};
use crate::run::Malformed;

/// Bytes of a page's record in a log, beside those of the page: about.
const RECORD: usize = 64;
/// A value of more bytes is no part of its record in a log.
const LARGE: usize = 32 * 1024;

#[derive(Debug)]
pub(super) struct Cache<P> {
    identity: u64,
    pages: P,
    known: FxHashMap<Place, Known>,
}

#[derive(Debug)]
struct Known {
    /// `None`: it was removed.
    bytes: Option<Rc<Page>>,
    has_changed: bool,
    /// It was read: where pages are kept, there is such a page.
    is_kept: bool,
}

impl<P: Pages> Cache<P> {
    pub(super) fn new(identity: u64, pages: P) -> Self {
        Self {
            identity,
            pages,
            // As many as a look-up reads.
            known: FxHashMap::with_capacity_and_hasher(7, FxBuildHasher),
        }
    }

    fn key(&self, place: Place) -> PageKey {
        PageKey {
            identity: self.identity,
            place,
        }
    }

    /// The bytes of a page that there is.
    pub(super) fn page(&mut self, place: Place) -> Result<&[u8], P::Error> {
        Ok(self.shared(place)?)
    }

    /// The same, to be kept.
    pub(super) fn shared(&mut self, place: Place) -> Result<&Rc<Page>, P::Error> {
        let key = self.key(place);
        let known = match self.known.entry(place) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let bytes = self.pages.read(key)?;
                unknown.insert(Known {
                    is_kept: bytes.is_some(),
                    bytes,
                    has_changed: false,
                })
            }
        };
        Ok(known.bytes.as_ref().ok_or(MISSING)?)
    }

    /// About so many pages will be read next.
    pub(super) fn admit(&mut self, pages: u64) -> Result<(), P::Error> {
        self.pages.admit(pages)
    }

    /// These pages will be read next, probably.
    pub(super) fn announce(&mut self, places: impl Iterator<Item = Place>) {
        let unknown = places.filter(|place| !self.known.contains_key(place));
        let keys: Vec<PageKey> = unknown.map(|place| self.key(place)).collect();
        self.pages.announce(&keys);
    }

    /// The same for one that is looked at once: it is not kept.
    pub(super) fn passing(&mut self, place: Place) -> Result<Rc<Page>, P::Error> {
        let bytes = match self.known.get(&place) {
            Some(known) => known.bytes.clone(),
            None => self.pages.read(self.key(place))?,
        };
        Ok(bytes.ok_or(MISSING)?)
    }

    pub(super) fn has_changed(&self) -> bool {
        self.known.values().any(|known| known.has_changed)
    }

    /// One that was removed counts as a record without a value.
    pub(super) fn changed_bytes(&self) -> usize {
        let changed = self.known.iter().filter(|(_, known)| known.has_changed);
        let bytes = changed.map(|(&place, known)| {
            let len = known.bytes.as_ref().map_or(0, |bytes| bytes.len());
            RECORD
                + match place {
                    Place::GROUPS => len.min(LARGE),
                    _ => len,
                }
        });
        bytes.sum()
    }

    /// Gives a page these bytes. One that was not read is new.
    pub(super) fn put(&mut self, place: Place, bytes: Vec<u8>) {
        self.change(place, Some(Rc::new(Page::new(bytes))));
    }

    pub(super) fn remove(&mut self, place: Place) {
        self.change(place, None);
    }

    fn change(&mut self, place: Place, bytes: Option<Rc<Page>>) {
        let before = self.known.get(&place);
        let known = Known {
            bytes,
            has_changed: true,
            is_kept: before.is_some_and(|known| known.is_kept),
        };
        self.known.insert(place, known);
    }

    pub(super) fn finish(mut self) -> Result<(), P::Error> {
        let mut changed: Vec<(Place, Option<Rc<Page>>)> = (self.known.drain())
            .filter(|(_, known)| known.has_changed && (known.is_kept || known.bytes.is_some()))
            .map(|(place, known)| (place, known.bytes))
            .collect();
        changed.sort_unstable_by_key(|&(place, _)| place);
        for (place, bytes) in changed {
            let key = self.key(place);
            match bytes {
                Some(bytes) => self.pages.write(key, &bytes)?,
                None => self.pages.remove(key)?,
            }
        }
        Ok(())
    }
}

const MISSING: Malformed = Malformed("a page of a large collection is missing");
