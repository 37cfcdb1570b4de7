//! Intersections, unions and differences of sets.

use std::collections::{BTreeSet, HashMap};

use bpfdb::{Session, ValueType};
use bpfdb_values::Set;
use bpfdb_values::run::{Malformed, Run};

use super::super::atomic::{Kind, atomically};
use super::super::collection::{check_reply, load, load_for_update};
use super::super::prelude::*;
use super::store;

/// Bytes of the sets of one command, all together.
const SOURCES_MAX: usize = 1 << 30;

#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    Intersection,
    Union,
    Difference,
}

/// Replies what the operation makes of these sets.
pub(super) fn reply(context: &mut Context<'_>, operation: Operation, keys: &[Vec<u8>]) -> Outcome {
    let sources = atomically(context.session, Kind::Read, |session| {
        Sources::load(session, keys, None)
    })?;
    let set = sources.combine(operation)?;
    let replies = &mut *context.replies;
    let start = replies.len();
    replies.set(set.len());
    for member in set.ordered() {
        replies.bulk(member);
        check_reply(replies, start)?;
    }
    Ok(())
}

/// Gives `target` what the operation makes of these sets, and replies how many members that has.
pub(super) fn keep(
    context: &mut Context<'_>,
    operation: Operation,
    target: &[u8],
    keys: &[Vec<u8>],
) -> Outcome {
    let len = atomically(context.session, Kind::Write, |session| {
        let sources = Sources::load(session, keys, Some(target))?;
        let set = sources.combine(operation)?;
        store(session, target, &set, None)?;
        Ok(set.len())
    })?;
    context.replies.integer(len as i64);
    Ok(())
}

/// The sets that a command names, in its order.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// The bytes of each set, once.
    loaded: Vec<Vec<u8>>,
    /// For each key of the command its place in `loaded`; `None`: it is absent.
    places: Vec<Option<usize>>,
}

impl Sources {
    /// Reads the sets, in a transaction. One that is the target as well is locked exclusively at once: a
    /// lock that is shared with others never becomes exclusive.
    pub(super) fn load(
        session: &mut Session,
        keys: &[Vec<u8>],
        target: Option<&[u8]>,
    ) -> Result<Self, Failure> {
        let mut sources = Self::default();
        let mut known: HashMap<&[u8], Option<usize>> = HashMap::new();
        let mut bytes = 0;
        for key in keys {
            if let Some(&place) = known.get(&key[..]) {
                if place.is_none() {
                    session.note_miss(key);
                }
                sources.places.push(place);
                continue;
            }
            let entry = if target == Some(&key[..]) {
                load_for_update(session, key, ValueType::SET)?
            } else {
                load(session, key, ValueType::SET)?
            };
            let place = entry.map(|entry| {
                bytes += entry.value.len();
                sources.loaded.push(entry.value);
                sources.loaded.len() - 1
            });
            if bytes > SOURCES_MAX {
                return Err("ERR the sets are longer than 1 GiB together".into());
            }
            known.insert(key, place);
            sources.places.push(place);
        }
        Ok(sources)
    }

    fn combine(&self, operation: Operation) -> Result<Set<'_>, Malformed> {
        match operation {
            Operation::Intersection => self.intersect(usize::MAX),
            Operation::Union => self.unite(),
            Operation::Difference => self.subtract(),
        }
    }

    /// The run of each set in `loaded`.
    fn runs(&self) -> Result<Vec<Run<'_>>, Malformed> {
        self.loaded.iter().map(|bytes| Run::parse(bytes)).collect()
    }

    /// Up to `limit` of the members that are in all sets: the smallest is searched for those of the others.
    pub(super) fn intersect(&self, limit: usize) -> Result<Set<'_>, Malformed> {
        let mut common = Set::default();
        if self.places.contains(&None) {
            return Ok(common);
        }
        let mut runs = self.runs()?;
        runs.sort_by_key(Run::len);
        let Some((smallest, others)) = runs.split_first() else {
            return Ok(common);
        };
        let others: Result<Vec<_>, _> = others.iter().map(Set::of_run).collect();
        let mut others = others?;
        for entry in smallest.iter() {
            let (member, _) = entry?;
            if common.len() >= limit {
                break;
            }
            if others.iter_mut().all(|set| set.contains(member)) {
                common.add(member);
            }
        }
        Ok(common)
    }

    fn unite(&self) -> Result<Set<'_>, Malformed> {
        let mut all = Set::default();
        for run in self.runs()? {
            for entry in run.iter() {
                all.add(entry?.0);
            }
        }
        Ok(all)
    }

    fn subtract(&self) -> Result<Set<'_>, Malformed> {
        let (runs, mut rest) = (self.runs()?, Set::default());
        let Some((&Some(first), others)) = self.places.split_first() else {
            return Ok(rest);
        };
        if others.contains(&Some(first)) {
            return Ok(rest);
        }
        for entry in runs[first].iter() {
            rest.add(entry?.0);
        }
        // Each set once, however often it is named.
        let removed: BTreeSet<usize> = others.iter().copied().flatten().collect();
        for place in removed {
            for entry in runs[place].iter() {
                rest.remove(entry?.0);
            }
        }
        if self.looks_up(&runs, first) {
            rest.forget_history();
        }
        Ok(rest)
    }

    /// Redis computes a difference in one of two ways: it looks up each member of the first set in all
    /// others, or it removes those of the others from a copy of the first. Only the copy is as
    /// [`Set::encoding`] says for all members of the first set.
    fn looks_up(&self, runs: &[Run<'_>], first: usize) -> bool {
        let sets = self.places.iter().flatten();
        let look_ups = sets.clone().count() * runs[first].len() / 2;
        let removals: usize = sets.map(|&place| runs[place].len()).sum();
        look_ups <= removals
    }
}
