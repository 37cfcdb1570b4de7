//! The thread that makes checkpoints, when they are due or asked for.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bpfdb::{CheckpointPass, Engine};
use bpfdb_log::checkpoint::{CheckpointReader, Header, Mark, WrittenCheckpoint, remove_others};
use bpfdb_log::{BLOCK, Disk, LogEnd, LogError, LogId};

use super::retain::{found, remove};
use super::retention::RetentionOptions;
use super::shared::{Origin, Shared, Task};
use super::status::{CheckpointDone, CheckpointOptions};
use super::walk::{self, WalkError};
use crate::error::{Error, Result};
use crate::wall::wall;

/// The thread. It ends when this is dropped, and gives up what it is at.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    pub(crate) shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Work<D> {
    pass: CheckpointPass,
    disk: D,
    placement: Vec<u8>,
    /// Number of the checkpoint that counts; 0: none.
    kept: u64,
    next_number: u64,
    shared: Arc<Shared>,
}

impl Checkpoints {
    /// `end`: how the engine's log was found, and whether it is open. `retention`: with the size of
    /// segments.
    pub(crate) fn start<D>(
        engine: &Engine,
        disk: D,
        (end, is_open): (&LogEnd, bool),
        options: CheckpointOptions,
        retention: (RetentionOptions, u64),
    ) -> Result<Self>
    where
        D: Disk + Send + 'static,
        D::File: Send,
    {
        let mark = end.control.and_then(|control| control.checkpoint);
        let kept = mark.map_or(0, |mark| mark.number);
        let (retention, segment_size) = retention;
        let retention = found(&disk, end.control.as_ref(), retention, segment_size, wall())?;
        let log = end.control.map(|control| control.log);
        let last = mark.and_then(|mark| find(&disk, log?, mark));
        // While the last one is damaged, an older one may be all that there is. Before the log is
        // open, one slot of the control file may name an older one.
        if is_open && (mark.is_none() || last.is_some()) {
            clean(&disk, kept, retention.numbers());
        }
        let shared = Arc::new(Shared::new(options, last, end.record_bytes, retention));
        let mut work = Work {
            pass: engine.checkpoint_pass()?,
            disk,
            placement: engine.placement(),
            kept,
            next_number: kept + 1,
            shared: Arc::clone(&shared),
        };
        let spawned = thread::Builder::new()
            .name("bpfdb-checkpoint".into())
            .spawn(move || work.run());
        Ok(Self {
            shared,
            thread: Some(spawned.map_err(Error::Thread)?),
        })
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(thread) = self.thread.take() {
            // It has said why, if it panicked.
            let _ = thread.join();
        }
    }
}

impl<D> Work<D>
where
    D: Disk + Send,
    D::File: Send,
{
    fn run(&mut self) {
        // Of the last one that was made, or of this thread. One that fails is due still.
        let mut last_begun = Instant::now();
        while let Some(task) = self.shared.next_task(last_begun) {
            let origin = match task {
                Task::Make(origin) => origin,
                Task::Remove(numbers) => {
                    remove(&self.disk, &numbers);
                    continue;
                }
            };
            let begun = Instant::now();
            let logged = self.shared.logged();
            // A caller that waits for a checkpoint that panics gets an error, and the next one begins anew.
            let made = panic::catch_unwind(AssertUnwindSafe(|| self.make(origin, begun)));
            let outcome = made
                .unwrap_or_else(|_| Err(WalkError::GivenUp("it has panicked".into())))
                .map_err(|error| error.to_string());
            match &outcome {
                Ok(_) => last_begun = begun,
                Err(error) => {
                    tracing::warn!(%error, "no checkpoint was made: the one before it counts");
                    clean(&self.disk, self.kept, self.shared.retained_numbers());
                }
            }
            self.shared.end(outcome, logged);
        }
    }

    fn make(&mut self, origin: Origin, begun: Instant) -> Result<CheckpointDone, WalkError> {
        let header = Header {
            log: origin.log,
            number: self.next_number,
            run: origin.run,
            start: origin.epoch,
            wall: wall(),
            first_segment: origin.segment,
            placement: self.placement.clone(),
        };
        self.next_number += 1;
        let written = self.write(&header)?;
        let installed = self.shared.install(written);
        installed.map_err(WalkError::GivenUp)?;
        self.kept = written.mark.number;
        clean(&self.disk, self.kept, self.shared.retained_numbers());
        let done = done(&written, begun.elapsed());
        tracing::info!(
            number = done.number,
            entries = done.entries,
            bytes = done.bytes,
            took = ?done.took,
            "made a checkpoint"
        );
        Ok(done)
    }
}

impl<D> Work<D>
where
    D: Disk + Send,
    D::File: Send,
{
    /// Writes the file. While there is no space, the oldest of what is retained is given up.
    fn write(&mut self, header: &Header) -> Result<WrittenCheckpoint, WalkError> {
        loop {
            let (disk, header) = (self.disk.clone(), header.clone());
            match walk::write(&mut self.pass, disk, header, &self.shared) {
                Err(WalkError::Log(error))
                    if error.is_lack_of_space() && self.shared.await_room() =>
                {
                    remove(&self.disk, &self.shared.take_superseded());
                    self.shared.count_anew();
                }
                written => return written,
            }
        }
    }
}

fn done(written: &WrittenCheckpoint, took: Duration) -> CheckpointDone {
    CheckpointDone {
        number: written.mark.number,
        start: written.mark.start,
        entries: written.entries,
        bytes: written.bytes,
        finished: SystemTime::now(),
        took,
    }
}

/// Removes what neither counts nor is retained.
fn clean<D: Disk>(disk: &D, counts: u64, retained: Vec<u64>) {
    let keep: Vec<u64> = retained.into_iter().chain([counts]).collect();
    if let Err(error) = remove_others(disk, &keep) {
        tracing::warn!(%error, "old checkpoints are still there");
    }
}

/// What an earlier process made.
fn find<D: Disk>(disk: &D, log: LogId, mark: Mark) -> Option<CheckpointDone> {
    let reader = match CheckpointReader::open(disk, log, mark) {
        Ok(reader) => reader,
        Err(error) => {
            tell_of_damage(&error);
            return None;
        }
    };
    let footer = reader.footer();
    Some(CheckpointDone {
        number: mark.number,
        start: mark.start,
        entries: footer.entries,
        // Its own are not in there.
        bytes: footer.bytes + BLOCK as u64,
        finished: UNIX_EPOCH + Duration::from_nanos(footer.wall),
        took: Duration::ZERO,
    })
}

/// The engine has its data still: the next checkpoint makes this one needless.
fn tell_of_damage(error: &LogError) {
    tracing::error!(%error, "the last checkpoint cannot be read: make another one");
}
