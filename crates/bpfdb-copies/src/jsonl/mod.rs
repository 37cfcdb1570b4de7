//! JSON lines: a copy that other programs read; docs/formats/dump.md has it line by line.
//!
//! ```text
//! {"bpfdb-dump":2,"time":…,"timestamp":…,"keys":…,"expiring":…}
//! {"key":"a","value":"1"}
//! {"key64":"/w==","value":"x","expires":1764000000000}
//! {"key":"long","bytes":300000}           a long value: parts follow, one a line
//! {"part":"…"}
//! {"key":"h","hash":[["field","value"]]}  also: list, set, zset
//! {"key":"l","type":"list","entries":99000}      a long collection: its entries follow
//! {"list":["a","b"]}
//! {"lengths":[300000]}                    an entry that is too long for a line: parts follow
//! {"part":"…"}
//! {"check":{"keys":3,"checksum":"0123abcd"}}     now and then: of all bytes before
//! {"end":{"keys":3,"checksum":"4567cdef"}}
//! ```
//!
//! Invariants
//!  1. Bytes that are UTF-8 stand as text, all others in base64: every key and value comes back. The
//!     entries in a line are text if all of them are.
//!  2. No line is longer than `LINE_MAX`, so that no reader needs more memory.
//!  3. A copy without its last line, or with an incomplete one, is cut; nothing follows that line.
//!  4. Lines of checksums and the end are written in one way only. So a bit that flips in one
//!     of them is found as it is in any other line.

mod collection;
pub(crate) mod input;
mod line;
pub(crate) mod output;

/// What marks a file of this form.
pub(crate) const MAGIC: &[u8] = b"{\"bpfdb-dump\":";
/// Written. Version 1 has strings only; it is read too.
const VERSION: u32 = 2;
const FIRST_VERSION: u32 = 1;
/// Bytes of a value in one line, at most. An entry of a collection counts [`ENTRY`] bytes more.
const PART: usize = 1 << 18;
/// What brackets, quotes and a score take, in bytes of a value that are all written as escapes.
const ENTRY: usize = 8;
/// Longest line, bytes: what every byte of a part takes as an escape, and what is around it.
const LINE_MAX: usize = 6 * PART + 8192;
/// Bytes after which the checksum is written.
const CHECK: u64 = 1 << 20;
