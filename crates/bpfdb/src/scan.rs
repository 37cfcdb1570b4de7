//! SCAN: every key, step by step; `bpf/operators/scan.bpf.h` says why none is
//! lost while the index is split and merged.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::session::Session;
use crate::{Keyspaces, Status, abi};

/// Buckets that a scan visits for each key that is wanted before it returns with
/// fewer, but not less than one step has: an index that has become almost empty
/// is visited in small steps.
const BUCKETS_PER_KEY: usize = 16;
const BUCKETS_MAX: usize = abi::BPFDB_SCAN_BUCKETS_MAX as usize;
/// Keys among which [`Session::random_key`] chooses.
const CANDIDATES: usize = 16;
/// Cursors are below this.
const CURSOR_END: u64 = 1 << (abi::BPFDB_CELL_BITS + abi::BPFDB_DIRECTORY_BITS_MAX);

/// Where a cursor is, for callers that must see each key once: in a read-only transaction two
/// steps give the same key only if both visit the region where the second one begins. A step
/// visits those from the region of its cursor to that of the next. Regions are 1,024, and
/// come in order.
pub fn scan_region(cursor: u64) -> u64 {
    cursor >> abi::BPFDB_DIRECTORY_BITS_MAX
}

/// One call of the program; its keys are in the session's buffer.
struct Step {
    cursor: u64,
    buckets: usize,
    keys: usize,
}

impl Session {
    /// Some keys, and the cursor that goes on behind them; 0 begins, and says
    /// that the end was reached. `count` keys are wanted: there may be more, or
    /// fewer, and none at all does not mean the end.
    ///
    /// Every key that is there from the call with 0 to the one that returns 0
    /// is found at least once; others may be found or not. Keys that have expired
    /// or are deleted are not. In a read-only transaction it sees the snapshot.
    ///
    /// In a read-write transaction it sees what that has written, and locks what it sees: until
    /// the transaction ends no other one makes a key come or go, be it by its time. Writes that
    /// would are [`Status::Conflict`], and so is the scan of a second transaction. So is this one
    /// where a transaction that is not over has made a key come or go.
    pub fn scan(&mut self, cursor: u64, count: usize) -> Result<(u64, Vec<Vec<u8>>), Status> {
        let mut keys = Vec::new();
        let next = self.scan_each(cursor, count, |key| keys.push(key.to_vec()))?;
        Ok((next, keys))
    }

    /// The same, each key shown to `visit`; the next cursor.
    pub fn scan_each(
        &mut self,
        cursor: u64,
        count: usize,
        visit: impl FnMut(&[u8]),
    ) -> Result<u64, Status> {
        self.scan_of(Keyspaces::ALL, cursor, count, visit)
    }

    /// The same of these keyspaces alone. It shows stored keys.
    pub fn scan_of(
        &mut self,
        keyspaces: Keyspaces,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(&[u8]),
    ) -> Result<u64, Status> {
        let mut wanted = count.max(1);
        let mut buckets = wanted.saturating_mul(BUCKETS_PER_KEY).max(BUCKETS_MAX);
        let mut cursor = cursor;
        loop {
            let step = self.scan_step(keyspaces, cursor, wanted, buckets)?;
            self.scanned_keys(step.keys, &mut visit);
            cursor = step.cursor;
            wanted = wanted.saturating_sub(step.keys);
            buckets = buckets.saturating_sub(step.buckets);
            if cursor == 0 || wanted == 0 || buckets == 0 {
                return Ok(cursor);
            }
        }
    }

    /// A cursor by chance: it goes on anywhere.
    pub fn random_cursor() -> u64 {
        RandomState::new().build_hasher().finish() % CURSOR_END
    }

    /// Any key, or `None` if there is none. Of 16 keys or fewer each is
    /// equally probable; of more, those behind a gap in the index are a little more
    /// so. In a read-write transaction it locks as [`Session::scan`] does.
    pub fn random_key(&mut self) -> Result<Option<Vec<u8>>, Status> {
        let start = Self::random_cursor();
        let mut candidates: Vec<Vec<u8>> = Vec::with_capacity(CANDIDATES);
        let (mut cursor, mut ends) = (start, 0);
        // Once around, from the start to the start.
        while candidates.len() < CANDIDATES && (ends == 0 || (ends == 1 && cursor < start)) {
            let step = self.scan_step(Keyspaces::ALL, cursor, CANDIDATES, BUCKETS_MAX)?;
            self.scanned_keys(step.keys, |key| {
                // The last step reaches beyond the start, to keys that are there already.
                if ends == 0 || !candidates.iter().any(|known| known == key) {
                    candidates.push(key.to_vec());
                }
            });
            cursor = step.cursor;
            ends += u32::from(cursor == 0);
        }
        let any = Self::random_cursor() as usize % candidates.len().max(1);
        Ok((any < candidates.len()).then(|| candidates.swap_remove(any)))
    }

    fn scan_step(
        &mut self,
        keyspaces: Keyspaces,
        cursor: u64,
        keys: usize,
        buckets: usize,
    ) -> Result<Step, Status> {
        let request = abi::bpfdb_scan {
            cursor,
            keys: u32::try_from(keys).unwrap_or(u32::MAX),
            buckets: buckets.min(BUCKETS_MAX) as u32,
            keyspaces: keyspaces.bits(),
            reserved: 0,
        };
        let reply = self.run_scan(request)?;
        Ok(Step {
            cursor: reply.cursor,
            buckets: reply.buckets as usize,
            keys: reply.keys as usize,
        })
    }
}
