//! The thread that writes the log.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_log::{Batch, Disk, LogError, LogWriter, ThreadQueue};

use crate::checkpoint::{self, Origin};
use crate::error::{Error, Result};
use crate::feed::Feed;
use crate::groups::{Group, Groups, Submitted};
use crate::opening::Opening;
use crate::pace::Pace;
use crate::shared::{GroupBegun, Shared, State};
use crate::wall::wall;

/// Bytes of the next segment that are written after each group, or as many as the group has.
const PREPARED_BYTES: u64 = 1 << 20;

/// A group with more bytes of records is not begun beside another: it is no longer the flush that
/// takes the time.
const SUBMIT_BYTES: usize = 1 << 20;

/// Between looks at groups that are under way. Whoever has news for the writer wakes it.
const LOOK: Duration = Duration::from_millis(100);

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
    /// Those that are under way.
    pub(crate) groups: Groups,
    pub(crate) pace: Pace,
    /// Whether the feed has a part that is not durable, nor under way.
    pub(crate) is_pending: bool,
    pub(crate) checkpoints: Arc<checkpoint::Shared>,
    /// There was no space for the next segment, and it is not tried before.
    pub(crate) prepares_from: Option<Instant>,
}

impl Writer {
    pub(crate) fn run<D: Disk>(&mut self, opening: Opening<D>, interval: Duration)
    where
        D::File: Send + Sync + 'static,
    {
        let Some(mut writer) = self.open(opening) else {
            return;
        };
        if self.groups.most() > 1 {
            writer = writer.with_queue(Box::new(ThreadQueue::new(self.groups.most())));
        }
        loop {
            // Before the group: what was committed before the order to stop is in it.
            let stops = self.shared.stop.load(Ordering::Acquire);
            let outcome = self
                .write_group(&mut writer)
                .and_then(|()| self.finish_or_rest(&mut writer, stops, interval));
            let is_all = match outcome {
                Ok(()) => true,
                Err(Error::Log(error @ LogError::Full { .. })) => {
                    if self.finds_space(&mut writer, &error) {
                        continue;
                    }
                    if !stops {
                        self.pause_on_a_full_disk();
                        self.gather();
                    }
                    false
                }
                Err(error) => {
                    tracing::error!(%error, "the log has failed: the engine is read-only");
                    self.shared.set_state(State::Failed(error.to_string()));
                    return;
                }
            };
            if stops {
                // Whatever the watch says of the time that it took.
                self.shared.note_end(is_all);
                break;
            }
        }
        if let Err(error) = writer.close() {
            tracing::warn!(%error, "the log was not closed");
        }
    }

    /// After a group was begun: waits until the next one is due; or if the log `stops`, until all
    /// are durable.
    fn finish_or_rest<D: Disk>(
        &mut self,
        writer: &mut LogWriter<D>,
        stops: bool,
        interval: Duration,
    ) -> Result<()> {
        if !self.checkpoints.is_waiting() {
            writer.keep_reserve();
        }
        match stops {
            true => self.finish(writer),
            false => self.rest(writer, interval),
        }
    }

    /// Waits until the next group is due, and ends those that become durable meanwhile.
    fn rest<D: Disk>(&mut self, writer: &mut LogWriter<D>, interval: Duration) -> Result<()> {
        while let Some(last) = self.groups.last().map(|group| group.epoch) {
            self.end_groups(writer, false)?;
            if self.groups.is_empty() {
                break;
            }
            let waiters = &self.shared.waiters;
            let next = match waiters.wants_after(last) {
                true => self.groups.next_in(waiters.has_all(), Instant::now()),
                false => None,
            };
            if next == Some(Duration::ZERO) || self.shared.stop.load(Ordering::Acquire) {
                return Ok(());
            }
            thread::park_timeout(next.unwrap_or(LOOK));
        }
        if !self.shared.waiters.is_wanted() {
            thread::park_timeout(self.pace.pause(interval));
        }
        self.gather();
        Ok(())
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
        let patience = self.groups.patience();
        let begun = Instant::now();
        while self.shared.waiters.is_wanted() && self.shared.waiters.lacks_some() {
            let left = patience.saturating_sub(begun.elapsed());
            if left.is_zero() || self.shared.stop.load(Ordering::Acquire) {
                return;
            }
            thread::park_timeout(left);
        }
    }

    /// Has everything become durable that was committed before, or begins to.
    fn write_group<D: Disk>(&mut self, writer: &mut LogWriter<D>) -> Result<()> {
        if self.is_pending {
            self.append(writer, writer.durable().epoch)?;
        }
        let begun = self.shared.begin_group();
        let taken = self.take_group(writer, begun);
        let group = taken.inspect_err(|_| self.shared.forget_group(begun))?;
        self.groups.push(group);
        self.end_groups(writer, false)?;
        // Its epoch counts although it may have no batch of its own.
        if let Some(last) = self.groups.last() {
            self.shared.waiters.note_under_way(last.epoch);
        }
        Ok(())
    }

    /// Takes a group out of the rings. It is durable when this returns, or under way.
    fn take_group<D: Disk>(
        &mut self,
        writer: &mut LogWriter<D>,
        begun: GroupBegun,
    ) -> Result<Group> {
        let segment = writer.segment();
        let epoch = self.feed.begin_group();
        self.pace.begin(self.feed.filled());
        let mut is_begun = false;
        while !self.feed.take(&self.shared.stop)? {
            self.finish(writer)?;
            self.append(writer, writer.durable().epoch)?;
            is_begun = true;
        }
        // A group of nothing needs no batch, if what is durable has all its commits, and if no
        // checkpoint waits for it: the log must say that the checkpoint's end was durable.
        let before = writer.submitted_epoch();
        let is_idle = !is_begun
            && self.feed.count == 0
            && !self.feed.is_ahead_of(before)
            && !self.checkpoints.waits_between(before, epoch);
        let (sequence, submitted) = match is_idle {
            true => (self.last_sequence(writer), None),
            false => self.write(writer, epoch)?,
        };
        Ok(Group {
            taken: self.feed.set_aside(),
            epoch,
            begun,
            origin: Origin {
                begun: begun.at,
                epoch,
                segment,
                log: writer.log(),
                run: writer.run(),
            },
            sequence,
            submitted,
            is_idle,
        })
    }

    /// The last batch, though it may be under way.
    fn last_sequence<D: Disk>(&self, writer: &LogWriter<D>) -> u64 {
        let last = self.groups.last();
        last.map_or(writer.durable().sequence, |group| group.sequence)
    }

    /// Writes the rest of a group: the batch that completes it, which may be under way.
    fn write<D: Disk>(
        &mut self,
        writer: &mut LogWriter<D>,
        epoch: u64,
    ) -> Result<(u64, Option<Submitted>)> {
        let is_wanted = self.shared.waiters.is_wanted();
        if is_wanted && self.groups.overlap() && self.feed.records.len() <= SUBMIT_BYTES {
            let submitted = Submitted {
                at: Instant::now(),
                overlaps: !self.groups.is_empty(),
            };
            if let Some(sequence) = writer.submit(batch(&self.feed, epoch))? {
                return Ok((sequence, Some(submitted)));
            }
        }
        self.finish(writer)?;
        self.append(writer, epoch)?;
        Ok((writer.durable().sequence, None))
    }

    /// Waits until no group is under way.
    fn finish<D: Disk>(&mut self, writer: &mut LogWriter<D>) -> Result<()> {
        while !self.groups.is_empty() {
            self.end_groups(writer, true)?;
        }
        Ok(())
    }

    /// Ends the groups that are durable. If it `waits`, for one at least, if there is one.
    fn end_groups<D: Disk>(&mut self, writer: &mut LogWriter<D>, waits: bool) -> Result<()> {
        let mut waits = waits;
        loop {
            let ended = writer.complete(waits);
            if let Err(error) = ended {
                if matches!(error, LogError::Full { .. }) {
                    self.take_back();
                }
                return Err(error.into());
            }
            while let Some(group) = self.groups.pop_durable(writer.durable().sequence) {
                self.end_group(writer, group)?;
            }
            // Behind what is durable may be what has found no space.
            if ended.is_ok_and(|durable| durable.is_none()) {
                return Ok(());
            }
            waits = false;
        }
    }

    /// There was no space for the groups that were under way: they are written again.
    fn take_back(&mut self) {
        let groups: Vec<Group> = self.groups.drain().collect();
        for group in &groups {
            self.shared.forget_group(group.begun);
        }
        self.feed
            .take_back(groups.into_iter().map(|group| group.taken));
        self.is_pending = true;
    }

    /// A group is durable, and all before it.
    fn end_group<D: Disk>(&mut self, writer: &mut LogWriter<D>, group: Group) -> Result<()> {
        let size = group.taken.size();
        self.feed.give_up_taken(group.taken, group.sequence)?;
        if let Some(Submitted { at, overlaps }) = group.submitted {
            self.note_flush(size, at.elapsed(), overlaps);
        }
        self.feed.note_durable(group.epoch);
        self.shared
            .end_group(group.begun, group.epoch, group.is_idle);
        if group.is_idle && self.groups.is_empty() {
            // Who follows the log sees its last group when something says that it is durable.
            unless_full(writer.confirm(wall()))?;
        }
        self.checkpoints.serve(writer, group.origin);
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
        writer.append(batch(&self.feed, epoch))?;
        self.is_pending = false;
        let size = (self.feed.count, self.feed.records.len());
        self.note_flush(size, begun.elapsed(), false);
        self.feed.give_up(writer.durable().sequence)
    }

    /// Of so many records, and bytes of them.
    fn note_flush(&mut self, (count, bytes): (u32, usize), time: Duration, overlapped: bool) {
        self.groups.note_flush(time);
        self.shared.flushed(count, bytes, time, overlapped);
        self.checkpoints.note(count, bytes);
    }
}

/// What was taken.
fn batch(feed: &Feed, epoch: u64) -> Batch<'_> {
    Batch {
        epoch,
        positions: feed.positions(),
        wall: wall(),
        records: &feed.records,
        record_count: feed.count,
    }
}

/// If there is no space yet, the group that needs it will say so.
fn unless_full(result: Result<(), LogError>) -> Result<()> {
    match result {
        Err(LogError::Full { .. }) => Ok(()),
        result => Ok(result?),
    }
}
