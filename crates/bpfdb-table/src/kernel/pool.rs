//! The pool of blocks, which chains in the kernel and threads of this process share. Decision 51
//! (`docs/decisions/0051-buffer-pool.md`) draws a frame's states and numbers the invariants; `bpf/table/pool.bpf.h`
//! is the program's side.

use std::cmp::Ordering as Order;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use bpfdb_ring::Mapped;
use libbpf_rs::{MapHandle, MapType, OpenObject, libbpf_sys};

use crate::abi::{self, bpfdb_table_frame, bpfdb_table_hints};
use crate::block::Bytes;
use crate::buffer::Buffer;
use crate::error::{Error, Result, io};
use crate::table::Table;
use crate::walk::{Next, Step, Walk};

const FRAME: usize = size_of::<bpfdb_table_frame>();
const SEGMENT: usize = abi::BPFDB_TABLE_SEGMENT as usize;
const HINTS: usize = abi::BPFDB_TABLE_HINTS as usize;
const WORD: usize = size_of::<u64>();

/// An array of the pool: the program has it as a map.
#[derive(Debug)]
struct Array {
    name: &'static str,
    map: MapHandle,
    memory: Mapped,
}

impl Array {
    fn new(name: &'static str, element: usize, count: usize) -> Result<Self> {
        let unavailable =
            |error: String| Error::Unavailable(format!("cannot make a pool: {error}"));
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            map_flags: libbpf_sys::BPF_F_MMAPABLE,
            ..Default::default()
        };
        let (size, entries) = (element as u32, count as u32);
        let map = MapHandle::create(MapType::Array, Some(name), 4, size, entries, &options);
        let map = map.map_err(|error| unavailable(error.to_string()))?;
        let memory = Mapped::new(map.as_fd(), element * count);
        let memory = memory.map_err(|error| unavailable(error.to_string()))?;
        Ok(Self { name, map, memory })
    }
}

/// Blocks of a table that are kept in memory, for look-ups by [`Chains`](crate::Chains) and
/// [`PoolReader`]s of many threads.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use bpfdb_table::{Access, ChainOptions, Chains, Pool, PoolReader, Table};
/// # fn main() -> bpfdb_table::Result<()> {
/// let table = Table::open("users.table".as_ref(), Access::Direct)?;
/// let pool = Arc::new(Pool::new(&table, 64 << 20)?);
/// let mut reader = PoolReader::new(&pool);
/// let one = reader.get(b"user:1")?;
/// let mut chains = Chains::start_over(&pool, &ChainOptions::default())?;
/// let many = chains.get_many(&[b"user:1", b"user:2"])?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Pool<'a> {
    table: &'a Table,
    frames: u32,
    hand: AtomicU32,
    headers: Array,
    segments: Array,
    hints: Array,
}

/// A frame's header.
#[derive(Clone, Copy)]
struct Frame<'p> {
    version: &'p AtomicU64,
    block: &'p AtomicU64,
    is_used: &'p AtomicU32,
}

impl Frame<'_> {
    /// Its version, if it has the block, and nobody fills it.
    fn version_with(self, block: u64) -> Option<u64> {
        let version = self.version.load(Ordering::Acquire);
        let has = version.is_multiple_of(2) && self.block.load(Ordering::Relaxed) == block;
        has.then_some(version)
    }
}

impl<'a> Pool<'a> {
    /// A pool with `bytes` of blocks, rounded down to whole blocks, but at least one, and at most those of the table.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: this user may not make maps of eBPF, or there is no memory.
    pub fn new(table: &'a Table, bytes: usize) -> Result<Self> {
        let (size, blocks) = (table.block_size(), table.about().blocks);
        let frames = (bytes / size).clamp(1, blocks.min(u32::MAX.into()) as usize);
        let hints = usize::try_from(blocks)
            .unwrap_or(usize::MAX)
            .div_ceil(HINTS);
        if u32::try_from(hints).is_err() {
            return Err(Error::Unavailable(
                "the table is too large for a pool".into(),
            ));
        }
        Ok(Self {
            table,
            frames: frames as u32,
            hand: AtomicU32::new(0),
            headers: Array::new("pool_frames", FRAME, frames)?,
            segments: Array::new("pool_segments", SEGMENT, (frames * size).div_ceil(SEGMENT))?,
            hints: Array::new("pool_hints", size_of::<bpfdb_table_hints>(), hints)?,
        })
    }

    pub fn table(&self) -> &'a Table {
        self.table
    }

    /// Blocks that it has room for.
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// Bytes of memory that it takes: blocks, headers of frames, and hints.
    pub fn bytes(&self) -> usize {
        let hints = (self.table.about().blocks as usize).div_ceil(HINTS);
        self.frames as usize * (self.table.block_size() + FRAME) + hints * HINTS * size_of::<u32>()
    }

    /// Gives the program these maps, before it is loaded; false: it has not all of them.
    pub(crate) fn share_with(&self, object: &mut OpenObject) -> libbpf_rs::Result<bool> {
        let mut shared = 0;
        for mut map in object.maps_mut() {
            let arrays = [&self.headers, &self.segments, &self.hints];
            if let Some(array) = arrays.iter().find(|array| map.name() == array.name) {
                map.reuse_fd(array.map.as_fd())?;
                shared += 1;
            }
        }
        Ok(shared == 3)
    }

    fn frame(&self, index: u32) -> Option<Frame<'_>> {
        if index >= self.frames {
            return None;
        }
        let frame: *mut bpfdb_table_frame = self.headers.memory.at(index as usize * FRAME);
        // SAFETY: within the mapping, aligned; all sides use atomic accesses.
        unsafe {
            Some(Frame {
                version: AtomicU64::from_ptr(&raw mut (*frame).version),
                block: AtomicU64::from_ptr(&raw mut (*frame).block),
                is_used: AtomicU32::from_ptr(&raw mut (*frame).is_used),
            })
        }
    }

    fn hint(&self, block: u64) -> &AtomicU32 {
        let hint = self.hints.memory.at(block as usize * size_of::<u32>());
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(hint) }
    }

    /// The block of a frame, as words.
    fn words(&self, index: u32) -> &[AtomicU64] {
        let size = self.table.block_size();
        let first: *mut AtomicU64 = self.segments.memory.at(index as usize * size);
        // SAFETY: as above: a frame's block lies within the segments, which lie one behind the other.
        unsafe { std::slice::from_raw_parts(first, size / WORD) }
    }

    /// The frame that the hint names, and its number.
    fn hinted(&self, block: u64) -> Option<(u32, Frame<'_>)> {
        let index = self.hint(block).load(Ordering::Relaxed).wrapping_sub(1);
        Some((index, self.frame(index)?))
    }

    /// Takes a frame that was not used since the hand came by: the caller fills it.
    fn claim(&self) -> Option<(u32, Frame<'_>)> {
        for _ in 0..abi::BPFDB_TABLE_CLAIMS {
            let index = self.hand.fetch_add(1, Ordering::Relaxed) % self.frames;
            let frame = self.frame(index)?;
            let version = frame.version.load(Ordering::Relaxed);
            if !version.is_multiple_of(2) {
                continue;
            }
            if frame.is_used.swap(0, Ordering::Relaxed) != 0 {
                continue;
            }
            let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
            let claimed = frame
                .version
                .compare_exchange(version, version + 1, acquire, relaxed);
            if claimed.is_ok() {
                return Some((index, frame));
            }
        }
        None
    }

    /// Keeps a block that has been checked.
    fn put(&self, block: u64, from: &[u8]) {
        let is_there = |(_, frame): (u32, Frame<'_>)| frame.version_with(block).is_some();
        if self.hinted(block).is_some_and(is_there) {
            return;
        }
        let Some((index, frame)) = self.claim() else {
            return;
        };
        // The odd version before the words.
        fence(Ordering::Release);
        frame.block.store(block, Ordering::Relaxed);
        for (word, from) in self.words(index).iter().zip(from.chunks_exact(WORD)) {
            let bytes = from.try_into().expect("a word");
            word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
        let version = frame.version.load(Ordering::Relaxed);
        frame.version.store(version + 1, Ordering::Release);
        self.hint(block).store(index + 1, Ordering::Relaxed);
    }

    /// One step of a look-up, if the pool has its block, and has not lost it meanwhile; else `None`, and the look-up
    /// is where it was. At its end: the value, or that there is none.
    fn step(&self, walk: &mut Walk<'_>) -> Result<Option<Followed>> {
        let block = walk.number();
        let Some((index, frame)) = self.hinted(block) else {
            return Ok(None);
        };
        let Some(version) = frame.version_with(block) else {
            return Ok(None);
        };
        let (mut next, words) = (*walk, Words(self.words(index)));
        let outcome = next.step_known(words).map(|next| match next {
            Next::Read => Followed::On,
            Next::Found(entry) => Followed::Value(entry.map(|entry| words.copied(entry.value))),
        });
        // The words before the version. Until it is seen, what was found may be of two blocks.
        fence(Ordering::Acquire);
        if frame.version.load(Ordering::Relaxed) != version {
            return Ok(None);
        }
        if frame.is_used.load(Ordering::Relaxed) == 0 {
            frame.is_used.store(1, Ordering::Relaxed);
        }
        *walk = next;
        outcome.map(Some)
    }

    /// Takes a look-up as far as the pool has its blocks. If that is to its end: the value, or that there is none.
    pub(crate) fn follow(&self, walk: &mut Walk<'_>) -> Result<Option<Option<Vec<u8>>>> {
        while let Some(step) = self.step(walk)? {
            if let Followed::Value(value) = step {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

/// Where a block of the pool has led a look-up.
#[derive(Debug)]
enum Followed {
    /// To the next block.
    On,
    /// To its end.
    Value(Option<Vec<u8>>),
}

/// A block in its frame. While it is looked at others may fill the frame: each word is one of either block, and
/// no access is outside.
#[derive(Clone, Copy)]
struct Words<'p>(&'p [AtomicU64]);

impl Words<'_> {
    /// Eight bytes, little-endian, wherever they begin; behind the block there are zeros.
    fn word(self, at: usize) -> u64 {
        let word = |index: usize| {
            let word = self.0.get(index);
            word.map_or(0, |word| u64::from_le(word.load(Ordering::Relaxed)))
        };
        let (index, bits) = (at / WORD, 8 * (at % WORD));
        match bits {
            0 => word(index),
            _ => word(index) >> bits | word(index + 1) << (64 - bits),
        }
    }

    fn copied(self, at: Range<usize>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(at.len().next_multiple_of(WORD));
        for place in at.clone().step_by(WORD) {
            bytes.extend_from_slice(&self.word(place).to_le_bytes());
        }
        bytes.truncate(at.len());
        bytes
    }
}

impl Bytes for Words<'_> {
    fn size(self) -> usize {
        self.0.len() * WORD
    }

    fn number<const N: usize>(self, at: usize) -> Option<u64> {
        let unused = 8 * (WORD - N);
        (at + N <= self.size()).then(|| self.word(at) << unused >> unused)
    }

    fn compare(self, at: Range<usize>, key: &[u8]) -> Option<Order> {
        if at.end > self.size() {
            return None;
        }
        let common = at.len().min(key.len());
        for (index, ours) in key[..common].chunks(WORD).enumerate() {
            // Of the last word only what belongs to both.
            let mut bytes = [0; WORD];
            bytes[..ours.len()].copy_from_slice(ours);
            let unused = 8 * (WORD - ours.len());
            let other = self.word(at.start + index * WORD).swap_bytes() >> unused << unused;
            let order = other.cmp(&u64::from_be_bytes(bytes));
            if order.is_ne() {
                return Some(order);
            }
        }
        Some(at.len().cmp(&key.len()))
    }
}

/// Where blocks came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolFigures {
    /// From the file.
    pub reads: u64,
    /// From the pool.
    pub pooled: u64,
}

/// Look-ups by one thread: through a pool, and what it lacks by `pread()`.
#[derive(Debug)]
pub struct PoolReader<'a> {
    pool: Arc<Pool<'a>>,
    buffer: Buffer,
    figures: PoolFigures,
}

impl<'a> PoolReader<'a> {
    pub fn new(pool: &Arc<Pool<'a>>) -> Self {
        Self {
            pool: Arc::clone(pool),
            buffer: Buffer::new(),
            figures: PoolFigures::default(),
        }
    }

    pub fn figures(&self) -> PoolFigures {
        self.figures
    }

    /// The value of a key, if it has one.
    ///
    /// # Errors
    /// As [`Reader::get`](crate::Reader::get).
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let table = self.pool.table;
        let mut walk = Walk::new(table, key);
        loop {
            if let Some(step) = self.pool.step(&mut walk)? {
                self.figures.pooled += 1;
                match step {
                    Followed::On => continue,
                    Followed::Value(value) => return Ok(value),
                }
            }
            let number = walk.number();
            let block = &mut self.buffer[..table.block_size()];
            let read = table.file().read_exact_at(block, walk.offset());
            read.map_err(io(format!("read {}", table.path().display())))?;
            self.figures.reads += 1;
            let step = walk.step(block)?;
            self.pool.put(number, block);
            if let Step::Found(value) = step {
                return Ok(value.map(<[u8]>::to_vec));
            }
        }
    }
}
