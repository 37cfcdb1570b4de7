//! Why a call has no reply.

use bpfdb::{DEOPTIMISATIONS, Deoptimisation, Status, abi};

use crate::unit::NotReady;

/// Why one call has left nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The kernel has given it up: a value has no meaning there, or it ran for too long. It
    /// would be given up again.
    #[error("the call was deoptimised: {}", .0.text)]
    GivenUp(Deoptimisation),
    /// An Error of the engine. After [`Status::Conflict`], which was met in up to 64 attempts, and
    /// others that pass, call again.
    #[error("engine: {0}")]
    Engine(Status),
}

impl Failure {
    pub(super) const CORRUPT: Self = Self::Engine(Status::Corrupt);

    /// Of an outcome that is not 0.
    pub(super) fn of(outcome: u32) -> Self {
        let number = outcome.wrapping_sub(abi::BPFDB_DEOPTIMISATION_FIRST) as usize;
        match (DEOPTIMISATIONS.get(number), Status::from_code(outcome)) {
            (Some(&reason), _) => Self::GivenUp(reason),
            (None, Some(status)) => Self::Engine(status),
            (None, None) => Self::CORRUPT,
        }
    }
}

/// Why calls were not executed; [`CallError::Failed`] why the only one failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The library has no such function, or the kernel cannot run it.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// More than 64 keys or 64 arguments.
    #[error(
        "a call has at most {} keys, and as many arguments",
        abi::BPFDB_CALL_WORDS
    )]
    TooManyWords,
    /// More than 28 KiB of keys and arguments.
    #[error(
        "keys and arguments of a call have more than {} bytes, each rounded up to 8",
        abi::BPFDB_CALL_WORDS_BYTES
    )]
    TooLong,
    /// A call is a transaction: it cannot be part of one.
    #[error("the session has a transaction open, and a call is one by itself")]
    InTransaction,
    /// The session is of another engine than the library, or of another handle of it.
    #[error("the session is of another engine than the library")]
    OtherEngine,
    /// The kernel did not run the program.
    #[error(transparent)]
    System(bpfdb::Error),
}
