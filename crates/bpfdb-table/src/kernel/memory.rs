//! Memory that the program, io_uring and the process share: the map `.bss.table`.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use bpfdb_ring::{Mapped, RingMemory};

use crate::abi::{self, bpfdb_table_chain, bpfdb_table_memory, bpfdb_table_shape};
use crate::error::{Result, io};

const LENGTH: usize = size_of::<bpfdb_table_memory>();
const BUFFER: usize = abi::BPFDB_TABLE_BUFFER as usize;

/// What is shared in it are atomics, or belongs to one side.
#[derive(Debug)]
pub(crate) struct Memory(Mapped);

impl Memory {
    pub(crate) fn map(map: BorrowedFd<'_>) -> Result<Self> {
        let mapped = Mapped::new(map, LENGTH).map_err(io("map the program's memory"))?;
        Ok(Self(mapped))
    }

    /// Only fields of it are used, by pointers.
    fn all(&self) -> *mut bpfdb_table_memory {
        self.0.at(0)
    }

    pub(crate) fn ring(&self) -> NonNull<RingMemory> {
        // SAFETY: within the mapping.
        let ring = unsafe { &raw mut (*self.all()).ring };
        NonNull::new(ring.cast()).expect("within a mapping")
    }

    pub(crate) fn buffers(&self) -> *mut u8 {
        // SAFETY: within the mapping.
        unsafe { (&raw mut (*self.all()).buffers).cast() }
    }

    pub(crate) fn chain(&self, place: usize) -> *mut bpfdb_table_chain {
        assert!(place < abi::BPFDB_TABLE_CHAINS as usize);
        // SAFETY: within the mapping.
        unsafe {
            (&raw mut (*self.all()).chains)
                .cast::<bpfdb_table_chain>()
                .add(place)
        }
    }

    pub(crate) fn state(&self, place: usize) -> &AtomicU32 {
        // SAFETY: within the mapping, aligned; both sides use atomic instructions.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.chain(place)).state) }
    }

    pub(crate) fn is_waited(&self, place: usize) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.chain(place)).is_waited) }
    }

    /// What was read by a chain that is DONE, and that this process has not started again.
    pub(crate) fn buffer(&self, place: usize) -> &[u8] {
        let is_ours = self.state(place).load(Ordering::Acquire) == abi::BPFDB_TABLE_DONE;
        assert!(
            is_ours,
            "only a chain that has ended has its buffer for the process"
        );
        // SAFETY: within the mapping; no read writes to it until the process starts the chain again, for which
        // it needs this memory mutably.
        unsafe { std::slice::from_raw_parts(self.buffers().add(place * BUFFER), BUFFER) }
    }

    /// Before the program runs.
    pub(crate) fn set_shape(&self, shape: bpfdb_table_shape) {
        // SAFETY: within the mapping; no program reads it yet.
        unsafe { (&raw mut (*self.all()).shape).write_volatile(shape) }
    }
}
