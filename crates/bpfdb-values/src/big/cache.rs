//! The pages that a command works on: each is read once, and written once if it has changed.

use rustc_hash::FxHashMap;

use super::page::{PageKey, Pages, Place};
use crate::run::Malformed;

/// Bytes of a page's record in a log, beside those of the page: about.
const RECORD: usize = 64;

#[derive(Debug)]
pub(super) struct Cache<P> {
    identity: u64,
    pages: P,
    known: FxHashMap<Place, Known>,
}

#[derive(Debug)]
struct Known {
    /// `None`: it was removed.
    bytes: Option<Vec<u8>>,
    has_changed: bool,
    /// It was read: where pages are kept, there is such a page.
    is_kept: bool,
}

impl<P: Pages> Cache<P> {
    pub(super) fn new(identity: u64, pages: P) -> Self {
        Self {
            identity,
            pages,
            known: FxHashMap::default(),
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
        if !self.known.contains_key(&place) {
            let bytes = self.pages.read(self.key(place))?;
            let known = Known {
                is_kept: bytes.is_some(),
                bytes,
                has_changed: false,
            };
            self.known.insert(place, known);
        }
        let known = self.known.get(&place);
        let bytes = known.and_then(|known| known.bytes.as_deref());
        Ok(bytes.ok_or(MISSING)?)
    }

    /// The same for one that is looked at once: it is not kept.
    pub(super) fn passing(&mut self, place: Place) -> Result<Vec<u8>, P::Error> {
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
        let changed = self.known.values().filter(|known| known.has_changed);
        changed
            .map(|known| RECORD + known.bytes.as_ref().map_or(0, Vec::len))
            .sum()
    }

    /// Gives a page these bytes. One that was not read is new.
    pub(super) fn put(&mut self, place: Place, bytes: Vec<u8>) {
        self.change(place, Some(bytes));
    }

    pub(super) fn remove(&mut self, place: Place) {
        self.change(place, None);
    }

    fn change(&mut self, place: Place, bytes: Option<Vec<u8>>) {
        let before = self.known.get(&place);
        let known = Known {
            bytes,
            has_changed: true,
            is_kept: before.is_some_and(|known| known.is_kept),
        };
        self.known.insert(place, known);
    }

    pub(super) fn finish(mut self) -> Result<(), P::Error> {
        let mut changed: Vec<(Place, Option<Vec<u8>>)> = (self.known.drain())
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
