//! The large collections that this process knows of, for the collector.
//!
//! One thread serves an instance. What it makes, and what it leaves without a head, it notes here; nothing depends on
//! that but how soon pages are removed: [`Collector`](super::Collector) finds the others by their anchors.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

#[derive(Debug, Default)]
struct Known {
    all: BTreeSet<u64>,
    /// The head of these has been removed, perhaps.
    suspects: BTreeSet<u64>,
}

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::default();
    static IS_USED: Cell<bool> = const { Cell::new(false) };
}

/// Pages of a large collection are read or written.
pub(super) fn note_use() {
    IS_USED.set(true);
}

/// Were there any? Then the kernel's program of commands on their elements is worth its while.
pub(crate) fn is_used() -> bool {
    IS_USED.get()
}

pub(super) fn add(identity: u64) {
    KNOWN.with_borrow_mut(|known| known.all.insert(identity));
}

pub(super) fn forget(identity: u64) {
    KNOWN.with_borrow_mut(|known| {
        known.all.remove(&identity);
        known.suspects.remove(&identity);
    });
}

/// The head of a collection has been removed, or will have been when the transaction commits.
pub(in super::super) fn suspect(identity: u64) {
    KNOWN.with_borrow_mut(|known| {
        known.all.insert(identity);
        known.suspects.insert(identity);
    });
}

pub(super) fn has_suspects() -> bool {
    KNOWN.with_borrow(|known| !known.suspects.is_empty())
}

pub(super) fn take_suspect() -> Option<u64> {
    KNOWN.with_borrow_mut(|known| known.suspects.pop_first())
}

/// The one that comes after this in an endless round.
pub(super) fn after(identity: u64) -> Option<u64> {
    KNOWN.with_borrow(|known| {
        let behind = known.all.range((Excluded(identity), Unbounded)).next();
        behind.or_else(|| known.all.first()).copied()
    })
}

pub(super) fn len() -> usize {
    KNOWN.with_borrow(|known| known.all.len())
}
