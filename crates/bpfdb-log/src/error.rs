//! Errors of a log.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::{is_full, is_unreadable, lacks_descriptors};
use crate::format::layout::Invalid;
use crate::format::moment::Moment;

/// The log is not what it was when it was written: nothing may be started from it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file} at {offset}: {why}")]
pub struct Corrupt {
    /// Name within the data directory.
    pub file: String,
    /// Bytes from the beginning of the file.
    pub offset: u64,
    pub why: String,
}

/// The write or flush after which nothing becomes durable in this log again.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot {action} {file}: {source}")]
pub struct Failure {
    pub action: &'static str,
    /// Name within the data directory.
    pub file: String,
    pub source: Arc<io::Error>,
}

/// Failure to write, read or own a log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// An operation failed that leaves the log as it was.
    #[error("cannot {action} {file}: {source}")]
    Io {
        action: &'static str,
        file: String,
        source: io::Error,
    },
    #[error("{path}: {} owns this data directory", owner(.pid))]
    Owned { path: PathBuf, pid: Option<u32> },
    #[error(
        "{path}: others than its owner may use this directory (mode {mode:04o}); run chmod 0700"
    )]
    Exposed { path: PathBuf, mode: u32 },
    #[error("the log is corrupt: {0}")]
    Corrupt(#[from] Corrupt),
    /// No space, or no descriptor for the file: nothing was made durable, and a later attempt may
    /// succeed.
    #[error("no {} for the log: cannot {action} {file}: {source}", lacking(.source))]
    Full {
        action: &'static str,
        file: String,
        source: io::Error,
    },
    /// What is on the disk is uncertain since this failure. What was durable before still is.
    #[error("the log has failed, and takes no more batches: {0}")]
    Failed(Failure),
    /// The segments that had this were given up: a checkpoint has their commits, or they were read
    /// too slowly.
    #[error("the log does not go back to timestamp {timestamp} any more; {}", earliest_commit(.complete_after))]
    Gone {
        timestamp: u64,
        /// The log has all commits that are later than this; `None`: that is not known.
        complete_after: Option<u64>,
    },
    /// A later attempt finds what the owner has now.
    #[error(
        "the server has removed meanwhile what was to be copied, after a checkpoint: try again"
    )]
    GivenUp,
    /// No point in time before this one can be had.
    #[error("the earliest point that can be had is timestamp {}", .0.epoch)]
    TooEarly(Moment),
    /// The caller asked for what no reader would accept. Nothing was written.
    #[error("refused: {0}")]
    Refused(String),
}

fn earliest_commit(complete_after: &Option<u64>) -> String {
    match complete_after {
        Some(after) => format!("the earliest that it has is {}", after.saturating_add(1)),
        None => "read it again from where it begins now".into(),
    }
}

fn lacking(source: &io::Error) -> &'static str {
    match lacks_descriptors(source) {
        true => "descriptor",
        false => "space",
    }
}

fn owner(pid: &Option<u32>) -> String {
    pid.map_or("another process".into(), |pid| format!("process {pid}"))
}

impl LogError {
    pub(crate) fn io(
        action: &'static str,
        file: impl Into<String>,
    ) -> impl FnOnce(io::Error) -> Self {
        let file = file.into();
        move |source| Self::Io {
            action,
            file,
            source,
        }
    }

    pub(crate) fn corrupt(file: impl Into<String>, offset: u64, why: impl ToString) -> Self {
        Self::Corrupt(Corrupt {
            file: file.into(),
            offset,
            why: why.to_string(),
        })
    }

    /// Does the disk lack space? Then files that are given up help; if the process lacks
    /// descriptors, they do not.
    pub fn is_lack_of_space(&self) -> bool {
        matches!(self, Self::Full { source, .. } if !lacks_descriptors(source))
    }

    /// Are bytes not what was written, or does the disk not give them back?
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Corrupt(_) => true,
            Self::Io { source, .. } => is_unreadable(source),
            _ => false,
        }
    }

    /// What is wrong with a file that a start does not need: it cannot be read, or is not what it was.
    /// Other errors are returned.
    pub(crate) fn damage(self) -> Result<Corrupt, Self> {
        match self {
            Self::Corrupt(damage) => Ok(damage),
            Self::Io {
                action,
                file,
                source,
            } => Ok(Corrupt {
                file,
                offset: 0,
                why: format!("cannot {action} it: {source}"),
            }),
            error => Err(error),
        }
    }

    /// Of bytes that a checksum covers, or that must be there.
    pub(crate) fn invalid(
        file: impl Into<String>,
        offset: u64,
        what: &str,
    ) -> impl FnOnce(Invalid) -> Self {
        let (file, what) = (file.into(), what.to_owned());
        move |why| Self::corrupt(file, offset, format!("{what} is not valid: {why}"))
    }
}

/// What could not be done to which file, before it is known what follows from it.
#[derive(Debug)]
pub(crate) struct StepError {
    pub(crate) action: &'static str,
    pub(crate) file: String,
    pub(crate) source: io::Error,
    /// Whether it is harmless, and may succeed later.
    pub(crate) heals: bool,
}

/// Of anything but a flush: whether an error is harmless, and the same may succeed later.
pub(crate) fn heals(error: &io::Error) -> bool {
    is_full(error) || lacks_descriptors(error)
}

/// Of anything but a flush: lack of space heals, and so does lack of descriptors.
pub(crate) fn step(
    action: &'static str,
    file: impl Into<String>,
) -> impl FnOnce(io::Error) -> StepError {
    let file = file.into();
    move |source| StepError {
        action,
        file,
        heals: heals(&source),
        source,
    }
}

/// Of a flush: what was not flushed is lost, for whatever reason.
pub(crate) fn flush_step(file: impl Into<String>) -> impl FnOnce(io::Error) -> StepError {
    let file = file.into();
    move |source| StepError {
        action: "flush",
        file,
        source,
        heals: false,
    }
}

impl From<StepError> for LogError {
    /// While no writer exists that could have failed.
    fn from(error: StepError) -> Self {
        let StepError {
            action,
            file,
            source,
            heals,
        } = error;
        match heals {
            true => Self::Full {
                action,
                file,
                source,
            },
            false => Self::Io {
                action,
                file,
                source,
            },
        }
    }
}

pub type Result<T, E = LogError> = std::result::Result<T, E>;
