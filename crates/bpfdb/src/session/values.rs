//! One key at a time: its value is read, written, deleted, watched.

use super::{Entry, Operation, Session, VALUE_MAX, WatchToken};
use crate::{Status, ValueType, abi};

impl Session {
    /// The newest version, or that of the open read-write transaction, without a lock: it may be another one at
    /// any moment. Where that does not come to an end it is as [`Session::get`].
    pub(crate) fn peek(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Status> {
        match self.single_at(&Operation::Peek(key)) {
            Ok((Status::Found, place)) => Ok(Some(self.value_of(place))),
            Ok((Status::NotFound, _)) => Ok(None),
            // Large. Or its writers were faster all the time, which a lock ends.
            Ok(_) => self.get(key),
            Err(Status::Exhausted) if self.state() == abi::BPFDB_TXN_WRITE => self.get(key),
            Err(status) => Err(status),
        }
    }

    /// The value of `key`, or `None`.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Status> {
        self.read(&Operation::Get(key))
    }

    /// The same under an exclusive lock, in a read-write transaction.
    pub fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Status> {
        self.read(&Operation::GetForUpdate(key))
    }

    /// The value of `key` and when it expires, or `None`.
    pub fn entry(&mut self, key: &[u8]) -> Result<Option<Entry>, Status> {
        self.read_entry(&Operation::Get(key))
    }

    /// The same under an exclusive lock, in a read-write transaction.
    pub fn entry_for_update(&mut self, key: &[u8]) -> Result<Option<Entry>, Status> {
        self.read_entry(&Operation::GetForUpdate(key))
    }

    /// Sets a value that never expires.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Status> {
        self.set_entry(key, value, None)
    }

    /// Sets a value that is there until `expires_at` (milliseconds of UNIX
    /// time), or for ever. A time that is over deletes the key.
    pub fn set_entry(
        &mut self,
        key: &[u8],
        value: &[u8],
        expires_at: Option<u64>,
    ) -> Result<(), Status> {
        let is_new = self.is_about_to_be_new(key)?;
        self.note(key);
        if value.len() > VALUE_MAX {
            self.set_large(key, ValueType::STRING, value, expires_at)?;
        } else if !self.keep_write(key, ValueType::STRING, value, expires_at) {
            let operation = Operation::SetEntry(key, value, expires_at);
            self.read_cache.wrote(key, Some((value, expires_at)));
            self.write(&operation)?;
        }
        self.note_set(key, expires_at, is_new);
        Ok(())
    }

    pub(super) fn write(&mut self, operation: &Operation<'_>) -> Result<(), Status> {
        if self.deferred.is_open() {
            self.later(operation)?;
        } else {
            self.single(operation)?;
        }
        self.writes += 1;
        Ok(())
    }

    /// The value of `key`, of any type, and when it expires, or `None`.
    pub fn entry_of_any_type(&mut self, key: &[u8]) -> Result<Option<Entry>, Status> {
        self.read_entry(&Operation::GetAny(key))
    }

    /// The same under an exclusive lock, in a read-write transaction.
    pub fn entry_of_any_type_for_update(&mut self, key: &[u8]) -> Result<Option<Entry>, Status> {
        self.read_entry(&Operation::GetAnyForUpdate(key))
    }

    /// The value of `key`, of any type, with its type.
    pub fn typed_entry(&mut self, key: &[u8]) -> Result<Option<(ValueType, Entry)>, Status> {
        let found = self.read_part(&Operation::GetAny(key), |len| 0..len)?;
        Ok(found.map(|part| (part.kind, part.entry)))
    }

    /// Sets a value of a type, as [`Session::set_entry`]. One that is no string has bytes: else
    /// [`Status::BadRequest`].
    pub fn set_typed(
        &mut self,
        key: &[u8],
        kind: ValueType,
        value: &[u8],
        expires_at: Option<u64>,
    ) -> Result<(), Status> {
        if kind == ValueType::STRING {
            return self.set_entry(key, value, expires_at);
        }
        if value.is_empty() {
            return Err(Status::BadRequest);
        }
        let is_new = self.is_about_to_be_new(key)?;
        self.note(key);
        if value.len() > VALUE_MAX {
            self.set_large(key, kind, value, expires_at)?;
        } else if !self.keep_write(key, kind, value, expires_at) {
            self.read_cache.forget(key);
            self.write(&Operation::SetTyped(key, kind, value, expires_at))?;
        }
        self.note_set(key, expires_at, is_new);
        Ok(())
    }

    /// Whether there was a value to delete.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, Status> {
        let was_there = self.delete_value(key)?;
        if was_there {
            self.note_deleted(key);
        }
        Ok(was_there)
    }

    pub(super) fn delete_value(&mut self, key: &[u8]) -> Result<bool, Status> {
        self.note(key);
        if let Some(was_there) = self.kept.delete(key) {
            self.writes += 1;
            return Ok(was_there);
        }
        let known = self.read_cache.presence(key);
        self.read_cache.wrote(key, None);
        if let Some(present) = known
            && self.deferred.is_open()
        {
            self.write(&Operation::Delete(key))?;
            return Ok(present);
        }
        let status = self.single(&Operation::Delete(key))?;
        self.writes += 1;
        Ok(status == Status::Found)
    }

    /// A token for `key`, by which one can tell later whether it was written.
    ///
    /// Take tokens without a transaction, and others in a read-write transaction
    /// when the key is locked by [`Session::get`] or [`Session::get_for_update`]
    /// and not written yet. If each of the former [still holds](
    /// WatchToken::still_holds), what was read between is what the transaction would
    /// have read: with its commands it is serializable. Else roll back. In a
    /// read-only transaction no lock is needed: the tokens then say whether the keys
    /// are as they were up to its snapshot.
    ///
    /// Locks in vain, splits and the removal of expired records do not matter. Of a
    /// key that is absent it may seem that it was written when another one with
    /// the same place in a table of 65,536 was deleted or has expired.
    pub fn watch(&mut self, key: &[u8]) -> Result<WatchToken, Status> {
        let (_, place) = self.single_at(&Operation::Watch(key))?;
        Ok(self.token_at(place))
    }

    pub(super) fn read(&mut self, operation: &Operation<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(self.read_entry(operation)?.map(|entry| entry.value))
    }

    pub(super) fn read_entry(
        &mut self,
        operation: &Operation<'_>,
    ) -> Result<Option<Entry>, Status> {
        self.read_part(operation, |len| 0..len)
            .map(|found| found.map(|part| part.entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, Options};

    #[test]
    fn a_peek_finds_values_of_any_length() {
        let engine = Engine::create(&Options::default()).expect("the engine starts");
        let mut session = engine.session().expect("a session");
        let values = [1, 100, VALUE_MAX, VALUE_MAX + 1].map(|len| vec![b'v'; len]);
        for value in &values {
            session.set(b"key", value).expect("set");
            session.begin().expect("begin");
            assert_eq!(session.peek(b"key"), Ok(Some(value.clone())));
            assert_eq!(session.peek(b"no key"), Ok(None));
            session.commit().expect("commit");
        }
    }
}
