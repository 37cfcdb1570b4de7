//! Which connections have subscribed to what: SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE.
//!
//! ```text
//!              channels   "news"   ──► connections 3, 8
//!   receivers  patterns   "news.*" ──► connection 3
//!              shards     "orders" ──► connection 5
//!
//!   owned      connection 3 ──► channels "news", patterns "news.*"
//! ```
//!
//! Both sides have the same entries, so that a message finds its receivers, and the end of a
//! connection what it was subscribed to, without a search. A name is kept once, however many have
//! subscribed to it; each of them is charged for it (`connection/subscribed.rs`).

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::connection::subscribed::Kind;

type Name = Rc<[u8]>;
/// Clients choose the names: they are hashed with a secret.
type Receivers = HashMap<Name, FxHashSet<u32>>;
/// Of one connection, by kind.
type Owned = [HashSet<Name>; Kind::ALL.len()];

/// Of all connections, which are known by the index of their session.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    receivers: [Receivers; Kind::ALL.len()],
    owned: FxHashMap<u32, Owned>,
}

impl Subscriptions {
    /// True if it was not subscribed.
    pub(crate) fn add(&mut self, index: u32, kind: Kind, name: &[u8]) -> bool {
        let receivers = &mut self.receivers[kind as usize];
        let name = match receivers.get_key_value(name) {
            Some((name, _)) => Rc::clone(name),
            None => Rc::from(name),
        };
        receivers.entry(Rc::clone(&name)).or_default().insert(index);
        self.owned.entry(index).or_default()[kind as usize].insert(name)
    }

    /// True if it was subscribed.
    pub(crate) fn remove(&mut self, index: u32, kind: Kind, name: &[u8]) -> bool {
        let Some(owned) = self.owned.get_mut(&index) else {
            return false;
        };
        let names = &mut owned[kind as usize];
        if !names.remove(name) {
            return false;
        }
        if is_mostly_empty(names.len(), names.capacity()) {
            names.shrink_to(2 * names.len());
        }
        if owned.iter().all(HashSet::is_empty) {
            self.forget_owned(index);
        }
        self.remove_receiver(index, kind, name);
        true
    }

    fn remove_receiver(&mut self, index: u32, kind: Kind, name: &[u8]) {
        let receivers = &mut self.receivers[kind as usize];
        let Some(indexes) = receivers.get_mut(name) else {
            return;
        };
        indexes.remove(&index);
        if is_mostly_empty(indexes.len(), indexes.capacity()) {
            indexes.shrink_to(2 * indexes.len());
        }
        if indexes.is_empty() {
            receivers.remove(name);
        }
        if is_mostly_empty(receivers.len(), receivers.capacity()) {
            receivers.shrink_to(2 * receivers.len());
        }
    }

    fn forget_owned(&mut self, index: u32) -> Option<Owned> {
        let owned = self.owned.remove(&index);
        if is_mostly_empty(self.owned.len(), self.owned.capacity()) {
            self.owned.shrink_to(2 * self.owned.len());
        }
        owned
    }

    /// The connection is gone.
    pub(crate) fn forget(&mut self, index: u32) {
        let Some(owned) = self.forget_owned(index) else {
            return;
        };
        for (&kind, names) in Kind::ALL.iter().zip(&owned) {
            for name in names {
                self.remove_receiver(index, kind, name);
            }
        }
    }

    /// What a connection has subscribed to.
    pub(crate) fn of(&self, index: u32, kind: Kind) -> Vec<Name> {
        let owned = self.owned.get(&index);
        owned.map_or_else(Vec::new, |owned| {
            owned[kind as usize].iter().cloned().collect()
        })
    }

    /// Those that have subscribed to exactly this.
    pub(crate) fn receivers(&self, kind: Kind, name: &[u8]) -> impl Iterator<Item = u32> + '_ {
        let receivers = self.receivers[kind as usize].get(name);
        receivers.into_iter().flatten().copied()
    }

    /// How many have subscribed to exactly this.
    pub(crate) fn count(&self, kind: Kind, name: &[u8]) -> usize {
        self.receivers[kind as usize]
            .get(name)
            .map_or(0, FxHashSet::len)
    }

    /// Every name that has subscribers, with these.
    pub(crate) fn all(
        &self,
        kind: Kind,
    ) -> impl Iterator<Item = (&[u8], impl Iterator<Item = u32> + '_)> {
        let receivers = self.receivers[kind as usize].iter();
        receivers.map(|(name, indexes)| (&**name, indexes.iter().copied()))
    }

    /// How many names there are.
    pub(crate) fn len(&self, kind: Kind) -> usize {
        self.receivers[kind as usize].len()
    }

    /// Connections that have subscribed to anything.
    pub(crate) fn connections(&self) -> usize {
        self.owned.len()
    }
}

/// Places of a table that it keeps whatever it holds.
const PLACES_KEPT: usize = 64;

/// Has a table had many more entries than it has now? Then it is to give the memory back: half of its
/// places stay free, so that this is done seldom.
fn is_mostly_empty(len: usize, capacity: usize) -> bool {
    capacity > PLACES_KEPT && len < capacity / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_while_some_stay() {
        const MANY: u32 = 10_000;
        let mut all = Subscriptions::default();
        all.add(0, Kind::Channel, b"stays");
        for index in 1..MANY {
            all.add(index, Kind::Channel, b"stays");
            all.add(0, Kind::Channel, &index.to_le_bytes());
        }
        for index in 1..MANY {
            all.remove(0, Kind::Channel, &index.to_le_bytes());
            all.forget(index);
        }
        let channels = &all.receivers[Kind::Channel as usize];
        let own = &all.owned[&0][Kind::Channel as usize];
        for capacity in [
            channels.capacity(),
            channels[&b"stays"[..]].capacity(),
            all.owned.capacity(),
            own.capacity(),
        ] {
            assert!(capacity <= PLACES_KEPT, "{capacity}");
        }
        assert_eq!(all.count(Kind::Channel, b"stays"), 1);
    }

    #[test]
    fn both_sides_have_the_same() {
        let mut all = Subscriptions::default();
        assert!(all.add(3, Kind::Channel, b"news"));
        assert!(!all.add(3, Kind::Channel, b"news"));
        assert!(all.add(8, Kind::Channel, b"news"));
        assert!(all.add(3, Kind::Pattern, b"news"));
        assert_eq!(
            (all.count(Kind::Channel, b"news"), all.connections()),
            (2, 2)
        );
        assert_eq!(all.count(Kind::Shard, b"news"), 0);
        assert!(!all.remove(8, Kind::Pattern, b"news"));
        assert!(all.remove(8, Kind::Channel, b"news"));
        assert!(!all.remove(8, Kind::Channel, b"news"));
        assert_eq!(all.connections(), 1);
        let receivers: Vec<u32> = all.receivers(Kind::Channel, b"news").collect();
        assert_eq!(receivers, [3]);
        assert_eq!(all.of(3, Kind::Pattern).len(), 1);
    }

    #[test]
    fn nothing_is_left_of_a_connection_that_is_gone() {
        let mut all = Subscriptions::default();
        for name in 0..100u32 {
            all.add(1, Kind::Channel, &name.to_le_bytes());
            all.add(2, Kind::Shard, &name.to_le_bytes());
        }
        all.forget(1);
        all.forget(1);
        assert_eq!((all.len(Kind::Channel), all.len(Kind::Shard)), (0, 100));
        assert!(all.of(1, Kind::Channel).is_empty());
        all.forget(2);
        assert_eq!((all.len(Kind::Shard), all.connections()), (0, 0));
    }
}
