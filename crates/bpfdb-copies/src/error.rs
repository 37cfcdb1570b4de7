//! Why a copy is not written, or not read back.

use std::borrow::Cow;
use std::io;

use bpfdb::Status;

/// What went wrong. Offsets are bytes from the beginning of the file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action}: {source}")]
    Io { action: String, source: io::Error },
    #[error(
        "not a copy: neither JSON lines nor the binary form of `bpfdb dump`, nor an RDB file of Redis"
    )]
    Unknown,
    /// It ends before its end mark.
    #[error("the file is cut: it ends at byte {offset}, in the middle")]
    Cut { offset: u64 },
    #[error("the file is damaged at byte {offset}: {what}")]
    Damaged {
        offset: u64,
        what: Cow<'static, str>,
    },
    /// The file may be right, but bpfdb has no place for this.
    #[error("byte {offset} of the file: {what}")]
    Foreign {
        offset: u64,
        what: Cow<'static, str>,
    },
    /// The file is right, and what was asked for forbids to use it.
    #[error("nothing was written: {0}")]
    Refused(String),
    /// The moment that a copy is of could be kept no longer.
    #[error("the copy is not complete, for its snapshot ended: {0}")]
    Snapshot(Status),
    /// A copy has no place for values of this type.
    #[error(
        "the copy is not complete: the value of {key:?} is of the type {name}, which no copy has a form for"
    )]
    Type { key: String, name: &'static str },
    #[error("cannot write the key {key:?}: {status}")]
    Write { key: String, status: Status },
    /// Some keys are in the database, others are not.
    #[error("{written} keys of the file were written, the others were not: {cause}")]
    Unfinished { written: u64, cause: Box<Error> },
    /// [`Existing::Flush`](crate::Existing::Flush) did not come to its end.
    #[error("{deleted} keys were deleted, and none of the file was written: {cause}")]
    Flushing { deleted: u64, cause: Box<Error> },
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    Engine(#[from] bpfdb::Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A part of a message.
pub(crate) type Text = Cow<'static, str>;

pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let action = action.into();
    move |source| Error::Io { action, source }
}

pub(crate) fn damaged(offset: u64, what: impl Into<Text>) -> Error {
    Error::Damaged {
        offset,
        what: what.into(),
    }
}

pub(crate) fn foreign(offset: u64, what: impl Into<Text>) -> Error {
    Error::Foreign {
        offset,
        what: what.into(),
    }
}
