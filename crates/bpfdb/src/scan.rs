//! SCAN: every key, step by step; `bpf/operators/scan.bpf.h` says why none is
//! lost while the index is split and merged.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::session::Session;
use crate::{Status, abi};

/// Buckets that a scan visits for each key that is wanted before it returns with
/// fewer, but not less than one step has: an index that has become almost empty
/// is visited in small steps.
const BUCKETS_PER_KEY: usize = 16;
const BUCKETS_MAX: usize = abi::BPFDB_SCAN_BUCKETS_MAX as usize;
/// Cursors are below this.
const CURSOR_END: u64 = 1 << (abi::BPFDB_CELL_BITS + abi::BPFDB_DIRECTORY_BITS_MAX);

/// One call of the program.
struct Step {
    cursor: u64,
    buckets: usize,
    keys: Vec<Vec<u8>>,
}

impl Session {
    /// Some keys, and the cursor that goes on behind them; 0 begins, and says
    /// that the end was reached. `count` keys are wanted: there may be more, or
    /// fewer, and none at all does not mean the end.
    ///
    /// Every key that is there from the call with 0 to the one that returns 0
    /// is found at least once; others may be found or not. Keys that have expired
    /// or are deleted are not. The scan takes no locks: in a read-write
    /// transaction it sees what the transaction has written, but keys may come
    /// and go behind it. In a read-only transaction it sees the snapshot.
    pub fn scan(&mut self, cursor: u64, count: usize) -> Result<(u64, Vec<Vec<u8>>), Status> {
        let wanted = count.max(1);
        let mut buckets = wanted.saturating_mul(BUCKETS_PER_KEY).max(BUCKETS_MAX);
        let mut cursor = cursor;
        let mut keys = Vec::new();
        loop {
            let step = self.scan_step(cursor, wanted - keys.len(), buckets)?;
            cursor = step.cursor;
            keys.extend(step.keys);
            buckets = buckets.saturating_sub(step.buckets);
            if cursor == 0 || keys.len() >= wanted || buckets == 0 {
                return Ok((cursor, keys));
            }
        }
    }

    /// Any key, or `None` if there is none. Not all are equally probable: those
    /// behind a gap in the index are more so.
    pub fn random_key(&mut self) -> Result<Option<Vec<u8>>, Status> {
        let random = RandomState::new().build_hasher().finish();
        let start = random % CURSOR_END;
        let mut cursor = start;
        let mut ends = 0;
        loop {
            let mut step = self.scan_step(cursor, 1, BUCKETS_MAX)?;
            if !step.keys.is_empty() {
                let any = (random >> 32) as usize % step.keys.len();
                return Ok(Some(step.keys.swap_remove(any)));
            }
            cursor = step.cursor;
            ends += u32::from(cursor == 0);
            // Once around, from the start to the start.
            if ends > 1 || (ends == 1 && cursor >= start) {
                return Ok(None);
            }
        }
    }

    fn scan_step(&mut self, cursor: u64, keys: usize, buckets: usize) -> Result<Step, Status> {
        let request = abi::bpfdb_scan {
            cursor,
            keys: u32::try_from(keys).unwrap_or(u32::MAX),
            buckets: buckets.min(BUCKETS_MAX) as u32,
        };
        let reply = self.run_scan(request)?;
        Ok(Step {
            cursor: reply.cursor,
            buckets: reply.buckets as usize,
            keys: self.scanned_keys(reply.keys as usize),
        })
    }
}
