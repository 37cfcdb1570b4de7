//! Remains of a collection whose head is gone: pages are removed a few at a time, in an order in which
//! the rest is found again (invariant 4 of [`crate::big`]). Nothing is written for that: where memory is full there is no
//! room for it.

use super::children::children;
use super::page::Pages;
use super::place::{PageKey, Place};
use super::tree::{HEIGHT_MAX, TOO_HIGH};
use crate::run::Run;

/// Removes up to `most` pages of a collection, and as many more as an inner page has leaves, but not its anchor: are
/// all gone?
///
/// # Errors
/// Those of the pages.
pub fn remove<P: Pages>(pages: &mut P, identity: u64, most: usize) -> Result<bool, P::Error> {
    let mut remains = Remains {
        pages,
        identity,
        left: most.max(1),
    };
    let is_gone = remains.prune(Place::ROOT, 0)? && remains.remove_buckets()?;
    if is_gone {
        remains.remove_groups()?;
    }
    Ok(is_gone)
}

#[derive(Debug)]
struct Remains<'p, P> {
    pages: &'p mut P,
    identity: u64,
    left: usize,
}

impl<P: Pages> Remains<'_, P> {
    fn key(&self, place: Place) -> PageKey {
        PageKey {
            identity: self.identity,
            place,
        }
    }

    fn remove(&mut self, place: Place) -> Result<(), P::Error> {
        self.left = self.left.saturating_sub(1);
        self.pages.remove(self.key(place))
    }

    /// Removes the page, with so many pages above it, and what is below it, the last child first: is it gone?
    fn prune(&mut self, page: Place, above: usize) -> Result<bool, P::Error> {
        if page.is_leaf() {
            self.remove(page)?;
            return Ok(true);
        }
        if above == HEIGHT_MAX {
            return Err(TOO_HIGH.into());
        }
        let Some(bytes) = self.pages.read(self.key(page))? else {
            return Ok(true);
        };
        let run = Run::parse(&bytes)?;
        let places: Vec<Place> = children(&run)
            .map(|child| Ok(child?.place))
            .collect::<Result<_, P::Error>>()?;
        for &place in places.iter().rev() {
            // Leaves go with the page above them: so each page that is there has all its leaves, and none has to be
            // written to say which are left.
            if self.left == 0 && !place.is_leaf() {
                return Ok(false);
            }
            if !self.prune(place, above + 1)? {
                return Ok(false);
            }
        }
        self.remove(page)?;
        Ok(true)
    }

    fn remove_groups(&mut self) -> Result<(), P::Error> {
        if self.pages.read(self.key(Place::GROUPS))?.is_some() {
            self.remove(Place::GROUPS)?;
        }
        Ok(())
    }

    fn has_bucket(&mut self, number: u64) -> Result<bool, P::Error> {
        let key = self.key(Place::bucket(number));
        Ok(self.pages.read(key)?.is_some())
    }

    /// Removes the last buckets: are all gone?
    fn remove_buckets(&mut self) -> Result<bool, P::Error> {
        let mut buckets = self.buckets()?;
        while buckets > 0 && self.left > 0 {
            buckets -= 1;
            self.remove(Place::bucket(buckets))?;
        }
        Ok(buckets == 0)
    }

    /// How many there are: they have no gaps.
    fn buckets(&mut self) -> Result<u64, P::Error> {
        let mut end = 1;
        while self.has_bucket(end - 1)? {
            end *= 2;
        }
        // Bucket `end` - 1 is not there; that of half as many less one is.
        let (mut there, mut absent) = (end / 2, end - 1);
        while there < absent {
            let middle = there + (absent - there) / 2;
            if self.has_bucket(middle)? {
                there = middle + 1;
            } else {
                absent = middle;
            }
        }
        Ok(there)
    }
}
