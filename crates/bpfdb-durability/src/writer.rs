//! The thread that writes the log.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_log::{Batch, Disk, LogError, LogWriter};

use crate::checkpoint::{self, Origin};
use crate::error::{Error, Result};
use crate::feed::Feed;
use crate::opening::Opening;
use crate::pace::Pace;
use crate::shared::{Shared, State};
use crate::wall::wall;

/// Bytes of the next segment that are written after each group, or as many as the group has.
const PREPARED_BYTES: u64 = 1 << 20;

/// A group waits for those that may join it for this part of a flush at most.
const GATHER_SHARE: u32 = 2;
/// And at most this.
const GATHER_MOST: Duration = Duration::from_millis(20);

/// Between attempts on a disk that is full.
const FULL_PAUSE: Duration = Duration::from_millis(100);

/// Between attempts to prepare the next segment on such a disk, while there is room in this one.
const PREPARE_PAUSE: Duration = Duration::from_secs(1);

/// A thread that panics says so in the state.
pub(crate) struct TellsOfPanic(pub(crate) Arc<Shared>);

impl Drop for TellsOfPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0
                .set_state(State::Failed("its thread has panicked".into()));
        }
    }
}

pub(crate) struct Writer {
    pub(crate) feed: Feed,
    pub(crate) shared: Arc<Shared>,
    /// Of a write with its flush, lately.
    pub(crate) flush_time: Duration,
    pub(crate) pace: Pace,
    /// Whether the feed has a part that is not durable yet.
    pub(crate) is_pending: bool,
    pub(crate) checkpoints: Arc<checkpoint::Shared>,
    /// There was no space for the next segment, and it is not tried before.
    pub(crate) prepares_from: Option<Instant>,
}

impl Writer {
    pub(crate) fn run<D: Disk>(&mut self, opening: Opening<D>, interval: Duration) {
        let Some(mut writer) = self.open(opening) else {
            return;
        };
        loop {
            // Before the group: what was committed before the order to stop is in it.
            let stops = self.shared.stop.load(Ordering::Acquire);
            let pause = match self.write_group(&mut writer) {
                Ok(()) => {
                    if !self.checkpoints.is_waiting() {
                        writer.keep_reserve();
                    }
                    Some(self.pace.pause(interval))
                }
                Err(Error::Log(error @ LogError::Full { .. })) => {
                    if self.finds_space(&mut writer, &error) {
                        continue;
                    }
                    None
                }
                Err(error) => {
                    tracing::error!(%error, "the log has failed: the engine is read-only");
                    self.shared.set_state(State::Failed(error.to_string()));
                    return;
                }
            };
            if stops {
                // Whatever the watch says of the time that it took.
                self.shared.note_end(pause.is_some());
                break;
            }
            match pause {
                None => self.pause_on_a_full_disk(),
                Some(pause) if !self.shared.waiters.is_wanted() => thread::park_timeout(pause),
                Some(_) => {}
            }
            self.gather();
        }
        if let Err(error) = writer.close() {
            tracing::warn!(%error, "the log was not closed");
        }
    }

    /// The disk is full. `true`: there may be space now. `false`: the engine is read-only until
    /// another program gives some back.
    fn finds_space<D: Disk>(&self, writer: &mut LogWriter<D>, error: &LogError) -> bool {
        if !error.is_lack_of_space() {
            self.shared.set_state(State::Full(error.to_string()));
            return false;
        }
        // What is retained goes first.
        if self.checkpoints.make_room(writer) {
            return true;
        }
        // So does the reserve, if the checkpoint that waits for it gives more back.
        if self.checkpoints.is_waiting() && writer.use_reserve() {
            tracing::warn!("the disk is full: the log's reserve is used for a checkpoint");
            return true;
        }
        self.checkpoints.give_up_waiting(writer);
        self.checkpoints.start_at_last_group(&error.to_string());
        writer.keep_reserve();
        self.shared.set_state(State::Full(error.to_string()));
        false
    }

    /// Waits until the disk has space for the first segment. `None`: this is over before.
    fn open<D: Disk>(&mut self, mut opening: Opening<D>) -> Option<LogWriter<D>> {
        loop {
            match opening.try_open(&self.feed, &self.shared) {
                Ok(()) => return opening.take(),
                // What is retained goes first.
                Err(Error::Log(error))
                    if error.is_lack_of_space()
                        && self.checkpoints.make_room_to_open(&mut opening) =>
                {
                    continue;
                }
                Err(Error::Log(error @ LogError::Full { .. })) => {
                    self.checkpoints.refuse_requested(&error.to_string());
                    self.shared.set_state(State::Full(error.to_string()));
                }
                Err(error) => {
                    tracing::error!(%error, "the log cannot be opened: the engine is read-only");
                    self.shared.set_state(State::Failed(error.to_string()));
                    return None;
                }
            }
            if self.shared.stop.load(Ordering::Acquire) {
                let is_all = opening.is_new_run() && self.feed.is_unwritten();
                self.shared.note_end(is_all);
                return None;
            }
            self.pause_on_a_full_disk();
        }
    }

    /// No request has the disk tried again earlier, but the end of the log.
    fn pause_on_a_full_disk(&self) {
        let begun = Instant::now();
        while !self.shared.stop.load(Ordering::Acquire) {
            let left = FULL_PAUSE.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return;
            }
            thread::park_timeout(left);
        }
    }

    /// Lets those join the next group that the last one has woken, and that commit again. A group
    /// that began without them would make them wait for the whole of it: then two groups take
    /// turns, and each client waits for two flushes. One flush that hung must not make all wait
    /// that follow. (Group commit with a delay, as databases
    /// have had it since the 1980s; here it ends as soon as all of them are there.)
    fn gather(&self) {
        let patience = (self.flush_time / GATHER_SHARE).min(GATHER_MOST);
        let begun = Instant::now();
        while self.shared.waiters.is_wanted() && self.shared.waiters.lacks_some() {
            let left = patience.saturating_sub(begun.elapsed());
            if left.is_zero() || self.shared.stop.load(Ordering::Acquire) {
                return;
            }
            thread::park_timeout(left);
        }
    }

    /// Everything that was committed before becomes durable.
    fn write_group<D: Disk>(&mut self, writer: &mut LogWriter<D>) -> Result<()> {
        if self.is_pending {
            self.append(writer, writer.durable().epoch)?;
        }
        self.shared.begin_group();
        let (segment, begun) = (writer.segment(), Instant::now());
        let epoch = self.feed.begin_group();
        self.pace.begin(self.feed.filled());
        let mut is_begun = false;
        while !self.feed.take(&self.shared.stop)? {
            self.append(writer, writer.durable().epoch)?;
            is_begun = true;
        }
        // A group of nothing needs no batch, if what is durable has all its commits, and if no
        // checkpoint waits for it: the log must say that the checkpoint's end was durable.
        let durable = writer.durable().epoch;
        let is_idle = !is_begun
            && self.feed.count == 0
            && !self.feed.is_ahead_of(durable)
            && !self.checkpoints.waits_between(durable, epoch);
        match is_idle {
            true => self.feed.give_up(writer.durable().sequence)?,
            false => self.append(writer, epoch)?,
        }
        self.feed.note_durable(epoch);
        self.shared.end_group(epoch, is_idle);
        if is_idle {
            // Who follows the log sees its last group when something says that it is durable.
            unless_full(writer.confirm(wall()))?;
        }
        let origin = Origin {
            begun,
            epoch,
            segment,
            log: writer.log(),
            run: writer.run(),
        };
        self.checkpoints.serve(writer, origin);
        // The next segment, a bit at a time, so that no group waits for all of it.
        if self.prepares_from.is_none_or(|from| from <= Instant::now()) {
            let budget = self.feed.group_bytes().max(PREPARED_BYTES);
            let prepared = writer.prepare(budget);
            let is_full = matches!(prepared, Err(LogError::Full { .. }));
            // A log that was opened on a full disk has not even the spare in reserve.
            let lacks_space = prepared.as_ref().is_err_and(LogError::is_lack_of_space);
            let lacks_all = lacks_space && writer.lacks_reserve();
            let is_helped = lacks_all && self.checkpoints.make_room(writer);
            self.prepares_from = (is_full && !is_helped).then(|| Instant::now() + PREPARE_PAUSE);
            unless_full(prepared.map(drop))?;
        }
        Ok(())
    }

    fn append<D: Disk>(&mut self, writer: &mut LogWriter<D>, epoch: u64) -> Result<()> {
        self.is_pending = true;
        let begun = Instant::now();
        writer.append(Batch {
            epoch,
            positions: self.feed.positions(),
            wall: wall(),
            records: &self.feed.records,
            record_count: self.feed.count,
        })?;
        self.is_pending = false;
        let (count, bytes) = (self.feed.count, self.feed.records.len());
        let time = begun.elapsed();
        self.flush_time = (self.flush_time * 7 + time) / 8;
        self.shared.flushed(count, bytes, time);
        self.checkpoints.note(count, bytes);
        self.feed.give_up(writer.durable().sequence)
    }
}

/// If there is no space yet, the group that needs it will say so.
fn unless_full(result: Result<(), LogError>) -> Result<()> {
    match result {
        Err(LogError::Full { .. }) => Ok(()),
        result => Ok(result?),
    }
}
