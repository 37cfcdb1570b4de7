//! Results of recovery: commits, and the places of their large values.

use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::error::{LogError, Result};
use crate::format::record::{self, Entries, Value};
use crate::format::segment;

/// A commit that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredCommit {
    pub timestamp: u64,
    /// When its epoch was written, by the wall clock: nanoseconds of UNIX time.
    pub wall: u64,
    pub(crate) entries: Vec<u8>,
    /// The large values that it names, in the order of its entries.
    pub large_values: Vec<LargeValue>,
}

impl RecoveredCommit {
    /// Whether all its large values were found in the log.
    pub(crate) fn is_whole(&self) -> bool {
        let large = |entry: &record::Entry<'_>| matches!(entry.value, Value::Large { .. });
        self.entries().flatten().filter(large).count() == self.large_values.len()
    }

    /// Its writes. None of them is an error: they were decoded before.
    pub fn entries(&self) -> Entries<'_> {
        record::Commit::new(self.timestamp, &self.entries).entries()
    }
}

/// Where the bytes of a large value are in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LargeValue {
    pub id: u64,
    /// Bytes.
    pub len: u64,
    /// Shared: many entries may name one value of many parts.
    pub(crate) pieces: Arc<Vec<Piece>>,
    /// Bytes of all pieces.
    pub(crate) come: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) checksum: u32,
}

impl LargeValue {
    /// Passes all bytes to `take`, in order and in parts of any length.
    ///
    /// # Errors
    /// Those of reading, after any number of parts. The segments must still be there: see
    /// [`crate::LogWriter::release_before`]. [`LogError::Corrupt`] if one was written over.
    pub fn read<D: Disk>(&self, disk: &D, mut take: impl FnMut(&[u8])) -> Result<()> {
        let mut bytes = Vec::new();
        let mut open = None;
        for piece in self.pieces.iter() {
            let name = segment::name(piece.segment);
            let file = match open.take() {
                Some((number, file)) if number == piece.segment => file,
                _ => open_segment(disk, &name)?,
            };
            bytes.resize(piece.len as usize, 0);
            let read = file.read_whole(piece.offset, &mut bytes);
            if read.map_err(LogError::io("read", &name))? != bytes.len() {
                return Err(LogError::corrupt(name, piece.offset, "the file is shorter"));
            }
            if crc32c::crc32c(&bytes) != piece.checksum {
                let why = format!("the large value {} is not what it was", self.id);
                return Err(LogError::corrupt(name, piece.offset, why));
            }
            take(&bytes);
            open = Some((piece.segment, file));
        }
        Ok(())
    }

    /// The first segment that has a part of it; the greatest number if it has no bytes.
    pub(crate) fn first_segment(&self) -> u64 {
        self.pieces.first().map_or(u64::MAX, |piece| piece.segment)
    }

    /// Adds what comes next.
    pub(crate) fn push(&mut self, piece: Piece) {
        self.come += piece.len;
        Arc::make_mut(&mut self.pieces).push(piece);
    }

    /// Takes away the last part. False: there is none.
    pub(crate) fn pop(&mut self) -> bool {
        let last = Arc::make_mut(&mut self.pieces).pop();
        self.come -= last.map_or(0, |piece| piece.len);
        last.is_some()
    }
}

fn open_segment<D: Disk>(disk: &D, name: &str) -> Result<D::File> {
    let file = disk.open(name).map_err(LogError::io("open", name))?;
    file.ok_or_else(|| LogError::corrupt(name, 0, "the segment is missing"))
}
