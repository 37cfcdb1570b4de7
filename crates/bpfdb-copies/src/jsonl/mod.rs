//! JSON lines: a copy that other programs read; docs/formats/dump.md has it line by line.
//!
//! ```text
//! {"bpfdb-dump":1,"time":…,"timestamp":…,"keys":…,"expiring":…}
//! {"key":"a","value":"1"}
//! {"key64":"/w==","value":"x","expires":1764000000000}
//! {"key":"long","bytes":300000}           a long value: parts follow, one a line
//! {"part":"…"}
//! {"check":{"keys":3,"checksum":"0123abcd"}}     now and then: of all bytes before
//! {"end":{"keys":3,"checksum":"4567cdef"}}
//! ```
//!
//! Invariants
//!  1. Bytes that are UTF-8 stand as text, all others in base64: every key and value comes back.
//!  2. No line is longer than `LINE_MAX`, so that no reader needs more memory.
//!  3. A copy without its last line, or with an incomplete one, is cut; nothing follows that line.
//!  4. Lines of checksums and the end are written in one way only. So a bit that flips in one
//!     of them is found as it is in any other line.

pub(crate) mod input;
mod line;
pub(crate) mod output;

/// What marks a file of this form.
pub(crate) const MAGIC: &[u8] = b"{\"bpfdb-dump\":";
const VERSION: u32 = 1;
/// Bytes of a value in one line, at most.
const PART: usize = 1 << 18;
/// Longest line, bytes: what every byte of a part takes as an escape, and what is around it.
const LINE_MAX: usize = 6 * PART + 8192;
/// Bytes after which the checksum is written.
const CHECK: u64 = 1 << 20;
