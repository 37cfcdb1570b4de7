//! How the writer comes to its log: at once, or when the disk has space for a segment.

use bpfdb::LogHome;
use bpfdb_log::{Disk, LogEnd, LogError, LogWriter, Start, give_up_before, settle};

use crate::error::Result;
use crate::feed::Feed;
use crate::shared::Shared;
use crate::wall::wall;

/// A log that is to be opened behind its end, or is open.
pub(crate) struct Opening<D: Disk> {
    disk: D,
    end: LogEnd,
    start: Start,
    files: bpfdb_log::Options,
    open: Option<LogWriter<D>>,
}

impl<D: Disk> Opening<D> {
    pub(crate) fn new(disk: D, end: LogEnd, start: Start, files: bpfdb_log::Options) -> Self {
        Self {
            disk,
            end,
            start,
            files,
            open: None,
        }
    }

    /// Opens the log, unless it is open, and begins the run in it. What it has is durable before
    /// that, if there is space for a segment or not. The end is still the end after an attempt that
    /// found no space: only this process writes there, and wrote no more than what was there.
    ///
    /// # Errors
    /// [`LogError::Full`]: to be tried again. Others are final.
    pub(crate) fn try_open(&mut self, feed: &Feed, shared: &Shared) -> Result<()> {
        if self.open.is_none() {
            settle(&self.disk, &mut self.end)?;
            let durable = match self.start {
                Start::NewRun => {
                    let epoch = feed.close_epoch();
                    // The engine has what the files have, unless a session has written before the
                    // log began: that is in the rings, and all of it is reserved there by now.
                    match feed.is_unwritten() {
                        true => epoch,
                        false => self.end.epoch,
                    }
                }
                Start::SameRun => self.end.epoch,
            };
            feed.note_durable(durable);
            shared.note_durable(durable);
            let disk = self.disk.clone();
            let opened = LogWriter::open(disk, &self.end, self.start, wall(), self.files)?;
            feed.begin_run(&home(&opened))?;
            self.open = Some(opened);
        }
        Ok(())
    }

    /// Up to this timestamp everything is durable before the log is open: an earlier owner has
    /// closed it, or else its last batches may never have been flushed.
    pub(crate) fn durable(&self) -> u64 {
        match self.end.closed {
            true => self.end.epoch,
            false => 0,
        }
    }

    /// Where the log's files are.
    pub(crate) fn disk(&self) -> &D {
        &self.disk
    }

    /// The first segment that is needed or retained of a log that is not open yet.
    pub(crate) fn first_kept(&self) -> u64 {
        self.end.control.map_or(1, |control| control.first_kept())
    }

    /// Gives up what is retained before this segment, of a log that is not open yet.
    ///
    /// # Errors
    /// [`LogError::Full`], [`LogError::Io`]: it is still there.
    pub(crate) fn give_up_before(&mut self, segment: u64) -> Result<(), LogError> {
        give_up_before(&self.disk, &mut self.end, segment)
    }

    /// The log, once it is open.
    pub(crate) fn take(&mut self) -> Option<LogWriter<D>> {
        self.open.take()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether recovery gave the engine what the files have, until the log is open.
    pub(crate) fn is_new_run(&self) -> bool {
        self.start == Start::NewRun
    }
}

/// The run that the engine's memory belongs to.
fn home<D: Disk>(writer: &LogWriter<D>) -> LogHome {
    LogHome {
        log: writer.log().0,
        run: writer.run(),
        run_id: writer.run_id().0,
    }
}
