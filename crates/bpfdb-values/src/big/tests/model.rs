//! Large collections against those of the standard library.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::Kind;
use super::{Memory, key};
use crate::list::{End, List};
use crate::run::{History, Run};
use crate::sorted_set::{Entry, Members, ScoreRange, Selection, SortedSet};

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
