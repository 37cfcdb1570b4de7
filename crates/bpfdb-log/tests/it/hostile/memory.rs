//! Counts the bytes that a thread has of the memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;

/// Nobody gets so much at once: a test that asks for it ends, and the machine goes on.
const REFUSED: usize = 1 << 30;

thread_local! {
    static NOW: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: the system's allocator does everything; this one only counts, and refuses.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= REFUSED {
            return null_mut();
        }
        NOW.set(NOW.get() + layout.size());
        MOST.set(MOST.get().max(NOW.get()));
        // SAFETY: the caller keeps the rules, which are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // What another thread took is given back too.
        NOW.set(NOW.get().saturating_sub(layout.size()));
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

/// How many bytes `work` has at one time, besides those that are there before.
pub(crate) fn most_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.get();
    MOST.set(before);
    let done = work();
    (done, MOST.get() - before)
}
