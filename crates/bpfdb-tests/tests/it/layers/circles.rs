//! Circles in a graph: of files that include each other, of modules that use each other.

use std::collections::{BTreeMap, BTreeSet};

/// From each node the nodes that it uses, each with the place where it does.
pub(super) type Graph = BTreeMap<String, BTreeMap<String, String>>;

/// Of all nodes that lie on circles one shortest circle for each group of them, as places.
pub(super) fn circles(graph: &Graph) -> Vec<String> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = graph
        .keys()
        .map(|node| (node.as_str(), reached(graph, node)))
        .collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (node, below) in &reached {
        if below.contains(node) && seen.insert(*node) {
            seen.extend(
                below
                    .iter()
                    .filter(|other| reached.get(*other).is_some_and(|from| from.contains(node))),
            );
            found.push(shortest(graph, node));
        }
    }
    found
}

/// What can be reached from `node` by one step or more.
fn reached<'a>(graph: &'a Graph, node: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = vec![node];
    while let Some(node) = open.pop() {
        for next in graph.get(node).into_iter().flat_map(BTreeMap::keys) {
            if found.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    found
}

/// The shortest way from `node` back to itself: the steps with their places.
fn shortest(graph: &Graph, node: &str) -> String {
    let mut before: BTreeMap<&str, &str> = BTreeMap::new();
    let mut open = vec![node];
    while !before.contains_key(node) && !open.is_empty() {
        let mut next_open = Vec::new();
        for from in open {
            for to in graph.get(from).into_iter().flat_map(BTreeMap::keys) {
                if !before.contains_key(to.as_str()) {
                    before.insert(to, from);
                    next_open.push(to.as_str());
                }
            }
        }
        open = next_open;
    }
    let mut steps = Vec::new();
    let mut to = node;
    while let Some(from) = before.get(to) {
        steps.push(format!("{from} uses {to} ({})", graph[*from][to]));
        to = from;
        if to == node {
            break;
        }
    }
    steps.reverse();
    steps.join(", ")
}
