//! Walks over all records, step by step: scans and the passes of checkpoints. A step has its request at
//! the beginning of the session's buffer, and its reply in the same place.

use std::sync::atomic::{Ordering, fence};

use super::Session;
use crate::{Status, abi};

/// The request of a step and its reply.
///
/// # Safety
/// Any bytes are a value of it, and it is shorter than the buffer.
unsafe trait Step: Copy {
    /// The call of the engine's program.
    const CALL: u32;
}

// SAFETY: numbers only.
unsafe impl Step for abi::bpfdb_checkpoint {
    const CALL: u32 = abi::BPFDB_DRIVER_CHECKPOINT;
}

// SAFETY: numbers only.
unsafe impl Step for abi::bpfdb_scan {
    const CALL: u32 = abi::BPFDB_DRIVER_SCAN;
}

// SAFETY: numbers only.
unsafe impl Step for abi::bpfdb_sample {
    const CALL: u32 = abi::BPFDB_DRIVER_SAMPLE;
}

impl Session {
    /// A step of the hand that looks for victims: its reply, with these behind it in the buffer.
    pub(crate) fn run_sample(
        &mut self,
        request: abi::bpfdb_sample,
    ) -> Result<abi::bpfdb_sample, Status> {
        self.walk(request)
    }

    /// A step of a checkpoint's pass: its reply, with what it found behind it in the buffer.
    pub(crate) fn run_checkpoint(
        &mut self,
        request: abi::bpfdb_checkpoint,
    ) -> Result<abi::bpfdb_checkpoint, Status> {
        self.walk(request)
    }

    /// A step of a scan: its reply, with the keys behind it in the buffer.
    pub(crate) fn run_scan(&mut self, request: abi::bpfdb_scan) -> Result<abi::bpfdb_scan, Status> {
        self.walk(request)
    }

    fn walk<T: Step>(&mut self, request: T) -> Result<T, Status> {
        const { assert!(size_of::<T>() <= super::ROOM) };
        // Before a transaction that is deferred begins: it would keep its locks while the program is loaded.
        let prepared = self.engine.inner.driver.prepare(T::CALL);
        prepared.map_err(|_| Status::BadRequest)?;
        self.flush()?;
        let start = self.buffer.0.cast::<T>();
        // SAFETY: the buffer is longer; nothing else writes to it now.
        unsafe { start.write_unaligned(request) };
        fence(Ordering::SeqCst);
        let arguments = [u64::from(self.index), u64::from(self.io)];
        let driver = &self.engine.inner.driver;
        let code = driver
            .run(T::CALL, &arguments)
            .map_err(|_| Status::BadRequest)?;
        match Status::from_code(code) {
            // SAFETY: as above.
            Some(Status::Ok) => Ok(unsafe { start.read_unaligned() }),
            Some(status) => Err(status),
            None => Err(Status::Corrupt),
        }
    }

    /// Bytes of the buffer: what the last program wrote there.
    pub(crate) fn buffer_at(&self, start: usize, len: usize) -> &[u8] {
        assert!(start + len <= crate::engine::IO_STRIDE, "within the buffer");
        // SAFETY: inside the mapping; it is not written while self is borrowed.
        unsafe { std::slice::from_raw_parts(self.buffer.0.add(start), len) }
    }

    /// Shows the keys that a step of a scan left in the buffer.
    pub(crate) fn scanned_keys(&self, count: usize, mut visit: impl FnMut(&[u8])) {
        let mut at = size_of::<abi::bpfdb_scan>();
        for _ in 0..count {
            // SAFETY: the program wrote `count` keys of at most KEY_MAX bytes.
            let key = unsafe {
                let start = self.buffer.0.add(at);
                let len = start.cast::<u64>().read_unaligned() as usize;
                std::slice::from_raw_parts(start.add(8), len.min(abi::BPFDB_KEY_MAX as usize))
            };
            at += 8 + key.len().next_multiple_of(8);
            visit(key);
        }
    }
}
