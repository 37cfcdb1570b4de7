//! When keys expire, so that the event `expired` is published in time. Kept only while that is asked for
//! (`notify-keyspace-events` with `x`): the engine removes what has expired without a word.
//!
//! ```text
//!  CONFIG SET ──► all keys are looked at once, some at a time ──┐
//!                                                               ▼
//!  a write is committed ──────────────────────────────► stored key ──► time ──► due: expired
//! ```

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use bpfdb::{Database, Session, Status};

/// Keys that are looked at in one step.
const STEP: usize = 256;

type StoredKey = Rc<[u8]>;

#[derive(Debug, Default)]
pub(crate) struct Expiring {
    /// Clients choose the keys: they are hashed with a secret.
    times: HashMap<StoredKey, u64>,
    order: BTreeSet<(u64, StoredKey)>,
    /// Where the look at all keys goes on.
    cursor: Option<u64>,
}

impl Expiring {
    /// All keys are to be looked at.
    pub(crate) fn begin(&mut self) {
        *self = Self::default();
        self.cursor = Some(0);
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The keys of a database, or of all, are deleted.
    pub(crate) fn forget_keys_of(&mut self, database: Option<Database>) {
        let is_of = |key: &[u8]| {
            let of = Database::split(key).map(|(of, _)| of);
            database.is_none_or(|wanted| of == Some(wanted))
        };
        self.times.retain(|key, _| !is_of(key));
        self.order.retain(|(_, key)| !is_of(key));
    }

    /// The key expires then, or never; with the time that was known before.
    pub(crate) fn set(&mut self, stored_key: &[u8], expires_at: Option<u64>) -> Option<u64> {
        let known = self.times.remove_entry(stored_key);
        let before = known.map(|(key, time)| {
            self.order.remove(&(time, key));
            time
        });
        if let Some(time) = expires_at {
            let key = StoredKey::from(stored_key);
            self.times.insert(Rc::clone(&key), time);
            self.order.insert((time, key));
        }
        before
    }

    /// The key is gone; if it expires at another time than this one, another value has taken its place.
    pub(crate) fn forget(&mut self, stored_key: &[u8], expires_at: Option<u64>) {
        let known = self.times.get(stored_key).copied();
        if known.is_some() && known == expires_at {
            self.set(stored_key, None);
        }
    }

    /// The earliest time; UNIX time, milliseconds.
    pub(crate) fn due(&self) -> Option<u64> {
        self.order.first().map(|&(time, _)| time)
    }

    /// A key that has expired by now, which is forgotten.
    pub(crate) fn take_due(&mut self, now: u64) -> Option<StoredKey> {
        self.order.first().filter(|&&(time, _)| time <= now)?;
        let (_, key) = self.order.pop_first()?;
        self.times.remove(&key);
        Some(key)
    }

    /// Are there keys that have not been looked at?
    pub(crate) fn is_looking(&self) -> bool {
        self.cursor.is_some()
    }

    /// Looks at some more keys, outside of transactions.
    ///
    /// # Errors
    /// Those of the engine: these keys are looked at again.
    pub(crate) fn look(&mut self, session: &mut Session) -> Result<(), Status> {
        let Some(cursor) = self.cursor else {
            return Ok(());
        };
        session.set_database(Database::default());
        let (next, keys) = session.scan(cursor, STEP)?;
        for key in keys.iter().filter(|key| Database::split(key).is_some()) {
            // It is no use of the key.
            let head = session.tracked(false, |session| session.head(key))?;
            if let Some(expires_at) = head.and_then(|head| head.expires_at) {
                self.set(key, Some(expires_at));
            }
        }
        self.cursor = (next != 0).then_some(next);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_due_in_the_order_of_their_times() {
        let mut all = Expiring::default();
        assert_eq!(all.set(b"a", Some(30)), None);
        assert_eq!(all.set(b"b", Some(10)), None);
        assert_eq!(all.set(b"c", Some(20)), None);
        assert_eq!(all.set(b"b", Some(40)), Some(10));
        assert_eq!(all.set(b"c", None), Some(20));
        all.forget(b"b", Some(10));
        all.set(b"d", Some(5));
        all.forget(b"d", Some(5));
        assert_eq!(all.due(), Some(30));
        assert_eq!(all.take_due(29), None);
        assert_eq!(all.take_due(30).as_deref(), Some(&b"a"[..]));
        assert_eq!(all.take_due(39), None);
        assert_eq!(all.take_due(99).as_deref(), Some(&b"b"[..]));
        assert!(all.due().is_none() && all.times.is_empty());
    }

    #[test]
    fn keys_of_a_database_are_forgotten() {
        let other = Database::new(3).expect("there is one");
        let mut all = Expiring::default();
        all.set(b"a", Some(1));
        all.set(&other.stored(b"a"), Some(2));
        all.forget_keys_of(Some(Database::default()));
        assert_eq!((all.due(), all.times.len()), (Some(2), 1));
        all.forget_keys_of(None);
        assert_eq!((all.due(), all.times.len()), (None, 0));
    }
}
