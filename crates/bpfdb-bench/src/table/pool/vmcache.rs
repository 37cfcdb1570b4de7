//! What the pool is compared with: vmcache (Leis et al., SIGMOD 2023), written anew as LIBDBOS's authors describe and
//! measure it. All pages of the file have an address in one anonymous mapping; the processor's page tables
//! translate. A page that is missing is read into its place by `pread()`; CLOCK evicts by `madvise(MADV_DONTNEED)`, page by page,
//! which every processor that runs this process has to hear of.
//!
//! A page's word has a state and a version. Readers look at it before and after, and write to nothing:
//!
//! ```text
//! EVICTED ── fault ──► LOCKED ── read ──► version ── the hand ──► MARKED ── the hand ──► LOCKED ── madvise ──► EVICTED
//!                                            ▲                       │
//!                                            └───── a reader ────────┘
//! ```

use std::os::unix::fs::FileExt;
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use xxhash_rust::xxh64::xxh64;

use super::{BLOCK, File};

/// The states are the highest byte of a word; a page that is there has its version alone.
const STATE: u64 = 0xff << 56;
const MARKED: u64 = 0xfd << 56;
const LOCKED: u64 = 0xfe << 56;
const EVICTED: u64 = 0xff << 56;

/// Where a block of a table has what (`docs/formats/tables.md`).
const LEVEL: usize = 8;
const COUNT: usize = 10;
const FIRST: usize = 16;
const PLACES: usize = 24;

pub(super) struct Vmcache<'a> {
    file: &'a File,
    pages: Mapping,
    words: Vec<AtomicU64>,
    /// Pages that are there, plus one; 0: room for one; [`TAKEN`]: somebody is about to put one there.
    resident: Vec<AtomicUsize>,
    hand: AtomicUsize,
}

const TAKEN: usize = usize::MAX;

impl<'a> Vmcache<'a> {
    /// `bytes`: of pages that are there at most.
    pub(super) fn new(file: &'a File, bytes: usize) -> Result<Self> {
        let blocks = file.table.about().blocks as usize;
        let most = (bytes / BLOCK).clamp(1, blocks);
        Ok(Self {
            file,
            pages: Mapping::new(blocks * BLOCK)?,
            words: (0..blocks).map(|_| AtomicU64::new(EVICTED)).collect(),
            resident: (0..most).map(|_| AtomicUsize::new(0)).collect(),
            hand: AtomicUsize::new(0),
        })
    }

    /// The first eight bytes of the value of a key of eight.
    pub(super) fn get(&self, key: u64) -> Result<u64> {
        let about = self.file.table.about();
        let mut number = about.root;
        for level in (0..about.depth).rev() {
            let found = self.read(number as usize, |page| page.search(key, level))?;
            let found = found.with_context(|| format!("no key {key} in block {number}"))?;
            if level == 0 {
                return Ok(found);
            }
            number = found;
        }
        bail!("a table without levels")
    }

    /// What `look` finds in a page that does not change meanwhile.
    fn read<T>(&self, page: usize, look: impl Fn(Page) -> T) -> Result<T> {
        let word = &self.words[page];
        loop {
            let seen = word.load(Ordering::Acquire);
            match seen & STATE {
                0 => {
                    let found = look(self.pages.page(page));
                    fence(Ordering::Acquire);
                    if word.load(Ordering::Relaxed) == seen {
                        return Ok(found);
                    }
                }
                MARKED => {
                    exchange(word, seen, seen & !STATE);
                }
                EVICTED if exchange(word, seen, LOCKED | (seen & !STATE)) => {
                    let read = self.fault(page);
                    let state = if read.is_ok() { 0 } else { EVICTED };
                    word.store(state | ((seen & !STATE) + 1), Ordering::Release);
                    read?;
                }
                // Somebody reads or evicts it.
                _ => std::thread::yield_now(),
            }
        }
    }

    /// Reads a page into its place. This thread has locked it.
    fn fault(&self, page: usize) -> Result<()> {
        let place = self.make_room()?;
        // SAFETY: nobody else writes to a page that is locked, and who reads it looks at its word again.
        let bytes = unsafe { self.pages.bytes(page) };
        let table = &self.file.table;
        self.file.file.read_exact_at(bytes, (page * BLOCK) as u64)?;
        let seed = table.about().id.wrapping_add(page as u64);
        let (checksum, content) = bytes.split_at(8);
        ensure!(checksum == xxh64(content, seed).to_le_bytes(), "a checksum");
        self.resident[place].store(page + 1, Ordering::Release);
        Ok(())
    }

    /// A place for a page, by CLOCK.
    fn make_room(&self) -> Result<usize> {
        loop {
            let place = self.hand.fetch_add(1, Ordering::Relaxed) % self.resident.len();
            let slot = &self.resident[place];
            let held = slot.load(Ordering::Acquire);
            let take = |held| {
                let (order, other) = (Ordering::AcqRel, Ordering::Relaxed);
                slot.compare_exchange(held, TAKEN, order, other).is_ok()
            };
            match held {
                TAKEN => {}
                0 if take(0) => return Ok(place),
                0 => {}
                held => {
                    let page = held - 1;
                    let word = &self.words[page];
                    let seen = word.load(Ordering::Acquire);
                    match seen & STATE {
                        0 => {
                            exchange(word, seen, MARKED | seen);
                        }
                        MARKED if exchange(word, seen, LOCKED | (seen & !STATE)) => {
                            if !take(held) {
                                // The page has left the slot and come back to another one since.
                                word.store(seen & !STATE, Ordering::Release);
                                continue;
                            }
                            let given = self.pages.give_back(page);
                            word.store(EVICTED | ((seen & !STATE) + 1), Ordering::Release);
                            given?;
                            return Ok(place);
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}

fn exchange(word: &AtomicU64, old: u64, new: u64) -> bool {
    let (order, other) = (Ordering::AcqRel, Ordering::Relaxed);
    word.compare_exchange(old, new, order, other).is_ok()
}

/// Addresses for all pages.
struct Mapping {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: a mapping that belongs to no thread; the words of its pages say who may do what.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(bytes: usize) -> Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        ensure!(start != libc::MAP_FAILED, "mmap: {}", Errno::last());
        // SAFETY: of that mapping.
        let advised = unsafe { libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE) };
        ensure!(advised == 0, "madvise: {}", Errno::last());
        let start = start.cast();
        Ok(Self { start, bytes })
    }

    fn page(&self, page: usize) -> Page {
        debug_assert!((page + 1) * BLOCK <= self.bytes);
        // SAFETY: within the mapping.
        Page(unsafe { self.start.add(page * BLOCK) })
    }

    /// # Safety
    /// The caller has locked the page.
    #[expect(clippy::mut_from_ref, reason = "the page's word says who has it")]
    unsafe fn bytes(&self, page: usize) -> &mut [u8] {
        // SAFETY: within the mapping.
        unsafe { std::slice::from_raw_parts_mut(self.page(page).0, BLOCK) }
    }

    fn give_back(&self, page: usize) -> Result<()> {
        let start = self.page(page).0.cast();
        // SAFETY: a page of our mapping, which reads as zeros from then on.
        let advised = unsafe { libc::madvise(start, BLOCK, libc::MADV_DONTNEED) };
        ensure!(advised == 0, "madvise: {}", Errno::last());
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our mapping, which nothing refers to any more.
        let unmapped = unsafe { libc::munmap(self.start.cast(), self.bytes) };
        debug_assert_eq!(unmapped, 0);
    }
}

/// A page that may be evicted while it is looked at: then it has zeros, or what it had.
#[derive(Clone, Copy)]
struct Page(*mut u8);

impl Page {
    /// Bytes, wherever `at` is: what is found in a page that was evicted is thrown away.
    fn load<T>(self, at: usize) -> T {
        let at = at.min(BLOCK - size_of::<T>());
        // SAFETY: within the page. Another thread may have the kernel change it at the same time: any bytes are a
        // number, and the page's word tells.
        unsafe { ptr::read_unaligned(self.0.add(at).cast()) }
    }

    fn short(self, at: usize) -> usize {
        self.load::<u16>(at).into()
    }

    /// Of a leaf the beginning of the value of the key; of another block the child that may have it.
    fn search(self, key: u64, level: u32) -> Option<u64> {
        let head = if level == 0 { 4 } else { 2 };
        let key_at = |index: usize| self.short(PLACES + 2 * index) + head;
        // That of a child may be shorter: the rest is as if it were zeros.
        let key_of = |index: usize| {
            let len = self.short(key_at(index) - head).clamp(1, 8);
            let unused = 8 * (8 - len);
            u64::from_be(self.load(key_at(index))) >> unused << unused
        };
        let (mut low, mut high) = (usize::from(level > 0), self.short(COUNT));
        let end = high;
        while low < high {
            let middle = low.midpoint(high);
            let other = key_of(middle);
            match other < key || (level > 0 && other == key) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        if self.short(LEVEL) != level as usize {
            return None;
        }
        if level > 0 {
            return Some(self.load::<u64>(FIRST).wrapping_add(low as u64 - 1));
        }
        (low < end && key_of(low) == key).then(|| self.load(key_at(low) + 8))
    }
}
