//! Sets: members without order.
//!
//! The entries of a set's run are its members, and have no values. As Redis replies them, integers are
//! written in ascending order as long as the set has had nothing else, and is small; other members in the
//! order in which they came. A reader depends on no order.

use crate::elements::Elements;
use crate::integer;
use crate::limits::SET_INTEGERS;
use crate::run::{self, Malformed, Run};

const NO_VALUE: [u8; 0] = [];

/// A set in memory; members that it was made of are borrowed.
#[derive(Clone, Debug, Default)]
pub struct Set<'a> {
    members: Elements<'a, [u8; 0]>,
}

impl<'a> Set<'a> {
    /// The set with the bytes of a run.
    ///
    /// # Errors
    /// Bytes that are no run.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Self::of_run(&Run::parse(bytes)?)
    }

    /// The set with the entries of a run.
    ///
    /// # Errors
    /// A damaged entry.
    pub fn of_run(run: &Run<'a>) -> Result<Self, Malformed> {
        let members = Elements::of_run(run, |_| NO_VALUE)?;
        Ok(Self { members })
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn contains(&mut self, member: &[u8]) -> bool {
        self.members.get(member).is_some()
    }

    /// Whether the member is new.
    pub fn add(&mut self, member: &'a [u8]) -> bool {
        let is_new = self.members.insert(member, NO_VALUE);
        if is_new {
            self.note(member);
        }
        is_new
    }

    /// Whether there was such a member.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        self.members.remove(member)
    }

    /// Leaves those for which `keep` says so when it is given their number in [`Set::iter`], from 0 on,
    /// and the member.
    pub fn retain(&mut self, keep: impl FnMut(usize, &'a [u8]) -> bool) {
        self.members.retain(keep);
    }

    /// From now on it is as if there had never been other members than those of now.
    pub fn forget_history(&mut self) {
        self.members.history = run::History::default();
        let members: Vec<_> = self.iter().collect();
        members.into_iter().for_each(|member| self.note(member));
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + Clone {
        self.members.iter().map(|(member, _)| member)
    }

    /// All members, in the order in which they are written.
    pub fn ordered(&self) -> Vec<&'a [u8]> {
        let mut members: Vec<_> = self.iter().collect();
        if self.is_compact() {
            members.sort_by_cached_key(|member| integer::parse(member));
        }
        members
    }

    /// As Redis names the form in which it would keep the set.
    pub fn encoding(&self) -> &'static str {
        if self.is_compact() {
            "intset"
        } else {
            "hashtable"
        }
    }

    /// Bytes of its run.
    pub fn written_len(&self) -> usize {
        run::written_len(self.iter().map(entry))
    }

    /// The bytes of its run.
    pub fn write(&self) -> Vec<u8> {
        let history = self.members.history;
        if self.is_compact() {
            run::write(self.ordered().into_iter().map(entry), history)
        } else {
            run::write(self.iter().map(entry), history)
        }
    }

    fn is_compact(&self) -> bool {
        let history = self.members.history;
        !history.not_integers && !history.not_compact
    }

    /// A member is new.
    fn note(&mut self, member: &[u8]) {
        let is_large = self.len() > SET_INTEGERS;
        let history = &mut self.members.history;
        history.not_integers = history.not_integers || integer::parse(member).is_none();
        history.not_compact |= is_large;
    }
}

/// A member as an entry of a run.
fn entry(member: &[u8]) -> (&[u8], &[u8]) {
    (member, &[])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// What is done to a set.
    #[derive(Clone, Debug)]
    enum Action {
        Add(Vec<u8>),
        Remove(Vec<u8>),
        Ask(Vec<u8>),
        /// Each seventh is removed, from this number on.
        Drop(usize),
        /// It is written, and read again.
        Keep,
    }

    fn action() -> impl Strategy<Value = Action> {
        let member = || {
            prop_oneof![
                3 => (-60..60_i64).prop_map(|number| number.to_string().into_bytes()),
                1 => vec(b'a'..=b'f', 0..3),
            ]
        };
        prop_oneof![
            9 => member().prop_map(Action::Add),
            3 => member().prop_map(Action::Remove),
            3 => member().prop_map(Action::Ask),
            1 => (0..7_usize).prop_map(Action::Drop),
            1 => Just(Action::Keep),
        ]
    }

    proptest! {
        #[test]
        fn a_set_is_what_was_done_to_it(parts in vec(vec(action(), 0..120), 1..4)) {
            let mut model: BTreeSet<Vec<u8>> = BTreeSet::new();
            let mut bytes = Set::default().write();
            for actions in &parts {
                let mut set = Set::read(&bytes).expect("a run");
                for action in actions {
                    match action {
                        Action::Add(member) => {
                            prop_assert_eq!(set.add(member), model.insert(member.clone()));
                        }
                        Action::Remove(member) => {
                            prop_assert_eq!(set.remove(member), model.remove(member));
                        }
                        Action::Ask(member) => {
                            prop_assert_eq!(set.contains(member), model.contains(member));
                        }
                        Action::Drop(which) => set.retain(|number, member| {
                            let stays = number % 7 != *which;
                            stays || !model.remove(member)
                        }),
                        Action::Keep => {
                            let bytes = set.write();
                            prop_assert_eq!(bytes.len(), set.written_len());
                            let again = Set::read(&bytes).expect("a run");
                            prop_assert_eq!(again.encoding(), set.encoding());
                            prop_assert!(again.iter().eq(set.ordered()));
                        }
                    }
                    prop_assert_eq!(set.len(), model.len());
                }
                let members: BTreeSet<Vec<u8>> = set.iter().map(Into::into).collect();
                prop_assert_eq!(&members, &model);
                bytes = set.write();
            }
        }

        #[test]
        fn integers_are_in_their_order(numbers in vec(any::<i64>(), 0..40)) {
            let texts: Vec<String> = numbers.iter().map(i64::to_string).collect();
            let mut set = Set::default();
            for text in &texts {
                set.add(text.as_bytes());
            }
            let bytes = set.write();
            let read = Set::read(&bytes).expect("a run");
            let sorted: BTreeSet<i64> = numbers.into_iter().collect();
            let read: Option<Vec<i64>> = read.iter().map(integer::parse).collect();
            prop_assert_eq!(read, Some(sorted.into_iter().collect::<Vec<_>>()));
        }
    }

    #[test]
    fn encodings_are_those_of_redis() {
        let names: Vec<String> = (0..=SET_INTEGERS).map(|n| n.to_string()).collect();
        let mut set = Set::default();
        for name in &names[..SET_INTEGERS] {
            set.add(name.as_bytes());
        }
        assert_eq!(set.encoding(), "intset");
        set.add(names[0].as_bytes());
        assert_eq!(set.encoding(), "intset");
        set.add(names[SET_INTEGERS].as_bytes());
        assert_eq!(set.encoding(), "hashtable");
        set.retain(|number, _| number < 3);
        let bytes = set.write();
        let mut set = Set::read(&bytes).expect("a run");
        assert_eq!(set.encoding(), "hashtable");
        set.forget_history();
        assert_eq!(set.encoding(), "intset");
    }

    #[test]
    fn what_is_no_integer_is_remembered() {
        for member in [&b"01"[..], b"", b"1.5", b"9223372036854775808", b"+1"] {
            let mut set = Set::default();
            set.add(b"2");
            set.add(member);
            set.remove(member);
            assert_eq!(set.encoding(), "hashtable");
            let bytes = set.write();
            assert_eq!(Set::read(&bytes).expect("a run").encoding(), "hashtable");
        }
    }
}
