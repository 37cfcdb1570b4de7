//! Large collections. Pages of tests are small.

mod model;
mod streams;
mod tables;
mod trees;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::prelude::*;

use super::remains::remove;
use super::*;
use crate::run::{Malformed, Run};

/// Pages in memory.
#[derive(Clone, Debug, Default)]
struct Memory(Rc<RefCell<BTreeMap<PageKey, Vec<u8>>>>);

impl Pages for Memory {
    type Error = Malformed;

    fn read(&mut self, page: PageKey) -> Result<Option<Rc<Page>>, Malformed> {
        let pages = self.0.borrow();
        Ok(pages.get(&page).map(|bytes| {
            let bytes = bytes.clone();
            // Some as if they were kept.
            Rc::new(if bytes.len() % 2 == 0 {
                let len = bytes.len();
                Page::kept(Rc::new([&bytes[..], b"other"].concat()), 0..len)
            } else {
                Page::new(bytes)
            })
        }))
    }

    fn write(&mut self, page: PageKey, bytes: &[u8]) -> Result<(), Malformed> {
        self.0.borrow_mut().insert(page, bytes.to_vec());
        Ok(())
    }

    fn remove(&mut self, page: PageKey) -> Result<(), Malformed> {
        assert!(self.0.borrow_mut().remove(&page).is_some(), "{page:?}");
        Ok(())
    }
}

impl Memory {
    fn build(&self, kind: Kind, run: &[u8]) -> Head {
        let run = Run::parse(run).expect("a run");
        build(kind, &run, 7, [1, 2], self.clone()).expect("built")
    }

    fn open(&self, kind: Kind, head: &Head) -> Big<Self> {
        Big::open(kind, head.clone(), self.clone())
    }

    /// Invariants 2 to 5.
    fn check(&self, kind: Kind, head: &Head) {
        let mut big = self.open(kind, head);
        let whole = big.whole().expect("sound");
        let run = Run::parse(&whole).expect("a run");
        assert_eq!(run.len() as u64, head.elements);
        assert_eq!(list::contents(&whole), Ok(head.bytes as usize));
        let mut pages = 0;
        for bucket in 0..head.buckets {
            let page = big
                .cache
                .page(Place::bucket(bucket))
                .expect("there")
                .to_vec();
            pages += 1;
            for entry in Run::parse(&page).expect("a run").iter() {
                let hash = siphash::hash(head.secret, entry.expect("sound").0);
                assert_eq!(table::bucket_of(hash, head.buckets), bucket);
            }
        }
        if matches!(kind, Kind::List | Kind::SortedSet) {
            let (count, below) = check_tree(&mut big, Place::ROOT, &[]);
            assert_eq!(count, head.elements);
            pages += below;
        }
        assert_eq!(self.0.borrow().len(), pages, "pages that nothing leads to");
    }

    /// Removes everything in slices.
    fn remove_all(&self, most: usize) {
        let mut slices = 0;
        while !remove(&mut self.clone(), 7, most).expect("sound") {
            slices += 1;
            assert!(slices < 100_000);
        }
        assert!(self.0.borrow().is_empty());
    }
}

/// Elements and pages below a page.
fn check_tree(big: &mut Big<Memory>, page: Place, separator: &[u8]) -> (u64, usize) {
    let bytes = big.cache.page(page).expect("there").to_vec();
    let run = Run::parse(&bytes).expect("a run");
    if page.is_leaf() {
        assert!(!run.is_empty());
        for entry in run.iter() {
            let entry = entry.expect("sound");
            if let Some(order) = big.shape.order_of(entry).expect("an order") {
                assert!(order[..] >= *separator);
            }
        }
        return (run.len() as u64, 1);
    }
    let (mut elements, mut pages) = (0, 1);
    for (number, child) in children::children(&run).enumerate() {
        let child = child.expect("sound");
        let own = if number == 0 {
            separator
        } else {
            child.separator
        };
        assert!(own >= separator);
        let (count, below) = check_tree(big, child.place, own);
        assert_eq!(count, child.count);
        elements += count;
        pages += below;
    }
    (elements, pages)
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        9 => (0..400_u32).prop_map(|n| format!("element {n}").into_bytes()),
        1 => (0..20_usize).prop_map(|n| vec![b'x'; 250 + n]),
    ]
}
