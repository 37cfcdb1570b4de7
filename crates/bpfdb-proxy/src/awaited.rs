//! What a server has not answered yet, in its order.
//!
//! Messages are looked for by what ends a batch (a reply with ReadyForQuery), for each message and each reply: so the places
//! of all ends are kept, and how many messages about names there are. A batch may have as many messages as a client likes.

use std::collections::VecDeque;
use std::collections::vec_deque::{Iter, IterMut};
use std::rc::Rc;

use bytes::Bytes;

use crate::statements::{Label, Statement};

/// A statement of the proxy's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// Parameters as the next client has them.
    Parameters,
    /// Away with what a client has left.
    Reset,
    /// What the database has each session begin with.
    Connect,
    /// What the database keeps of the password of a user.
    Lookup,
}

/// What a server still has if it passes over a Close, since something before it has failed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keeps {
    Nothing,
    Unnamed,
    /// This statement.
    Own(Label),
}

/// What was sent and has a reply that matters: to whom it goes, and when a transaction is over.
#[derive(Debug)]
pub(crate) enum Expected {
    /// ReadyForQuery, of a simple query or a call of a function.
    Query,
    /// The same, of a Sync.
    Sync,
    /// The same; all of its replies are ours.
    Own(Own),
    Parse {
        label: Label,
        /// Of the statement without a name.
        unnamed: bool,
        /// Ours: the client has not sent it.
        hidden: bool,
        /// Messages of its batch before it that have an answer each.
        at: usize,
        /// The client's name, and what it meant before.
        undo: Option<(Bytes, Option<Rc<Statement>>)>,
        /// If it succeeds all the same, since the name was free by then: the client's name means this.
        instead: Option<(Bytes, Rc<Statement>)>,
    },
    Close {
        hidden: bool,
        undo: Option<(Bytes, Rc<Statement>)>,
        keeps: Keeps,
    },
    /// The client has said that its data ends: what it sent before does not count while
    /// the server copies.
    CopyEnd,
    /// The client has sent data before the server has said that it copies.
    CopyData,
}

/// As so many bytes each of them counts, without its texts: with what there is to know of a text.
pub(crate) const NOTED: usize = 512;

impl Expected {
    /// Of texts that it keeps, and of itself.
    pub(crate) fn bytes(&self) -> usize {
        let text = |statement: &Rc<Statement>| statement.length();
        let texts = match self {
            Self::Parse { undo, instead, .. } => {
                let before = undo.as_ref().and_then(|(_, before)| before.as_ref());
                let instead = instead.as_ref().map(|(_, new)| new);
                before.map_or(0, text) + instead.map_or(0, text)
            }
            Self::Close { undo, .. } => undo.as_ref().map_or(0, |(_, before)| text(before)),
            _ => 0,
        };
        texts + NOTED
    }
}

#[derive(Debug, Default)]
pub(crate) struct Awaited {
    queue: VecDeque<Expected>,
    /// Taken from the front, ever.
    taken: u64,
    /// Of those that end with ReadyForQuery: what was awaited before each, ever.
    ends: VecDeque<u64>,
    /// About names: in front of the last end, and behind it.
    names_ended: usize,
    names_open: usize,
}

impl Expected {
    /// Its last reply is ReadyForQuery.
    fn ends(&self) -> bool {
        matches!(self, Self::Query | Self::Sync | Self::Own(_))
    }

    fn is_about_names(&self) -> bool {
        matches!(self, Self::Parse { .. } | Self::Close { .. })
    }
}

impl Awaited {
    pub(crate) fn push_back(&mut self, expected: Expected) {
        if expected.ends() {
            self.ends.push_back(self.taken + self.queue.len() as u64);
            self.names_ended += std::mem::take(&mut self.names_open);
        } else if expected.is_about_names() {
            self.names_open += 1;
        }
        self.queue.push_back(expected);
    }

    pub(crate) fn pop_front(&mut self) -> Option<Expected> {
        let expected = self.queue.pop_front()?;
        self.taken += 1;
        if expected.ends() {
            self.ends.pop_front();
        } else if expected.is_about_names() {
            let names = match self.ends.is_empty() {
                true => &mut self.names_open,
                false => &mut self.names_ended,
            };
            *names -= 1;
        }
        Some(expected)
    }

    /// Without those for which `keep` says no.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&Expected) -> bool) {
        let before = std::mem::take(self);
        let kept = before.queue.into_iter().filter(|expected| keep(expected));
        kept.for_each(|expected| self.push_back(expected));
    }

    /// Takes all that is awaited before the first end; everything, if there is none.
    pub(crate) fn take_batch(&mut self) -> Vec<Expected> {
        let is_open = |all: &Self| all.queue.front().is_some_and(|first| !first.ends());
        let mut batch = Vec::new();
        while is_open(self) {
            batch.extend(self.pop_front());
        }
        batch
    }

    /// The next of those that end with ReadyForQuery.
    pub(crate) fn first_end(&self) -> Option<&Expected> {
        let first = self.ends.front()? - self.taken;
        self.queue.get(first as usize)
    }

    /// Is there an end?
    pub(crate) fn has_end(&self) -> bool {
        !self.ends.is_empty()
    }

    /// Is something about names awaited before the last end?
    pub(crate) fn ends_names(&self) -> bool {
        self.names_ended > 0
    }

    pub(crate) fn front(&self) -> Option<&Expected> {
        self.queue.front()
    }

    /// To change what it keeps, and not what it is.
    pub(crate) fn front_mut(&mut self) -> Option<&mut Expected> {
        self.queue.front_mut()
    }

    pub(crate) fn back(&self) -> Option<&Expected> {
        self.queue.back()
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn iter(&self) -> Iter<'_, Expected> {
        self.queue.iter()
    }

    /// To change what they keep, and not what they are.
    pub(crate) fn iter_mut(&mut self) -> IterMut<'_, Expected> {
        self.queue.iter_mut()
    }
}

impl FromIterator<Expected> for Awaited {
    fn from_iter<T: IntoIterator<Item = Expected>>(all: T) -> Self {
        let mut awaited = Self::default();
        all.into_iter()
            .for_each(|expected| awaited.push_back(expected));
        awaited
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close() -> Expected {
        Expected::Close {
            hidden: false,
            undo: None,
            keeps: Keeps::Nothing,
        }
    }

    /// What the kept figures say, found by looking at all.
    fn check(all: &Awaited) {
        let last = all.iter().rposition(Expected::ends);
        let names = last.map_or(0, |last| {
            all.iter()
                .take(last)
                .filter(|one| one.is_about_names())
                .count()
        });
        assert_eq!(all.has_end(), last.is_some());
        assert_eq!(all.ends_names(), names > 0);
        let first = all.iter().find(|one| one.ends());
        let same = |one: &Expected, other: &Expected| std::ptr::eq(one, other);
        match (all.first_end(), first) {
            (Some(one), Some(other)) => assert!(same(one, other)),
            (one, other) => assert!(one.is_none() && other.is_none()),
        }
    }

    proptest! {
        #[test]
        fn ends_and_names_are_known(steps in prop::collection::vec(0..9, 0..200)) {
            let mut all = Awaited::default();
            for step in steps {
                match step {
                    0 => all.push_back(Expected::Query),
                    1 => all.push_back(Expected::Sync),
                    2 | 3 => all.push_back(close()),
                    4 => all.push_back(Expected::CopyData),
                    5 | 6 => drop(all.pop_front()),
                    7 => {
                        let before = all.len();
                        let batch = all.take_batch();
                        prop_assert_eq!(all.len() + batch.len(), before);
                        prop_assert!(all.front().is_none_or(Expected::ends));
                        prop_assert!(!batch.iter().any(Expected::ends));
                    }
                    _ => all.retain(|one| !matches!(one, Expected::CopyData | Expected::Sync)),
                }
                check(&all);
            }
        }
    }
}
