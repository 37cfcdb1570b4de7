//! The index on records of a map, against a set of keys.

use std::collections::{BTreeMap, BTreeSet};

use super::node::Node;
use super::tree::{Records, Tree};
use super::{FORMAT, changing};
use crate::{Engine, Keyspace, Options, Status, abi};

#[derive(Default)]
struct Map {
    records: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Nodes that were locked since this was cleared.
    locked: BTreeSet<Vec<u8>>,
    /// What the next peek at a record finds: a version that is old.
    old: Option<(Vec<u8>, Vec<u8>)>,
}

impl Records for Map {
    fn peek(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Status> {
        if let Some((_, value)) = self.old.take_if(|(old, _)| old == key) {
            return Ok(Some(value));
        }
        Ok(self.records.get(key).cloned())
    }

    fn read(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Status> {
        self.lock(key)
    }

    fn lock(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Status> {
        self.locked.insert(key.to_vec());
        Ok(self.records.get(key).cloned())
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Status> {
        assert!(key.len() <= abi::BPFDB_KEY_MAX as usize && value.len() <= NODE_MAX);
        self.records.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Status> {
        let was = self.records.remove(key);
        was.map(drop).ok_or(Status::Corrupt)
    }
}

const TABLE: u8 = 3;
const HEIGHT: u8 = abi::BPFDB_NODE_HEIGHT as u8;
const NODE_MAX: usize = abi::BPFDB_NODE_MAX as usize;

/// Some numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    /// Of up to `longest` bytes, many with a common beginning.
    fn key(&mut self, longest: u64) -> Vec<u8> {
        let len = self.next(longest + 1);
        let few = 1 + self.next(4);
        (0..len).map(|_| self.next(few) as u8).collect()
    }
}

struct Index {
    map: Map,
    height: u8,
}

impl Index {
    fn new() -> Self {
        Self {
            map: Map::default(),
            height: 0,
        }
    }

    fn with<T>(&mut self, work: impl FnOnce(&mut Tree<'_, Map>) -> Result<T, Status>) -> T {
        let mut tree = Tree::new(&mut self.map, TABLE, self.height);
        let result = work(&mut tree).expect("the index is whole");
        self.height = tree.height();
        result
    }

    fn node(&self, level: u8, fence: &[u8]) -> Option<Node> {
        let name = [&Keyspace::NODES.prefix()[..], &[TABLE, level], fence].concat();
        let bytes = self.map.records.get(&name)?.clone();
        Some(Node::parse(bytes, level, fence).expect("a node"))
    }

    /// Fences and entries of the nodes of a level, from left to right.
    fn level(&self, level: u8) -> Vec<(Vec<u8>, Vec<Vec<u8>>)> {
        let (mut nodes, mut fence) = (Vec::new(), Vec::new());
        while let Some(node) = self.node(level, &fence) {
            let entries = (0..node.len()).map(|place| node.key(place).to_vec());
            nodes.push((fence, entries.collect()));
            let Some(next) = node.next() else {
                return nodes;
            };
            fence = next.to_vec();
        }
        assert!(nodes.is_empty() && fence.is_empty(), "a node is missing");
        nodes
    }

    /// Invariants 1 to 4, and that there are no other records.
    fn check(&mut self, keys: &BTreeSet<Vec<u8>>) {
        self.height = 0;
        self.with(|tree| tree.leaf(&[]).map(drop));
        let levels: Vec<_> = (0..=self.height).map(|level| self.level(level)).collect();
        let leaves = levels[0].iter().flat_map(|(_, entries)| entries);
        assert!(leaves.eq(keys), "the leaves have the keys");
        for pair in levels.windows(2) {
            let fences = pair[0].iter().map(|(fence, _)| fence);
            let entries = pair[1].iter().flat_map(|(_, entries)| entries);
            assert!(entries.eq(fences), "entries are the fences below");
        }
        let top = levels.last().expect("a level").len();
        assert!(top <= 1, "one node is the highest");
        let nodes: usize = levels.iter().map(Vec::len).sum();
        let records = self.map.records.len();
        assert_eq!(records, nodes + usize::from(self.height > 0));
        let empty = levels[0].iter().filter(|(_, entries)| entries.is_empty());
        let parents = levels.get(1).map_or(1, Vec::len);
        assert!(empty.count() <= parents, "first children only");
    }

    fn insert(&mut self, key: &[u8]) {
        self.with(|tree| tree.insert(key));
    }

    fn remove(&mut self, key: &[u8]) {
        self.with(|tree| tree.remove(key));
    }
}

#[test]
fn keys_come_and_go_in_any_order() {
    for (seed, longest) in [(1, 3), (2, 12), (3, 60), (4, 502), (5, 502)] {
        let (mut numbers, mut index) = (Numbers(seed), Index::new());
        let mut keys: BTreeSet<Vec<u8>> = BTreeSet::new();
        for round in 0..6_000 {
            let key = numbers.key(longest);
            // It grows, and shrinks to nothing.
            let grows = numbers.next(6_000) > round;
            match keys.range(key.clone()..).next().cloned() {
                Some(there) if !grows => {
                    index.remove(&there);
                    keys.remove(&there);
                }
                _ if keys.contains(&key) => {}
                _ if grows => {
                    index.insert(&key);
                    keys.insert(key);
                }
                _ => {}
            }
            if round % 500 == 0 {
                index.check(&keys);
            }
        }
        index.check(&keys);
        for key in std::mem::take(&mut keys) {
            index.remove(&key);
        }
        index.check(&keys);
        assert!(index.map.records.len() <= 1 + 1 + usize::from(index.height));
    }
}

#[test]
fn a_queue_takes_no_more_nodes_than_its_rows_need() {
    let mut index = Index::new();
    let key = |number: u64| number.to_be_bytes();
    let mut most = 0;
    for number in 0..40_000 {
        index.insert(&key(number));
        if number >= 1_000 {
            index.remove(&key(number - 1_000));
            most = most.max(index.map.records.len());
        }
    }
    // 101 entries fit a leaf.
    assert!(most < 30, "{most} nodes for 1000 rows");
    index.check(
        &(39_000..40_000)
            .map(|number| key(number).to_vec())
            .collect(),
    );
}

#[test]
fn nodes_are_full_where_keys_come_in_order() {
    let mut index = Index::new();
    for number in 0..10_000_u64 {
        index.insert(&number.to_be_bytes());
    }
    let leaves = index.level(0).len();
    assert!(leaves <= 10_000 / 100 + 1, "{leaves} leaves");
}

/// An insertion that splits a leaf locks its parent, too; any other locks the leaf alone.
#[test]
fn an_insertion_locks_one_leaf() {
    let mut index = Index::new();
    for number in (0..4_000_u64).map(|number| number * 2) {
        index.insert(&number.to_be_bytes());
    }
    let mut alone = 0;
    for number in (1..4_000_u64).step_by(40) {
        index.map.locked.clear();
        index.insert(&number.to_be_bytes());
        alone += usize::from(index.map.locked.len() == 1);
    }
    assert!(alone > 50, "{alone} of 100 insertions locked one node");
}

#[test]
fn a_height_that_is_old_is_learnt() {
    let mut index = Index::new();
    for number in 0..20_000_u64 {
        index.insert(&number.to_be_bytes());
    }
    assert!(index.height >= 2);
    for height in [0, 1, 7] {
        index.height = height;
        let leaf = index.with(|tree| tree.leaf(&12_345_u64.to_be_bytes()));
        assert!(leaf.find(&12_345_u64.to_be_bytes()).is_ok());
        index.height = height;
        index.remove(&(15_000 + u64::from(height)).to_be_bytes());
        assert!(index.height >= 2);
    }
}

/// A deletion that empties a leaf learns the height, and another transaction puts a level above right then: the
/// parent has nothing but that leaf, so the way goes on to the new level.
#[test]
fn a_height_that_grows_on_the_way_up_is_followed() {
    let mut index = Index::new();
    let key = |number: u64| number.to_be_bytes();
    let mut keys = BTreeSet::new();
    while index.height < 2 {
        let new = key(keys.len() as u64);
        index.insert(&new);
        keys.insert(new.to_vec());
    }
    // The last node of level 1 gets one child.
    let last = index.level(1).pop().expect("a node");
    let (fence, children) = last;
    assert!(!fence.is_empty());
    let kept = keys.iter().filter(|key| **key < children[0]).cloned();
    let only = keys.range(children[0].clone()..).next().cloned();
    let only = only.expect("a row");
    let kept: BTreeSet<_> = kept.chain([only.clone()]).collect();
    for gone in keys.difference(&kept) {
        index.remove(gone);
    }
    assert_eq!(
        index.level(1).pop().map(|(_, entries)| entries.len()),
        Some(1)
    );
    let height = [&Keyspace::NODES.prefix()[..], &[TABLE, HEIGHT]].concat();
    index.map.old = Some((height, vec![FORMAT, 1]));
    index.remove(&only);
    assert_eq!(index.map.old, None, "the old height was seen");
    let rows: BTreeSet<_> = kept.into_iter().filter(|key| *key != only).collect();
    index.check(&rows);
}

/// Without a transaction of the caller's the change is tried again.
#[test]
fn what_others_hold_is_waited_for() {
    let engine = Engine::create(&Options::default()).expect("the engine starts");
    let mut session = engine.session().expect("a session");
    let passing = [Status::Conflict, Status::VersionsFull, Status::Exhausted];
    let mut outcomes = passing.map(Err).into_iter().chain([Ok(7)]);
    let outcome = changing(&mut session, abi::BPFDB_INDEX_GROWS, |_| {
        outcomes.next().expect("not tried again")
    });
    assert_eq!(outcome, Ok(7));
}

#[test]
fn what_is_no_node_is_refused() {
    let mut node = Node::empty(0);
    node.insert(0, b"b");
    node.insert(1, b"cc");
    node.set_next(Some(b"d"));
    let good = node.bytes().to_vec();
    assert!(Node::parse(good.clone(), 0, b"a").is_ok());
    // Before its fence; of another level; behind the next one's.
    for (level, fence) in [(0, b"c"), (1, b"b"), (0, b"d")] {
        assert_eq!(
            Node::parse(good.clone(), level, fence).err(),
            Some(Status::Corrupt)
        );
    }
    for len in 0..good.len() {
        assert!(Node::parse(good[..len].to_vec(), 0, b"a").is_err(), "{len}");
    }
    let mut numbers = Numbers(7);
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        let at = numbers.next(bytes.len() as u64) as usize;
        bytes[at] = numbers.next(256) as u8;
        // Whatever it is, it is refused or whole.
        if let Ok(node) = Node::parse(bytes, 0, b"a") {
            assert!((1..node.len()).all(|place| node.key(place - 1) < node.key(place)));
        }
    }
}
