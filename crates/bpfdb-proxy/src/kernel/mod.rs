//! The part of the proxy that runs in the kernel (`bpf/pg`), as the process sees it. What both share, and
//! the rules, are in `bpf/pg/state.bpf.h`.

mod objects;
mod places;
pub(crate) mod programs;
pub(crate) mod shared;
mod statements;

/// The structures and constants of `include/bpfdb/proxy.h`.
#[allow(
    non_camel_case_types,
    non_upper_case_globals,
    dead_code,
    unreachable_pub,
    clippy::undocumented_unsafe_blocks,
    reason = "generated"
)]
pub(crate) mod abi {
    include!(concat!(env!("OUT_DIR"), "/shared.rs"));
}
