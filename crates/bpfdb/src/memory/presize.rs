//! An empty engine is prepared for the records that recovery will bring: with the hash that
//! they were written with they come page by page, and an index that has its size already is
//! not split again and again.

use crate::abi;
use crate::engine::Engine;
use crate::error::Result;

/// Records of a page, on average, from which on it is likely to be split: between this and twice
/// this a page has its right size.
const RECORDS_PER_PAGE: u64 = abi::BPFDB_SPLIT_CELLS as u64 / 2;
/// Pages of one program run, of some microseconds each.
const STEP: u64 = 64;
/// Without a page more, each after memory was added.
const ATTEMPTS: u32 = abi::BPFDB_MEMORY_TRIES;

impl Engine {
    /// What determines where in the index a key is, to be kept with the data: [`Engine::set_placement`].
    /// It is secret: a client that knows it can choose keys that are in each other's way.
    pub fn placement(&self) -> Vec<u8> {
        let hash = self.inner.memory.state().hash;
        // SAFETY: words only, without padding.
        let bytes = unsafe {
            std::slice::from_raw_parts((&raw const hash).cast::<u8>(), size_of_val(&hash))
        };
        bytes.to_vec()
    }

    /// Has an empty engine, which is not in use yet, place keys as another one did. False: it
    /// is not empty, or this is of another version of bpfdb; nothing was done.
    pub fn set_placement(&self, placement: &[u8]) -> Result<bool> {
        self.owned("place keys anew")?;
        if placement.len() != size_of::<abi::bpfdb_hash_secrets>() || !self.is_empty() {
            return Ok(false);
        }
        // SAFETY: long enough; every pattern of bits is a value.
        let hash: abi::bpfdb_hash_secrets =
            unsafe { std::ptr::read_unaligned(placement.as_ptr().cast()) };
        // Each factor is odd, or it would lose bits of every hash.
        if hash.finish.iter().any(|word| word % 2 == 0) {
            return Ok(false);
        }
        let state = self.inner.memory.state_pointer();
        // SAFETY: the mapping lives as long as the engine, of which no program asks for a hash.
        unsafe { (&raw mut (*state).hash).write_volatile(hash) };
        Ok(true)
    }

    /// Prepares an empty engine, which is not in use yet, for so many records. Does nothing
    /// if it is not empty, and as much as memory allows.
    pub fn presize(&self, records: u64) -> Result<()> {
        self.owned("prepare the index")?;
        if !self.is_empty() {
            return Ok(());
        }
        let pages = (records / RECORDS_PER_PAGE).max(1);
        let levels = pages.ilog2().min(self.config().directory_bits);
        for level in 0..levels {
            if !self.presize_level(level)? {
                tracing::debug!(level, "no memory for more of the index yet");
                break;
            }
        }
        Ok(())
    }

    /// Doubles the index. False: there is no memory for all of that.
    fn presize_level(&self, level: u32) -> Result<bool> {
        let pages = 1 << level;
        let (mut done, mut attempts) = (0, 0);
        while done < pages {
            let step = STEP.min(pages - done);
            let arguments = [level.into(), done, step];
            let made = u64::from(
                self.inner
                    .driver
                    .run(abi::BPFDB_DRIVER_PRESIZE, &arguments)?,
            );
            done += made;
            attempts = if made == 0 { attempts + 1 } else { 0 };
            if made < step && (attempts > ATTEMPTS || !self.grow()?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Has the engine no record, and had it few at any time?
    fn is_empty(&self) -> bool {
        let inner = &self.inner;
        let pages = inner.memory.pages_taken().min(inner.slabs.len() as u64);
        let index = (0..pages as usize)
            .map(|page| inner.slabs.read(page))
            .filter(|slab| u32::from(slab.class_) == abi::BPFDB_PAGE_INDEX);
        let words: Vec<u64> = index.map(|slab| slab.word).collect();
        words == [0]
    }
}
