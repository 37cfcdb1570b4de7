//! Pages: their bytes, how many these become, and where they are kept.

use std::cell::OnceCell;
use std::fmt::Debug;
use std::ops::{Deref, Range};
use std::rc::Rc;

use super::children::Index;
use super::place::PageKey;
use crate::run::{Malformed, Run};

/// Bytes of a page beyond which it is split. Pages of tests are small, so that their trees are high.
pub(super) const MAX: usize = if cfg!(test) { 256 } else { 4096 };
/// Bytes that a page has on average, about.
pub(super) const TARGET: usize = MAX / 2;
/// Bytes of a leaf that was filled in the order of its elements, about.
pub(super) const FILLED: usize = MAX / 8 * 7;
/// Bytes below which a page is joined with one beside it, if both fit into one.
pub(super) const MIN: usize = MAX / 4;

/// The bytes of a page.
#[derive(Debug)]
pub struct Page {
    /// It may have other pages, too: those that were read with this one.
    block: Rc<Vec<u8>>,
    place: Range<usize>,
    /// Of an inner page that is kept.
    index: Option<OnceCell<Option<Index>>>,
}

impl Page {
    /// One that is read for one command.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self {
            place: 0..bytes.len(),
            block: Rc::new(bytes),
            index: None,
        }
    }

    /// One that many commands will look at: so it is worth while to find out where its children are. It is a part of
    /// a block of bytes, all of which stay as long as it does.
    ///
    /// # Panics
    /// The block has no such part.
    pub fn kept(block: Rc<Vec<u8>>, place: Range<usize>) -> Self {
        assert!(
            place.start <= place.end && place.end <= block.len(),
            "a part of the block"
        );
        Self {
            block,
            place,
            index: Some(OnceCell::new()),
        }
    }

    /// The same page by itself: no other bytes stay with it.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self::kept(Rc::new(self.to_vec()), 0..self.len())
    }

    /// Of an inner page, whose run this is; `None`: it is not worth while, or the page is damaged.
    pub(super) fn index(&self, run: &Run<'_>) -> Option<&Index> {
        let index = self.index.as_ref()?;
        index.get_or_init(|| Index::of(run).ok()).as_ref()
    }
}

impl Deref for Page {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.block[self.place.clone()]
    }
}

/// Where pages are kept: of one transaction, or of one moment.
pub trait Pages: Debug {
    type Error: From<Malformed>;

    /// The bytes of a page; `None`: there is none.
    fn read(&mut self, page: PageKey) -> Result<Option<Rc<Page>>, Self::Error>;

    /// These pages will be read next, probably: they may be fetched together.
    fn announce(&mut self, _: &[PageKey]) {}

    /// About so many pages will be read for what comes next.
    ///
    /// # Errors
    /// That is too much where pages are read like this; nothing was read for it yet.
    fn admit(&mut self, _: u64) -> Result<(), Self::Error> {
        Ok(())
    }

    fn write(&mut self, page: PageKey, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Removes a page, if there is one.
    fn remove(&mut self, page: PageKey) -> Result<(), Self::Error>;
}
