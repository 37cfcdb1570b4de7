//! A large collection as a small one: all elements in one run.

use std::rc::Rc;

use super::children::children;
use super::page::{self, Page, Pages};
use super::place::Place;
use super::tree::{Gathered, HEIGHT_MAX, TOO_HIGH};
use super::{Big, Shape};
use crate::limits::Kind;
use crate::run::{HEADER, Malformed, NARROW_ENTRY, NARROW_MAX, Run, WIDE_ENTRY};
use crate::set::Set;
use crate::stream::value;

const NOTHING_BELOW: Malformed = Malformed("a page of a tree without elements");
const OTHER_NUMBER: Malformed = Malformed("a large collection of another number of elements");

impl<P: Pages> Big<P> {
    /// The bytes of its run, or of the stream that a short one has. The elements of a list and of a sorted set are in their order.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn whole(&mut self) -> Result<Vec<u8>, P::Error> {
        self.admit(self.head.elements)?;
        let mut gathered = Gathered::default();
        if self.shape.has_tree() {
            self.gather(Place::ROOT, 0, &mut gathered)?;
        } else {
            for bucket in 0..self.head.buckets {
                let page = self.cache.passing(Place::bucket(bucket))?;
                self.add(page, &mut gathered)?;
            }
        }
        if gathered.len() != self.head.elements {
            return Err(OTHER_NUMBER.into());
        }
        let history = self.head.history;
        let run = gathered.finish(history)?;
        if self.shape == Shape::Stream {
            return self.whole_stream(&run);
        }
        if self.shape == Kind::Set.into() && !history.not_integers && !history.not_compact {
            // Integers are in their order.
            return Ok(Set::read(&run)?.write());
        }
        Ok(run)
    }

    /// So many elements will be read, which are of average length: may the pages that have them be read?
    pub(super) fn admit(&mut self, elements: u64) -> Result<(), P::Error> {
        let bytes = self.whole_len() / self.head.elements.max(1);
        self.cache
            .admit(elements.saturating_mul(bytes) / page::FILLED as u64)
    }

    /// Adds the leaves below a page with so many pages above it. Damaged pages may be below each other, or
    /// below several others: neither the height nor the elements become more than there can be.
    fn gather(
        &mut self,
        page: Place,
        above: usize,
        gathered: &mut Gathered,
    ) -> Result<(), P::Error> {
        let bytes = self.cache.passing(page)?;
        if page.is_leaf() {
            return self.add(bytes, gathered);
        }
        if above == HEIGHT_MAX {
            return Err(TOO_HIGH.into());
        }
        let run = Run::parse(&bytes)?;
        if run.is_empty() && above > 0 {
            return Err(NOTHING_BELOW.into());
        }
        for child in children(&run) {
            self.gather(child?.place, above + 1, gathered)?;
        }
        Ok(())
    }

    /// Adds the elements of a bucket, or of a leaf, which has one.
    fn add(&mut self, page: Rc<Page>, gathered: &mut Gathered) -> Result<(), P::Error> {
        let len = Run::parse(&page)?.len();
        if len == 0 && self.shape.has_tree() && self.head.elements > 0 {
            return Err(NOTHING_BELOW.into());
        }
        if gathered.len() + len as u64 > self.head.elements {
            return Err(OTHER_NUMBER.into());
        }
        if len > 0 {
            gathered.push(page, 0..len);
        }
        Ok(())
    }

    /// Bytes of that run, or stream, at most.
    pub fn whole_len(&self) -> u64 {
        if let Some(stream) = &self.head.stream {
            let places = self.head.elements * value::PLACE as u64;
            return value::HEAD as u64 + u64::from(stream.groups_len) + places + self.head.bytes;
        }
        let is_wide = self.head.history.longest as usize > NARROW_MAX;
        let entry = if is_wide { WIDE_ENTRY } else { NARROW_ENTRY };
        HEADER as u64 + self.head.bytes + self.head.elements * entry as u64
    }
}
