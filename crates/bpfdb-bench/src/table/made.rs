//! The tables that are asked: as in XRP's BPF-KV blocks of 512 bytes, here with a fan-out of 8, so that six levels
//! are not too large.

use std::path::Path;

use anyhow::Result;
use bpfdb_table::{Access, Options, Table, Writer};

const FANOUT: u64 = 8;
const VALUE: usize = 64;
/// Entries that a leaf has room for: of 14 bytes, key and value.
const PER_LEAF: u64 = 6;

pub(super) fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// How many entries a table of so many levels has.
pub(super) fn entries(depth: u32) -> u64 {
    PER_LEAF * FANOUT.pow(depth - 1)
}

/// The first bytes of a value are the number of its key.
pub(super) fn make(path: &Path, depth: u32) -> Result<Table> {
    let options = Options {
        block_size: 512,
        fanout: FANOUT as u32,
        timestamp: 0,
    };
    let mut writer = Writer::create(path, &options)?;
    for number in 0..entries(depth) {
        let mut value = [0; VALUE];
        value[..8].copy_from_slice(&number.to_le_bytes());
        writer.push(&key(number), &value)?;
    }
    let about = writer.finish()?;
    anyhow::ensure!(about.depth == depth, "the table has {} levels", about.depth);
    Ok(Table::open(path, Access::Direct)?)
}
