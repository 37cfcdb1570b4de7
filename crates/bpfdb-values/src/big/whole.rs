//! A large collection as a small one: all elements in one run.

use super::Big;
use super::page::{Pages, Place};
use super::tree::{Gathered, children};
use crate::limits::Kind;
use crate::run::{HEADER, NARROW_ENTRY, NARROW_MAX, Run, WIDE_ENTRY};
use crate::set::Set;

impl<P: Pages> Big<P> {
    /// The bytes of its run. The elements of a list and of a sorted set are in their order.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn whole(&mut self) -> Result<Vec<u8>, P::Error> {
        let mut gathered = Gathered::default();
        match self.kind {
            Kind::Hash | Kind::Set => {
                for bucket in 0..self.head.buckets {
                    let page = self.cache.passing(Place::bucket(bucket))?;
                    let len = Run::parse(&page)?.len();
                    gathered.push(page, 0..len);
                }
            }
            Kind::List | Kind::SortedSet => self.gather(Place::ROOT, &mut gathered)?,
        }
        let run = gathered.finish(self.head.history)?;
        let history = self.head.history;
        if self.kind == Kind::Set && !history.not_integers && !history.not_compact {
            // Integers are in their order.
            return Ok(Set::read(&run)?.write());
        }
        Ok(run)
    }

    fn gather(&mut self, page: Place, gathered: &mut Gathered) -> Result<(), P::Error> {
        let bytes = self.cache.passing(page)?;
        let run = Run::parse(&bytes)?;
        if page.is_leaf() {
            let len = run.len();
            gathered.push(bytes, 0..len);
            return Ok(());
        }
        for child in children(&run) {
            self.gather(child?.place, gathered)?;
        }
        Ok(())
    }

    /// Bytes of that run, at most.
    pub fn whole_len(&self) -> u64 {
        let is_wide = self.head.history.longest as usize > NARROW_MAX;
        let entry = if is_wide { WIDE_ENTRY } else { NARROW_ENTRY };
        HEADER as u64 + self.head.bytes + self.head.elements * entry as u64
    }
}
