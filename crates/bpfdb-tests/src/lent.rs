//! Things that tests have for themselves, one test after the other: engines and servers take seconds
//! of a processor to make.
//!
//! 1. A thing is lent to one test at a time.
//! 2. A test finds it as if it were new ([`Lend::restore`]).
//! 3. What a failed test had, and what cannot be restored, is dropped and not lent again.
//!
//! A pool is a static, so that what is idle at the end is not dropped by itself: a pool whose things
//! must be dropped calls [`Pool::end`].

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use bpfdb::Engine;

/// What can be lent.
pub trait Lend: Send + 'static {
    /// Brings it back to what it was when it was made, as far as a test can see. `false`: that is not
    /// possible.
    ///
    /// # Panics
    /// If something is left that the test should have ended; the test fails.
    fn restore(&mut self) -> bool;
}

/// Things that are idle.
pub struct Pool<T> {
    /// The one at the end was used last.
    idle: Mutex<Vec<T>>,
    most: usize,
}

impl<T: Lend> Pool<T> {
    pub const fn new() -> Self {
        Self::of_at_most(usize::MAX)
    }

    /// A pool that drops what has been idle for the longest time when it would have more than `most`.
    pub const fn of_at_most(most: usize) -> Self {
        Self {
            idle: Mutex::new(Vec::new()),
            most,
        }
    }

    /// A thing that is idle, else a new one.
    pub fn take(&'static self, make: impl FnOnce() -> T) -> Lent<T> {
        self.lend(self.newest(|_| true).unwrap_or_else(make))
    }

    /// Of the idle things that are as wanted, the one that was used last. It is no longer in the pool.
    pub fn newest(&self, is_wanted: impl Fn(&T) -> bool) -> Option<T> {
        let mut idle = self.lock();
        let place = idle.iter().rposition(is_wanted)?;
        Some(idle.remove(place))
    }

    /// The one that has been idle for the longest time.
    pub fn oldest(&self, is_wanted: impl Fn(&T) -> bool) -> Option<T> {
        let mut idle = self.lock();
        let place = idle.iter().position(is_wanted)?;
        Some(idle.remove(place))
    }

    /// Lends what is not in the pool, and then will be.
    pub fn lend(&'static self, thing: T) -> Lent<T> {
        Lent {
            thing: Some(thing),
            pool: self,
        }
    }

    /// Drops what is idle.
    pub fn end(&self) {
        let idle = std::mem::take(&mut *self.lock());
        drop(idle);
    }

    fn give_back(&self, mut thing: T) {
        if thread::panicking() || !thing.restore() {
            return;
        }
        let mut idle = self.lock();
        idle.push(thing);
        let discarded = (idle.len() > self.most).then(|| idle.remove(0));
        // It takes a while: others need not wait for it.
        drop(idle);
        drop(discarded);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Lend> Default for Pool<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// A thing that one test has; it goes back at the end of the test.
pub struct Lent<T: Lend> {
    /// `None` only within [`Drop::drop`].
    thing: Option<T>,
    pool: &'static Pool<T>,
}

impl<T: Lend> Deref for Lent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.thing.as_ref().expect("it is lent")
    }
}

impl<T: Lend> DerefMut for Lent<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.thing.as_mut().expect("it is lent")
    }
}

impl<T: Lend> Drop for Lent<T> {
    fn drop(&mut self) {
        if let Some(thing) = self.thing.take() {
            self.pool.give_back(thing);
        }
    }
}

/// An engine without records. The test has closed its sessions.
impl Lend for Engine {
    fn restore(&mut self) -> bool {
        let mut session = self.session().expect("a session");
        let mut cursor = 0;
        loop {
            let (next, keys) = session.scan(cursor, 1000).expect("scanned");
            for key in &keys {
                session.delete(key).expect("nobody has it locked");
            }
            if next == 0 {
                break;
            }
            cursor = next;
        }
        let stats = self.stats().expect("figures");
        assert_eq!((stats.locks, stats.transactions), (0, 0));
        true
    }
}
