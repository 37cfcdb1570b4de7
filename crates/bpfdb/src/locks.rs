//! Who holds the locks on a key, and why the last CONFLICT was said.

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
        self.sessions.len() < 64
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
        self.hash(key)?;
        // SAFETY: points into the mapping of the sessions, which lives as long as self.
        let hash = unsafe { (&raw const (*self.own_state()).hash).read_volatile() };
        Ok(LockSearch {
            hash,
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
        let program = &self.engine().inner.run_lock;
        let mode = program.run(&[session.into(), hash]);
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

    fn hash(&mut self, key: &[u8]) -> Result<(), Status> {
        self.run_one(&Operation::Hash(key)).map(drop)
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
