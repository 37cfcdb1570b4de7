//! Header and blocks: what is verified before entries are read.

use std::io::{Read, Write};

use super::{
    BLOCK_HEAD, FIRST_VERSION, HEADER, HEADER_SUMMED, LAST, MAGIC, PAYLOAD_MAX, TOTALS, Totals,
    VERSION,
};
use crate::error::{Error, Result, damaged, foreign, io};
use crate::header::Header;
use crate::source::{Input, Plain, Source};

/// The header, and its checksum.
fn encode_header(header: &Header) -> ([u8; HEADER], u32) {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let fields = [header.time, header.timestamp, header.keys, header.expiring];
    for (place, field) in bytes[HEADER_SUMMED..].chunks_exact_mut(8).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
    let sum = crc32c::crc32c_append(VERSION, &bytes[HEADER_SUMMED..]);
    bytes[12..16].copy_from_slice(&sum.to_le_bytes());
    (bytes, sum)
}

fn decode_header(bytes: &[u8; HEADER]) -> Result<(Header, u32)> {
    if bytes[..8] != *MAGIC {
        return Err(damaged(0, "the file does not begin as a copy"));
    }
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    let field = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let version = word(8);
    if !(FIRST_VERSION..=VERSION).contains(&version) {
        let what = format!(
            "version {version} of the form; versions {FIRST_VERSION} to {VERSION} are known"
        );
        return Err(foreign(8, what));
    }
    let sum = crc32c::crc32c_append(version, &bytes[HEADER_SUMMED..]);
    if word(12) != sum {
        return Err(damaged(12, "the checksum of the header is wrong"));
    }
    if bytes[HEADER_SUMMED + 32..].iter().any(|&byte| byte != 0) {
        return Err(foreign(48, "the header has more than its version has"));
    }
    let header = Header {
        time: field(16),
        timestamp: field(24),
        keys: field(32),
        expiring: field(40),
    };
    Ok((header, sum))
}

/// Bytes that become blocks.
pub(super) struct BlockWriter<W> {
    out: W,
    sum: u32,
    /// A block, as far as it is filled, with room for its head.
    block: Vec<u8>,
}

impl<W: Write> BlockWriter<W> {
    pub(super) fn new(mut out: W, header: &Header) -> Result<Self> {
        let (bytes, sum) = encode_header(header);
        out.write_all(&bytes).map_err(io("write the copy"))?;
        let mut block = Vec::with_capacity(BLOCK_HEAD + PAYLOAD_MAX);
        block.resize(BLOCK_HEAD, 0);
        Ok(Self { out, sum, block })
    }

    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let room = BLOCK_HEAD + PAYLOAD_MAX - self.block.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.block.extend_from_slice(now);
            bytes = later;
            if self.block.len() == BLOCK_HEAD + PAYLOAD_MAX {
                self.send(0)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, flag: u32) -> Result<()> {
        let len = (self.block.len() - BLOCK_HEAD) as u32 | flag;
        self.block[4..BLOCK_HEAD].copy_from_slice(&len.to_le_bytes());
        self.sum = crc32c::crc32c_append(self.sum, &self.block[4..]);
        self.block[..4].copy_from_slice(&self.sum.to_le_bytes());
        self.out
            .write_all(&self.block)
            .map_err(io("write the copy"))?;
        self.block.truncate(BLOCK_HEAD);
        Ok(())
    }

    pub(super) fn finish(&mut self, totals: Totals) -> Result<()> {
        if self.block.len() > BLOCK_HEAD {
            self.send(0)?;
        }
        self.block.extend_from_slice(&totals.keys.to_le_bytes());
        self.block.extend_from_slice(&totals.bytes.to_le_bytes());
        self.send(LAST)?;
        self.out.flush().map_err(io("write the copy"))
    }
}

/// The payloads of verified blocks.
pub(super) struct Blocks<R> {
    source: Source<Plain<R>>,
    sum: u32,
    /// Where the block that was read last begins.
    at: u64,
    /// What the last block says.
    totals: Option<Totals>,
}

impl<R: Read> Blocks<R> {
    pub(super) fn open(mut source: Source<Plain<R>>) -> Result<(Self, Header)> {
        let (header, sum) = decode_header(&source.array()?)?;
        let blocks = Self {
            source,
            sum,
            at: 0,
            totals: None,
        };
        Ok((blocks, header))
    }

    /// Known when all payloads have been read.
    pub(super) fn totals(&self) -> Option<Totals> {
        self.totals
    }

    /// The next block; true: it is the last one.
    fn block(&mut self, payload: &mut Vec<u8>) -> Result<bool> {
        self.at = self.source.offset();
        let stored = u32::from_le_bytes(self.source.array()?);
        let word: [u8; 4] = self.source.array()?;
        let len = u32::from_le_bytes(word);
        let is_last = len & LAST != 0;
        let len = (len & !LAST) as usize;
        if len == 0 || len > PAYLOAD_MAX || (is_last && len != TOTALS) {
            return Err(damaged(self.at, "no block has this length"));
        }
        self.source.parts(len as u64, |part| {
            payload.extend_from_slice(part);
            Ok(())
        })?;
        let sum = crc32c::crc32c_append(self.sum, &word);
        self.sum = crc32c::crc32c_append(sum, payload);
        if self.sum != stored {
            return Err(damaged(self.at, "the checksum of the block is wrong"));
        }
        Ok(is_last)
    }
}

impl<R: Read> Input for Blocks<R> {
    fn more(&mut self, buffer: &mut Vec<u8>) -> Result<()> {
        buffer.clear();
        if self.totals.is_some() || !self.block(buffer)? {
            return Ok(());
        }
        let number = |at: usize| buffer[at..at + 8].try_into().map(u64::from_le_bytes);
        let (Ok(keys), Ok(bytes)) = (number(0), number(8)) else {
            return Err(Error::Cut { offset: self.at });
        };
        self.totals = Some(Totals { keys, bytes });
        buffer.clear();
        if !self.source.is_at_end()? {
            return Err(damaged(self.source.offset(), "something follows the end"));
        }
        Ok(())
    }

    /// The block is as near as it can be found.
    fn place(&self, _: u64) -> u64 {
        self.at
    }
}
