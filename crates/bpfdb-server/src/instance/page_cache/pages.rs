//! Pages that were used of late. There are two generations: when the young one is full it becomes the old one, and the
//! old one goes. A page that is used is in the young one from then on.

use std::collections::hash_map::IntoValues;
use std::rc::Rc;

use bpfdb_values::big::{Page, PageKey};
use rustc_hash::FxHashMap;

/// Bytes of a generation, at least and at most. The inner pages of a sorted set are a hundredth of its pages, about.
const BYTES_MIN: u64 = 1 << 20;
const BYTES_MAX: u64 = 64 << 20;
/// A generation has at most this part of the memory for data: one divided by so many.
const SHARE: u64 = 64;
/// Bytes that a page takes besides its own, about.
const BESIDE: usize = 160;
/// Pages that go with each one that comes: so no request waits for all of them.
const DROPPED: usize = 4;

#[derive(Clone, Debug)]
struct Kept {
    version: u64,
    page: Rc<Page>,
}

#[derive(Debug, Default)]
pub(super) struct RecentPages {
    young: FxHashMap<PageKey, Kept>,
    old: FxHashMap<PageKey, Kept>,
    /// Were old before.
    going: Option<IntoValues<PageKey, Kept>>,
    /// Of the young ones, about: one that is kept in the place of another counts as well.
    bytes: usize,
    limit: usize,
}

impl RecentPages {
    /// For an engine with so much memory for data, bytes.
    pub(super) fn set_limit(&mut self, memory: u64) {
        self.limit = (memory / SHARE).clamp(BYTES_MIN, BYTES_MAX) as usize;
    }

    pub(super) fn get(&mut self, key: PageKey, version: u64) -> Option<Rc<Page>> {
        let is_it = |kept: &Kept| kept.version == version;
        if let Some(kept) = self.young.get(&key) {
            return is_it(kept).then(|| Rc::clone(&kept.page));
        }
        let kept = self.old.remove(&key).filter(is_it)?;
        // Others that came with it may go.
        let page = Rc::new(kept.page.apart());
        self.keep(key, version, Rc::clone(&page));
        Some(page)
    }

    pub(super) fn keep(&mut self, key: PageKey, version: u64, page: Rc<Page>) {
        self.bytes += page.len() + BESIDE;
        self.young.insert(key, Kept { version, page });
        if let Some(going) = &mut self.going
            && going.by_ref().take(DROPPED).count() < DROPPED
        {
            self.going = None;
        }
        if self.bytes > self.limit {
            let old = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            self.going = Some(old.into_values());
            self.bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use bpfdb_values::big::Place;

    use super::*;

    const LEN: usize = 4096;

    fn key(number: u64) -> PageKey {
        PageKey {
            identity: 1,
            place: Place::bucket(number),
        }
    }

    fn empty() -> RecentPages {
        let mut pages = RecentPages::default();
        pages.set_limit(0);
        pages
    }

    fn keep(pages: &mut RecentPages, number: u64, version: u64, byte: u8) {
        let page = Page::kept(Rc::new(vec![byte; LEN]), 0..LEN);
        pages.keep(key(number), version, Rc::new(page));
    }

    fn found(pages: &mut RecentPages, number: u64, version: u64) -> Option<u8> {
        pages.get(key(number), version).map(|page| page[0])
    }

    #[test]
    fn a_page_is_found_in_its_version_alone() {
        let mut pages = empty();
        keep(&mut pages, 1, 1, 10);
        assert_eq!(found(&mut pages, 1, 1), Some(10));
        assert_eq!(found(&mut pages, 1, 2), None);
        assert_eq!(found(&mut pages, 2, 1), None);
        keep(&mut pages, 1, 2, 20);
        assert_eq!(found(&mut pages, 1, 1), None);
        assert_eq!(found(&mut pages, 1, 2), Some(20));
    }

    #[test]
    fn what_is_used_stays_and_what_is_not_goes() {
        let mut pages = empty();
        let most = BYTES_MIN as usize / LEN;
        keep(&mut pages, 0, 1, 0);
        keep(&mut pages, 1, 1, 1);
        for number in 2..5 * most as u64 {
            keep(&mut pages, number, 1, 7);
            assert_eq!(found(&mut pages, 0, 1), Some(0), "{number}");
            let going = pages.going.as_ref().map_or(0, ExactSizeIterator::len);
            assert!(pages.young.len() + pages.old.len() + going <= 3 * most + 3);
        }
        assert_eq!(found(&mut pages, 1, 1), None);
        // Those that go are gone when the next ones do.
        assert!(pages.young.len() < most / 2 || pages.going.is_none());
    }

    #[test]
    fn a_page_that_is_kept_longer_leaves_its_block() {
        let mut pages = empty();
        let block = Rc::new(vec![3; 2 * LEN]);
        pages.keep(
            key(0),
            1,
            Rc::new(Page::kept(Rc::clone(&block), LEN..2 * LEN)),
        );
        for number in 1..=BYTES_MIN / LEN as u64 {
            keep(&mut pages, number, 1, 7);
        }
        assert_eq!(found(&mut pages, 0, 1), Some(3));
        assert_eq!(Rc::strong_count(&block), 1);
    }
}
