//! Changes of keys by commands, in order, for a program that reports it.

use super::Session;
use crate::{Status, abi};

/// Something that has happened to a key, which is named by its stored key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It has got a value.
    Set {
        key: Vec<u8>,
        /// When that expires: UNIX time, milliseconds.
        expires_at: Option<u64>,
        /// It had none before. Always false unless [`ChangeNotes::new_keys`] is set.
        is_new: bool,
    },
    /// Its value is gone.
    Deleted { key: Vec<u8> },
    /// It was read, and had no value.
    Missed { key: Vec<u8> },
    /// What the caller of [`Session::note_event`] says of it.
    Event { key: Vec<u8>, name: &'static str },
    /// The transaction has been rolled back: what came before in it has not happened.
    RolledBack,
}

impl Change {
    /// Bytes that it takes.
    pub fn memory(&self) -> usize {
        let key = match self {
            Self::Set { key, .. } | Self::Deleted { key } => key.capacity(),
            Self::Missed { key } | Self::Event { key, .. } => key.capacity(),
            Self::RolledBack => 0,
        };
        key + size_of::<Self>()
    }
}

/// What is noted of keys, but for reserved ones, which no client of a server names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeNotes {
    /// Values that are set and deleted, and events.
    pub writes: bool,
    /// Whether a value that is set is the first one of its key: one more read for each.
    pub new_keys: bool,
    /// Reads that find no value.
    pub misses: bool,
}

impl Session {
    /// Which changes are noted from now on that are made through this handle, of whatever session it is
    /// directed at; those of a [`Batch`](super::Batch) are not. What was noted before stays until it is
    /// taken, or until nothing is noted any more.
    pub fn note_changes(&mut self, notes: ChangeNotes) {
        self.change_notes = notes;
        if notes == ChangeNotes::default() {
            self.changes = Vec::new();
        }
    }

    /// Does `work`, whose reads in vain are not noted.
    pub fn without_misses<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let misses = std::mem::replace(&mut self.change_notes.misses, false);
        let result = work(self);
        self.change_notes.misses = misses;
        result
    }

    /// What was noted since this was asked last.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// What is noted.
    pub fn change_notes(&self) -> ChangeNotes {
        self.change_notes
    }

    /// Notes an event of a key between its changes, if writes are noted.
    pub fn note_event(&mut self, key: &[u8], name: &'static str) {
        if self.change_notes.writes {
            let key = self.database.stored(key).into_owned();
            self.changes.push(Change::Event { key, name });
        }
    }

    /// Is the key, which is about to be set, without a value? Known only if new keys are noted.
    pub(super) fn is_about_to_be_new(&mut self, key: &[u8]) -> Result<bool, Status> {
        if !self.change_notes.new_keys || crate::is_reserved(key) {
            return Ok(false);
        }
        // That the server looks is no use of the key.
        let found = self.tracked(false, |session| {
            session.without_misses(|session| {
                // In a transaction its lock is that of the write.
                if session.state() == abi::BPFDB_TXN_WRITE {
                    session.head_for_update(key)
                } else {
                    session.head(key)
                }
            })
        });
        Ok(found?.is_none())
    }

    pub(super) fn note_set(&mut self, key: &[u8], expires_at: Option<u64>, is_new: bool) {
        if self.change_notes.writes && !crate::is_reserved(key) {
            let key = self.database.stored(key).into_owned();
            self.changes.push(Change::Set {
                key,
                expires_at,
                is_new,
            });
        }
    }

    pub(super) fn note_deleted(&mut self, key: &[u8]) {
        if self.change_notes.writes && !crate::is_reserved(key) {
            let key = self.database.stored(key).into_owned();
            self.changes.push(Change::Deleted { key });
        }
    }

    /// Notes that the key was read in vain, if that is noted: for reads of a [`Batch`](super::Batch), and for those that
    /// are left out because their outcome is known.
    pub fn note_miss(&mut self, key: &[u8]) {
        if self.change_notes.misses && !crate::is_reserved(key) {
            let key = self.database.stored(key).into_owned();
            self.changes.push(Change::Missed { key });
        }
    }

    /// The transaction is rolled back.
    pub(super) fn note_rollback(&mut self) {
        let notes = self.change_notes;
        // What came before may have been taken already.
        if notes.writes || notes.misses {
            self.changes.push(Change::RolledBack);
        }
    }
}
