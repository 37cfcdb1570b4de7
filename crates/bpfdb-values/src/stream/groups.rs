//! Consumer groups: what was delivered to whom and not acknowledged yet.
//!
//! Invariants
//!  1. Each pending entry has a consumer of its group, and is among the entries of this one; it is
//!     among those of no other. [`Group`] has no other way to change either.
//!  2. Groups, consumers and pending entries are in the order of their names and identifiers.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::id::Id;

/// The groups of a stream by name.
pub type Groups = BTreeMap<Vec<u8>, Group>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// The last entry that was delivered.
    pub last: Id,
    /// Entries of the stream up to that one, counted from its first ever; `None`: not known.
    pub read: Option<u64>,
    consumers: BTreeMap<Rc<[u8]>, Consumer>,
    pending: BTreeMap<Id, Pending>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consumer {
    /// When it was named last, milliseconds of the Unix clock.
    pub seen: i64,
    pending: BTreeSet<Id>,
}

impl Consumer {
    /// How many entries were delivered to it and are not acknowledged.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }
}

/// A delivery that was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    pub consumer: Rc<[u8]>,
    /// When it was delivered last, milliseconds of the Unix clock.
    pub time: i64,
    /// How often.
    pub deliveries: u64,
}

impl Group {
    pub fn new(last: Id, read: Option<u64>) -> Self {
        Self {
            last,
            read,
            ..Self::default()
        }
    }

    pub fn consumers(&self) -> &BTreeMap<Rc<[u8]>, Consumer> {
        &self.consumers
    }

    pub fn consumer(&self, name: &[u8]) -> Option<&Consumer> {
        self.consumers.get(name)
    }

    /// Adds a consumer that was named now; false: there is one of this name, which stays as it is.
    pub fn add_consumer(&mut self, name: &[u8], now: i64) -> bool {
        let is_new = !self.consumers.contains_key(name);
        if is_new {
            let seen = Consumer {
                seen: now,
                ..Consumer::default()
            };
            self.consumers.insert(name.into(), seen);
        }
        is_new
    }

    /// Notes that a consumer was named now, and adds it if it is not there; true: it was not.
    pub fn see(&mut self, name: &[u8], now: i64) -> bool {
        match self.consumers.get_mut(name) {
            Some(consumer) => {
                consumer.seen = now;
                false
            }
            None => self.add_consumer(name, now),
        }
    }

    /// Removes a consumer with its pending entries; how many these were.
    pub fn remove_consumer(&mut self, name: &[u8]) -> usize {
        let Some(consumer) = self.consumers.remove(name) else {
            return 0;
        };
        for id in &consumer.pending {
            self.pending.remove(id);
        }
        consumer.pending.len()
    }

    /// All pending entries.
    pub fn pending(&self) -> &BTreeMap<Id, Pending> {
        &self.pending
    }

    /// Those of one consumer from an identifier on, in ascending order.
    pub fn pending_of(&self, name: &[u8], from: Id) -> impl Iterator<Item = (Id, &Pending)> {
        let ids = self.consumers.get(name).into_iter();
        let ids = ids.flat_map(move |consumer| consumer.pending.range(from..));
        ids.filter_map(move |id| Some((*id, self.pending.get(id)?)))
    }

    /// Delivers an entry to a consumer that is there: an earlier delivery of it is no more. False: no
    /// consumer has this name, and nothing was done.
    pub fn deliver(&mut self, id: Id, name: &[u8], time: i64, deliveries: u64) -> bool {
        let Some((name, _)) = self.consumers.get_key_value(name) else {
            return false;
        };
        let consumer = name.clone();
        self.acknowledge(id);
        if let Some(found) = self.consumers.get_mut(&consumer) {
            found.pending.insert(id);
        }
        let pending = Pending {
            consumer,
            time,
            deliveries,
        };
        self.pending.insert(id, pending);
        true
    }

    /// An entry is not pending any more; false: it was not.
    pub fn acknowledge(&mut self, id: Id) -> bool {
        let Some(pending) = self.pending.remove(&id) else {
            return false;
        };
        if let Some(consumer) = self.consumers.get_mut(&pending.consumer) {
            consumer.pending.remove(&id);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_one_consumer() {
        let mut group = Group::new(Id::MIN, None);
        group.see(b"a", 1);
        group.see(b"b", 2);
        assert!(!group.add_consumer(b"a", 9));
        let id = Id::new(5, 0);
        assert!(group.deliver(id, b"a", 3, 1));
        assert!(group.deliver(id, b"b", 4, 2));
        assert!(!group.deliver(id, b"c", 4, 2));
        let of = |group: &Group, name| group.pending_of(name, Id::MIN).count();
        assert_eq!((of(&group, b"a"), of(&group, b"b")), (0, 1));
        assert_eq!(group.pending().len(), 1);
        assert_eq!(group.remove_consumer(b"b"), 1);
        assert!(group.pending().is_empty() && !group.acknowledge(id));
    }
}
