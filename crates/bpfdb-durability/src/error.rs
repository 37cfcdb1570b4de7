//! Why an engine cannot be durable.

use bpfdb_log::LogError;

/// Failure to recover an engine, or to write its log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the engine was made without a log")]
    NoLog,
    /// The engine belongs to another log, or to an older run of this one.
    #[error("this engine's data does not belong to the log here: {0}")]
    Stranger(String),
    /// What was recovered does not fit the engine: more memory is needed.
    #[error("cannot restore a write of the log: {0}")]
    Refused(bpfdb::Status),
    /// The function that reports progress has ended it.
    #[error("recovery was stopped")]
    Stopped,
    #[error("a transaction may take {record} bytes of the log, more than a batch of {batch}")]
    Sizes { record: u64, batch: u64 },
    /// An invariant does not hold: a program that reserves a record also seals it.
    #[error("a record of ring {ring}, at {position}, was reserved and never sealed")]
    NotSealed { ring: usize, position: u64 },
    /// An invariant does not hold: a record holds its large values until it is durable.
    #[error("the large value {id} of a commit, of {bytes} bytes, ends after {taken}")]
    NotHeld { id: u64, bytes: u64, taken: u64 },
    /// An invariant does not hold: the engine refuses values of types that it does not know.
    #[error("the log has no type of values with the number {0}")]
    UnknownType(u8),
    /// An invariant does not hold: no operator of the engine writes this.
    #[error("a write in the log's ring has the form {0:#x}, which no value has")]
    Form(u64),
    /// One at a time.
    #[error("a checkpoint is being made already")]
    Checkpointing,
    /// The checkpoint was not made; the one before it counts.
    #[error("no checkpoint was made: {0}")]
    NoCheckpoint(String),
    #[error(transparent)]
    Engine(#[from] bpfdb::Error),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("cannot start the writer of the log: {0}")]
    Thread(std::io::Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;
