//! Memory that the program and the process share: the map `.bss.compact`.

use std::io;
use std::os::fd::BorrowedFd;

use bpfdb_ring::Mapped;

use crate::abi::{self, bpfdb_compact_live, bpfdb_compact_memory};

/// Bytes of a part.
pub(crate) const PART: usize = abi::BPFDB_COMPACT_PART as usize;
const LENGTH: usize = size_of::<bpfdb_compact_memory>();

/// The program touches it only when the process executes it, for which it needs this mutably.
#[derive(Debug)]
pub(crate) struct Memory(Mapped);

impl Memory {
    pub(crate) fn map(map: BorrowedFd<'_>) -> io::Result<Self> {
        Mapped::new(map, LENGTH).map(Self)
    }

    /// All of it, zeros at first.
    pub(crate) fn all(&self) -> &bpfdb_compact_memory {
        // SAFETY: mapped as long as self; plain data, of which every pattern of bits is a value; nothing changes it.
        unsafe { &*self.0.at(0) }
    }

    pub(crate) fn all_mut(&mut self) -> &mut bpfdb_compact_memory {
        // SAFETY: as above.
        unsafe { &mut *self.0.at(0) }
    }

    /// Entries that were found live.
    pub(crate) fn lives(&self) -> &[bpfdb_compact_live] {
        let all = self.all();
        &all.lives[..(all.live as usize).min(all.lives.len())]
    }
}
