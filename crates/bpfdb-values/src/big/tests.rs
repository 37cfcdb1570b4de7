//! Large collections against those of the standard library. Pages of tests are small.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::remains::remove;
use super::*;
use crate::list::{End, List};
use crate::run::{History, Malformed, Run};
use crate::sorted_set::{Entry, Members, ScoreRange, Selection, SortedSet};
use std::ops::Bound;

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
            if big.kind == Kind::SortedSet {
                assert!(order::order_of(entry).expect("a score")[..] >= *separator);
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

#[derive(Clone, Debug)]
enum Action {
    Set(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
    Find(Vec<u8>),
    Commit,
}

fn action() -> impl Strategy<Value = Action> {
    let value = || prop_oneof![9 => vec(any::<u8>(), 0..20), 1 => vec(any::<u8>(), 200..400)];
    prop_oneof![
        6 => (key(), value()).prop_map(|(key, value)| Action::Set(key, value)),
        4 => key().prop_map(Action::Remove),
        1 => key().prop_map(Action::Find),
        1 => Just(Action::Commit),
    ]
}

/// A position in a list: a part of 1,000 of its length.
type Part = u16;

#[derive(Clone, Debug)]
enum ListAction {
    Push(End, Vec<Vec<u8>>),
    Insert(Part, Vec<u8>),
    Replace(Part, Vec<u8>),
    Take(Part, Part),
    Look(Part, Part),
    Commit,
}

fn list_action() -> impl Strategy<Value = ListAction> {
    let end = || prop_oneof![Just(End::Head), Just(End::Tail)];
    let part = || 0..=1000_u16;
    prop_oneof![
        4 => (end(), vec(key(), 1..40)).prop_map(|(end, new)| ListAction::Push(end, new)),
        2 => (part(), key()).prop_map(|(part, new)| ListAction::Insert(part, new)),
        2 => (part(), key()).prop_map(|(part, new)| ListAction::Replace(part, new)),
        2 => (part(), part()).prop_map(|(a, b)| ListAction::Take(a, b)),
        2 => (part(), part()).prop_map(|(a, b)| ListAction::Look(a, b)),
        1 => Just(ListAction::Commit),
    ]
}

fn elements(run: &[u8]) -> Vec<Vec<u8>> {
    let list = List::parse(run).expect("a list");
    let all = list.elements(0..list.len()).expect("sound");
    all.map(<[u8]>::to_vec).collect()
}

fn hash_of(pairs: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    let entries = pairs.iter().map(|(key, value)| (&key[..], &value[..]));
    crate::run::write(entries, History::default())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_table_is_a_map(
        first in proptest::collection::btree_map(key(), vec(any::<u8>(), 0..20), 0..300),
        actions in vec(action(), 0..300),
        most in 1..50_usize,
    ) {
        let memory = Memory::default();
        let mut head = memory.build(Kind::Hash, &hash_of(&first));
        let mut model: HashMap<Vec<u8>, Vec<u8>> = first.into_iter().collect();
        let mut big = memory.open(Kind::Hash, &head);
        for action in actions {
            match action {
                Action::Set(key, value) => {
                    let is_new = big.insert(&key, &value).expect("sound");
                    prop_assert_eq!(is_new, model.insert(key, value).is_none());
                }
                Action::Remove(key) => {
                    let was_there = big.remove(&key).expect("sound");
                    prop_assert_eq!(was_there, model.remove(&key).is_some());
                }
                Action::Find(key) => {
                    prop_assert_eq!(big.find(&key).expect("sound"), model.get(&key).cloned());
                }
                Action::Commit => {
                    head = big.finish().expect("written");
                    memory.check(Kind::Hash, &head);
                    big = memory.open(Kind::Hash, &head);
                }
            }
            prop_assert_eq!(big.len(), model.len() as u64);
        }
        head = big.finish().expect("written");
        memory.check(Kind::Hash, &head);
        let whole = memory.open(Kind::Hash, &head).whole().expect("sound");
        let read: Result<HashMap<_, _>, _> = Run::parse(&whole)
            .expect("a run")
            .iter()
            .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
            .collect();
        prop_assert_eq!(read.expect("sound"), model);
        memory.remove_all(most);
    }

    #[test]
    fn a_list_is_a_deque(
        first in vec(key(), 1..300),
        actions in vec(list_action(), 0..100),
        most in 1..50_usize,
    ) {
        let memory = Memory::default();
        let run = List::empty().push(End::Tail, &first).expect("a list");
        let mut head = memory.build(Kind::List, &run);
        memory.check(Kind::List, &head);
        let mut model: VecDeque<Vec<u8>> = first.into();
        let mut big = memory.open(Kind::List, &head);
        for action in actions {
            let len = model.len();
            let place = |part: Part| len * usize::from(part) / 1000;
            let range = |a: Part, b: Part| place(a.min(b))..place(a.max(b));
            match action {
                ListAction::Push(end, new) => {
                    big.push(end, &new).expect("sound");
                    for element in new {
                        match end {
                            End::Head => model.push_front(element),
                            End::Tail => model.push_back(element),
                        }
                    }
                }
                ListAction::Insert(part, element) => {
                    big.insert_at(place(part) as u64, &element).expect("sound");
                    model.insert(place(part), element);
                }
                ListAction::Replace(part, element) => {
                    if place(part) < len {
                        big.replace(place(part) as u64, &element).expect("sound");
                        model[place(part)] = element;
                    }
                }
                ListAction::Take(a, b) => {
                    let range = range(a, b);
                    let taken = big.take(range.start as u64..range.end as u64).expect("sound");
                    let wanted: Vec<_> = model.drain(range).collect();
                    prop_assert_eq!(elements(&taken), wanted);
                }
                ListAction::Look(a, b) => {
                    let range = range(a, b);
                    let found = big.elements(range.start as u64..range.end as u64).expect("sound");
                    let wanted: Vec<_> = model.range(range).cloned().collect();
                    prop_assert_eq!(elements(&found), wanted);
                }
                ListAction::Commit => {
                    head = big.finish().expect("written");
                    memory.check(Kind::List, &head);
                    big = memory.open(Kind::List, &head);
                }
            }
            prop_assert_eq!(big.len(), model.len() as u64);
        }
        head = big.finish().expect("written");
        memory.check(Kind::List, &head);
        let whole = memory.open(Kind::List, &head).whole().expect("sound");
        prop_assert_eq!(elements(&whole), Vec::from(model));
        memory.remove_all(most);
    }

    #[test]
    fn a_sorted_set_is_in_order(
        first in proptest::collection::btree_map(key(), -20..20_i32, 1..300),
        actions in vec((key(), proptest::option::weighted(0.6, -20..20_i32)), 0..300),
        ends in (-22..22_i32, -22..22_i32),
        most in 1..50_usize,
    ) {
        let memory = Memory::default();
        let entries = first.iter().map(|(member, &score)| Entry { member, score: score.into() });
        let mut head = memory.build(Kind::SortedSet, &crate::sorted_set::write(entries.collect()));
        memory.check(Kind::SortedSet, &head);
        let mut model = first;
        for actions in actions.chunks(40) {
            let mut big = memory.open(Kind::SortedSet, &head);
            for (member, score) in actions {
                match score {
                    Some(score) => {
                        big.set_score(member, f64::from(*score)).expect("sound");
                        model.insert(member.clone(), *score);
                    }
                    None => {
                        let was_there = big.remove_member(member).expect("sound");
                        prop_assert_eq!(was_there, model.remove(member).is_some());
                    }
                }
            }
            head = big.finish().expect("written");
            memory.check(Kind::SortedSet, &head);
        }
        let entries = model.iter().map(|(member, &score)| Entry { member, score: score.into() });
        let small = crate::sorted_set::write(entries.collect());
        let small = SortedSet::read(&small).expect("a sorted set");
        let mut big = memory.open(Kind::SortedSet, &head);
        let whole = big.whole().expect("sound");
        let whole = SortedSet::read(&whole).expect("in order");
        prop_assert_eq!(whole.entries(), small.entries());
        for (member, score) in &model {
            prop_assert_eq!(big.score(member).expect("sound"), Some(f64::from(*score)));
            let rank = big.rank(member).expect("sound");
            prop_assert_eq!(rank, small.rank(member).map(|rank| rank as u64));
        }
        let (min, max) = (f64::from(ends.0), f64::from(ends.1));
        for (min, max) in [
            (Bound::Included(min), Bound::Included(max)),
            (Bound::Excluded(min), Bound::Excluded(max)),
            (Bound::Unbounded, Bound::Excluded(max)),
            (Bound::Included(min), Bound::Unbounded),
        ] {
            for is_descending in [false, true] {
                let selection = Selection {
                    members: Members::Scores(ScoreRange { min, max }),
                    is_descending,
                    offset: 2,
                    count: 50,
                };
                let found = big.select(&selection).expect("sound");
                let wanted = small.select(&selection);
                prop_assert_eq!(found.end - found.start, wanted.len() as u64);
                if !wanted.is_empty() {
                    prop_assert_eq!(found.start, wanted.start as u64);
                }
            }
        }
        memory.remove_all(most);
    }
}

/// Elements come and go during a scan; those that stay are listed once.
#[test]
fn a_scan_meets_each_element_that_stays_once() {
    let memory = Memory::default();
    let name = |n: usize| format!("element {n}").into_bytes();
    let stay: Vec<Vec<u8>> = (0..200).map(name).collect();
    let entries = stay.iter().map(|key| (&key[..], &b""[..]));
    let head = memory.build(Kind::Set, &crate::run::write(entries, History::default()));
    let mut big = memory.open(Kind::Set, &head);
    let (mut position, mut met, mut round) = (0, HashMap::new(), 0);
    loop {
        let (elements, next) = big.scan(position).expect("sound");
        for (element, _) in elements {
            *met.entry(element).or_insert(0) += 1;
        }
        let Some(next) = next else { break };
        position = next;
        let others = (0..100).map(|n| name(1000 + round / 5 * 100 + n));
        for other in others {
            if round % 10 < 5 {
                big.insert(&other, b"").expect("sound");
            } else {
                big.remove(&name(1000)).expect("sound");
                let old = other;
                big.remove(&old).expect("sound");
            }
        }
        round += 1;
    }
    assert!(round > 20);
    assert!(stay.iter().all(|name| met.get(name) == Some(&1)));
}

#[test]
fn each_element_is_picked_about_as_often() {
    let memory = Memory::default();
    let names: Vec<Vec<u8>> = (0..100)
        .map(|n| format!("element {n}").into_bytes())
        .collect();
    let entries = names.iter().map(|key| (&key[..], &b""[..]));
    let head = memory.build(Kind::Set, &crate::run::write(entries, History::default()));
    let mut big = memory.open(Kind::Set, &head);
    let mut state = 1_u64;
    let mut below = |end: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % end
    };
    let mut times: HashMap<Vec<u8>, u32> = HashMap::new();
    for _ in 0..20_000 {
        *times
            .entry(big.pick(&mut below).expect("sound").0)
            .or_insert(0) += 1;
    }
    assert_eq!(times.len(), names.len());
    // 200 each, and a standard deviation of 14.
    assert!(
        times.values().all(|times| (120..300).contains(times)),
        "{times:?}"
    );
}

#[test]
fn one_long_element_makes_no_empty_buckets() {
    let memory = Memory::default();
    let entries = [(&b"a"[..], &b"1"[..]), (b"b", b"2")];
    let head = memory.build(
        Kind::Hash,
        &crate::run::write(entries.into_iter(), History::default()),
    );
    let mut big = memory.open(Kind::Hash, &head);
    big.insert(b"c", &[b'x'; 100_000]).expect("sound");
    (0..50_u8).for_each(|n| assert!(big.insert(&[n], b"").expect("sound")));
    assert!(big.head().buckets <= 53);
    (0..50_u8).for_each(|n| assert!(big.remove(&[n]).expect("sound")));
    let head = big.finish().expect("written");
    memory.check(Kind::Hash, &head);
}

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

#[test]
fn a_table_without_elements_is_refused() {
    let memory = Memory::default();
    let one = crate::run::write([(&b"a"[..], &b""[..])].into_iter(), History::default());
    let head = memory.build(Kind::Set, &one);
    let mut below = |most: u64| most - 1;
    let mut without = head.clone();
    without.buckets = 0;
    assert!(memory.open(Kind::Set, &without).pick(&mut below).is_err());
    let key = PageKey {
        identity: head.identity,
        place: Place::bucket(0),
    };
    memory.clone().write(key, &table::EMPTY).expect("in memory");
    let mut big = memory.open(Kind::Set, &head);
    assert!(big.pick(&mut below).is_err());
    assert!(big.whole().is_err());
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
