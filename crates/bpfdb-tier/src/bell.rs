//! What rings in memory of programs have in common: maps for their buffers, and the bell that wakes io_uring's thread.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use bpfdb_ring::Mapped;
use libbpf_rs::{MapHandle, MapType};
use libbpf_sys::{BPF_F_MMAPABLE, bpf_map_create_opts};

const PAGE: usize = 4096;

/// An array of so many values of so many bytes, which a process can map.
///
/// # Errors
/// Those of the system.
pub(crate) fn create_array(name: &str, value: usize, entries: u32) -> io::Result<MapHandle> {
    create_map(name, MapType::Array, 4, value, entries, BPF_F_MMAPABLE)
}

/// # Errors
/// Those of the system.
pub(crate) fn create_map(
    name: &str,
    kind: MapType,
    key: u32,
    value: usize,
    entries: u32,
    flags: u32,
) -> io::Result<MapHandle> {
    let options = bpf_map_create_opts {
        sz: size_of::<bpf_map_create_opts>() as libbpf_sys::size_t,
        map_flags: flags,
        ..Default::default()
    };
    MapHandle::create(kind, Some(name), key, value as u32, entries, &options)
        .map_err(io::Error::other)
}

/// The ring buffer of eBPF by which programs wake io_uring's thread. This process empties it.
#[derive(Debug)]
pub(crate) struct Bell {
    ring: OwnedFd,
    consumed: Mapped,
    produced: Mapped,
}

impl Bell {
    pub(crate) fn map(ring: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self {
            ring: ring.try_clone_to_owned()?,
            consumed: Mapped::new(ring, PAGE)?,
            produced: Mapped::read_only(ring, PAGE as u64, PAGE)?,
        })
    }

    /// Of the ring buffer, which is polled.
    pub(crate) fn as_raw_fd(&self) -> i32 {
        self.ring.as_raw_fd()
    }

    /// What is in it means nothing. One thread at a time.
    pub(crate) fn empty(&self) {
        // SAFETY: the first word of each of the two pages, which program and process change by atomic
        // instructions. The second one is only read.
        let (consumed, produced) = unsafe {
            (
                AtomicU64::from_ptr(self.consumed.at(0)),
                AtomicU64::from_ptr(self.produced.at(0)),
            )
        };
        let end = produced.load(Ordering::Acquire);
        if consumed.load(Ordering::Relaxed) != end {
            consumed.store(end, Ordering::Release);
        }
    }
}
