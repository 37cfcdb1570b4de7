//! Keys that were evicted, until the server's thread has taken note of them: for the event `evicted`, and
//! because they expire no more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most keys that are kept.
const KEPT: usize = 16_384;

/// A key that was evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GoneKey {
    /// [`bpfdb::Database::split`].
    pub(crate) stored_key: Vec<u8>,
    /// UNIX time, milliseconds.
    pub(crate) expires_at: Option<u64>,
}

/// The keys since the last look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Gone {
    /// In the order in which they have gone.
    pub(crate) keys: Vec<GoneKey>,
    /// There were more, of which nothing is known.
    pub(crate) has_more: bool,
}

/// What the thread of the evictor appends to, and the server's thread takes.
#[derive(Debug, Default)]
pub(super) struct GoneKeys {
    is_wanted: AtomicBool,
    /// There are some: a look at this costs every request nothing.
    is_any: AtomicBool,
    gone: Mutex<Gone>,
}

impl GoneKeys {
    /// Are keys noted from now on?
    pub(super) fn want(&self, is_wanted: bool) {
        self.is_wanted.store(is_wanted, Ordering::Relaxed);
    }

    /// Appends a key, if that is wanted. True: it is the first one since the last look.
    pub(super) fn push(&self, stored_key: &[u8], expires_at: Option<u64>) -> bool {
        if !self.is_wanted.load(Ordering::Relaxed) {
            return false;
        }
        let mut gone = self.lock();
        if gone.keys.len() < KEPT {
            gone.keys.push(GoneKey {
                stored_key: stored_key.to_vec(),
                expires_at,
            });
        } else {
            gone.has_more = true;
        }
        !self.is_any.swap(true, Ordering::Release)
    }

    pub(super) fn take(&self) -> Option<Gone> {
        if !self.is_any.load(Ordering::Acquire) {
            return None;
        }
        let mut gone = self.lock();
        self.is_any.store(false, Ordering::Relaxed);
        Some(std::mem::take(&mut *gone))
    }

    fn lock(&self) -> MutexGuard<'_, Gone> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_kept_if_wanted_and_not_without_bounds() {
        let all = GoneKeys::default();
        assert!(!all.push(b"a", None) && all.take().is_none());
        all.want(true);
        assert!(all.push(b"b", Some(7)) && !all.push(b"c", None));
        let gone = all.take().expect("two");
        let key = |key: &[u8], expires_at| GoneKey {
            stored_key: key.to_vec(),
            expires_at,
        };
        assert_eq!(gone.keys, [key(b"b", Some(7)), key(b"c", None)]);
        assert!(!gone.has_more && all.take().is_none());
        for _ in 0..=KEPT {
            all.push(b"d", None);
        }
        let gone = all.take().expect("many");
        assert!(gone.keys.len() == KEPT && gone.has_more);
        assert!(all.push(b"e", None));
    }
}
