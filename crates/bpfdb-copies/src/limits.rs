//! Limits of what bpfdb can store.

/// Longest key, bytes; the shortest has one.
pub(crate) const KEY_MAX: usize = bpfdb::abi::BPFDB_KEY_MAX as usize;
/// The last time at which a value may expire, milliseconds of UNIX time: later ones would be
/// before all times for clients and files of Redis, which have signed numbers.
pub(crate) const TIME_MAX: u64 = i64::MAX as u64;
/// Longest value, bytes.
pub(crate) const VALUE_MAX: u64 = bpfdb::abi::BPFDB_LARGE_MAX as u64;
