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

use crate::format::entry::Entry;
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
        let mut batch = self.begin(uses)?;
        let places = values.iter().map(|new| {
            batch.push(&Entry {
                key: &new.key,
                kind: new.kind,
                value: &new.value,
                timestamp: new.timestamp,
            })
        });
        let places = places.collect();
        self.write(&batch)?;
        Ok(places)
    }

    /// A batch of entries for the run that is open now; it is written by [`Self::write`], before another one is begun.
    ///
    /// # Errors
    /// Those of the disk: there is no run, and none can be made.
    pub(crate) fn begin(&mut self, uses: &[RunUse]) -> io::Result<NewBatch> {
        let open = match self.open.take() {
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
        let batch = NewBatch {
            run: open.id,
            start: open.contents.end,
            bytes: Vec::new(),
            entries: 0,
            value_bytes: 0,
        };
        self.open = Some(open);
        Ok(batch)
    }

    /// Writes a batch, the last that was begun, and flushes it.
    ///
    /// # Errors
    /// Those of the disk: none of its entries may be looked for then.
    ///
    /// # Panics
    /// It is another one.
    pub(crate) fn write(&mut self, batch: &NewBatch) -> io::Result<()> {
        let mut open = self
            .open
            .take()
            .expect("a batch is of the run that is open");
        let is_its_place = (open.id, open.contents.end) == (batch.run, batch.start);
        assert!(is_its_place, "one batch at a time");
        match write(&mut open, batch) {
            Ok(()) => {
                self.runs.wrote(open.id.number, batch.value_bytes);
                match open.contents.end >= self.size {
                    true => self.close(open)?,
                    false => self.open = Some(open),
                }
                Ok(())
            }
            Err(error) => {
                // After a flush that failed nothing is known of what was written.
                self.runs.closed(open.id.number, open.contents.end);
                Err(error)
            }
        }
    }

    /// Nothing more is written to the run that is open, if there is one. The next values go to another.
    pub fn end(&mut self) -> io::Result<()> {
        self.open.take().map_or(Ok(()), |open| self.close(open))
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

/// Entries that are to be written together.
#[derive(Debug)]
pub(crate) struct NewBatch {
    run: RunId,
    /// Where the first entry is to be.
    start: u64,
    bytes: Vec<u8>,
    entries: u64,
    value_bytes: u64,
}

impl NewBatch {
    /// Where the entry will be.
    pub(crate) fn push(&mut self, entry: &Entry<'_>) -> ColdPlace {
        self.entries += 1;
        self.value_bytes += entry.value.len() as u64;
        entry::encode(
            self.run,
            self.start + self.bytes.len() as u64,
            entry.key,
            entry.kind,
            entry.timestamp,
            entry.value,
            &mut self.bytes,
        )
    }

    /// Bytes of all entries.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries == 0
    }
}

fn write<F: DiskFile>(open: &mut Open<F>, batch: &NewBatch) -> io::Result<()> {
    let len = batch.bytes.len();
    let mut bytes = AlignedBuffer::zeroed(len.next_multiple_of(BLOCK));
    bytes[..len].copy_from_slice(&batch.bytes);
    open.file.write_whole(batch.start, &bytes)?;
    open.file.flush()?;
    open.contents.end += bytes.len() as u64;
    open.contents.entries += batch.entries;
    open.contents.bytes += batch.value_bytes;
    Ok(())
}
