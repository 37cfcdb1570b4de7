//! Why an operator said [`Status::Conflict`](crate::Status::Conflict), and who holds the
//! locks on a key. The causes are generated from the one list in
//! `include/bpfdb/conflict.h`.

use std::time::Duration;

use crate::session::{Operation, Session};
use crate::{Status, abi};

include!(concat!(env!("OUT_DIR"), "/conflict.rs"));

/// Why the last operator of a session that said CONFLICT did so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub cause: ConflictCause,
    /// The session that held the key, where one lock says it. It may be over by now.
    pub session: Option<u32>,
}

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
        self.hash(key)?;
        // SAFETY: points into the mapping of the sessions, which lives as long as self.
        let hash = unsafe { (&raw const (*self.own_state()).hash).read_volatile() };
        let mut holders = Vec::new();
        for session in self.sessions_with_locks() {
            if let Some(mode) = self.lock_mode(session, hash)? {
                let idle = self.idle(session);
                holders.push(LockHolder {
                    session,
                    mode,
                    idle,
                });
            }
        }
        Ok(holders)
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
