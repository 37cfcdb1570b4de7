//! What bpfdb has a place for.

/// Longest key, bytes; the shortest has one.
pub(crate) const KEY_MAX: usize = bpfdb::abi::BPFDB_KEY_MAX as usize;
/// Longest value, bytes.
pub(crate) const VALUE_MAX: u64 = bpfdb::abi::BPFDB_LARGE_MAX as u64;
