//! Memory that the program, io_uring and the process share: the map `.bss.table`.

use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::abi::{self, bpfdb_table_chain, bpfdb_table_memory, bpfdb_table_shape};
use crate::error::{Result, io};

const LENGTH: usize = size_of::<bpfdb_table_memory>();
const BUFFER: usize = abi::BPFDB_TABLE_BUFFER as usize;

#[derive(Debug)]
pub(crate) struct Memory(NonNull<bpfdb_table_memory>);

// SAFETY: a mapping that belongs to no thread; what is shared in it are atomics, or belongs to one side.
unsafe impl Send for Memory {}

impl Memory {
    pub(crate) fn map(map: BorrowedFd<'_>) -> Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            mmap(
                ptr::null_mut(),
                LENGTH,
                protection,
                MapFlags::SHARED,
                map,
                0,
            )
        };
        let start = start.map_err(|error| io("map the program's memory")(error.into()))?;
        Ok(Self(
            NonNull::new(start.cast()).expect("mmap does not return NULL"),
        ))
    }

    /// Only fields of it are used, by pointers.
    fn all(&self) -> *mut bpfdb_table_memory {
        self.0.as_ptr()
    }

    pub(crate) fn rings(&self) -> *mut u8 {
        // SAFETY: within the mapping.
        unsafe { (&raw mut (*self.all()).rings).cast() }
    }

    /// The places of the submission queue.
    pub(crate) fn entries(&self) -> *mut u64 {
        // SAFETY: within the mapping.
        unsafe { (&raw mut (*self.all()).entries).cast() }
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

    /// A word of the rings, which the kernel changes.
    pub(crate) fn ring_word(&self, at: u32) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at < abi::BPFDB_TABLE_RINGS);
        // SAFETY: within the mapping, aligned.
        unsafe { AtomicU32::from_ptr(self.rings().add(at as usize).cast()) }
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

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: our mapping, which nothing refers to any more. Pages that a read may still write to are
        // kept by the kernel.
        let unmapped = unsafe { munmap(self.0.as_ptr().cast(), LENGTH) };
        debug_assert!(unmapped.is_ok());
    }
}
