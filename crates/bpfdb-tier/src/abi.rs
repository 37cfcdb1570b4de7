//! The structures and constants of `include/bpfdb/run.h`, `compact.h`, `prefetch.h` and `park.h`.
#![allow(
    non_camel_case_types,
    non_upper_case_globals,
    dead_code,
    unreachable_pub,
    clippy::undocumented_unsafe_blocks,
    reason = "generated"
)]

include!(concat!(env!("OUT_DIR"), "/shared.rs"));
