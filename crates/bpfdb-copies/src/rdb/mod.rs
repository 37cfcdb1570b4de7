//! Redis's form of data in a file (RDB), as far as bpfdb has a place for it: strings, hashes, lists,
//! sets and sorted sets, and when they expire.
//!
//! ```text
//! REDIS | version, 4 digits | opcode or type, … | 0xff | CRC-64 of all before
//!
//! VALKEY | version, 3 digits | …  (Valkey from 9.0 on)
//!
//! type 0: key, value                 types of collections: key, and what `collection` reads
//!                                    other types: key, and what `skip` knows how to pass
//! opcodes: expiry of the next key, number of the database, hints, functions, …
//! string:  a length and bytes, a small integer, or bytes compressed by LZF
//! ```
//!
//! [`functions`] is the form of all libraries of functions that FUNCTION DUMP gives, and
//! [`payload`] is the form of one value that DUMP gives and RESTORE takes; it has the same
//! strings.

mod collection;
pub mod functions;
pub(crate) mod input;
mod lzf;
pub(crate) mod output;
mod packed;
pub mod payload;
mod skip;
pub(crate) mod stream;
mod string;

/// Written: that of Redis 7.0, which all later ones read.
const VERSION_WRITTEN: u16 = 10;
/// Read: up to that of Redis 8.2.
const VERSION_READ: u16 = 12;
/// That of Valkey 9.0, whose own versions begin there. Up to version 11 it writes Redis's.
const VALKEY_VERSION_READ: u16 = 80;
/// The first one with a checksum.
const VERSION_SUMMED: u16 = 5;

const TYPE_STRING: u8 = 0;

/// Of Valkey: a move of slots between nodes that was under way.
const SLOT_IMPORT: u8 = 0xf3;
const SLOT_INFO: u8 = 0xf4;
const FUNCTION: u8 = 0xf5;
/// That of the release candidates of Redis 7.0.
const OLD_FUNCTION: u8 = 0xf6;
const MODULE_AUX: u8 = 0xf7;
const IDLE: u8 = 0xf8;
const FREQUENCY: u8 = 0xf9;
const AUX: u8 = 0xfa;
const RESIZE: u8 = 0xfb;
const EXPIRES_MS: u8 = 0xfc;
const EXPIRES: u8 = 0xfd;
const DATABASE: u8 = 0xfe;
const END: u8 = 0xff;

/// The server whose form a file has: some types have the same number and another meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Redis,
    Valkey,
}

/// What marks a file of this form.
pub(crate) const MAGIC: &[u8; 5] = b"REDIS";
pub(crate) const VALKEY_MAGIC: &[u8; 6] = b"VALKEY";
