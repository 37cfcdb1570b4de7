//! Trees of lists and sorted sets: their separators, damage, and which pages are read.

use std::cell::RefCell;
use std::rc::Rc;

use super::super::remains::remove;
use super::super::{Big, Head, Kind, Page, PageKey, Pages, Place};
use super::Memory;
use crate::run::{History, Malformed};
use crate::sorted_set::Entry;

/// Separators that are longer than a page.
#[test]
fn long_members_that_begin_alike() {
    let memory = Memory::default();
    let name = |n: usize| [&vec![b'x'; 700][..], n.to_string().as_bytes()].concat();
    let first = [name(0)];
    let entries = first.iter().map(|member| Entry { member, score: 1.0 });
    let mut head = memory.build(
        Kind::SortedSet,
        &crate::sorted_set::write(entries.collect()),
    );
    for round in 0..10 {
        let mut big = memory.open(Kind::SortedSet, &head);
        for n in 0..40 {
            big.set_score(&name(n * 7919 % 400 + round), 1.0)
                .expect("sound");
        }
        head = big.finish().expect("written");
        memory.check(Kind::SortedSet, &head);
    }
    let mut big = memory.open(Kind::SortedSet, &head);
    let len = big.len();
    big.take_members(3..len - 3).expect("sound");
    let head = big.finish().expect("written");
    memory.check(Kind::SortedSet, &head);
    memory.remove_all(3);
}

/// A sorted set of some elements, with a root above inner pages, and its pages.
fn high_tree() -> (Memory, Head) {
    let members: Vec<Vec<u8>> = (0..2000).map(|n| format!("{n:08}").into_bytes()).collect();
    let score = crate::run::sortable(1.0).to_le_bytes();
    let entries = members.iter().map(|member| (&member[..], &score[..]));
    let memory = Memory::default();
    let head = memory.build(
        Kind::SortedSet,
        &crate::run::write(entries, History::default()),
    );
    memory.check(Kind::SortedSet, &head);
    (memory, head)
}

fn inner(children: &[Place]) -> Vec<u8> {
    let values: Vec<[u8; 16]> = children
        .iter()
        .map(|place| (u128::from(place.code()) | 1 << 64).to_le_bytes())
        .collect();
    let entries = values.iter().map(|value| (&b""[..], &value[..]));
    crate::run::write(entries, History::default())
}

/// Pages that are below each other have no end, and those below several others very many leaves.
#[test]
fn damaged_trees_are_refused() {
    for children in [
        vec![Place::ROOT; 3],
        vec![Place::inner(500); 3],
        vec![Place::leaf(0); 3],
    ] {
        let (mut memory, head) = high_tree();
        let key = |place| PageKey {
            identity: head.identity,
            place,
        };
        for number in 500..600 {
            let below = inner(&[Place::inner(number + 1); 3]);
            memory
                .write(key(Place::inner(number)), &below)
                .expect("in memory");
        }
        memory
            .write(key(Place::ROOT), &inner(&children))
            .expect("in memory");
        assert!(memory.open(Kind::SortedSet, &head).whole().is_err());
        if children[0] != Place::leaf(0) {
            assert!(remove(&mut memory, head.identity, 1000).is_err());
        }
    }
}

/// What a transaction has to log of pages that go.
#[test]
fn pages_that_are_removed_count() {
    let (memory, head) = high_tree();
    let pages = memory.0.borrow().len();
    let mut big = memory.open(Kind::SortedSet, &head);
    let all = 0..head.elements - 1;
    let gone = big.elements(all.clone()).expect("there");
    big.cut(all).expect("cut");
    drop(gone);
    assert!(
        big.changed_bytes() > pages / 4 * 48,
        "{} of {pages}",
        big.changed_bytes()
    );
}

/// Pages that are read for ranges, counted; more than so many are not admitted.
#[derive(Clone, Debug)]
struct Counted {
    pages: Memory,
    most: u64,
    announced: Rc<RefCell<usize>>,
    read: Rc<RefCell<usize>>,
}

impl Pages for Counted {
    type Error = Malformed;

    fn read(&mut self, page: PageKey) -> Result<Option<Rc<Page>>, Malformed> {
        *self.read.borrow_mut() += 1;
        self.pages.read(page)
    }

    fn announce(&mut self, pages: &[PageKey]) {
        *self.announced.borrow_mut() += pages.len();
    }

    fn admit(&mut self, pages: u64) -> Result<(), Malformed> {
        if pages > self.most {
            return Err(Malformed("too many pages"));
        }
        Ok(())
    }

    fn write(&mut self, page: PageKey, bytes: &[u8]) -> Result<(), Malformed> {
        self.pages.write(page, bytes)
    }

    fn remove(&mut self, page: PageKey) -> Result<(), Malformed> {
        self.pages.remove(page)
    }
}

/// The leaves of a range are announced once, and a range of too many is refused before a page of it is read.
#[test]
fn ranges_announce_each_leaf_once_and_ask_first() {
    let elements: Vec<Vec<u8>> = (0..3000_u32)
        .map(|n| format!("element-{n:05}").into())
        .collect();
    let entries = elements.iter().map(|element| (&element[..], &b""[..]));
    let run = crate::run::write(entries, History::default());
    let memory = Memory::default();
    let head = memory.build(Kind::List, &run);
    let leaves = memory
        .0
        .borrow()
        .keys()
        .filter(|key| key.place.is_leaf())
        .count();
    assert!(leaves > 100, "{leaves} leaves");
    let open = |most| {
        let pages = Counted {
            pages: memory.clone(),
            most,
            announced: Rc::default(),
            read: Rc::default(),
        };
        (pages.clone(), Big::open(Kind::List, head.clone(), pages))
    };
    let (counted, mut list) = open(u64::MAX);
    list.elements(0..3000).expect("sound");
    let announced = *counted.announced.borrow();
    assert!(announced <= leaves, "{announced} of {leaves}");
    assert!(announced > leaves / 2, "{announced} of {leaves}");
    // What is asked for is about the number of leaves.
    for (most, admitted) in [(leaves / 2, false), (leaves * 3 / 2, true)] {
        let (counted, mut list) = open(most as u64);
        assert_eq!(
            list.elements(0..3000).is_ok(),
            admitted,
            "{most} of {leaves}"
        );
        assert_eq!(list.whole().is_ok(), admitted, "{most} of {leaves}");
        assert_eq!(*counted.read.borrow() > 0, admitted);
        assert!(list.elements(1000..1100).is_ok());
    }
}
