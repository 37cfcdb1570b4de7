//! Batches: what one flush, or a part of it, makes durable.

use crate::disk::buffer::AlignedBuffer;
use crate::format::layout::{BLOCK, Invalid, LogId, array_at, round_up, u32_at, u64_at};

const MAGIC: &[u8; 8] = b"BPFDBBAT";

/// Bytes of the header before the positions of the rings.
pub const FIXED_HEADER: u64 = 80;

/// No batch is larger, in bytes with its header: so a header that lies cannot ask for more memory.
pub const SIZE_MAX: u64 = 256 << 20;

/// Where the bytes begin that the checksum covers.
const COVERED: usize = 12;

/// Copied and summed at once, in bytes: what stays in the processor's first cache.
const STRIDE: usize = 16 * 1024;

/// What stands before the payload, without the positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Also the seed of the checksum of the batch behind it.
    pub checksum: u32,
    /// Bytes of the payload.
    pub payload: u32,
    pub log: LogId,
    pub segment: u64,
    pub sequence: u64,
    /// All commits with a timestamp up to this are in this batch and those before.
    pub epoch: u64,
    /// Sequence number of the last batch that was durable when this one was written.
    pub durable: u64,
    /// Nanoseconds of UNIX time.
    pub wall: u64,
    pub records: u32,
    pub rings: u32,
}

impl BatchHeader {
    /// Reads the fields, and verifies nothing but the first bytes and the size. `bytes` may go on.
    pub fn peek(bytes: &[u8]) -> Result<Self, Invalid> {
        if bytes.get(..8) != Some(MAGIC) {
            return Err(Invalid::Magic);
        }
        let header = Self {
            checksum: u32_at(bytes, 8)?,
            payload: u32_at(bytes, 12)?,
            log: LogId(array_at(bytes, 16)?),
            segment: u64_at(bytes, 32)?,
            sequence: u64_at(bytes, 40)?,
            epoch: u64_at(bytes, 48)?,
            durable: u64_at(bytes, 56)?,
            wall: u64_at(bytes, 64)?,
            records: u32_at(bytes, 72)?,
            rings: u32_at(bytes, 76)?,
        };
        match header.size() <= SIZE_MAX {
            true => Ok(header),
            false => Err(Invalid::Field("size")),
        }
    }

    /// Bytes before the payload.
    pub fn header_size(&self) -> u64 {
        header_size(self.rings as usize)
    }

    /// Bytes up to the end of the payload.
    fn covered_size(&self) -> u64 {
        self.header_size() + u64::from(self.payload)
    }

    /// Bytes on the disk: whole blocks.
    pub fn size(&self) -> u64 {
        round_up(self.covered_size(), BLOCK as u64)
    }

    fn put(&self, bytes: &mut [u8]) {
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, MAGIC);
        put(12, &self.payload.to_le_bytes());
        put(16, &self.log.0);
        put(32, &self.segment.to_le_bytes());
        put(40, &self.sequence.to_le_bytes());
        put(48, &self.epoch.to_le_bytes());
        put(56, &self.durable.to_le_bytes());
        put(64, &self.wall.to_le_bytes());
        put(72, &self.records.to_le_bytes());
        put(76, &self.rings.to_le_bytes());
    }
}

fn header_size(rings: usize) -> u64 {
    FIXED_HEADER + 8 * rings as u64
}

/// Bytes on the disk of a batch with a payload of so many bytes.
pub fn size(rings: usize, payload: u64) -> u64 {
    round_up(header_size(rings) + payload, BLOCK as u64)
}

/// Writes a batch into `buffer`, which becomes as long as it is, and returns the checksum.
/// `header.payload` and `rings` are those of the slices; its checksum does not count. `seed`
/// is the checksum of the batch before.
pub fn encode(
    buffer: &mut AlignedBuffer,
    mut header: BatchHeader,
    positions: &[u64],
    payload: &[u8],
    seed: u32,
) -> u32 {
    header.payload = payload.len() as u32;
    header.rings = positions.len() as u32;
    buffer.resize(header.size() as usize);
    header.put(buffer);
    let start = header.header_size() as usize;
    for (field, position) in buffer[FIXED_HEADER as usize..start]
        .chunks_exact_mut(8)
        .zip(positions)
    {
        field.copy_from_slice(&position.to_le_bytes());
    }
    let mut checksum = crc32c::crc32c_append(seed, &buffer[COVERED..start]);
    for (to, from) in buffer[start..]
        .chunks_mut(STRIDE)
        .zip(payload.chunks(STRIDE))
    {
        to[..from.len()].copy_from_slice(from);
        checksum = crc32c::crc32c_append(checksum, from);
    }
    buffer[start + payload.len()..].fill(0);
    buffer[8..12].copy_from_slice(&checksum.to_le_bytes());
    checksum
}

/// A batch whose checksum is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchView<'a> {
    pub header: BatchHeader,
    positions: &'a [u8],
    pub payload: &'a [u8],
}

impl<'a> BatchView<'a> {
    /// Verifies a batch of which `bytes` has [`BatchHeader::size`] bytes or more. `seed` is the
    /// checksum of the batch before.
    pub fn decode(bytes: &'a [u8], seed: u32) -> Result<Self, Invalid> {
        let batch = Self::split(bytes)?;
        let covered = batch.header.covered_size() as usize;
        if crc32c::crc32c_append(seed, &bytes[COVERED..covered]) != batch.header.checksum {
            return Err(Invalid::Checksum);
        }
        Ok(batch)
    }

    /// The parts of a batch, not verified.
    pub(crate) fn split(bytes: &'a [u8]) -> Result<Self, Invalid> {
        let header = BatchHeader::peek(bytes)?;
        let covered = usize::try_from(header.covered_size()).map_err(|_| Invalid::Short)?;
        let covered = bytes.get(..covered).ok_or(Invalid::Short)?;
        let (head, payload) = covered.split_at(header.header_size() as usize);
        Ok(Self {
            header,
            positions: &head[FIXED_HEADER as usize..],
            payload,
        })
    }

    /// For each ring, the position up to which its records are in this batch and those before.
    pub fn positions(&self) -> Vec<u64> {
        let fields = self.positions.chunks_exact(8);
        fields.filter_map(|field| u64_at(field, 0).ok()).collect()
    }
}
