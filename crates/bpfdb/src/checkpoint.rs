//! A pass over all records, for a checkpoint: `bpf/operators/checkpoint.bpf.h` says why none
//! is lost while the index is split and merged, and writers go on.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::Engine;
use crate::error::Result;
use crate::session::Session;
use crate::{Entry, Status, ValueType, abi};

const OTHERS: usize = abi::BPFDB_CHECKPOINT_OTHERS as usize;
const OTHER_SIZE: usize = abi::BPFDB_CHECKPOINT_OTHER_SIZE as usize;
const KEY_MAX: usize = abi::BPFDB_KEY_MAX as usize;

/// Visits all records once, or more than once. Takes one of the sessions and of the buffers of
/// `user_sessions` for as long as it lives, so that it cannot fail for want of them later.
///
/// Records whose latest version has a timestamp up to the epoch are found, with that version.
/// Before a pass begins all commits up to the epoch must be decided, as those are that are
/// durable.
#[derive(Debug)]
pub struct CheckpointPass {
    session: Session,
    at: abi::bpfdb_checkpoint,
}

/// A record whose value is too long for a step: [`CheckpointPass::read`].
#[derive(Clone, Debug)]
pub struct OtherRecord {
    pub key: Vec<u8>,
    /// Bytes of the value.
    pub len: u64,
    pub value_type: ValueType,
    /// Of a large or cold value: no other has it, ever. 0: it is neither.
    pub id: u64,
    /// The file of a cold value; 0: it is in memory.
    pub run: u64,
    expires: u64,
}

impl Engine {
    /// For checkpoints of this engine. Nothing is done before [`CheckpointPass::begin`].
    ///
    /// # Errors
    /// There is no session, or no buffer; or the kernel refuses to load the program.
    pub fn checkpoint_pass(&self) -> Result<CheckpointPass> {
        // Now: the thread that makes checkpoints has a low rank, and others would wait for it.
        self.inner.driver.prepare(abi::BPFDB_DRIVER_CHECKPOINT)?;
        let at = abi::bpfdb_checkpoint {
            cursor: abi::BPFDB_CHECKPOINT_END,
            ..abi::bpfdb_checkpoint::default()
        };
        let mut session = self.session()?;
        session.keep_cold();
        // What it reads is not used by that.
        session.set_untracked(true);
        Ok(CheckpointPass { session, at })
    }
}

impl CheckpointPass {
    /// Begins anew. `epoch`: records with a later timestamp are left out.
    pub fn begin(&mut self, epoch: u64) {
        // An attempt before this one may have ended in the middle of a snapshot.
        if self.session.in_transaction() {
            let _ = self.session.rollback();
        }
        self.at = abi::bpfdb_checkpoint {
            epoch,
            ..abi::bpfdb_checkpoint::default()
        };
    }

    /// Goes on, by a page of the index or a part of one. False: there is none left.
    ///
    /// # Errors
    /// [`Status::Exhausted`]: a record changed all the time, which is worth another attempt. After an error
    /// there are no entries and no others.
    pub fn step(&mut self) -> Result<bool, Status> {
        let request = self.at;
        self.forget_found();
        if request.cursor >= abi::BPFDB_CHECKPOINT_END {
            return Ok(false);
        }
        self.at = self.session.run_checkpoint(request)?;
        Ok(true)
    }

    /// The buffer has nothing of this epoch: what a step before found may have been written over since.
    fn forget_found(&mut self) {
        (self.at.bytes, self.at.entries, self.at.others) = (0, 0, 0);
    }

    /// What the last step found: entries as they stand in the files of the log, and how many.
    /// Valid until the next call of anything else.
    pub fn entries(&self) -> (&[u8], u32) {
        let start = size_of::<abi::bpfdb_checkpoint>();
        let bytes = (self.at.bytes as usize).min(OTHERS - start);
        let entries = self.session.buffer_at(start, bytes);
        (entries, self.at.entries)
    }

    /// The records that the last step found besides.
    pub fn others(&self) -> Vec<OtherRecord> {
        let other = |n: u32| self.other(n as usize);
        (0..self.at.others).map(other).collect()
    }

    /// The value of such a record, or the one that it has by now, which the log has, too, then. `None`:
    /// it was written since, deleted, has expired, or has another type.
    ///
    /// # Errors
    /// Those of reading a value.
    pub fn read(&mut self, record: &OtherRecord) -> Result<Option<Entry>, Status> {
        let values_move = self.session.engine().inner.cold.get().is_some();
        if record.run == 0 {
            let entry = match record.id {
                0 if values_move => None,
                0 => self.read_short(record)?,
                _ => self.read_large(record)?,
            };
            if entry.is_some() || !values_move {
                return Ok(entry);
            }
        }
        // It may have become cold since, or have come back, and is the same version.
        let found = self.session.typed_entry(&record.key)?;
        let found = found.filter(|(kind, _)| *kind == record.value_type);
        Ok(found.map(|(_, entry)| entry))
    }

    /// The value, if it is not large by now.
    fn read_short(&mut self, record: &OtherRecord) -> Result<Option<Entry>, Status> {
        let head = self.session.head(&record.key)?;
        let head = head.filter(|head| head.value_type == record.value_type);
        Ok(head.and_then(|head| {
            let expires_at = head.expires_at;
            head.value.map(|value| Entry { value, expires_at })
        }))
    }

    /// The large value, if it is the same one.
    fn read_large(&mut self, record: &OtherRecord) -> Result<Option<Entry>, Status> {
        let value = self
            .session
            .large_value(&record.key, record.id, record.len)?;
        Ok(value.map(|value| Entry {
            value,
            expires_at: (record.expires != 0).then_some(record.expires),
        }))
    }

    /// Goes on with another epoch, without what the last step found. For callers that look for some records, not
    /// for all of a moment.
    pub fn set_epoch(&mut self, epoch: u64) {
        self.forget_found();
        self.at.epoch = epoch;
    }

    /// That of what the last step found.
    pub fn epoch(&self) -> u64 {
        self.at.epoch
    }

    /// The engine's clock: all that was read until now has a timestamp up to this.
    pub fn clock(&self) -> u64 {
        let state = self.session.engine().inner.memory.state_pointer();
        // SAFETY: an aligned u64 in memory that lives as long as self, and that is only changed
        // atomically.
        unsafe { AtomicU64::from_ptr(&raw mut (*state).clock.value) }.load(Ordering::SeqCst)
    }

    /// Which part of the index was visited, from 0 to 1: whole pages.
    pub fn part(&self) -> f64 {
        f64::from(self.at.cursor) / f64::from(abi::BPFDB_CHECKPOINT_END)
    }

    fn other(&self, n: usize) -> OtherRecord {
        let head = size_of::<abi::bpfdb_checkpoint_other>();
        let most = (abi::BPFDB_IO_SIZE as usize - OTHERS) / OTHER_SIZE;
        let start = OTHERS + n.min(most - 1) * OTHER_SIZE;
        let bytes = self.session.buffer_at(start, head + KEY_MAX);
        // SAFETY: so many bytes are there; the structure is plain data.
        let other = unsafe {
            std::ptr::read_unaligned(bytes.as_ptr().cast::<abi::bpfdb_checkpoint_other>())
        };
        let key_len = (other.key_len as usize).min(KEY_MAX);
        OtherRecord {
            key: bytes[head..head + key_len].to_vec(),
            len: other.len,
            value_type: ValueType::from_code(other.value_type as u8),
            id: other.id,
            run: other.run,
            expires: other.expires,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Engine, Options, Status};

    #[test]
    fn a_step_that_fails_leaves_nothing_of_the_one_before() {
        let engine = Engine::create(&Options::default()).expect("an engine");
        let mut session = engine.session().expect("a session");
        // So many that the first step that finds some is not the last one.
        for number in 0..50 {
            let (short, long) = (format!("short{number}"), format!("long{number}"));
            session.set(short.as_bytes(), b"1").expect("set");
            session.set(long.as_bytes(), &[1; 40_000]).expect("set");
        }
        let mut pass = engine.checkpoint_pass().expect("a pass");
        for is_long in [false, true] {
            pass.begin(u64::MAX >> 20);
            let found = |pass: &super::CheckpointPass| match is_long {
                false => pass.entries().1 as usize,
                true => pass.others().len(),
            };
            while found(&pass) == 0 {
                assert_eq!(pass.step(), Ok(true));
            }
            // A pass is made without a transaction.
            pass.session.begin().expect("begun");
            assert_eq!(pass.step(), Err(Status::WrongState));
            assert!(pass.entries().0.is_empty());
            assert_eq!((pass.entries().1, pass.others().len()), (0, 0));
            pass.session.rollback().expect("rolled back");
            assert_eq!(pass.step(), Ok(true));
        }
    }
}
