//! Compiles BPF programs for build scripts: the engine's own, and those that embed it.
//!
//! A program in BPF C that includes `<bpfdb/bpfdb.bpf.h>` needs the compiler that bpfdb was tested with,
//! its flags, and headers of libbpf and of the kernel that are new enough. A build script has them
//! from here:
//!
//! ```no_run
//! // In main() of build.rs:
//! bpfdb_build::exit_on_error(
//!     bpfdb_build::Programs::new().and_then(|programs| programs.source("src/limit.bpf.c").build()),
//! );
//! ```
//!
//! ```toml
//! # Cargo.toml
//! [dependencies]
//! bpfdb = …
//!
//! [build-dependencies]
//! bpfdb-build = …
//! ```
//!
//! The crate then has the object, to be opened with `bpfdb::open_object`:
//!
//! ```ignore
//! mod objects {
//!     include!(concat!(env!("OUT_DIR"), "/objects.rs")); // pub(crate) static LIMIT: &[u8]
//! }
//! ```
//!
//! | module | |
//! |---|---|
//! | `programs` | [`Programs`]: the objects of a crate that uses the engine |
//! | `engine` | [`engine`]: all that the crate `bpfdb` is built of |
//! | `objects`, `compile` | sources and what becomes of them; only what is out of date is compiled |
//! | `clang`, `tree`, `headers` | the compiler with its flags; where sources and headers are |
//! | `abi`, `lists` | Rust that is generated from the headers in `include/bpfdb` |
//!
//! The variable `BPFDB_CLANG` names another compiler than the one that is found.

use std::process::exit;

mod abi;
mod clang;
mod compile;
mod engine;
mod headers;
mod lists;
mod objects;
mod programs;
mod result;
mod tree;

pub use engine::engine;
pub use programs::Programs;
pub use result::Result;

/// Ends a build script: with the error as its message, if there is one.
pub fn exit_on_error(result: Result<()>) {
    if let Err(message) = result {
        eprintln!("error: {message}");
        exit(1);
    }
}
