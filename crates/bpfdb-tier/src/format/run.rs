//! Header and footer of a run, a block each.
//!
//! ```text
//!       0  magic, "BPFDBRUN" or "BPFDBEND"
//!       8  version, 32 bits
//!      12  CRC-32C of all that follows in the block, 32 bits
//!      16  identity of the engine, 64 bits
//!      24  number of the run, 64 bits
//!      32  footer only: entries, 64 bits
//!      40  footer only: bytes of their values, 64 bits
//!      48  footer only: bytes before the footer, 64 bits
//!          zeros to the end of the block
//! ```
//! All numbers are little-endian.

use super::{BLOCK, Invalid, put, seal, u64_at, unseal};

const HEADER: &[u8; 8] = b"BPFDBRUN";
const FOOTER: &[u8; 8] = b"BPFDBEND";

/// Which run it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunId {
    /// Identity of the engine.
    pub engine: u64,
    /// From 1; no other run of the engine ever has it.
    pub number: u64,
}

/// What a run has, when it is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    pub entries: u64,
    /// Of values.
    pub bytes: u64,
    /// Bytes before the footer.
    pub end: u64,
}

fn block(id: RunId) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    put(&mut block, 16, &id.engine.to_le_bytes());
    put(&mut block, 24, &id.number.to_le_bytes());
    block
}

pub fn encode_header(id: RunId) -> Vec<u8> {
    let mut block = block(id);
    seal(&mut block, HEADER);
    block
}

pub fn encode_footer(id: RunId, contents: &Contents) -> Vec<u8> {
    let mut block = block(id);
    put(&mut block, 32, &contents.entries.to_le_bytes());
    put(&mut block, 40, &contents.bytes.to_le_bytes());
    put(&mut block, 48, &contents.end.to_le_bytes());
    seal(&mut block, FOOTER);
    block
}

/// # Errors
/// It is no header of a run.
pub fn decode_header(bytes: &[u8]) -> Result<RunId, Invalid> {
    unseal(bytes, HEADER)?;
    Ok(RunId {
        engine: u64_at(bytes, 16)?,
        number: u64_at(bytes, 24)?,
    })
}

/// # Errors
/// It is no footer of a run.
pub fn decode_footer(bytes: &[u8]) -> Result<(RunId, Contents), Invalid> {
    unseal(bytes, FOOTER)?;
    let id = RunId {
        engine: u64_at(bytes, 16)?,
        number: u64_at(bytes, 24)?,
    };
    let contents = Contents {
        entries: u64_at(bytes, 32)?,
        bytes: u64_at(bytes, 40)?,
        end: u64_at(bytes, 48)?,
    };
    Ok((id, contents))
}
