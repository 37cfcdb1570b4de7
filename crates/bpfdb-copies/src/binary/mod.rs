//! The binary form of a copy; docs/formats/dump.md has it byte by byte.
//!
//! ```text
//! header, 64 bytes | block | block | … | last block
//! block:   checksum, length | payload
//! payloads, one behind the other: entries.  entry: head, 16 bytes | key | value
//! ```
//!
//! Invariants
//!  1. Each checksum is seeded with the one before. So a block is valid only behind that which
//!     it was written behind: none can be missing, come twice or from another copy.
//!  2. Nothing of a block is looked at before its checksum is.
//!  3. The value of a collection is the packed run that the engine keeps. One that is read is not
//!     given before all of it was found to be right.
//!  4. A copy without its last block is cut, and nothing follows that block.

pub(crate) mod blocks;
pub(crate) mod input;
pub(crate) mod output;

use bpfdb::ValueType;

use crate::collection::content_of;

/// What marks a file of this form.
pub(crate) const MAGIC: &[u8; 8] = b"BPFDBDMP";
/// Written. Version 1 has strings only; it is read too.
const VERSION: u32 = 2;
const FIRST_VERSION: u32 = 1;
/// Bytes of the header.
const HEADER: usize = 64;
/// Where the bytes of the header begin that its checksum is of.
const HEADER_SUMMED: usize = 16;
/// Bytes before the payload of a block.
const BLOCK_HEAD: usize = 8;
/// Longest payload, bytes.
const PAYLOAD_MAX: usize = 1 << 20;
/// In the length of a block: it is the last one.
const LAST: u32 = 1 << 31;
/// Bytes of the payload of the last block: how many entries, and bytes of values, there are.
const TOTALS: usize = 16;
/// Bytes before the key of an entry.
const ENTRY_HEAD: usize = 16;
/// In the flags of an entry: the value expires.
const EXPIRES: u16 = 1;
/// Where the type of the value is in the flags.
const TYPE_SHIFT: u16 = 8;

/// How many entries there are, and bytes of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    keys: u64,
    bytes: u64,
}

/// What stands before the key of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EntryHead {
    key_len: u16,
    kind: ValueType,
    value_len: u32,
    expires_at: Option<u64>,
}

impl EntryHead {
    fn encode(self) -> [u8; ENTRY_HEAD] {
        let mut bytes = [0; ENTRY_HEAD];
        let kind = u16::from(self.kind.code()) << TYPE_SHIFT;
        let flags = kind
            | if self.expires_at.is_some() {
                EXPIRES
            } else {
                0
            };
        bytes[..2].copy_from_slice(&self.key_len.to_le_bytes());
        bytes[2..4].copy_from_slice(&flags.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.value_len.to_le_bytes());
        bytes[8..].copy_from_slice(&self.expires_at.unwrap_or(0).to_le_bytes());
        bytes
    }

    /// `None`: what no writer writes.
    fn decode(bytes: [u8; ENTRY_HEAD]) -> Option<Self> {
        let (lens, time) = bytes.split_at(8);
        let time = u64::from_le_bytes(time.try_into().ok()?);
        let flags = u16::from_le_bytes([lens[2], lens[3]]);
        let kind = ValueType::from_code((flags >> TYPE_SHIFT) as u8);
        content_of(kind)?;
        let expires_at = match flags & ((1 << TYPE_SHIFT) - 1) {
            0 if time == 0 => None,
            EXPIRES => Some(time),
            _ => return None,
        };
        Some(Self {
            key_len: u16::from_le_bytes([lens[0], lens[1]]),
            kind,
            value_len: u32::from_le_bytes(lens[4..].try_into().ok()?),
            expires_at,
        })
    }
}
