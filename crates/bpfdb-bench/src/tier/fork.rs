//! What a database that takes its snapshots by `fork()` pays for one: the system call copies the page
//! tables of all its memory.

use std::io;
use std::ptr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork};

/// Memory of this process, every page of which it has: of 4 KiB, as Redis asks its users for them.
pub(super) struct Memory {
    at: *mut libc::c_void,
    bytes: usize,
}

impl Memory {
    pub(super) fn new(bytes: usize) -> Result<Self> {
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping, which nothing else refers to.
        let at = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        ensure!(
            at != libc::MAP_FAILED,
            "map {bytes} bytes: {}",
            io::Error::last_os_error()
        );
        let memory = Self { at, bytes };
        // SAFETY: the mapping is this one's, and stays until it is dropped.
        let advised = unsafe { libc::madvise(at, bytes, libc::MADV_NOHUGEPAGE) };
        // A kernel without huge pages does not know the advice.
        let is_unknown = io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL);
        ensure!(advised == 0 || is_unknown, "ask for small pages");
        // SAFETY: as above.
        unsafe { ptr::write_bytes(at.cast::<u8>(), 1, bytes) };
        Ok(memory)
    }

    /// How long `fork()` of this process takes. The child ends at once.
    pub(super) fn fork(&self) -> Result<Duration> {
        let begun = Instant::now();
        // SAFETY: the child calls nothing but _exit().
        match unsafe { fork() }.context("fork")? {
            // SAFETY: nothing is to be done at its end.
            ForkResult::Child => unsafe { libc::_exit(0) },
            ForkResult::Parent { child } => {
                let took = begun.elapsed();
                waitpid(child, None).context("wait for a child")?;
                Ok(took)
            }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: made by mmap() with this length, and not used any more.
        unsafe { libc::munmap(self.at, self.bytes) };
    }
}
