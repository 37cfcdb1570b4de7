//! A large collection as a small one: all elements in one run.

use super::Big;
use super::page::{Pages, Place};
use super::tree::{Gathered, children};
use crate::limits::Kind;
use crate::run::{HEADER, Run, WIDE_ENTRY};

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
        Ok(gathered.finish(self.head.history)?)
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
        HEADER as u64 + self.head.bytes + self.head.elements * WIDE_ENTRY as u64
    }
}
