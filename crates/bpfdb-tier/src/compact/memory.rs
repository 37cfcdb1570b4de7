//! Memory that the program and the process share: the map `.bss.compact`.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::abi::{self, bpfdb_compact_live, bpfdb_compact_memory};

/// Bytes of a part.
pub(crate) const PART: usize = abi::BPFDB_COMPACT_PART as usize;
const LENGTH: usize = size_of::<bpfdb_compact_memory>();

/// The program touches it only when the process executes it, for which it needs this mutably.
#[derive(Debug)]
pub(crate) struct Memory(NonNull<bpfdb_compact_memory>);

// SAFETY: a mapping that belongs to no thread.
unsafe impl Send for Memory {}

impl Memory {
    pub(crate) fn map(map: BorrowedFd<'_>) -> io::Result<Self> {
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
        }?;
        Ok(Self(
            NonNull::new(start.cast()).expect("mmap does not return NULL"),
        ))
    }

    /// All of it, zeros at first.
    pub(crate) fn all(&self) -> &bpfdb_compact_memory {
        // SAFETY: mapped as long as self; plain data, of which every pattern of bits is a value; nothing changes it.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn all_mut(&mut self) -> &mut bpfdb_compact_memory {
        // SAFETY: as above.
        unsafe { self.0.as_mut() }
    }

    /// Entries that were found live.
    pub(crate) fn lives(&self) -> &[bpfdb_compact_live] {
        let all = self.all();
        &all.lives[..(all.live as usize).min(all.lives.len())]
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: our mapping, which nothing refers to any more.
        let unmapped = unsafe { munmap(self.0.as_ptr().cast(), LENGTH) };
        debug_assert!(unmapped.is_ok());
    }
}
