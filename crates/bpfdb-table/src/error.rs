//! Why a table is not written, or not read.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

/// What went wrong. Offsets are bytes from the beginning of the file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action}: {source}")]
    Io { action: String, source: io::Error },
    #[error("{path}: not a table")]
    Foreign { path: PathBuf },
    #[error("{path}: a table of version {version}, and this program reads version {known}")]
    Version {
        path: PathBuf,
        version: u32,
        known: u32,
    },
    #[error("{path}: damaged at byte {offset}: {what}")]
    Damaged {
        path: PathBuf,
        offset: u64,
        what: Cow<'static, str>,
    },
    /// Keys come in their order, each once.
    #[error("the key {key:?} comes after {before:?}: keys must ascend, and none may come twice")]
    Order { before: String, key: String },
    #[error("the key {key:?} comes twice")]
    Twice { key: String },
    #[error("the key {key:?} has {len} bytes; a table has keys of up to {most}")]
    KeyLength {
        key: String,
        len: usize,
        most: usize,
    },
    /// An entry lies in one block.
    #[error(
        "the value of {key:?} has {len} bytes; in blocks of {block} bytes there is room for {most} with this key"
    )]
    ValueLength {
        key: String,
        len: u64,
        block: usize,
        most: usize,
    },
    #[error("{0}")]
    Invalid(String),
    /// A file that a table was to be made of.
    #[error("{path}, line {line}: {what}")]
    Input {
        path: PathBuf,
        line: u64,
        what: String,
    },
    /// This machine does not run chains in the kernel.
    #[error("no chains in the kernel: {0}")]
    Unavailable(String),
    #[error(transparent)]
    Copy(#[from] bpfdb_copies::Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let action = action.into();
    move |source| Error::Io { action, source }
}

pub(crate) fn damaged(path: &Path, offset: u64, what: impl Into<Cow<'static, str>>) -> Error {
    Error::Damaged {
        path: path.into(),
        offset,
        what: what.into(),
    }
}

/// A key in a message.
pub(crate) fn shown(key: &[u8]) -> String {
    key.escape_ascii().to_string()
}
