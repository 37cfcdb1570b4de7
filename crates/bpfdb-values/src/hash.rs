//! Hashes: values by field.
//!
//! The entries of a hash's run are its fields, in the order in which they came, each with its value.

use std::borrow::Cow;

use crate::elements::Elements;
use crate::limits::{COMPACT_BYTES, HASH_ENTRIES};
use crate::run::{self, Malformed, Run};

/// A hash in memory; fields and values that it was made of are borrowed.
#[derive(Clone, Debug, Default)]
pub struct Hash<'a> {
    fields: Elements<'a, Cow<'a, [u8]>>,
}

impl<'a> Hash<'a> {
    /// The hash with the bytes of a run.
    ///
    /// # Errors
    /// Bytes that are no run.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Self::of_run(&Run::parse(bytes)?)
    }

    /// The hash with the entries of a run.
    ///
    /// # Errors
    /// A damaged entry.
    pub fn of_run(run: &Run<'a>) -> Result<Self, Malformed> {
        let fields = Elements::of_run(run, Cow::Borrowed)?;
        Ok(Self { fields })
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a field.
    pub fn get(&mut self, field: &[u8]) -> Option<&[u8]> {
        self.fields.get(field).map(Cow::as_ref)
    }

    /// Gives a field a value: whether the field is new.
    pub fn set(&mut self, field: &'a [u8], value: impl Into<Cow<'a, [u8]>>) -> bool {
        let value = value.into();
        let is_long = field.len().max(value.len()) > COMPACT_BYTES;
        let is_new = self.fields.insert(field, value);
        self.fields.history.not_compact |= is_long || self.len() > HASH_ENTRIES;
        is_new
    }

    /// Whether there was such a field.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        self.fields.remove(field)
    }

    /// Fields and values, in the order of the fields.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &[u8])> + Clone {
        self.fields.iter().map(|(field, value)| (field, &**value))
    }

    /// As Redis names the form in which it would keep the hash.
    pub fn encoding(&self) -> &'static str {
        let history = self.fields.history;
        let is_long = history.longest as usize > COMPACT_BYTES;
        if history.not_compact || is_long || self.len() > HASH_ENTRIES {
            "hashtable"
        } else {
            "listpack"
        }
    }

    /// Bytes of its run.
    pub fn written_len(&self) -> usize {
        run::written_len(self.iter())
    }

    /// The bytes of its run.
    pub fn write(&self) -> Vec<u8> {
        run::write(self.iter(), self.fields.history)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// What is done to a hash.
    #[derive(Clone, Debug)]
    enum Action {
        Set(Vec<u8>, Vec<u8>),
        Remove(Vec<u8>),
        Get(Vec<u8>),
        /// It is written, and read again.
        Keep,
    }

    fn action() -> impl Strategy<Value = Action> {
        let field = || vec(b'a'..=b'k', 0..3);
        prop_oneof![
            6 => (field(), vec(any::<u8>(), 0..4)).prop_map(|(field, value)| Action::Set(field, value)),
            2 => field().prop_map(Action::Remove),
            3 => field().prop_map(Action::Get),
            1 => Just(Action::Keep),
        ]
    }

    /// The plain meaning: pairs in their order.
    #[derive(Default)]
    struct Model(Vec<(Vec<u8>, Vec<u8>)>);

    impl Model {
        fn get(&self, field: &[u8]) -> Option<&[u8]> {
            let found = self.0.iter().find(|(known, _)| known == field);
            found.map(|(_, value)| &value[..])
        }

        fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
            if let Some((_, old)) = self.0.iter_mut().find(|(known, _)| known == field) {
                *old = value.to_vec();
                return false;
            }
            self.0.push((field.to_vec(), value.to_vec()));
            true
        }

        fn remove(&mut self, field: &[u8]) -> bool {
            let before = self.0.len();
            self.0.retain(|(known, _)| known != field);
            self.0.len() < before
        }
    }

    proptest! {
        #[test]
        fn a_hash_is_what_was_done_to_it(parts in vec(vec(action(), 0..120), 1..4)) {
            let mut model = Model::default();
            let mut bytes = Hash::default().write();
            for actions in &parts {
                let mut hash = Hash::read(&bytes).expect("a run");
                for action in actions {
                    match action {
                        Action::Set(field, value) => {
                            prop_assert_eq!(hash.set(field, &value[..]), model.set(field, value));
                        }
                        Action::Remove(field) => {
                            prop_assert_eq!(hash.remove(field), model.remove(field));
                        }
                        Action::Get(field) => {
                            prop_assert_eq!(hash.get(field), model.get(field));
                        }
                        Action::Keep => {
                            let bytes = hash.write();
                            prop_assert_eq!(bytes.len(), hash.written_len());
                            let again = Hash::read(&bytes).expect("a run");
                            prop_assert!(again.iter().eq(hash.iter()));
                            prop_assert_eq!(again.encoding(), hash.encoding());
                        }
                    }
                    prop_assert_eq!(hash.len(), model.0.len());
                }
                let pairs = model.0.iter().map(|(field, value)| (&field[..], &value[..]));
                prop_assert!(hash.iter().eq(pairs));
                bytes = hash.write();
            }
        }
    }

    #[test]
    fn encodings_are_those_of_redis() {
        let names: Vec<String> = (0..=HASH_ENTRIES).map(|n| n.to_string()).collect();
        let mut hash = Hash::default();
        for name in &names[..HASH_ENTRIES] {
            hash.set(name.as_bytes(), &b"v"[..]);
        }
        assert_eq!(hash.encoding(), "listpack");
        hash.set(names[HASH_ENTRIES].as_bytes(), &b"v"[..]);
        assert_eq!(hash.encoding(), "hashtable");
        for name in &names[1..] {
            hash.remove(name.as_bytes());
        }
        let bytes = hash.write();
        assert_eq!(Hash::read(&bytes).expect("a run").encoding(), "hashtable");
    }

    #[test]
    fn a_long_value_is_remembered() {
        for (len, encoding) in [
            (COMPACT_BYTES, "listpack"),
            (COMPACT_BYTES + 1, "hashtable"),
        ] {
            let value = vec![b'v'; len];
            let mut hash = Hash::default();
            hash.set(b"field", value);
            hash.set(b"field", &b"short"[..]);
            assert_eq!(hash.encoding(), encoding);
            let bytes = hash.write();
            assert_eq!(Hash::read(&bytes).expect("a run").encoding(), encoding);
        }
    }
}
