//! Compiles functions of Lua to programs of the kernel that run on bpfdb's engine.
//!
//! ```text
//!  text ──lua──► ir ──code──► instructions ──load──► program in the kernel
//!                 │                            ▲
//!                 └ what is not supported:     └ the template: clang's program, in which
//!                   line and reason              they take the place of one function
//! ```
//!
//! [`Unit`] is a text and what has become of its functions. Nothing here knows of connections
//! or of the server: which code calls the program, and where it stands, is the caller's. Two of them are
//! here: [`inside`], for the process itself, and [`embedded`], for programs that embed the engine.
//! docs/decisions/0024-procedures-in-the-kernel.md says why it is so.

pub mod code;
pub mod embedded;
pub mod error;
pub mod inside;
pub mod ir;
mod listing;
pub mod load;
pub mod lua;
mod types;
mod unit;

pub use error::{Error, Result};
pub use unit::{Left, NotReady, Ready, Unit};

// The tests that need nothing private, in the program of the unit tests: one program less is linked.
#[cfg(test)]
extern crate self as bpfdb_procedures;
#[cfg(test)]
#[path = "../tests/it/main.rs"]
mod it;
