//! Elements by key, in the order in which they came: what hashes and sets have in common.
//!
//! ```text
//!  slots   a  –  b  c        a removed element leaves an empty slot, so that others stay where they are
//!          │     │  │
//!  index   a→0  b→2  c→3     made when many slots are searched more often than a few times
//! ```

use std::collections::HashMap;

use crate::run::{History, Malformed, Run};

/// Among so many slots a key is found without an index.
const SLOTS_SEARCHED: usize = 48;
/// So many searches take less time than making an index.
const SEARCHES: u32 = 4;

/// Elements with values of type `V`; `[u8; 0]` for those that have none.
#[derive(Clone, Debug)]
pub(crate) struct Elements<'a, V> {
    slots: Vec<Option<(&'a [u8], V)>>,
    len: usize,
    searches: u32,
    /// The keys are of clients: with a hash function that they cannot make collide.
    index: Option<HashMap<&'a [u8], usize>>,
    pub(crate) history: History,
}

impl<V> Default for Elements<'_, V> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            len: 0,
            searches: 0,
            index: None,
            history: History::default(),
        }
    }
}

impl<'a, V> Elements<'a, V> {
    /// Those of a run; `value` makes their values.
    pub(crate) fn of_run(run: &Run<'a>, value: impl Fn(&'a [u8]) -> V) -> Result<Self, Malformed> {
        let entries = run.iter();
        let slots: Result<Vec<_>, _> = entries
            .map(|entry| entry.map(|(key, bytes)| Some((key, value(bytes)))))
            .collect();
        let slots = slots?;
        Ok(Self {
            len: slots.len(),
            slots,
            history: run.history(),
            ..Self::default()
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&mut self, key: &[u8]) -> Option<&V> {
        let slot = self.find(key)?;
        self.slots[slot].as_ref().map(|(_, value)| value)
    }

    /// A new key goes behind the others, one that is there stays in its place: whether it is new.
    pub(crate) fn insert(&mut self, key: &'a [u8], value: V) -> bool {
        if let Some(slot) = self.find(key) {
            self.slots[slot] = Some((key, value));
            return false;
        }
        if let Some(index) = &mut self.index {
            index.insert(key, self.slots.len());
        }
        self.slots.push(Some((key, value)));
        self.len += 1;
        true
    }

    /// Whether there was such a key.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let Some(slot) = self.find(key) else {
            return false;
        };
        if let Some(index) = &mut self.index {
            index.remove(key);
        }
        self.slots[slot] = None;
        self.len -= 1;
        true
    }

    /// Leaves those for which `keep` says so when it is given their number, from 0 on, and key.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(usize, &'a [u8]) -> bool) {
        self.index = None;
        let mut number = 0;
        self.slots.retain(|slot| {
            let Some((key, _)) = slot else {
                return false;
            };
            number += 1;
            keep(number - 1, key)
        });
        self.len = self.slots.len();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'a [u8], &V)> + Clone {
        let slots = self.slots.iter().flatten();
        slots.map(|(key, value)| (*key, value))
    }

    /// The slot of a key.
    fn find(&mut self, key: &[u8]) -> Option<usize> {
        if self.index.is_none() && self.slots.len() > SLOTS_SEARCHED {
            self.searches += 1;
            if self.searches > SEARCHES {
                self.make_index();
            }
        }
        if let Some(index) = &self.index {
            return index.get(key).copied();
        }
        let is_it =
            |slot: &Option<(&[u8], V)>| slot.as_ref().is_some_and(|(known, _)| *known == key);
        self.slots.iter().position(is_it)
    }

    fn make_index(&mut self) {
        let slots = self.slots.iter().enumerate();
        let keys = slots.filter_map(|(slot, element)| Some((element.as_ref()?.0, slot)));
        self.index = Some(keys.collect());
    }
}
