//! Why the kernel gives up a call of a compiled procedure, generated from the one list in
//! `include/bpfdb/procedure.h`.

use crate::abi::BPFDB_DEOPTIMISATION_COUNT;

include!(concat!(env!("OUT_DIR"), "/deoptimisations.rs"));

/// A reason. The call was undone, and the interpreter runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deoptimisation {
    /// In small letters, as counters and metrics call it.
    pub name: &'static str,
    /// What happened.
    pub text: &'static str,
}
