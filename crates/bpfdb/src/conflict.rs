//! Why an operator said CONFLICT: generated from the one list in
//! `include/bpfdb/conflict.h`. The holders of the locks on a key: `locks.rs`.

include!(concat!(env!("OUT_DIR"), "/conflict.rs"));

/// Why the last operator of a session that said CONFLICT did so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub cause: ConflictCause,
    /// The session that held the key, where one lock says it. It may be over by now.
    pub session: Option<u32>,
}
