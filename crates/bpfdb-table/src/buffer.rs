//! Memory that O_DIRECT can read into.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::abi::BLOCK_MAX;

/// Enough for every disk.
const ALIGNMENT: usize = 4096;

/// Room for one block of the largest size, at an address that every disk accepts.
#[derive(Debug)]
pub(crate) struct Buffer(NonNull<u8>);

// SAFETY: it owns its memory.
unsafe impl Send for Buffer {}

impl Buffer {
    pub(crate) const LEN: usize = BLOCK_MAX;

    fn layout() -> Layout {
        Layout::from_size_align(Self::LEN, ALIGNMENT).expect("a power of two")
    }

    pub(crate) fn new() -> Self {
        // SAFETY: the size is not 0.
        let memory = unsafe { alloc_zeroed(Self::layout()) };
        match NonNull::new(memory) {
            Some(memory) => Self(memory),
            None => handle_alloc_error(Self::layout()),
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: that much was allocated, and initialized.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), Self::LEN) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; it is not shared.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr(), Self::LEN) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.0.as_ptr(), Self::layout()) }
    }
}
