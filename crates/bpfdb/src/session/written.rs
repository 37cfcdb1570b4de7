//! The keys that a session has written, for clients that wait for one.

use super::Session;

/// Keys that are noted one by one; of more it is only known that they are many.
const NOTED_MAX: usize = 1024;

/// Stored keys in the order in which they were written first. Some may not have been after all: the
/// transaction was rolled back, or the operation refused.
#[derive(Clone, Debug, Default)]
pub struct WrittenKeys {
    keys: Vec<Vec<u8>>,
    is_many: bool,
}

impl WrittenKeys {
    fn add(&mut self, key: &[u8]) {
        if self.is_many || self.keys.last().is_some_and(|last| last == key) {
            return;
        }
        if self.keys.len() < NOTED_MAX {
            self.keys.push(key.to_vec());
        } else {
            self.is_many = true;
            self.keys = Vec::new();
        }
    }

    /// Those that were written after these.
    pub fn append(&mut self, later: Self) {
        self.is_many |= later.is_many;
        for key in &later.keys {
            self.add(key);
        }
        if self.is_many {
            self.keys = Vec::new();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && !self.is_many
    }

    /// `None`: so many that any key may be among them.
    pub fn keys(&self) -> Option<&[Vec<u8>]> {
        (!self.is_many).then_some(&self.keys)
    }

    /// Bytes that they take.
    pub fn memory(&self) -> usize {
        let bytes: usize = self.keys.iter().map(Vec::capacity).sum();
        bytes + self.keys.len() * size_of::<Vec<u8>>()
    }
}

impl Session {
    /// Whether the keys are noted that are set and deleted through this handle, of whatever session
    /// it is directed at. What was noted before stays until it is taken.
    pub fn note_written(&mut self, note: bool) {
        self.notes_written = note;
    }

    /// What was noted since this was asked last.
    pub fn take_written(&mut self) -> WrittenKeys {
        std::mem::take(&mut self.written)
    }

    /// Was anything?
    pub fn has_written(&self) -> bool {
        !self.written.is_empty()
    }

    pub(super) fn note(&mut self, key: &[u8]) {
        if self.notes_written {
            self.written.add(&self.database.stored(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_in_their_order() {
        let mut written = WrittenKeys::default();
        assert!(written.is_empty());
        for key in [b"b", b"b", b"a"] {
            written.add(key);
        }
        let mut later = WrittenKeys::default();
        later.add(b"c");
        written.append(later);
        let expected = [b"b".to_vec(), b"a".to_vec(), b"c".to_vec()];
        assert_eq!(written.keys(), Some(&expected[..]));
    }

    #[test]
    fn many_are_not_counted() {
        let mut written = WrittenKeys::default();
        for number in 0..=NOTED_MAX {
            written.add(&number.to_ne_bytes());
        }
        assert!(!written.is_empty() && written.keys().is_none() && written.memory() == 0);
        let mut few = WrittenKeys::default();
        few.add(b"a");
        few.append(written);
        assert!(few.keys().is_none() && few.memory() == 0);
    }
}
