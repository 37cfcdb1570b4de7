//! Map memory seen from user space.

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

const WORD: usize = size_of::<u64>();

/// The values of a `BPF_F_MMAPABLE` array map, as a shared mapping. Programs
/// change it at any time: access is by volatile reads and writes.
#[derive(Debug)]
pub(crate) struct Mapped<T> {
    start: NonNull<T>,
    entries: usize,
    stride: usize,
    bytes: usize,
    _marker: PhantomData<T>,
}

// SAFETY: the mapping is shared memory that is only accessed by volatile
// operations through raw pointers; T is plain data.
unsafe impl<T: Send> Send for Mapped<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Mapped<T> {}

impl<T> Mapped<T> {
    /// Maps `entries` values of `value_size` bytes each (at least the size of
    /// T), from the beginning of the map.
    pub(crate) fn new(map: BorrowedFd<'_>, entries: usize, value_size: usize) -> io::Result<Self> {
        assert!(value_size >= size_of::<T>());
        let stride = value_size.next_multiple_of(8);
        let bytes = (stride * entries).next_multiple_of(4096);

        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            start: NonNull::new(start.cast()).expect("mmap does not return NULL"),
            entries,
            stride,
            bytes,
            _marker: PhantomData,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.entries
    }

    /// Pointer to value `index`; valid as long as `self`.
    pub(crate) fn at(&self, index: usize) -> *mut T {
        assert!(index < self.entries, "entry {index} of {}", self.entries);
        // SAFETY: within the mapping, checked above.
        unsafe {
            self.start
                .as_ptr()
                .cast::<u8>()
                .add(index * self.stride)
                .cast()
        }
    }

    /// A copy of value `index`, possibly changed while it was taken.
    pub(crate) fn read(&self, index: usize) -> T
    where
        T: Copy,
    {
        const { assert!(size_of::<T>().is_multiple_of(WORD) && align_of::<T>().is_multiple_of(WORD)) };
        let from = self.at(index).cast::<u64>();
        let mut value = MaybeUninit::<T>::uninit();
        let to = value.as_mut_ptr().cast::<u64>();
        // Word by word: for a volatile read of a whole T the compiler makes an instruction of each word, and
        // needs a minute for the longest T.
        for word in 0..size_of::<T>() / WORD {
            // SAFETY: at() checks the bounds; both have as many words as a T, at the alignment of a T.
            unsafe { to.add(word).write(from.add(word).read_volatile()) };
        }
        // SAFETY: all words were written; T is plain data.
        unsafe { value.assume_init() }
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping made in new(), not used any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
