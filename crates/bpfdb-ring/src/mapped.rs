//! Memory of an array map (`BPF_F_MMAPABLE`), shared with programs and io_uring.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

const PAGE: usize = 4096;

/// A mapping of plain data that others change at any time: only pointers to it are given out.
#[derive(Debug)]
pub struct Mapped {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping that belongs to no thread; each use of its pointers says why it is right.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// The first `bytes` bytes of the map's values, which lie one behind the other.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(map: BorrowedFd<'_>, bytes: usize) -> io::Result<Self> {
        Self::of(map, 0, bytes, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// The same from byte `at` on, a multiple of a page, only to be read.
    ///
    /// # Errors
    /// Those of the system.
    pub fn read_only(map: BorrowedFd<'_>, at: u64, bytes: usize) -> io::Result<Self> {
        Self::of(map, at, bytes, ProtFlags::READ)
    }

    fn of(map: BorrowedFd<'_>, at: u64, bytes: usize, protection: ProtFlags) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(PAGE);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            mmap(
                ptr::null_mut(),
                bytes,
                protection,
                MapFlags::SHARED,
                map,
                at,
            )
        }?;
        let start = NonNull::new(start.cast()).expect("mmap does not return NULL");
        Ok(Self { start, bytes })
    }

    /// The address of byte `at` of the mapping, valid as long as `self`.
    ///
    /// # Panics
    /// A `T` there would not be within the mapping, or not aligned.
    pub fn at<T>(&self, at: usize) -> *mut T {
        assert!(at + size_of::<T>() <= self.bytes && at.is_multiple_of(align_of::<T>()));
        // SAFETY: within the mapping.
        unsafe { self.start.as_ptr().add(at).cast() }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: our mapping, which nothing refers to any more. Pages that a read may still write to are
        // kept by the kernel.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}
