//! Blocks of a checkpoint: entries, or bytes of a large value.

use crate::format::layout::{BLOCK, Invalid, LogId, array_at, round_up, u32_at, u64_at};

const MAGIC: &[u8; 8] = b"BPFDBCKB";
/// Bytes before the payload.
pub(super) const HEADER: usize = 64;
/// Where the bytes begin that the checksum covers.
const COVERED: usize = 12;

/// On the disk, at most, in bytes.
pub(super) const SIZE_MAX: usize = 1 << 20;
/// Bytes of a payload, at most.
pub const PAYLOAD_MAX: usize = SIZE_MAX - HEADER;

/// Bytes of a value that stands in its entry, at most. A longer one has blocks of its own.
pub const VALUE_MAX: usize = 32 << 10;

/// What a block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Whole entries, each with its value.
    Entries,
    /// The entry of a large value. Its bytes follow, in blocks of their own.
    Large,
    /// Bytes of that value.
    LargeBytes,
}

impl BlockKind {
    fn decode(kind: u32) -> Result<Self, Invalid> {
        match kind {
            1 => Ok(Self::Entries),
            2 => Ok(Self::Large),
            3 => Ok(Self::LargeBytes),
            _ => Err(Invalid::Field("kind")),
        }
    }

    fn encode(self) -> u32 {
        match self {
            Self::Entries => 1,
            Self::Large => 2,
            Self::LargeBytes => 3,
        }
    }
}

/// What stands before the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// Bytes.
    pub payload: usize,
    pub log: LogId,
    /// Of the checkpoint.
    pub number: u64,
    /// Of the block, from 1.
    pub sequence: u64,
    pub kind: BlockKind,
    /// Keys that it has.
    pub entries: u32,
}

impl BlockHeader {
    /// Reads the fields, and does not verify the checksum. `bytes` may go on.
    pub fn peek(bytes: &[u8]) -> Result<Self, Invalid> {
        if bytes.get(..8) != Some(MAGIC) {
            return Err(Invalid::Magic);
        }
        let payload = u32_at(bytes, 12)? as usize;
        if payload > PAYLOAD_MAX {
            return Err(Invalid::Field("length"));
        }
        Ok(Self {
            payload,
            log: LogId(array_at(bytes, 16)?),
            number: u64_at(bytes, 32)?,
            sequence: u64_at(bytes, 40)?,
            kind: BlockKind::decode(u32_at(bytes, 48)?)?,
            entries: u32_at(bytes, 52)?,
        })
    }

    /// Bytes on the disk.
    pub fn size(&self) -> usize {
        round_up((HEADER + self.payload) as u64, BLOCK as u64) as usize
    }

    /// Completes a block whose payload is there already: header, zeros and checksum. `bytes` is
    /// as long as the block.
    pub(super) fn seal(&self, bytes: &mut [u8]) {
        bytes[HEADER + self.payload..].fill(0);
        bytes[..HEADER].fill(0);
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, MAGIC);
        put(12, &(self.payload as u32).to_le_bytes());
        put(16, &self.log.0);
        put(32, &self.number.to_le_bytes());
        put(40, &self.sequence.to_le_bytes());
        put(48, &self.kind.encode().to_le_bytes());
        put(52, &self.entries.to_le_bytes());
        let checksum = checksum(bytes);
        bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// The seed of a block's checksum. A block does not say its version: all have the seed of the
/// first one.
const SEED: u32 = 1;

/// Of a whole block.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(SEED, &bytes[COVERED..])
}

/// The payload of a whole block, verified.
pub(super) fn payload(bytes: &[u8]) -> Result<&[u8], Invalid> {
    let header = BlockHeader::peek(bytes)?;
    if bytes.len() != header.size() {
        return Err(Invalid::Short);
    }
    if checksum(bytes) != u32_at(bytes, 8)? {
        return Err(Invalid::Checksum);
    }
    Ok(&bytes[HEADER..HEADER + header.payload])
}
