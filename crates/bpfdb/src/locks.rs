//! The sessions that hold locks on a key, and the cause of the last CONFLICT.

use std::time::Duration;

use crate::conflict::{Conflict, ConflictCause};
use crate::session::{Operation, Session};
use crate::{Status, abi};

/// How a key is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Others may read it.
    Shared,
    /// To be written, or read for update.
    Exclusive,
}

/// A session that holds a lock on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockHolder {
    pub session: u32,
    pub mode: LockMode,
    /// Time since its last operator, to about 10 ms.
    pub idle: Duration,
}

/// So many sessions are looked at in microseconds.
const SHORT_SEARCH: usize = 64;

/// So many transactions of clients are asked for a lock: a millisecond.
const CLIENTS_MAX: usize = 1000;

/// A search for the holders of locks on a key.
#[derive(Debug)]
pub struct LockSearch {
    hash: u64,
    /// Those that are left; each holds some lock.
    sessions: Vec<u32>,
}

impl LockSearch {
    /// Is it a matter of microseconds?
    pub fn is_short(&self) -> bool {
        self.sessions.len() <= SHORT_SEARCH
    }
}

impl Session {
    /// Of the last operator that said [`Status::Conflict`]; `None` if none did. To be asked
    /// right after it: a later conflict replaces it.
    pub fn last_conflict(&self) -> Option<Conflict> {
        let session = self.own_state();
        // SAFETY: points into the mapping of the sessions, which lives as long as self.
        let (cause, with) = unsafe {
            (
                (&raw const (*session).conflict).read_volatile(),
                (&raw const (*session).conflict_with).read_volatile(),
            )
        };
        let all = ConflictCause::ALL.iter().copied();
        Some(Conflict {
            cause: all.into_iter().find(|&known| known as u32 == cause)?,
            session: with.checked_sub(1),
        })
    }

    /// Of the last operator that said [`Status::Conflict`]: is the key held by a transaction that
    /// a client has begun and ends when it likes, or may it be? If not, it is held by programs of
    /// the kernel, which end their transactions as soon as their threads have a processor.
    ///
    /// Nanoseconds where one writer is in the way; else it looks at every session, with a
    /// system call for each of up to a thousand transactions of clients that hold locks.
    pub fn conflict_is_interactive(&self) -> bool {
        let Some(conflict) = self.last_conflict() else {
            return true;
        };
        match (conflict.cause, conflict.session) {
            (ConflictCause::Busy, _) => false,
            (_, Some(session)) => self.is_interactive(session),
            (_, None) => self.is_locked_interactively(),
        }
    }

    /// Is one of these transactions among those that hold the key of the last operator?
    fn is_locked_interactively(&self) -> bool {
        let mut sessions = self.sessions_with_locks();
        sessions.retain(|&session| self.is_interactive(session));
        // SAFETY: points into the mapping of the sessions, which lives as long as self.
        let hash = unsafe { (&raw const (*self.own_state()).hash).read_volatile() };
        let holds = |session| !matches!(self.lock_mode(session, hash), Ok(None));
        sessions.len() > CLIENTS_MAX || sessions.into_iter().any(holds)
    }

    /// Has the client of this session a transaction open that it has begun itself, be it a failed one,
    /// or one of which it does not know yet that it is over? For callers that look at all clients.
    pub fn is_begun_by_client(&self, session: u32) -> bool {
        let session = self.engine().inner.sessions.at(session as usize);
        // SAFETY: points into the mapping of the sessions, which lives as long as self.
        let (interactive, state) = unsafe {
            (
                (&raw const (*session).interactive).read_volatile(),
                (&raw const (*session).state).read_volatile(),
            )
        };
        match u32::from(state) {
            abi::BPFDB_TXN_NONE | abi::BPFDB_TXN_FINISHING => false,
            // What only reads is not marked; that of a command is over in a moment.
            abi::BPFDB_TXN_READ => true,
            _ => interactive != 0,
        }
    }

    fn is_interactive(&self, session: u32) -> bool {
        let session = self.engine().inner.sessions.at(session as usize);
        // SAFETY: points into the mapping of the sessions, which lives as long as self.
        let (interactive, state) = unsafe {
            (
                (&raw const (*session).interactive).read_volatile(),
                (&raw const (*session).state).read_volatile(),
            )
        };
        interactive != 0 && u32::from(state) != abi::BPFDB_TXN_NONE
    }

    /// The sessions that hold a lock on the key now, own and others. Looks at every session,
    /// a system call for each that holds locks: for people and tools. A transaction that
    /// begins or ends meanwhile may be missed, or named when it is over.
    ///
    /// # Errors
    /// [`Status::KeyTooLarge`]. None of them fails the session's transaction.
    pub fn lock_holders(&mut self, key: &[u8]) -> Result<Vec<LockHolder>, Status> {
        let mut search = self.search_locks(key)?;
        let mut holders = Vec::new();
        while let Some(looked_at) = self.next_lock_holder(&mut search)? {
            holders.extend(looked_at);
        }
        Ok(holders)
    }

    /// Begins [`Session::lock_holders`] for a caller that has others to serve in between.
    ///
    /// # Errors
    /// As there.
    pub fn search_locks(&mut self, key: &[u8]) -> Result<LockSearch, Status> {
        Ok(LockSearch {
            hash: self.key_hash(key)?,
            sessions: self.sessions_with_locks(),
        })
    }

    /// Looks at one more session, some microseconds: the holder that it is, or is not; `None`
    /// at the end.
    pub fn next_lock_holder(
        &self,
        search: &mut LockSearch,
    ) -> Result<Option<Option<LockHolder>>, Status> {
        let Some(session) = search.sessions.pop() else {
            return Ok(None);
        };
        let mode = self.lock_mode(session, search.hash)?;
        Ok(Some(mode.map(|mode| LockHolder {
            session,
            mode,
            idle: self.idle(session),
        })))
    }

    fn lock_mode(&self, session: u32, hash: u64) -> Result<Option<LockMode>, Status> {
        let driver = &self.engine().inner.driver;
        let mode = driver.run(abi::BPFDB_DRIVER_LOCK, &[session.into(), hash]);
        Ok(match mode.map_err(|_| Status::BadRequest)? {
            abi::BPFDB_LOCK_NONE => None,
            abi::BPFDB_LOCK_SHARED => Some(LockMode::Shared),
            _ => Some(LockMode::Exclusive),
        })
    }

    fn idle(&self, session: u32) -> Duration {
        let inner = &self.engine().inner;
        let session = inner.sessions.at(session as usize);
        // SAFETY: points into the mapping of the sessions.
        let active = unsafe { (&raw const (*session).last_active).read_volatile() };
        Duration::from_nanos(inner.memory.coarse_now().saturating_sub(active))
    }

    /// The hash by which this engine finds the key, which programs have as `hash` of the session: one
    /// of its own for each engine, and for as long as its data lives.
    ///
    /// # Errors
    /// [`Status::KeyTooLarge`], which fails no transaction.
    pub fn key_hash(&mut self, key: &[u8]) -> Result<u64, Status> {
        self.run_one(&Operation::Hash(key))?;
        // SAFETY: points into the mapping of the sessions, which lives as long as self.
        Ok(unsafe { (&raw const (*self.own_state()).hash).read_volatile() })
    }

    fn sessions_with_locks(&self) -> Vec<u32> {
        let inner = &self.engine().inner;
        let made = inner.memory.sessions_made() as usize;
        let all = 0..made.min(inner.sessions.len());
        let holds = |&index: &usize| {
            let session = inner.sessions.at(index);
            // SAFETY: points into the mapping of the sessions.
            unsafe { (&raw const (*session).lock_count).read_volatile() > 0 }
        };
        all.filter(holds).map(|index| index as u32).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, Options};

    /// What a program of the kernel leaves when its thread loses the processor: a transaction
    /// that no client has begun.
    fn belongs_to_program(session: &Session) {
        // SAFETY: points into the mapping of the sessions, which lives as long as the session.
        unsafe { (&raw mut (*session.own_state()).interactive).write_volatile(0) };
    }

    #[test]
    fn programs_are_told_from_clients() {
        let engine = Engine::create(&Options::default()).expect("engine");
        let [mut holder, mut other, mut third] = [(); 3].map(|()| engine.session().expect("open"));
        third.begin().expect("begun");
        third.get(b"elsewhere").expect("read");
        for write in [true, false] {
            holder.begin().expect("begun");
            if write {
                holder.set(b"key", b"1").expect("written");
            } else {
                holder.get(b"key").expect("read");
            }
            assert_eq!(other.set(b"key", b"2"), Err(Status::Conflict));
            let conflict = other.last_conflict().expect("there was one");
            assert_eq!(conflict.session.is_some(), write);
            assert!(other.conflict_is_interactive());
            belongs_to_program(&holder);
            assert!(!other.conflict_is_interactive());
            holder.rollback().expect("rolled back");
            // It is over.
            assert!(!other.conflict_is_interactive());
            assert_eq!(other.set(b"key", b"2"), Ok(()));
        }
    }

    /// The session's next transaction begins as one of a client again.
    #[test]
    fn who_begins_is_known_each_time() {
        let engine = Engine::create(&Options::default()).expect("engine");
        let [mut holder, mut other] = [(); 2].map(|()| engine.session().expect("open"));
        for _ in 0..2 {
            holder.begin().expect("begun");
            holder.set(b"key", b"1").expect("written");
            assert_eq!(other.set(b"key", b"2"), Err(Status::Conflict));
            assert!(other.conflict_is_interactive());
            belongs_to_program(&holder);
            holder.commit().expect("committed");
        }
    }
}
