//! Appends values to runs.
//!
//! ```text
//! none ──create──► open ──append, flush──► open ──full: footer──► closed
//!                    └──a write or flush failed──► closed, without a footer
//! ```

use std::io;
use std::sync::Arc;

use bpfdb::{ColdPlace, RunUse};
use bpfdb_log::{AlignedBuffer, Disk, DiskFile};

use crate::format::run::{self, Contents, RunId};
use crate::format::{BLOCK, entry};
use crate::runs::Runs;

/// A value to be written.
#[derive(Clone, Debug)]
pub struct NewValue {
    /// The stored key.
    pub key: Vec<u8>,
    /// `BPFDB_TYPE_`.
    pub kind: u8,
    pub value: Vec<u8>,
    /// The version's timestamp is not later.
    pub timestamp: u64,
}

#[derive(Debug)]
struct Open<F> {
    id: RunId,
    file: F,
    contents: Contents,
}

/// Writes the runs of an engine. One at a time.
#[derive(Debug)]
pub struct RunWriter<D: Disk> {
    runs: Arc<Runs<D>>,
    /// Bytes after which a run is closed.
    size: u64,
    /// Bytes that runs leave to other files of the disk.
    keep: u64,
    open: Option<Open<D::File>>,
}

impl<D: Disk> RunWriter<D> {
    pub fn new(runs: Arc<Runs<D>>, size: u64) -> Self {
        Self {
            runs,
            size,
            keep: 0,
            open: None,
        }
    }

    /// From now on no run is made that leaves fewer bytes of the disk to other files.
    pub fn keep_free(&mut self, bytes: u64) {
        self.keep = bytes;
    }

    /// Writes these values and flushes them. Where each is. `uses`: [`bpfdb::Engine::run_uses`] of now.
    ///
    /// # Errors
    /// Those of the disk: none of these values may be looked for then.
    pub fn append(&mut self, values: &[NewValue], uses: &[RunUse]) -> io::Result<Vec<ColdPlace>> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => {
                let (id, file) = self.runs.create(self.size, self.keep, uses)?;
                let end = BLOCK as u64;
                let contents = Contents {
                    end,
                    ..Contents::default()
                };
                Open { id, file, contents }
            }
        };
        match write(&mut open, values) {
            Ok((places, bytes)) => {
                self.runs.wrote(open.id.number, bytes);
                match open.contents.end >= self.size {
                    true => self.close(open)?,
                    false => self.open = Some(open),
                }
                Ok(places)
            }
            Err(error) => {
                // After a flush that failed nothing is known of what was written.
                self.runs.closed(open.id.number, open.contents.end);
                Err(error)
            }
        }
    }

    fn close(&self, open: Open<D::File>) -> io::Result<()> {
        let Open { id, file, contents } = open;
        self.runs.closed(id.number, contents.end + BLOCK as u64);
        let footer = AlignedBuffer::from(&run::encode_footer(id, &contents)[..]);
        // It is for `check`, and for the next owner's sums: the values are there without it.
        if let Err(error) = file.write_flushed(contents.end, &footer) {
            tracing::warn!(%error, run = id.number, "a file of cold values has no footer");
        }
        Ok(())
    }
}

fn write<F: DiskFile>(
    open: &mut Open<F>,
    values: &[NewValue],
) -> io::Result<(Vec<ColdPlace>, u64)> {
    let start = open.contents.end;
    let mut bytes = Vec::new();
    let mut places = Vec::with_capacity(values.len());
    let mut sum = 0;
    for new in values {
        let offset = start + bytes.len() as u64;
        let NewValue { key, value, .. } = new;
        places.push(entry::encode(
            open.id,
            offset,
            key,
            new.kind,
            new.timestamp,
            value,
            &mut bytes,
        ));
        sum += value.len() as u64;
    }
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    open.file
        .write_whole(start, &AlignedBuffer::from(&bytes[..]))?;
    open.file.flush()?;
    open.contents.end += bytes.len() as u64;
    open.contents.entries += values.len() as u64;
    open.contents.bytes += sum;
    Ok((places, sum))
}
