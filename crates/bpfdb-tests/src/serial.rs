//! Tests of one program that must not run at the same time.
//!
//! The tests of a program are threads of one process. Those that change or count the same thing of
//! that process take the lock of its name for as long as they run.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

static LOCKS: Mutex<BTreeMap<&'static str, &'static Mutex<()>>> = Mutex::new(BTreeMap::new());

/// Waits until no other test of this program has the lock of this name. The lock is free again when
/// the guard is dropped, also by a test that fails.
pub fn lock(name: &'static str) -> MutexGuard<'static, ()> {
    let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    // A program has a few names, and keeps them until it ends.
    let one: &'static Mutex<()> = locks
        .entry(name)
        .or_insert_with(|| Box::leak(Box::default()));
    drop(locks);
    one.lock().unwrap_or_else(PoisonError::into_inner)
}
