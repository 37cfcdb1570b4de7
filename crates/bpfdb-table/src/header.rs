//! The first block of a table and its last.

use std::path::Path;

use crate::abi::{self, BLOCK_MAX, BLOCK_MIN};
use crate::block::{is_sealed, number, seal, seed};
use crate::error::{Error, Result, damaged};

/// Behind the checksum.
const MAGIC: &[u8; 8] = b"BPFDBTAB";
const FOOTER_MAGIC: &[u8; 8] = b"BPFDBEND";

/// What a table says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Random: distinguishes tables.
    pub id: u64,
    /// Bytes of a block.
    pub block_size: u32,
    /// Children that a block may have; 0: as many as there is room for.
    pub fanout: u32,
    /// Of the snapshot whose keys these are, in the clock of the engine; 0: they are from a file.
    pub timestamp: u64,
    /// When the table was begun, milliseconds of UNIX time.
    pub time: u64,
    /// Blocks of the file, with header and footer.
    pub blocks: u64,
    /// Of these, leaves. Their numbers begin with 1.
    pub leaves: u64,
    /// The number of the root's block.
    pub root: u64,
    /// Blocks from the root to a leaf, both included.
    pub depth: u32,
    pub entries: u64,
    pub key_bytes: u64,
    pub value_bytes: u64,
}

fn put(block: &mut [u8], at: usize, bytes: &[u8]) {
    block[at..at + bytes.len()].copy_from_slice(bytes);
}

impl About {
    /// What is known when a table is begun. The other fields are those of the footer.
    pub(crate) fn header(&self) -> Vec<u8> {
        let mut block = vec![0; self.block_size as usize];
        put(&mut block, 8, MAGIC);
        put(&mut block, 16, &abi::BPFDB_TABLE_VERSION.to_le_bytes());
        put(&mut block, 20, &self.block_size.to_le_bytes());
        put(&mut block, 24, &self.id.to_le_bytes());
        put(&mut block, 32, &self.timestamp.to_le_bytes());
        put(&mut block, 40, &self.time.to_le_bytes());
        put(&mut block, 48, &self.fanout.to_le_bytes());
        seal(&mut block, 0);
        block
    }

    pub(crate) fn footer(&self) -> Vec<u8> {
        let mut block = vec![0; self.block_size as usize];
        put(&mut block, 8, FOOTER_MAGIC);
        put(&mut block, 16, &self.blocks.to_le_bytes());
        put(&mut block, 24, &self.leaves.to_le_bytes());
        put(&mut block, 32, &self.root.to_le_bytes());
        put(&mut block, 40, &self.entries.to_le_bytes());
        put(&mut block, 48, &self.key_bytes.to_le_bytes());
        put(&mut block, 56, &self.value_bytes.to_le_bytes());
        put(&mut block, 64, &self.depth.to_le_bytes());
        seal(&mut block, seed(self.id, self.blocks - 1));
        block
    }

    /// The size of a block, by the first bytes of the header: at least 24.
    pub(crate) fn block_size(path: &Path, begin: &[u8]) -> Result<usize> {
        if begin.get(8..16) != Some(MAGIC) {
            return Err(Error::Foreign { path: path.into() });
        }
        let version = number::<4>(begin, 16).unwrap_or(0) as u32;
        if version != abi::BPFDB_TABLE_VERSION {
            return Err(Error::Version {
                path: path.into(),
                version,
                known: abi::BPFDB_TABLE_VERSION,
            });
        }
        let size = number::<4>(begin, 20).unwrap_or(0) as usize;
        if !is_block_size(size) {
            return Err(damaged(path, 20, "a size that no block has"));
        }
        Ok(size)
    }

    /// Of both blocks. `length`: bytes of the file.
    pub(crate) fn read(path: &Path, header: &[u8], footer: &[u8], length: u64) -> Result<Self> {
        if !is_sealed(header, 0) {
            return Err(damaged(path, 0, "the checksum is not that of the header"));
        }
        let word = |at| number::<8>(header, at).unwrap_or(0);
        let half = |at| number::<4>(header, at).unwrap_or(0) as u32;
        let mut about = Self {
            id: word(24),
            block_size: half(20),
            fanout: half(48),
            timestamp: word(32),
            time: word(40),
            ..Self::default()
        };
        let size = u64::from(about.block_size);
        let blocks = length / size;
        let at = blocks.saturating_sub(1) * size;
        let is_footer = length.is_multiple_of(size) && blocks >= 3;
        let is_footer = is_footer && footer.get(8..16) == Some(FOOTER_MAGIC);
        if !is_footer || !is_sealed(footer, seed(about.id, blocks - 1)) {
            return Err(damaged(
                path,
                at,
                "the file has no end: it is cut, or goes on",
            ));
        }
        let word = |at| number::<8>(footer, at).unwrap_or(0);
        about.blocks = word(16);
        about.leaves = word(24);
        about.root = word(32);
        about.entries = word(40);
        about.key_bytes = word(48);
        about.value_bytes = word(56);
        about.depth = number::<4>(footer, 64).unwrap_or(0) as u32;
        let is_right = about.blocks == blocks
            && (1..=abi::BPFDB_TABLE_DEPTH_MAX).contains(&about.depth)
            && (1..=blocks - 2).contains(&about.leaves)
            && about.root == blocks - 2
            && (about.depth == 1) == (about.root == about.leaves)
            && (about.depth > 1 || about.leaves == 1);
        match is_right {
            true => Ok(about),
            false => Err(damaged(path, at, "numbers that no table has")),
        }
    }
}

pub(crate) fn is_block_size(size: usize) -> bool {
    size.is_power_of_two() && (BLOCK_MIN..=BLOCK_MAX).contains(&size)
}
