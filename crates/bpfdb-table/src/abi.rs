//! The structures and constants of `include/bpfdb/table.h`.
#![allow(
    non_camel_case_types,
    non_upper_case_globals,
    dead_code,
    unreachable_pub,
    clippy::undocumented_unsafe_blocks,
    reason = "generated"
)]

include!(concat!(env!("OUT_DIR"), "/shared.rs"));

pub(crate) const BLOCK_MIN: usize = BPFDB_TABLE_BLOCK_MIN as usize;
pub(crate) const BLOCK_MAX: usize = BPFDB_TABLE_BLOCK_MAX as usize;
pub(crate) const KEY_MAX: usize = BPFDB_TABLE_KEY_MAX as usize;
pub(crate) const HEAD: usize = BPFDB_TABLE_HEAD as usize;
