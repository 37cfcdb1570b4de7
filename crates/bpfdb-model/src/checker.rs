//! Is a recorded history strictly serializable?
//!
//! The transactions are the nodes of a graph; an edge says "must come before":
//!
//! ```text
//!   ww   b overwrote what a wrote            rw   b overwrote what a read
//!   wr   b read what a wrote                 rt   a had ended when b began
//! ```
//!
//! A serial order that explains every read and respects real time exists if the
//! graph has no cycle. The names of the cycles are Adya's; with `rt` edges
//! allowed in each, they are the "strict" forms.
//!
//! Sound: what is reported did happen and is forbidden. For lists the order of
//! versions is known, so nothing that was read escapes; for registers it is
//! inferred, and a cycle through unordered writes stays unseen.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;

use crate::history::{Access, Element, Key, Transaction, Workload};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Anomaly {
    /// A read returned what was never written.
    Garbage,
    /// A read returned what a transaction wrote that did not commit.
    G1aAbortedRead,
    /// A read returned what its writer replaced before it committed.
    G1bIntermediateRead,
    /// A transaction does not see its own writes, or one key changes under it.
    Internal,
    /// Two lists of one key of which neither starts with the other.
    Incompatible,
    /// A committed write that a later list does not contain.
    LostWrite,
    /// A cycle of ww.
    G0,
    /// A cycle of ww and wr.
    G1c,
    /// A cycle with rw: write skew, read skew, and the anomalies of snapshots.
    G2,
}

#[derive(Clone, Debug)]
pub struct Violation {
    pub anomaly: Anomaly,
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:?}: {}", self.anomaly, self.text)
    }
}

impl std::error::Error for Violation {}

/// Finds the first violation, or that there is none.
pub fn check(workload: Workload, history: &[Transaction]) -> Result<(), Violation> {
    let writes = Writes::collect(history)?;
    for transaction in history.iter().filter(|t| t.committed) {
        check_reads(transaction, &writes)?;
    }
    let orders = match workload {
        Workload::Lists => list_orders(history)?,
        Workload::Registers => register_orders(history, &writes),
    };
    let mut graph = Graph::new(history);
    graph.add_overwrites(&orders, &writes);
    graph.add_reads(&writes);
    graph.add_real_time();
    graph.find_cycle()
}

fn violation<T>(anomaly: Anomaly, text: String) -> Result<T, Violation> {
    Err(Violation { anomaly, text })
}

// ---- Reads, one by one ------------------------------------------------------

struct Write {
    transaction: usize,
    key: Key,
    committed: bool,
    /// The last one of its transaction to the key.
    last: bool,
}

struct Writes(HashMap<Element, Write>);

impl Writes {
    fn collect(history: &[Transaction]) -> Result<Writes, Violation> {
        let mut all = HashMap::new();
        for (transaction, t) in history.iter().enumerate() {
            let mut last: HashMap<Key, Element> = HashMap::new();
            for access in &t.accesses {
                let Access::Write(key, element) = *access else {
                    continue;
                };
                if let Some(before) = last.insert(key, element) {
                    all.entry(before)
                        .and_modify(|write: &mut Write| write.last = false);
                }
                let write = Write {
                    transaction,
                    key,
                    committed: t.committed,
                    last: true,
                };
                assert!(
                    all.insert(element, write).is_none(),
                    "element {element} written twice"
                );
            }
        }
        Ok(Writes(all))
    }

    fn writer(&self, element: Element) -> usize {
        self.0[&element].transaction
    }
}

fn check_reads(transaction: &Transaction, writes: &Writes) -> Result<(), Violation> {
    let mut seen: HashMap<Key, Option<Element>> = HashMap::new();
    for access in &transaction.accesses {
        match access {
            Access::Write(key, element) => {
                seen.insert(*key, Some(*element));
            }
            Access::Read(key, elements) => {
                let now = elements.last().copied();
                let before = *seen.entry(*key).or_insert(now);
                if before != now {
                    return violation(
                        Anomaly::Internal,
                        format!(
                            "key {key} should still be {before:?}, is {now:?} in {transaction:?}"
                        ),
                    );
                }
                check_elements(transaction, *key, elements, writes)?;
            }
        }
    }
    Ok(())
}

fn check_elements(
    transaction: &Transaction,
    key: Key,
    elements: &[Element],
    writes: &Writes,
) -> Result<(), Violation> {
    let own = |element: &Element| transaction.accesses.contains(&Access::Write(key, *element));
    for element in elements {
        let anomaly = match writes.0.get(element) {
            Some(write) if write.key != key => Anomaly::Garbage,
            Some(write) if !write.committed => Anomaly::G1aAbortedRead,
            Some(write) if Some(element) == elements.last() && !write.last && !own(element) => {
                Anomaly::G1bIntermediateRead
            }
            Some(_) => continue,
            None => Anomaly::Garbage,
        };
        return violation(
            anomaly,
            format!("element {element} of key {key}, read by {transaction:?}"),
        );
    }
    Ok(())
}

// ---- The order of versions --------------------------------------------------

/// Of one key: pairs of versions of which the second replaced the first, at
/// once or later. `None` is the absent key, before all others.
type Successors = Vec<(Option<Element>, Element)>;
type Orders = BTreeMap<Key, Successors>;

fn reads(transaction: &Transaction) -> impl Iterator<Item = (Key, &[Element])> {
    transaction
        .accesses
        .iter()
        .filter_map(|access| match access {
            Access::Read(key, elements) => Some((*key, &elements[..])),
            Access::Write(..) => None,
        })
}

fn list_orders(history: &[Transaction]) -> Result<Orders, Violation> {
    let mut longest: BTreeMap<Key, (&Transaction, &[Element])> = BTreeMap::new();
    for t in history.iter().filter(|t| t.committed) {
        for (key, list) in reads(t) {
            let best = longest.entry(key).or_insert((t, list));
            let (short, long) = if list.len() > best.1.len() {
                (best.1, list)
            } else {
                (list, best.1)
            };
            if !long.starts_with(short) {
                return violation(
                    Anomaly::Incompatible,
                    format!("key {key} was once {short:?} and once {long:?}"),
                );
            }
            // Of equal lists the one that was read last says most about losses.
            if (list.len(), t.began) > (best.1.len(), best.0.began) {
                *best = (t, list);
            }
        }
    }
    for t in history.iter().filter(|t| t.committed) {
        for access in &t.accesses {
            let Access::Write(key, element) = access else {
                continue;
            };
            let Some((reader, list)) = longest.get(key) else {
                continue;
            };
            if t.ended < reader.began && !list.contains(element) {
                return violation(
                    Anomaly::LostWrite,
                    format!("element {element} of key {key} is not in {list:?}, written by {t:?}"),
                );
            }
        }
    }
    let pairs = |list: &[Element]| {
        let before = std::iter::once(None).chain(list.iter().copied().map(Some));
        before.zip(list.iter().copied()).collect()
    };
    Ok(longest
        .into_iter()
        .map(|(key, (_, list))| (key, pairs(list)))
        .collect())
}

/// Pairs of versions, per version, that the inference for registers looks at.
const WINDOW: usize = 16;

/// If a transaction that saw a (or wrote it) had ended when one that saw b began,
/// then a is older than b.
fn register_orders(history: &[Transaction], writes: &Writes) -> Orders {
    /// When a version was certainly there, and when it was still the newest.
    struct Life {
        there_by: u64,
        newest_at: u64,
    }
    let mut lives: HashMap<Key, HashMap<Element, Life>> = HashMap::new();
    for t in history.iter().filter(|t| t.committed) {
        for access in &t.accesses {
            let (key, element) = match access {
                Access::Read(key, elements) => (*key, elements.last().copied()),
                Access::Write(key, element) => (*key, Some(*element)),
            };
            let Some(element) = element.filter(|element| writes.0[element].last) else {
                continue;
            };
            let life = Life {
                there_by: u64::MAX,
                newest_at: 0,
            };
            let life = lives.entry(key).or_default().entry(element).or_insert(life);
            life.there_by = life.there_by.min(t.ended);
            life.newest_at = life.newest_at.max(t.began);
        }
    }
    let mut orders = Orders::new();
    for (key, lives) in lives {
        let mut oldest_first: Vec<(Element, Life)> = lives.into_iter().collect();
        oldest_first.sort_by_key(|(_, life)| life.there_by);
        let successors = orders.entry(key).or_default();
        successors.extend(
            oldest_first
                .iter()
                .take(WINDOW)
                .map(|(element, _)| (None, *element)),
        );
        for (element, life) in &oldest_first {
            let older = oldest_first.partition_point(|(_, other)| other.there_by < life.newest_at);
            let nearest = oldest_first[..older]
                .iter()
                .rev()
                .filter(|(other, _)| other != element);
            successors.extend(
                nearest
                    .take(WINDOW)
                    .map(|(other, _)| (Some(*other), *element)),
            );
        }
    }
    orders
}

// ---- The graph --------------------------------------------------------------

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Because {
    WriteWrite(Key),
    WriteRead(Key),
    ReadWrite(Key),
    RealTime,
}

/// Which edges a kind of cycle may have.
type Allowed = fn(&Because) -> bool;

/// Nodes: the transactions, then the ends of the chain of real time.
struct Graph<'a> {
    history: &'a [Transaction],
    edges: Vec<Vec<(usize, Because)>>,
}

impl<'a> Graph<'a> {
    fn new(history: &'a [Transaction]) -> Self {
        Graph {
            history,
            edges: vec![Vec::new(); history.len()],
        }
    }

    fn committed(&self) -> impl Iterator<Item = (usize, &'a Transaction)> + use<'a> {
        self.history.iter().enumerate().filter(|(_, t)| t.committed)
    }

    fn add(&mut self, before: usize, after: usize, because: Because) {
        if before != after {
            self.edges[before].push((after, because));
        }
    }

    /// Between those that wrote, or read, a version and its overwriters.
    fn add_overwrites(&mut self, orders: &Orders, writes: &Writes) {
        let mut readers: HashMap<(Key, Option<Element>), Vec<usize>> = HashMap::new();
        for (node, transaction) in self.committed() {
            for (key, elements) in reads(transaction) {
                readers
                    .entry((key, elements.last().copied()))
                    .or_default()
                    .push(node);
            }
        }
        for (key, successors) in orders {
            for (before, after) in successors {
                let overwriter = writes.writer(*after);
                if let Some(before) = before {
                    self.add(
                        writes.writer(*before),
                        overwriter,
                        Because::WriteWrite(*key),
                    );
                }
                for reader in readers.get(&(*key, *before)).into_iter().flatten() {
                    self.add(*reader, overwriter, Because::ReadWrite(*key));
                }
            }
        }
    }

    fn add_reads(&mut self, writes: &Writes) {
        for (node, transaction) in self.committed() {
            for (key, elements) in reads(transaction) {
                if let Some(element) = elements.last() {
                    self.add(writes.writer(*element), node, Because::WriteRead(key));
                }
            }
        }
    }

    /// a -> b for every a that had ended when b began, by way of a chain with
    /// one node per end, so that there are few edges.
    fn add_real_time(&mut self) {
        // Ties: begins first, so that equal times order nothing.
        let begins = self.committed().map(|(node, t)| (t.began, false, node));
        let ends = self.committed().map(|(node, t)| (t.ended, true, node));
        let mut events: Vec<_> = begins.chain(ends).collect();
        events.sort();
        let mut latest = None;
        for (_, is_end, node) in events {
            if is_end {
                let link = self.edges.len();
                self.edges.push(Vec::new());
                self.add(node, link, Because::RealTime);
                if let Some(before) = latest.replace(link) {
                    self.add(before, link, Because::RealTime);
                }
            } else if let Some(link) = latest {
                self.add(link, node, Because::RealTime);
            }
        }
    }

    /// Looks for the worst kind of cycle first.
    fn find_cycle(&self) -> Result<(), Violation> {
        use Because::*;
        let kinds: [(Anomaly, Allowed); 3] = [
            (Anomaly::G0, |b| matches!(b, WriteWrite(_) | RealTime)),
            (Anomaly::G1c, |b| {
                matches!(b, WriteWrite(_) | WriteRead(_) | RealTime)
            }),
            (Anomaly::G2, |_| true),
        ];
        for (anomaly, allowed) in kinds {
            if let Some(component) = self.component(allowed) {
                let cycle = self.shortest_cycle(&component, allowed);
                return violation(anomaly, self.describe(&cycle));
            }
        }
        Ok(())
    }

    /// A strongly connected component of several nodes (Tarjan, with a stack of
    /// its own).
    fn component(&self, allowed: Allowed) -> Option<Vec<usize>> {
        const NEW: usize = usize::MAX;
        let n = self.edges.len();
        let (mut order, mut low) = (vec![NEW; n], vec![NEW; n]);
        let mut on_path = vec![false; n];
        let (mut path, mut visited) = (Vec::new(), 0);
        for root in 0..n {
            // The nodes being visited, each with the next edge to look at.
            let mut stack = if order[root] == NEW {
                vec![(root, 0)]
            } else {
                Vec::new()
            };
            while let Some((node, edge)) = stack.pop() {
                if edge == 0 {
                    (order[node], low[node]) = (visited, visited);
                    visited += 1;
                    path.push(node);
                    on_path[node] = true;
                }
                match self.edges[node].get(edge) {
                    Some((next, because)) => {
                        stack.push((node, edge + 1));
                        if !allowed(because) {
                        } else if order[*next] == NEW {
                            stack.push((*next, 0));
                        } else if on_path[*next] {
                            low[node] = low[node].min(order[*next]);
                        }
                    }
                    None => {
                        if low[node] == order[node] {
                            let start = path.iter().rposition(|member| *member == node).unwrap();
                            let component = path.split_off(start);
                            if component.len() > 1 {
                                return Some(component);
                            }
                            on_path[node] = false;
                        }
                        if let Some((parent, _)) = stack.last() {
                            low[*parent] = low[*parent].min(low[node]);
                        }
                    }
                }
            }
        }
        None
    }

    /// Through one transaction of the component, by breadth-first search.
    fn shortest_cycle(&self, component: &[usize], allowed: Allowed) -> Vec<(usize, Because)> {
        let start = *component
            .iter()
            .find(|node| **node < self.history.len())
            .unwrap();
        let mut came_from: HashMap<usize, (usize, Because)> = HashMap::new();
        let mut queue = VecDeque::from([start]);
        while !came_from.contains_key(&start) {
            let node = queue.pop_front().expect("a component is connected");
            for (next, because) in self.edges[node].iter().filter(|(_, b)| allowed(b)) {
                if component.contains(next) && !came_from.contains_key(next) {
                    came_from.insert(*next, (node, *because));
                    queue.push_back(*next);
                }
            }
        }
        let mut cycle = Vec::new();
        let mut node = start;
        loop {
            let (before, because) = came_from[&node];
            cycle.push((before, because));
            node = before;
            if node == start {
                cycle.reverse();
                return cycle;
            }
        }
    }

    fn describe(&self, cycle: &[(usize, Because)]) -> String {
        let mut text = String::from("a cycle:");
        for (node, because) in cycle {
            match self.history.get(*node) {
                Some(t) => text += &format!("\n  #{node} {t:?}\n    -> {because:?}"),
                None => text += " ..",
            }
        }
        text
    }
}
