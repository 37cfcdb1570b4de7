//! Limits that are no settings, each in one place.

use bpfdb::abi;

/// Bytes that one message may take in memory: one request, the commands that one client has
/// queued, or one reply. A value of the longest fits in, with 128 MiB beside it.
pub(crate) const MESSAGE_MAX: usize = 640 << 20;

/// Bytes that a word of a request takes in memory beside its own: those of its `Vec`, and what
/// the allocator adds.
pub(crate) const WORD_OVERHEAD: usize = 40;

const _: () = assert!(MESSAGE_MAX > abi::BPFDB_LARGE_MAX as usize + (1 << 20));
const _: () = assert!(WORD_OVERHEAD == size_of::<Vec<u8>>() + 2 * size_of::<usize>());
