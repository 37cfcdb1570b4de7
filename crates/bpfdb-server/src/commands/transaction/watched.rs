//! Keys that WATCH has noted, and whether they are as they were.

use bpfdb::{Database, Session, Status, WatchToken, abi};
use indexmap::IndexMap;

use super::super::context::Outcome;
use super::super::time_slice::TimeSlice;
use super::reserved::Reserved;

/// EXEC locks what is watched.
const KEYS_MAX: usize = abi::BPFDB_LOCKS_MAX as usize;
/// Bytes that a key takes beside its own.
const KEY_OVERHEAD: usize = 128;

/// What EXEC compares with.
#[derive(Debug)]
struct Noted {
    token: WatchToken,
    /// How often databases had been exchanged: one more time, and the client means another key.
    swaps: u64,
}

/// Each key once, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct WatchedKeys {
    keys: IndexMap<(Database, Vec<u8>), Noted>,
    reserved: Reserved,
}

/// What a comparison has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    /// A key was written.
    Changed,
    /// So many, from the first one on, are as they were, and the time is over.
    Until(usize),
    /// All are.
    Same,
}

impl WatchedKeys {
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Bytes that are kept.
    pub(crate) fn memory(&self) -> usize {
        self.reserved.bytes()
    }

    /// Forgets the last ones, but for so many.
    pub(super) fn truncate(&mut self, len: usize) {
        self.keys.truncate(len);
        if len == 0 {
            self.reserved.give_back();
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Notes a key of the database that the session is in, unless it is noted already.
    ///
    /// # Errors
    /// There are too many, or the engine cannot say how the key is.
    pub(super) fn note(&mut self, session: &mut Session, key: &[u8], swaps: u64) -> Outcome {
        let place = (session.database(), key.to_vec());
        if self.keys.contains_key(&place) {
            return Ok(());
        }
        if self.len() == KEYS_MAX {
            return Err(format!("ERR more than {KEYS_MAX} keys are watched").into());
        }
        self.reserved
            .add(key.len() + KEY_OVERHEAD, "keys watched")?;
        let token = session.watch(key)?;
        self.keys.insert(place, Noted { token, swaps });
        Ok(())
    }

    /// Compares keys from this one on for as long as a step may take. If `locks`, it locks each before,
    /// so that it stays as it is; a snapshot stays as it is without. `swaps`: how often databases were
    /// exchanged.
    ///
    /// # Errors
    /// A lock cannot be had, or the engine cannot say how a key is.
    pub(super) fn compare(
        &self,
        session: &mut Session,
        from: usize,
        locks: bool,
        swaps: u64,
    ) -> Result<Comparison, Status> {
        let own = session.database();
        let found = session.without_misses(|session| self.look(session, from, locks, swaps));
        session.set_database(own);
        found
    }

    fn look(
        &self,
        session: &mut Session,
        from: usize,
        locks: bool,
        swaps: u64,
    ) -> Result<Comparison, Status> {
        let slice = TimeSlice::begin();
        for at in from..self.keys.len() {
            let ((database, key), noted) = &self.keys.get_index(at).expect("one of them");
            session.set_database(*database);
            if locks {
                // A large value is not read for it.
                session.head(key)?;
            }
            let now = session.watch(key)?;
            if noted.swaps != swaps || !noted.token.still_holds(&now) {
                return Ok(Comparison::Changed);
            }
            if slice.is_over() {
                return Ok(Comparison::Until(at + 1));
            }
        }
        Ok(Comparison::Same)
    }
}
