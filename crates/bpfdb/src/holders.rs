//! The holder of a session, and the end of sessions whose holder is gone.
//!
//! A holder is identified by the id of a map that lives exactly as long as it: the io buffers
//! of a process for sessions of user space, the constants of an adopted object for those
//! that its programs open. The kernel keeps a map as long as a program uses it, and a
//! program until its last run has ended; so when the map is gone no operator runs in these
//! sessions, nor ever will. It gives ids in ascending order and begins again after 2^31.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::abi;
use crate::driver::Driver;
use crate::error::{Result, system};
use crate::mapped::Mapped;
use crate::maps::map_exists;
use crate::memory::Memory;

/// The owner's look at the sessions of all.
#[derive(Debug)]
pub(crate) struct Holders {
    sessions: Arc<Mapped<abi::bpfdb_session>>,
    driver: Arc<Driver>,
    own: u32,
}

/// What is to be known of one session.
struct Held {
    holder: u32,
    kind: u32,
}

impl Holders {
    /// `own`: the holder of the owner's own sessions.
    pub(crate) fn new(
        sessions: &Arc<Mapped<abi::bpfdb_session>>,
        driver: &Arc<Driver>,
        own: u32,
    ) -> Self {
        Self {
            sessions: Arc::clone(sessions),
            driver: Arc::clone(driver),
            own,
        }
    }

    /// Closes the sessions of programs that are gone, with their transactions.
    ///
    /// # Errors
    /// The first one; the sessions of other programs are closed nevertheless.
    pub(crate) fn close_abandoned(&self, memory: &Memory) -> Result<()> {
        let mut known = BTreeMap::from([(0, false), (self.own, false)]);
        for_each(self.held(memory), |(index, held)| {
            let gone = match known.get(&held.holder) {
                Some(&gone) => gone,
                None => *known.entry(held.holder).or_insert(is_gone(held.holder)?),
            };
            if gone {
                self.close(index, held.holder)?;
            }
            Ok(())
        })
    }

    /// Closes what an owner that is gone has left behind, also if the kernel has not
    /// taken its programs away yet: its own sessions, and those of a server.
    ///
    /// A program of that server may be in the middle of a message, and was perhaps
    /// preempted there: it looks at the holder when the message begins, and not again. So
    /// the sessions get another holder first. They are closed when every program has ended
    /// that may have seen the one before (`wait`): else it went on in a session that is
    /// another holder's by then.
    pub(crate) fn close_orphans(
        &self,
        memory: &Memory,
        wait: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let before = memory.owner();
        let is_orphan =
            |held: &Held| held.holder == before || held.kind == abi::BPFDB_SESSION_REDIS;
        let orphans: Vec<usize> = self
            .held(memory)
            .filter(|(index, held)| is_orphan(held) && self.take(*index, held.holder))
            .map(|(index, _)| index)
            .collect();
        if !orphans.is_empty() {
            wait()?;
        }
        let closed = for_each(orphans.into_iter(), |index| self.close(index, self.own));
        closed.and(self.close_abandoned(memory))
    }

    /// Makes a session this owner's. False: it is not that holder's any more.
    fn take(&self, index: usize, holder: u32) -> bool {
        // SAFETY: at() points into the mapping, which lives as long as self; programs
        // access the field as a whole.
        let field = unsafe { AtomicU32::from_ptr(&raw mut (*self.sessions.at(index)).holder) };
        let taken = field.compare_exchange(holder, self.own, Ordering::SeqCst, Ordering::SeqCst);
        taken.is_ok()
    }

    fn close(&self, index: usize, holder: u32) -> Result<()> {
        // Refused if it was closed, and perhaps opened again, meanwhile.
        self.driver
            .run(abi::BPFDB_DRIVER_CLOSE, &[index as u64, holder.into()])
            .map(drop)
    }

    /// The sessions in use, but for those that the reaper closes anyway.
    fn held(&self, memory: &Memory) -> impl Iterator<Item = (usize, Held)> + '_ {
        let made = (memory.sessions_made() as usize).min(self.sessions.len());
        (0..made).filter_map(|index| {
            let session = self.sessions.at(index);
            // SAFETY: at() points into the mapping, which lives as long as self.
            let (in_use, holder, kind) = unsafe {
                (
                    (&raw const (*session).in_use).read_volatile(),
                    (&raw const (*session).holder).read_volatile(),
                    (&raw const (*session).kind).read_volatile().into(),
                )
            };
            let open = in_use & abi::BPFDB_SESSION_USE_MASK == abi::BPFDB_SESSION_OPEN;
            open.then_some((index, Held { holder, kind }))
        })
    }
}

/// Does this for all, also after an Error: the first one is the outcome.
fn for_each<T>(all: impl Iterator<Item = T>, mut work: impl FnMut(T) -> Result<()>) -> Result<()> {
    let mut outcome = Ok(());
    for one in all {
        outcome = outcome.and(work(one));
    }
    outcome
}

fn is_gone(holder: u32) -> Result<bool> {
    match map_exists(holder) {
        // Without CAP_SYS_ADMIN nothing is known of maps of others. Their idle transactions are rolled
        // back as all are, and the next owner closes their sessions.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
        exists => Ok(!exists.map_err(system("look for the holder of a session"))?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn an_error_of_one_does_not_keep_the_others() {
        let mut done = Vec::new();
        let outcome = for_each(1..=4, |number| {
            done.push(number);
            if number % 2 == 0 {
                return Err(Error::Invalid(number.to_string()));
            }
            Ok(())
        });
        assert_eq!(done, [1, 2, 3, 4]);
        assert!(matches!(outcome, Err(Error::Invalid(text)) if text == "2"));
        assert!(for_each(1..=4, |_| Ok(())).is_ok());
    }
}
