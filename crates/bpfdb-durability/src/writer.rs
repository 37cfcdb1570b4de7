//! The thread that writes the log.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use bpfdb::Engine;
use bpfdb_log::{Batch, Disk, LogError, LogWriter, Start};

use crate::checkpoint::{
    self, CheckpointOptions, CheckpointStatus, Checkpoints, LogEnds, Origin, RetentionOptions,
    RetentionStatus,
};
use crate::error::{Error, Result};
use crate::feed::Feed;
use crate::home::{check_rings, check_time, check_unwritten, is_unwritten, known_end};
use crate::opening::Opening;
use crate::pace::{Pace, WRITER_NICE, prefer_this_thread};
use crate::restore::{RecoveryProgress, Restored, restore};
use crate::shared::{Figures, Shared, State};
use crate::wall::wall;

/// What a batch has besides its records, at most: its header with the rings' positions.
const BATCH_HEADER_MAX: u64 = 4096;

/// How a log is written.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Between two flushes: what a loss of power may take, and the time of a flush.
    pub interval: Duration,
    /// After so long without a group that became durable the engine is read-only, until one
    /// has: what a loss of power may take if the disk is slow.
    pub exposure: Duration,
    /// Sizes of the files.
    pub files: bpfdb_log::Options,
    /// When checkpoints are made.
    pub checkpoints: CheckpointOptions,
    /// What is retained of the log before them.
    pub retention: RetentionOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(20),
            exposure: Duration::from_secs(1),
            files: bpfdb_log::Options::default(),
            checkpoints: CheckpointOptions::default(),
            retention: RetentionOptions::default(),
        }
    }
}

/// An engine's log, written by a thread of its own until this is dropped.
#[derive(Debug)]
pub struct Durability {
    /// First, so that no checkpoint waits for a log that has ended.
    checkpoints: Option<Checkpoints>,
    shared: Arc<Shared>,
    restored: Restored,
    writer: Thread,
    threads: Vec<JoinHandle<()>>,
}

impl Durability {
    /// Gives the engine what the log on `disk` has, unless it has that already, and writes
    /// its log there from now on. An engine that has data of its own must belong to this
    /// log. Before this has returned the engine must not be used.
    ///
    /// # Errors
    /// [`Error::NoLog`], [`Error::Stranger`], [`Error::Refused`]; and whatever reading and
    /// writing the files says.
    pub fn start<D>(engine: &Engine, disk: D, options: Options) -> Result<(Self, Restored)>
    where
        D: Disk + Send + 'static,
        D::File: Send,
    {
        Self::start_telling(engine, disk, options, |_| ControlFlow::Continue(()))
    }

    /// The same. `tell` is called now and then while recovery goes on, which it may end: then
    /// the files are as they were, and the engine has some of what they have.
    ///
    /// # Errors
    /// As above, and [`Error::Stopped`].
    pub fn start_telling<D>(
        engine: &Engine,
        disk: D,
        options: Options,
        mut tell: impl FnMut(RecoveryProgress) -> ControlFlow<()>,
    ) -> Result<(Self, Restored)>
    where
        D: Disk + Send + 'static,
        D::File: Send,
    {
        let log = engine.log()?.ok_or(Error::NoLog)?;
        if log.record_bytes_max() > options.files.batch_size.saturating_sub(BATCH_HEADER_MAX) {
            return Err(Error::Sizes {
                record: log.record_bytes_max(),
                batch: options.files.batch_size,
            });
        }
        let (restored, end, start) = match log.home() {
            None => {
                check_unwritten(&log, &disk)?;
                let (restored, end) =
                    restore(engine, &disk, options.files.segment_size, &mut tell)?;
                check_time(&end)?;
                log.pass(end.greatest_timestamp);
                (restored, end, Start::NewRun)
            }
            Some(home) => {
                let end = known_end(&disk, &home)?;
                check_rings(&log, &end)?;
                (Restored::default(), end, Start::SameRun)
            }
        };
        let (taken, latest): (&[u64], u64) = match start {
            Start::NewRun => (&[], 0),
            // Of what is before the end of the log nothing is known but that it is not later than now.
            Start::SameRun => (&end.positions, engine.now()),
        };
        let mut opening = Opening::new(disk.clone(), end.clone(), start, options.files);
        let shared = Arc::new(Shared::new(
            opening.durable(),
            log.gate()?,
            options.exposure,
        ));
        let feed = Feed::new(log, taken, latest);
        match opening.try_open(&feed, &shared) {
            // The thread tries again. Until then the engine is read-only.
            Err(Error::Log(error @ LogError::Full { .. })) => {
                tracing::warn!(%error, "the log cannot be begun yet: the engine is read-only");
                shared.set_state(State::Full(error.to_string()));
            }
            opened => opened?,
        }
        let retention = (options.retention, options.files.segment_size);
        let is_open = opening.is_open();
        let checkpoints = Checkpoints::start(
            engine,
            disk,
            (&end, is_open),
            options.checkpoints,
            retention,
        )?;
        let mut durability = Self::spawn(feed, opening, checkpoints, shared, options)?;
        durability.restored = restored;
        durability.shared.begin();
        Ok((durability, restored))
    }

    fn spawn<D>(
        feed: Feed,
        opening: Opening<D>,
        checkpoints: Checkpoints,
        shared: Arc<Shared>,
        options: Options,
    ) -> Result<Self>
    where
        D: Disk + Send + 'static,
        D::File: Send,
    {
        let mut writer = Writer {
            feed,
            shared: Arc::clone(&shared),
            flush_time: Duration::ZERO,
            pace: Pace::new(),
            is_pending: false,
            checkpoints: Arc::clone(&checkpoints.shared),
            prepares_from: None,
        };
        let spawned = thread::Builder::new()
            .name("bpfdb-log".into())
            .spawn(move || {
                let _told = TellsOfPanic(Arc::clone(&writer.shared));
                let _over = LogEnds(Arc::clone(&writer.checkpoints));
                prefer_this_thread(WRITER_NICE);
                writer.run(opening, options.interval);
            })
            .map_err(Error::Thread)?;
        let mut durability = Self {
            checkpoints: Some(checkpoints),
            writer: spawned.thread().clone(),
            threads: vec![spawned],
            restored: Restored::default(),
            shared,
        };
        durability.spawn_watch()?;
        Ok(durability)
    }

    /// The writer itself cannot say that it waits for the disk.
    fn spawn_watch(&mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let watch = move || {
            while !shared.stop.load(Ordering::Acquire) {
                shared.look();
                thread::park_timeout(shared.most() / 8);
            }
        };
        let spawned = thread::Builder::new()
            .name("bpfdb-log-watch".into())
            .spawn(watch)
            .map_err(Error::Thread)?;
        self.threads.push(spawned);
        Ok(())
    }

    /// What the engine got from the files when this was started.
    pub fn restored(&self) -> Restored {
        self.restored
    }

    /// All commits with a timestamp up to this are durable.
    pub fn durable(&self) -> u64 {
        self.shared.waiters.durable()
    }

    /// Has a checkpoint made, and does not wait for it: the number of the attempt, to be compared
    /// with [`CheckpointStatus::attempts`]. It has all that was committed before this was called;
    /// while the disk is full, it begins with what is durable and counts when all that is.
    ///
    /// # Errors
    /// [`Error::Checkpointing`].
    pub fn checkpoint(&self) -> Result<u64> {
        let checkpoints = self.checkpoints.as_ref();
        let number = checkpoints.and_then(|checkpoints| checkpoints.shared.request());
        let number = number.ok_or(Error::Checkpointing)?;
        self.begin_group_soon();
        Ok(number)
    }

    /// The same; while one is being made, another one follows.
    pub fn schedule_checkpoint(&self) -> u64 {
        let checkpoints = self.checkpoints.as_ref();
        let number = checkpoints.map_or(0, |checkpoints| checkpoints.shared.schedule());
        self.begin_group_soon();
        number
    }

    /// A checkpoint that was asked for starts with a group that begins after that. Without this it
    /// would wait for the next one, a whole interval if there are no synchronous commits.
    fn begin_group_soon(&self) {
        self.writer.unpark();
    }

    /// Waits until that attempt is over.
    ///
    /// # Errors
    /// [`Error::NoCheckpoint`].
    pub fn await_checkpoint(&self, number: u64) -> Result<()> {
        let over = self.checkpoints.as_ref();
        let over = over.map_or(Ok(()), |checkpoints| {
            checkpoints.shared.await_attempt(number)
        });
        over.map_err(Error::NoCheckpoint)
    }

    pub fn checkpoint_status(&self) -> CheckpointStatus {
        let checkpoints = self.checkpoints.as_ref();
        checkpoints.map_or_else(CheckpointStatus::default, |checkpoints| {
            checkpoints.shared.status()
        })
    }

    /// What is retained for recovery to an earlier time.
    pub fn retention_status(&self) -> RetentionStatus {
        let checkpoints = self.checkpoints.as_ref();
        checkpoints.map_or_else(RetentionStatus::default, |checkpoints| {
            checkpoints.shared.retention_status()
        })
    }

    /// From now on so much is. What is given up by that goes soon, a bit at a time.
    pub fn set_retention(&self, options: RetentionOptions) {
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.shared.set_retention(options);
        }
    }

    pub fn state(&self) -> State {
        self.shared.state()
    }

    pub fn figures(&self) -> Figures {
        self.shared.figures()
    }

    /// Has everything become durable soon that has a timestamp up to this, for `waiters` that
    /// wait and have not said so before. Does not wait: [`Durability::on_change`] has a
    /// function called then.
    pub fn want(&self, timestamp: u64, waiters: u32) {
        if self.shared.waiters.want(timestamp, waiters) {
            self.writer.unpark();
        }
    }

    /// Makes the engine read-only for all its users, until another owner starts its log:
    /// before the end of an engine that will not be kept. Every commit that was acknowledged, of
    /// processes that are attached too, is durable then when the log has ended.
    ///
    /// # Errors
    /// The kernel did not wait for the programs that were running.
    pub fn seal(&self, engine: &Engine) -> Result<()> {
        self.shared.seal();
        engine.wait_for_readers()?;
        Ok(())
    }

    /// Ends the log, as dropping it does. Everything that was committed before is durable.
    ///
    /// # Errors
    /// The state, if it is not: then only the engine's memory has some of it.
    pub fn close(mut self) -> Result<(), State> {
        self.end();
        match self.state() {
            State::Writing => Ok(()),
            _ if self.shared.is_all_in_files() => Ok(()),
            state => Err(state),
        }
    }

    /// Whether the engine was made with a log that was never opened: no run has begun, so it has
    /// nothing that no file has. To be dropped, and recovered.
    ///
    /// # Errors
    /// The rings cannot be mapped.
    pub fn is_unbegun(engine: &Engine) -> Result<bool> {
        let Some(log) = engine.log()? else {
            return Ok(false);
        };
        Ok(log.home().is_none() && is_unwritten(&log))
    }

    fn end(&mut self) {
        // Before the log ends, for which a checkpoint may wait.
        self.checkpoints = None;
        self.shared.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // It has said why, if it panicked.
            let _ = thread.join();
        }
        self.shared.note_closed();
    }

    /// Waits until everything is durable that has a timestamp up to this.
    ///
    /// # Errors
    /// The state, if nothing becomes durable in it: then the engine has what the files have not.
    pub fn settle(&self, timestamp: u64) -> Result<(), State> {
        self.want(timestamp, 1);
        while self.durable() < timestamp {
            let state = self.state();
            if matches!(state, State::Full(_) | State::Failed(_)) {
                return Err(state);
            }
            thread::sleep(SETTLING);
        }
        Ok(())
    }

    /// From now on `call` is called when something has become durable that was
    /// [wanted](Durability::want), and when the state is another one; by a thread that must
    /// not be held up. False: there is one already.
    pub fn on_change(&self, call: impl Fn() + Send + Sync + 'static) -> bool {
        self.shared.on_change(Box::new(call))
    }
}

/// Everything that was committed before is durable when this has returned, unless the log has
/// failed.
impl Drop for Durability {
    fn drop(&mut self) {
        self.end();
    }
}

/// Bytes of the next segment that are written after each group, or as many as the group has.
const PREPARED_BYTES: u64 = 1 << 20;

/// A group waits for those that may join it for this part of a flush at most.
const GATHER_SHARE: u32 = 2;
/// And at most this.
const GATHER_MOST: Duration = Duration::from_millis(20);

/// Between two looks of a caller that waits for what is durable.
const SETTLING: Duration = Duration::from_millis(1);

/// Between attempts on a disk that is full.
const FULL_PAUSE: Duration = Duration::from_millis(100);

/// Between attempts to prepare the next segment on such a disk, while there is room in this one.
const PREPARE_PAUSE: Duration = Duration::from_secs(1);

/// A thread that panics says so in the state.
struct TellsOfPanic(Arc<Shared>);

impl Drop for TellsOfPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0
                .set_state(State::Failed("its thread has panicked".into()));
        }
    }
}

struct Writer {
    feed: Feed,
    shared: Arc<Shared>,
    /// Of a write with its flush, lately.
    flush_time: Duration,
    pace: Pace,
    /// Whether the feed has a part that is not durable yet.
    is_pending: bool,
    checkpoints: Arc<checkpoint::Shared>,
    /// There was no space for the next segment, and it is not tried before.
    prepares_from: Option<Instant>,
}

impl Writer {
    fn run<D: Disk>(&mut self, opening: Opening<D>, interval: Duration) {
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
