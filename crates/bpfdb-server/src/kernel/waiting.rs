//! Where the kernel looks whether clients wait for a key that it is about to fill
//! (`bpf/values/waiting.bpf.h` is the other side).

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use bpfdb::abi;

use super::programs::Programs;
use crate::error::{Result, system};

const SIZE: usize = size_of::<abi::bpfdb_waiting>();

/// How many clients wait, by hashes of keys; mapped into this process, which alone writes it.
#[derive(Debug)]
pub(crate) struct KernelWaiting(NonNull<abi::bpfdb_waiting>);

impl KernelWaiting {
    pub(crate) fn map(programs: &Programs) -> Result<Self> {
        let map = programs.map(".data.waiting")?;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                SIZE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_fd().as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(system("map what the kernel knows of waiting clients")(
                io::Error::last_os_error(),
            ));
        }
        Ok(Self(
            NonNull::new(start.cast()).expect("mmap does not return NULL"),
        ))
    }

    fn clients(&self, hash: u64) -> &AtomicU32 {
        let at = hash as usize % abi::BPFDB_WAITING_KEYS as usize;
        // SAFETY: an aligned word of the mapping, which lives as long as self.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.0.as_ptr()).clients[at]) }
    }

    /// One more waits for a key with this hash. A push that locks the key after this is left to the
    /// daemon.
    pub(crate) fn raise(&self, hash: u64) {
        self.clients(hash).fetch_add(1, Ordering::SeqCst);
    }

    /// One of them waits no longer.
    pub(crate) fn lower(&self, hash: u64) {
        self.clients(hash).fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for KernelWaiting {
    fn drop(&mut self) {
        // SAFETY: the mapping of map(), which nothing uses any more.
        unsafe {
            libc::munmap(self.0.as_ptr().cast(), SIZE);
        }
    }
}
