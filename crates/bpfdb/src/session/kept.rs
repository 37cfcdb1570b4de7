//! What a transaction has read under exclusive locks and what it has written, kept until it ends: each key is read
//! once and written once, however often it changes in between.
//!
//! ```text
//!  begin_keeping   get_for_update a   set a   get_for_update a   set a   get_for_update b   commit
//!                  one call           └──────── here ────────────────┘   one call           SET a, COMMIT: one call
//! ```
//!
//! Invariants
//!  1. What is kept of a key is what the transaction would find: it holds the exclusive lock under which the key was
//!     read, or has written the key itself, and takes the lock with that. An Error of such a write is that of the
//!     operation which sends it, as for all writes that wait.
//!  2. Only reads, SETs and DELETEs of single keys are answered from here. Whatever else names a key that has changed
//!     comes behind the write of it, and what works on several keys behind all writes.
//!  3. Nothing outlives the transaction.

use std::collections::HashMap;

use super::operation::Operation;
use super::{Entry, Head, Session, VALUE_MAX};
use crate::{Status, ValueType};

#[derive(Debug, Default)]
pub(super) struct Kept {
    is_on: bool,
    keys: HashMap<Vec<u8>, KeptKey>,
    /// Those that have changed since the engine was told, in the order in which that began.
    changed: Vec<Vec<u8>>,
    /// Why some of them could not be sent: the transaction must not be committed.
    refused: Option<Status>,
}

#[derive(Debug)]
struct KeptKey {
    value: Option<KeptValue>,
    has_changed: bool,
}

/// A value that is not a large one.
#[derive(Clone, Debug)]
pub(super) struct KeptValue {
    pub(super) kind: ValueType,
    pub(super) entry: Entry,
}

impl From<KeptValue> for Head {
    fn from(kept: KeptValue) -> Self {
        Self {
            value_type: kept.kind,
            ..kept.entry.into()
        }
    }
}

impl Kept {
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    pub(super) fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    pub(super) fn clear(&mut self) {
        if self.is_on {
            *self = Self::default();
        }
    }

    /// Does the engine not know yet what the key has that the operation names?
    pub(super) fn is_ahead(&self, operation: &Operation<'_>) -> bool {
        self.is_changed() && (self.keys.get(operation.key())).is_some_and(|known| known.has_changed)
    }

    fn keep(&mut self, key: &[u8], value: Option<KeptValue>) {
        let known = KeptKey {
            value,
            has_changed: false,
        };
        self.keys.insert(key.to_vec(), known);
    }

    fn change(&mut self, key: &[u8], value: Option<KeptValue>) {
        let has_changed = true;
        let before = self
            .keys
            .insert(key.to_vec(), KeptKey { value, has_changed });
        if before.is_none_or(|before| !before.has_changed) {
            self.changed.push(key.to_vec());
        }
    }

    /// A value that stays for as long as the one before, or for ever, may be kept. With another time it may be over:
    /// the engine knows.
    fn takes_time(&self, key: &[u8], expires_at: Option<u64>) -> bool {
        let before = self.keys.get(key).and_then(|known| known.value.as_ref());
        expires_at.is_none() || before.is_some_and(|before| before.entry.expires_at == expires_at)
    }

    /// The key is deleted: had it a value? `None`: it is not kept.
    pub(super) fn delete(&mut self, key: &[u8]) -> Option<bool> {
        let was_there = self.keys.get(key)?.value.is_some();
        self.change(key, None);
        Some(was_there)
    }

    /// The key gets another value by an operation that is executed without this: what it had here counts no more.
    pub(super) fn forget(&mut self, key: &[u8]) {
        if let Some(known) = self.keys.remove(key)
            && known.has_changed
        {
            self.changed.retain(|changed| changed != key);
        }
    }
}

impl Session {
    /// Begins a transaction as [`Session::begin_deferred`] does. What it reads for update it reads once, and what it
    /// sets and deletes waits for [`Session::commit`]. For work that changes the same keys several times.
    pub fn begin_keeping(&mut self) -> Result<(), Status> {
        self.begin_deferred()?;
        self.kept.is_on = true;
        Ok(())
    }

    /// What `operation`, a read, finds, which is kept from now on if that locks the key. `None`: it is to be executed as if there
    /// were nothing here.
    pub(super) fn read_kept(
        &mut self,
        operation: &Operation<'_>,
    ) -> Result<Option<Option<KeptValue>>, Status> {
        if !self.kept.is_on {
            return Ok(None);
        }
        if let Some(known) = self.kept.keys.get(operation.key()) {
            let value = known.value.clone();
            let is_of_type = |value: &KeptValue| operation.takes(value.kind);
            if !value.as_ref().is_none_or(is_of_type) {
                // The engine refuses it.
                return Ok(None);
            }
            if value.is_none() {
                self.note_miss(operation.key());
            }
            return Ok(Some(value));
        }
        if !operation.locks() {
            return Ok(None);
        }
        let found = self.read_head_in_engine(operation)?;
        let value = match found {
            None => None,
            // A large one.
            Some(Head { value: None, .. }) => return Ok(None),
            Some(Head {
                value: Some(value),
                value_type: kind,
                expires_at,
                ..
            }) => Some(KeptValue {
                kind,
                entry: Entry { value, expires_at },
            }),
        };
        self.kept.keep(operation.key(), value.clone());
        Ok(Some(value))
    }

    /// A value that is set stays here until the end of the transaction. False: it is to be set at once.
    pub(super) fn keep_write(
        &mut self,
        key: &[u8],
        kind: ValueType,
        value: &[u8],
        expires_at: Option<u64>,
    ) -> bool {
        if !self.kept.is_on {
            return false;
        }
        let is_plain = value.len() <= VALUE_MAX
            && key.len() <= self.database.key_max()
            && (self.has_empty_keys || !key.is_empty());
        if !is_plain || !self.kept.takes_time(key, expires_at) {
            self.kept.forget(key);
            return false;
        }
        let entry = Entry {
            value: value.to_vec(),
            expires_at,
        };
        self.kept.change(key, Some(KeptValue { kind, entry }));
        self.writes += 1;
        true
    }

    /// Has the writes that are kept wait in the buffer, with those that wait there. After an Error the transaction
    /// must be ended.
    pub(super) fn send_kept(&mut self) -> Result<(), Status> {
        if let Some(status) = self.kept.refused {
            return Err(status);
        }
        if !self.kept.is_changed() {
            return Ok(());
        }
        let mut kept = std::mem::take(&mut self.kept);
        let outcome = kept.changed.drain(..).try_for_each(|key| {
            let known = kept.keys.get_mut(&key);
            known.map_or(Ok(()), |known| self.send_one(&key, known))
        });
        kept.refused = outcome.err();
        self.kept = kept;
        outcome
    }

    fn send_one(&mut self, key: &[u8], known: &mut KeptKey) -> Result<(), Status> {
        known.has_changed = false;
        match &known.value {
            None => self.later(&Operation::Delete(key)),
            Some(KeptValue { kind, entry }) => {
                let (value, expires_at) = (&entry.value[..], entry.expires_at);
                self.later(&Operation::SetTyped(key, *kind, value, expires_at))
            }
        }
    }

    /// What follows is executed by the engine, behind the writes that are kept.
    pub(super) fn stop_keeping(&mut self) -> Result<(), Status> {
        let outcome = self.send_kept();
        self.kept.clear();
        outcome
    }
}
