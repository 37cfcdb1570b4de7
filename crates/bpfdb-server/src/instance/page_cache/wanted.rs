//! What look-ups have read, and what they miss.

use std::rc::Rc;

use bpfdb::{ValueType, WatchToken};
use bpfdb_values::big::PageKey;

use super::{PAGES_MAX, ROOM};

/// What a key has that is no large collection.
#[derive(Debug)]
pub(crate) struct Small {
    pub(crate) kind: ValueType,
    /// `None`: the key is absent.
    pub(crate) value: Option<Vec<u8>>,
    pub(super) seen: WatchToken,
}

/// A key that look-ups have read.
#[derive(Debug)]
pub(super) struct WantedKey {
    pub(super) stored: Box<[u8]>,
    pub(super) small: Option<Rc<Small>>,
    /// Was anything that is known of it shown to an attempt?
    pub(super) is_shown: bool,
}

#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) keys: Vec<WantedKey>,
    /// Those that are to be fetched.
    pub(super) pages: Vec<PageKey>,
    /// The first ones that were read, some of them several times.
    touched: Vec<PageKey>,
    /// Pages that were missed since the look-ups began.
    missed: usize,
    /// More is wanted than it is worth to fetch.
    pub(super) is_too_much: bool,
    /// Have all keys and pages been fetched that were read?
    is_current: bool,
    /// Bytes of the longest value that is fetched.
    pub(super) room: usize,
}

/// Pages that are noted as touched.
const TOUCHED_MAX: usize = 4 * PAGES_MAX;

impl Wanted {
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.pages.clear();
        self.touched.clear();
        self.missed = 0;
        self.is_too_much = false;
        self.is_current = false;
        self.room = ROOM;
    }

    /// Until all heads were read again nothing is confirmed.
    pub(super) fn begin_fetch(&mut self) {
        self.is_current = false;
    }

    /// Is all that was read as the last fetch has found it?
    pub(super) fn is_current(&self) -> bool {
        self.is_current
    }

    pub(super) fn key(&mut self, stored: &[u8]) -> &mut WantedKey {
        let known = self.keys.iter().position(|key| *key.stored == *stored);
        let place = known.unwrap_or_else(|| {
            self.keys.push(WantedKey {
                stored: stored.into(),
                small: None,
                is_shown: false,
            });
            self.is_current = false;
            self.keys.len() - 1
        });
        &mut self.keys[place]
    }

    pub(super) fn page(&mut self, key: PageKey) {
        self.is_current = false;
        // One more than that is too many already.
        if self.pages.len() <= PAGES_MAX && !self.pages.contains(&key) {
            self.pages.push(key);
            self.missed += 1;
        }
    }

    /// Do so many look-ups, or fewer, want more pages than it is worth to fetch?
    pub(super) fn is_much_for(&self, look_ups: usize) -> bool {
        self.is_too_much
            || self.pages.len() > PAGES_MAX
            || self.missed > look_ups.saturating_mul(PAGES_MAX)
    }

    pub(super) fn touch(&mut self, key: PageKey) {
        if self.touched.len() < TOUCHED_MAX {
            self.touched.push(key);
        }
    }

    /// These pages were fetched. Where a head that attempts have read was written, what was touched is probably on the way
    /// of the next attempt again.
    pub(super) fn fetched(&mut self, is_unchanged: bool, fetched: &[PageKey]) {
        if !is_unchanged {
            self.pages.append(&mut self.touched);
            self.pages.sort_unstable();
            self.pages.dedup();
            self.pages.truncate(PAGES_MAX);
        }
        self.pages.retain(|page| !fetched.contains(page));
        self.is_current = true;
    }
}
