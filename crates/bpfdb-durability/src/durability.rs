//! An engine's log as its owner has it: started, asked, ended.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use bpfdb::Engine;
use bpfdb_log::{Disk, LogError, Start};

use crate::checkpoint::{
    CheckpointOptions, CheckpointStatus, Checkpoints, LogEnds, RetentionOptions, RetentionStatus,
};
use crate::error::{Error, Result};
use crate::feed::Feed;
use crate::groups::Groups;
use crate::home::{check_rings, check_time, check_unwritten, is_unwritten, known_end};
use crate::opening::Opening;
use crate::pace::{Pace, WRITER_NICE, prefer_this_thread};
use crate::restore::{RecoveryProgress, Restored, restore};
use crate::shared::{Figures, Shared, State};
use crate::writer::{TellsOfPanic, Writer};

/// What a batch has besides its records, at most: its header with the rings' positions.
const BATCH_HEADER_MAX: u64 = 4096;

/// Between two looks of a caller that waits for what is durable.
const SETTLING: Duration = Duration::from_millis(1);

/// How a log is written.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Between two flushes: what a loss of power may take, and the time of a flush.
    pub interval: Duration,
    /// After so long without a group that became durable the engine is read-only, until one
    /// has: what a loss of power may take if the disk is slow.
    pub exposure: Duration,
    /// Groups that may be under way to the disk at once, if callers wait for them; 1: one after the
    /// other.
    pub flushes: usize,
    /// Between the beginnings of two such groups, at least: a flush that takes less has no other
    /// beside it. A group costs processor time however small it is.
    pub flush_spacing: Duration,
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
            flushes: 4,
            flush_spacing: Duration::from_micros(200),
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

/// Rows that nothing reaches are kept all the same: another engine of this log may have their table.
fn warn_of_undeclared_tables(engine: &Engine) -> Result<()> {
    let tables = engine.undeclared_tables()?;
    if !tables.is_empty() {
        tracing::warn!(
            ?tables,
            "the log has rows of ordered tables that this engine was not created with"
        );
    }
    Ok(())
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
        D::File: Send + Sync + 'static,
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
        D::File: Send + Sync + 'static,
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
                warn_of_undeclared_tables(engine)?;
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
        D::File: Send + Sync + 'static,
    {
        let mut writer = Writer {
            feed,
            shared: Arc::clone(&shared),
            groups: Groups::new(options.flushes, options.flush_spacing),
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
