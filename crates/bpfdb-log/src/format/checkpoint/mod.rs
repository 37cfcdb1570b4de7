//! Checkpoints: what an engine had at an epoch, so that recovery need not read the log from its
//! beginning. The format is `docs/formats/checkpoint.md`, the reasons are in decision 19.
//!
//! ```text
//! log         ... ≤ S ──────────────► S ────── replayed, from the first needed segment ──►
//! checkpoint      │ header: S │ block │ block │ ... │ footer: E │
//! ```
//!
//! A checkpoint has, for every key that no commit between its start S and its end E has written,
//! the value that it had at S; of the others it may have one of those that they had. The commits
//! after S are in the log. So it means something only together with all of them up to E.
//!
//! # Rules
//!
//! 1. A checkpoint counts when the control file names it, and not before.
//! 2. The control file names it when all commits up to its end are durable in the log, and when
//!    the file, its name included, is flushed.
//! 3. The one before it, and the segments that only that one needed, go after that, unless they
//!    are retained ([`Beginnings`](crate::Beginnings)).
//! 4. Every byte of the file is covered by a checksum. One that is not what was written is
//!    corrupt: it is not passed over in silence.

mod block;
mod chunks;
mod file;
mod reader;
mod writer;

pub use block::{BlockHeader, BlockKind, PAYLOAD_MAX, VALUE_MAX};
pub(crate) use file::numbers;
pub use file::{FOLDER, Footer, Header, PLACEMENT_MAX, name, part_name, remove, remove_others};
pub(crate) use reader::read_ends;
pub use reader::{CheckpointReader, Contents, RawBlock, read_header};
pub use writer::{CheckpointWriter, WrittenCheckpoint};

use crate::error::{LogError, Result};
use crate::format::layout::Invalid;

/// What the control file says of the checkpoint that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// From 1, each greater than the one before.
    pub number: u64,
    /// Commits with a later timestamp are replayed.
    pub start: u64,
    /// It means nothing without the commits up to this timestamp.
    pub end: u64,
}

impl Mark {
    /// Of fields as they stand in a file: number 0 is none.
    pub(crate) fn decode(number: u64, start: u64, end: u64) -> Result<Option<Self>, Invalid> {
        match (number, start <= end) {
            (0, _) => Ok(None),
            (crate::format::layout::COUNT_MAX.., _) => {
                Err(Invalid::Field("number of the checkpoint"))
            }
            (_, false) => Err(Invalid::Field("checkpoint's end")),
            _ => Ok(Some(Self { number, start, end })),
        }
    }
}

/// What a control file would say of a checkpoint with these ends.
///
/// # Errors
/// [`LogError::Corrupt`] if no control file can say that.
pub(crate) fn mark_of(number: u64, header: &Header, footer: &Footer) -> Result<Mark> {
    Mark::decode(number, header.start, footer.end)
        .and_then(|mark| mark.ok_or(Invalid::Field("number of the checkpoint")))
        .map_err(LogError::invalid(name(number), 0, "the checkpoint"))
}
