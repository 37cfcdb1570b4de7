//! From [`ir`](crate::ir) to instructions of eBPF.
//!
//! ```text
//! keys.rs        which keys are written, so that reading them locks them for that
//! emit.rs        the list, operation by operation
//! operands.rs    values into registers of the processor: numbers, texts, what must be checked
//! arithmetic.rs  numbers
//! compare.rs     jumps
//! texts.rs       texts
//! commands/      redis.call
//! assembly.rs    instructions and labels
//! ```
//!
//! The generated function has the place of `body()` in `bpf/procedures/body.bpf.h`. It keeps
//! the frame in r6, the session in r7, and the bounds of numbers in r8 and r9. A value is in
//! the frame whenever an operation ends.

mod arithmetic;
pub(crate) mod assembly;
mod commands;
mod compare;
mod emit;
mod keys;
mod operands;
mod texts;

pub use assembly::{Code, Instruction};
pub use emit::emit;
