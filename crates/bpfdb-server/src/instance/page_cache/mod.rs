//! Heads and pages of large collections, kept by the process, for commands that look something up
//! (docs/decisions/0041-page-cache.md).
//!
//! ```text
//!            attempt                        fetch: one call of the engine, one snapshot
//!  command ─────────► kept head and pages ──────────────────────────────────────────────► reply
//!              ▲            │ what is missing      heads: as they were? │    all there, no head changed
//!              │            ▼                      pages: are kept      │
//!              └────────── wanted ◄─────────────────────────────────────┘ else: another attempt
//! ```
//!
//! Invariants
//!  1. A writer of a page writes the head of its collection. So pages that one snapshot has seen are those of
//!     any later one, if the head was not written in between: of that a token of WATCH tells.
//!  2. A kept head has a version, a number of this process, and the snapshot by which it and all pages of that version
//!     are as they are kept. A head that was found to be written since gets another version: pages of the one
//!     before are not found any more.
//!  3. What an attempt has found that missed nothing is used if all that it has read was fetched before, for the same
//!     look-up, or if a fetch then finds that no head was written that it has read. So it is what a reader with the
//!     snapshot of the last fetch would have found, and that was taken while the command was executed.
//!
//! What is kept has an upper bound ([`pages`]).

mod heads;
mod pages;
mod wanted;

use std::rc::Rc;

use bpfdb::{Batch, Keyspace, Operation, Reads, Session, Status, ValueType, WatchToken};
use bpfdb_values::big::{Head, Page, PageKey};

use self::heads::RecentHeads;
use self::pages::RecentPages;
pub(crate) use self::wanted::Small;
use self::wanted::{Wanted, WantedKey};

/// Bytes of the longest value that a fetch brings. Pages are not longer, unless they have one element alone.
const ROOM: usize = 4096;
/// The same after there was a longer one.
const ROOM_MAX: usize = bpfdb::abi::BPFDB_VALUE_MAX as usize;
/// Pages that a look-up may want at a time, and pages on its way that are fetched again when its collection has
/// changed.
const PAGES_MAX: usize = 128;

/// Types of which there are large collections.
const HAVE_PAGES: [ValueType; 4] = [
    ValueType::HASH,
    ValueType::LIST,
    ValueType::SET,
    ValueType::SORTED_SET,
];

/// The head of a large collection, as it was seen.
#[derive(Clone, Debug)]
pub(crate) struct KnownHead {
    pub(crate) kind: ValueType,
    pub(crate) head: Head,
    /// That of its pages.
    pub(crate) version: u64,
    /// `None`: not by a snapshot; and there are no pages yet.
    seen: Option<WatchToken>,
}

/// What is known of a key.
#[derive(Debug)]
pub(crate) enum Known {
    Nothing,
    Large(Rc<KnownHead>),
    /// As the last fetch has found it.
    Small(Rc<Small>),
}

#[derive(Debug, Default)]
pub(crate) struct PageCache {
    heads: RecentHeads,
    pages: RecentPages,
    versions: u64,
    wanted: Wanted,
    is_gathering: bool,
    /// Had the key of the last attempt a value? `None`: not known.
    was_found: Option<bool>,
    reads: Reads,
}

impl PageCache {
    /// Is this key known to have a large collection?
    pub(crate) fn knows(&self, stored: &[u8]) -> bool {
        self.heads.contains(stored)
    }

    /// A key has this head, as it seems.
    pub(crate) fn suppose(&mut self, stored: &[u8], kind: ValueType, head: Head) {
        self.keep_head(stored, kind, head, None);
    }

    fn keep_head(&mut self, stored: &[u8], kind: ValueType, head: Head, seen: Option<WatchToken>) {
        self.versions += 1;
        let known = KnownHead {
            kind,
            head,
            version: self.versions,
            seen,
        };
        self.heads.keep(stored.into(), Rc::new(known));
    }

    /// Nothing is known any more, as when the process began.
    pub(crate) fn forget_all(&mut self) {
        self.heads = RecentHeads::default();
        self.pages = RecentPages::default();
    }

    // ---- Look-ups ------------------------------------------------------------------

    /// One or more look-ups begin; commands only note what they miss, until [`PageCache::end`].
    pub(crate) fn gather(&mut self) {
        self.begin();
        self.is_gathering = true;
    }

    /// One look-up begins.
    pub(crate) fn begin(&mut self) {
        self.wanted.clear();
        self.was_found = None;
        self.reads = Reads::default();
    }

    /// The look-ups have come to an end: reads of theirs that the engine has counted as GETs.
    pub(crate) fn end(&mut self) -> Reads {
        self.wanted.clear();
        self.is_gathering = false;
        std::mem::take(&mut self.reads)
    }

    pub(crate) fn is_gathering(&self) -> bool {
        self.is_gathering
    }

    /// Is all that attempts have read as the last fetch has found it?
    pub(crate) fn is_current(&self) -> bool {
        self.wanted.is_current()
    }

    /// May a look-up read so many pages? If not it wants too much from here on.
    pub(crate) fn admits(&mut self, pages: u64) -> bool {
        let is_too_much = pages > PAGES_MAX as u64;
        self.wanted.is_too_much |= is_too_much;
        !is_too_much
    }

    /// Do so many look-ups want more than it is worth to fetch like this?
    pub(crate) fn wants_much(&self, look_ups: usize) -> bool {
        self.wanted.is_much_for(look_ups)
    }

    /// Whether the key of the last attempt had a value, if that was asked; it is asked anew from here on.
    pub(crate) fn take_found(&mut self) -> Option<bool> {
        self.was_found.take()
    }

    /// What is known of a key that an attempt reads.
    pub(crate) fn attempt(&mut self, stored: &[u8]) -> Known {
        let wanted = self.wanted.key(stored);
        let known = match (self.heads.get_mut(stored), &wanted.small) {
            (Some(head), _) => Known::Large(Rc::clone(head)),
            (None, Some(small)) => Known::Small(Rc::clone(small)),
            (None, None) => Known::Nothing,
        };
        wanted.is_shown |= !matches!(known, Known::Nothing);
        self.was_found = match &known {
            Known::Nothing => None,
            Known::Large(_) => Some(true),
            Known::Small(small) => Some(small.value.is_some()),
        };
        known
    }

    /// A page of a collection; `None`: it will be there after the next fetch.
    pub(crate) fn page(&mut self, key: PageKey, version: u64) -> Option<Rc<Page>> {
        self.wanted.touch(key);
        let page = self.pages.get(key, version);
        if page.is_none() {
            self.wanted.page(key);
        }
        page
    }

    /// A page will be wanted, perhaps.
    pub(crate) fn announce(&mut self, key: PageKey, version: u64) {
        if self.pages.get(key, version).is_none() {
            self.wanted.page(key);
        }
    }

    // ---- Fetches -------------------------------------------------------------------

    /// Reads the heads that attempts have read, and the pages that they missed, at one moment and in one call.
    /// True: no head was written since an attempt has read it. One that is seen for the first time was not.
    ///
    /// # Errors
    /// Those of the engine, and what this way does not read: long pages, cold values.
    pub(crate) fn fetch(&mut self, session: &mut Session) -> Result<bool, Status> {
        let mut wanted = std::mem::take(&mut self.wanted);
        let outcome = self.fetch_wanted(session, &mut wanted);
        self.wanted = wanted;
        outcome
    }

    fn fetch_wanted(&mut self, session: &mut Session, wanted: &mut Wanted) -> Result<bool, Status> {
        wanted.begin_fetch();
        let keys: Vec<[u8; 24]> = (wanted.pages.iter())
            .map(|page| page.stored(Keyspace::PAGES.prefix()))
            .collect();
        let heads = wanted.keys.iter().flat_map(|key| {
            let key = &*key.stored;
            [Operation::GetAny(key), Operation::Watch(key)]
        });
        let pages = keys.iter().map(|key| Operation::Get(key));
        let reads: Vec<Operation<'_>> = heads.chain(pages).collect();
        let found = session.read_at_one_moment(&reads, wanted.room)?;
        self.pages.set_limit(session.engine().memory_limit());
        self.count(session, &reads, &found);
        let heads = 2 * wanted.keys.len();
        if found.len() < heads {
            return Err(Status::Exhausted);
        }
        let mut is_unchanged = true;
        for number in 0..wanted.keys.len() {
            let place = 2 * number;
            if has_no_room(session, &found, place, wanted)? {
                return Ok(false);
            }
            is_unchanged &= self.take_head(session, &mut wanted.keys[number], &found, place)?;
        }
        let fetched = self.take_pages(session, wanted, &found, heads)?;
        wanted.fetched(is_unchanged, &fetched);
        Ok(is_unchanged)
    }

    fn count(&mut self, session: &Session, reads: &[Operation<'_>], found: &Batch) {
        for (number, read) in reads.iter().enumerate().take(found.len()) {
            if matches!(read, Operation::Watch(_)) {
                continue;
            }
            match session.status_of(found, number) {
                // Also without room for it.
                Status::Found | Status::FoundLarge | Status::BadRequest => self.reads.found += 1,
                Status::NotFound => self.reads.missed += 1,
                _ => {}
            }
        }
    }

    /// Takes in what a GET and a WATCH have found of a key. False: it was written since an attempt has read it.
    fn take_head(
        &mut self,
        session: &Session,
        key: &mut WantedKey,
        found: &Batch,
        place: usize,
    ) -> Result<bool, Status> {
        let value = session.value_in(found, place)?;
        let kind = session.type_of(found, place);
        let now = session.token_of(found, place + 1)?;
        let seen = WatchToken::of_snapshot(session.snapshot(), value.is_some());
        let holds = |before: &WatchToken| {
            before.still_holds(&now) && before.is_present() == value.is_some()
        };
        // What no attempt has read spoils none.
        let is_new = !std::mem::take(&mut key.is_shown);
        let head = value
            .filter(|_| HAVE_PAGES.contains(&kind))
            .map(Head::parse);
        let head = head.transpose().map_err(|_| Status::Corrupt)?.flatten();
        let Some(head) = head else {
            let was_large = self.heads.remove(&key.stored);
            let before = key.small.take();
            key.small = Some(Rc::new(Small {
                kind,
                value: value.map(Vec::from),
                seen,
            }));
            let is_same = !was_large && before.is_some_and(|small| holds(&small.seen));
            key.is_shown = is_same && !is_new;
            return Ok(is_new || is_same);
        };
        key.small = None;
        let before = self.heads.get_mut(&key.stored);
        if let Some(before) = before
            && before.kind == kind
            && before.head == head
            && before.seen.as_ref().is_none_or(holds)
        {
            Rc::make_mut(before).seen = Some(seen);
            key.is_shown = !is_new;
            return Ok(true);
        }
        self.keep_head(&key.stored, kind, head, Some(seen));
        Ok(is_new)
    }

    /// Keeps the pages that were fetched; these.
    fn take_pages(
        &mut self,
        session: &Session,
        wanted: &mut Wanted,
        found: &Batch,
        heads: usize,
    ) -> Result<Vec<PageKey>, Status> {
        let mut fetched = Vec::with_capacity(found.len() - heads);
        let versions: Vec<(u64, u64)> = (wanted.keys.iter())
            .filter_map(|key| self.heads.peek(&key.stored))
            .map(|known| (known.head.identity, known.version))
            .collect();
        let mut kept = Vec::with_capacity(wanted.pages.len());
        for number in heads..found.len() {
            let page = wanted.pages[number - heads];
            if has_no_room(session, found, number, wanted)? {
                continue;
            }
            fetched.push(page);
            let known = versions.iter().find(|known| known.0 == page.identity);
            // The collection that it is of may be another one by now.
            let Some(&(_, version)) = known else {
                continue;
            };
            if let Some(value) = session.value_in(found, number)? {
                kept.push((page, version, value));
            }
        }
        // One allocation for all.
        let values: Vec<&[u8]> = kept.iter().map(|&(_, _, value)| value).collect();
        let (block, mut start) = (Rc::new(values.concat()), 0);
        for (key, version, value) in kept {
            let page = Page::kept(Rc::clone(&block), start..start + value.len());
            start += value.len();
            self.pages.keep(key, version, Rc::new(page));
        }
        Ok(fetched)
    }
}

/// Was there a value, and no room for it? Then there is room at the next fetch.
fn has_no_room(
    session: &Session,
    found: &Batch,
    place: usize,
    wanted: &mut Wanted,
) -> Result<bool, Status> {
    match session.status_of(found, place) {
        Status::BadRequest if wanted.room < ROOM_MAX => {
            wanted.room = ROOM_MAX;
            Ok(true)
        }
        status if status.is_error() => Err(status),
        _ => Ok(false),
    }
}
