//! The structures that the kernel side and user space share: generated from
//! `include/bpfdb/abi.h` (the engine), `commands.h` and `connection.h` (the Redis front
//! end), with the layout that C gives them asserted at compile time. Names are those of C.

#![allow(non_camel_case_types, non_upper_case_globals, unreachable_pub)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "generated")]

include!(concat!(env!("OUT_DIR"), "/abi.rs"));
