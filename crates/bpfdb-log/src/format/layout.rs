//! Parts of all structures of the log: blocks, little-endian fields, checksums.

use std::fmt;

/// Headers and batches begin at multiples of this, in bytes. No disk has larger sectors, so a
/// request of whole blocks can bypass the page cache.
pub const BLOCK: usize = 4096;

/// Version of the log's format that this crate writes: of control slots and segments. It reads all
/// from 1 on: a directory of an earlier one goes on in this one, and is refused by programs that do
/// not know it.
///
/// | version | |
/// |---|---|
/// | 1 | segments have no identity of their run |
/// | 2 | they have |
pub const VERSION: u32 = 3;

/// Version of the format of checkpoints.
pub const CHECKPOINT_VERSION: u32 = 2;

/// More segments, batches or runs than any disk can hold: adding to a number below is safe.
pub(crate) const COUNT_MAX: u64 = 1 << 62;

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error("it ends too early")]
    Short,
    #[error("its first bytes are not those of such a structure")]
    Magic,
    #[error("it has format version {0}, which this program does not know")]
    Version(u32),
    #[error("its checksum is wrong")]
    Checksum,
    #[error("its {0} is wrong")]
    Field(&'static str),
    #[error("the disk cannot read it: {0}")]
    Unreadable(std::io::ErrorKind),
}

/// Identity of a run: 128 random bits. Its number is none: copies of a directory that go on each by
/// itself have runs of the same number. All zero in a log that version 1 began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunId(pub [u8; 16]);

/// Identity of a log: 128 random bits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct LogId(pub [u8; 16]);

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogId({self})")
    }
}

/// A block under construction.
pub(crate) struct Block(pub(crate) [u8; BLOCK]);

impl Block {
    pub(crate) fn new(magic: &[u8; 8]) -> Self {
        let mut block = Self([0; BLOCK]);
        block.put(0, magic);
        block
    }

    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) -> &mut Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    pub(crate) fn put_u32(&mut self, at: usize, value: u32) -> &mut Self {
        self.put(at, &value.to_le_bytes())
    }

    pub(crate) fn put_u64(&mut self, at: usize, value: u64) -> &mut Self {
        self.put(at, &value.to_le_bytes())
    }

    /// Adds version and checksum, at the place that control slots and segment headers share.
    pub(crate) fn seal(mut self, version: u32) -> [u8; BLOCK] {
        let checksum = crc32c::crc32c_append(version, &self.0[16..]);
        self.put_u32(8, version).put_u32(12, checksum);
        self.0
    }
}

/// Checks what [`Block::seal`] wrote, and the first bytes, and returns the version, which is not
/// later than `newest`. `bytes` is one block.
pub(crate) fn unseal(bytes: &[u8], magic: &[u8; 8], newest: u32) -> Result<u32, Invalid> {
    if bytes.len() != BLOCK {
        return Err(Invalid::Short);
    }
    if bytes[..8] != magic[..] {
        return Err(Invalid::Magic);
    }
    let version = u32_at(bytes, 8)?;
    if crc32c::crc32c_append(version, &bytes[16..]) != u32_at(bytes, 12)? {
        return Err(Invalid::Checksum);
    }
    match (1..=newest).contains(&version) {
        true => Ok(version),
        false => Err(Invalid::Version(version)),
    }
}

pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Invalid> {
    let part = at.checked_add(N).and_then(|end| bytes.get(at..end));
    part.and_then(|part| part.try_into().ok())
        .ok_or(Invalid::Short)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Result<u32, Invalid> {
    array_at(bytes, at).map(u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Result<u64, Invalid> {
    array_at(bytes, at).map(u64::from_le_bytes)
}

/// `size` and what is missing to a multiple of `unit`, a power of two.
pub(crate) const fn round_up(size: u64, unit: u64) -> u64 {
    (size + unit - 1) & !(unit - 1)
}
