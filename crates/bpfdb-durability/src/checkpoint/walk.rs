//! One checkpoint: from the engine to a file. One thread walks over the engine's records, another
//! one computes checksums and writes.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb::{CheckpointPass, Entry, OtherRecord, Status};
use bpfdb_log::checkpoint::{CheckpointWriter, Header, WrittenCheckpoint};
use bpfdb_log::{Disk, LogError};

use super::shared::Shared;
use crate::budget::{Budget, Share};
use crate::pace::{rank_as_others, rank_below_others};
use crate::value_type;
use crate::wall::wall;

/// Entries are handed over when there are so many bytes of them.
const PIECE: usize = 512 << 10;
/// Pieces that wait for the disk.
const PIECES: usize = 3;
/// Bytes of values that wait for the disk by themselves, or one value; and the one that is being read.
const OTHERS: usize = 16 << 20;
/// A step that others make impossible all the time is tried again so often.
const TRIES: u32 = 16;

/// What is handed over.
enum Piece {
    Entries(Vec<u8>, u32),
    Other(OtherRecord, Entry, Share),
}

/// Why there is no checkpoint.
#[derive(Debug, thiserror::Error)]
pub(super) enum WalkError {
    #[error("{0}")]
    GivenUp(String),
    #[error("cannot read the engine: {0}")]
    Engine(#[from] Status),
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Makes the file of the checkpoint that `header` describes, durable.
pub(super) fn write<D>(
    pass: &mut CheckpointPass,
    disk: D,
    header: Header,
    shared: &Shared,
) -> Result<WrittenCheckpoint, WalkError>
where
    D: Disk + Send,
    D::File: Send,
{
    let epoch = header.start;
    thread::scope(|scope| {
        let (send, receive) = sync_channel(PIECES);
        let spawned = thread::Builder::new()
            .name("bpfdb-checkpoint-file".into())
            .spawn_scoped(scope, move || write_file(disk, header, &receive, shared));
        let writer = spawned.map_err(|error| WalkError::GivenUp(error.to_string()))?;
        let walked = walk(pass, epoch, &send, shared);
        drop(send);
        let file = writer
            .join()
            .map_err(|_| WalkError::GivenUp("its thread has panicked".into()))?;
        // What stopped the writer also stopped the walk.
        let file = file?;
        walked?;
        // After the last value was read.
        Ok(file.finish(pass.clock(), wall())?)
    })
}

fn write_file<D: Disk>(
    disk: D,
    header: Header,
    pieces: &Receiver<Piece>,
    shared: &Shared,
) -> Result<CheckpointWriter<D>, LogError> {
    let mut rank = Rank::default();
    let mut file = CheckpointWriter::create(disk, header)?;
    for piece in pieces {
        rank.update(shared);
        match piece {
            Piece::Entries(bytes, count) => file.add(&bytes, count)?,
            Piece::Other(record, entry, _share) => {
                let kind = value_type::in_log(record.value_type)
                    .map_err(|why| LogError::Refused(why.to_string()))?;
                file.add_typed(&record.key, kind, &entry.value, entry.expires_at)?;
            }
        }
    }
    Ok(file)
}

/// Which rank a thread has on its processor: below others, unless the checkpoint is late. Then the
/// log grows quicker than checkpoints are made, and its writers must pay for that.
#[derive(Default)]
struct Rank {
    is_late: Option<bool>,
}

impl Rank {
    fn update(&mut self, shared: &Shared) {
        let is_late = shared.is_late();
        if self.is_late.replace(is_late) != Some(is_late) {
            match is_late {
                true => rank_as_others(),
                false => rank_below_others(),
            }
        }
    }
}

/// The walk, with what was not handed over yet.
struct Walk<'a> {
    pass: &'a mut CheckpointPass,
    to: &'a SyncSender<Piece>,
    shared: &'a Shared,
    rank: Rank,
    entries: Vec<u8>,
    count: u32,
    others: Budget,
    begun: Instant,
    bytes: u64,
}

fn walk(
    pass: &mut CheckpointPass,
    epoch: u64,
    to: &SyncSender<Piece>,
    shared: &Shared,
) -> Result<(), WalkError> {
    let mut walk = Walk {
        pass,
        to,
        shared,
        rank: Rank::default(),
        entries: Vec::with_capacity(PIECE),
        count: 0,
        others: Budget::new(OTHERS),
        begun: Instant::now(),
        bytes: 0,
    };
    walk.pass.begin(epoch);
    while walk.step()? {
        walk.take()?;
        walk.slow_down()?;
    }
    walk.hand_over()
}

impl Walk<'_> {
    fn step(&mut self) -> Result<bool, WalkError> {
        self.shared.check().map_err(WalkError::GivenUp)?;
        self.rank.update(self.shared);
        for _ in 1..TRIES {
            match self.pass.step() {
                Err(Status::Exhausted) => {}
                outcome => return Ok(outcome?),
            }
        }
        Ok(self.pass.step()?)
    }

    /// What the step found.
    fn take(&mut self) -> Result<(), WalkError> {
        let (bytes, count) = self.pass.entries();
        if self.entries.len() + bytes.len() > PIECE {
            self.hand_over()?;
        }
        let (bytes, count) = (self.pass.entries().0, count);
        self.entries.extend_from_slice(bytes);
        self.count += count;
        let found = bytes.len() as u64;
        self.note(u64::from(count), found);
        for other in self.pass.others() {
            self.take_other(other)?;
        }
        Ok(())
    }

    fn take_other(&mut self, other: OtherRecord) -> Result<(), WalkError> {
        // Written since: the log has that. Or it is not visible any more.
        if let Some(entry) = self.pass.read(&other)? {
            self.note(1, entry.value.len() as u64);
            let share = self.others.take(entry.value.len());
            self.send(Piece::Other(other, entry, share))?;
        }
        Ok(())
    }

    fn note(&mut self, entries: u64, bytes: u64) {
        self.bytes += bytes;
        self.shared.entries.fetch_add(entries, Ordering::Relaxed);
        self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
        let part = (self.pass.part() * 1e6) as u64;
        self.shared.part.store(part, Ordering::Relaxed);
    }

    fn hand_over(&mut self) -> Result<(), WalkError> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let entries = std::mem::replace(&mut self.entries, Vec::with_capacity(PIECE));
        let count = std::mem::take(&mut self.count);
        self.send(Piece::Entries(entries, count))
    }

    fn send(&self, piece: Piece) -> Result<(), WalkError> {
        let sent = self.to.send(piece);
        sent.map_err(|_| WalkError::GivenUp("its file cannot be written".into()))
    }

    /// Not faster than may be.
    fn slow_down(&self) -> Result<(), WalkError> {
        let Some(rate) = self.shared.options.rate else {
            return Ok(());
        };
        let due = Duration::from_secs_f64(self.bytes as f64 / rate.max(1) as f64);
        loop {
            let early = due.saturating_sub(self.begun.elapsed());
            if early.is_zero() {
                return Ok(());
            }
            // In short naps, so that it can be given up.
            thread::sleep(early.min(Duration::from_millis(50)));
            self.shared.check().map_err(WalkError::GivenUp)?;
        }
    }
}
