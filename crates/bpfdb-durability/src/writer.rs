//! The thread that writes the log.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bpfdb::Engine;
use bpfdb_log::{Batch, Disk, LogEnd, LogError, LogWriter, Recovery, Start};

use crate::error::{Error, Result};
use crate::feed::Feed;
use crate::restore::{Restored, restore};

/// What a batch has besides its records, at most: its header with the rings' positions.
const BATCH_HEADER_MAX: u64 = 4096;

/// How a log is written.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Between two flushes: what a loss of power may take, and the time of a flush.
    pub interval: Duration,
    /// Sizes of the files.
    pub files: bpfdb_log::Options,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(20),
            files: bpfdb_log::Options::default(),
        }
    }
}

/// How the log does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Writing,
    /// The disk is full: nothing is durable since, and writes end in `LOG_FULL` when the
    /// rings are full too. It heals when there is space.
    Full(String),
    /// A write or flush has failed: nothing will be durable again, and writes end in
    /// `LOG_FULL` when the rings are full.
    Failed(String),
}

#[derive(Debug)]
struct Shared {
    durable: AtomicU64,
    state: Mutex<State>,
    stop: AtomicBool,
}

/// An engine's log, written by a thread of its own until this is dropped.
#[derive(Debug)]
pub struct Durability {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Durability {
    /// Gives the engine what the log on `disk` has, unless it has that already, and writes
    /// its log there from now on. An engine that has data of its own must belong to this
    /// log. Before this has returned nobody else uses the engine.
    ///
    /// # Errors
    /// [`Error::NoLog`], [`Error::Stranger`], [`Error::Refused`]; and whatever reading and
    /// writing the files says.
    pub fn start<D>(engine: &Engine, disk: D, options: Options) -> Result<(Self, Restored)>
    where
        D: Disk + Send + 'static,
        D::File: Send,
    {
        let log = engine.log()?.ok_or(Error::NoLog)?;
        if log.record_bytes_max() > options.files.batch_size - BATCH_HEADER_MAX {
            return Err(Error::Sizes {
                record: log.record_bytes_max(),
                batch: options.files.batch_size,
            });
        }
        let (restored, end, start) = match log.home() {
            None => {
                let (restored, end) = restore(engine, &disk)?;
                log.pass(end.greatest_timestamp);
                (restored, end, Start::NewRun)
            }
            Some(home) => (Restored::default(), known_end(&disk, home)?, Start::SameRun),
        };
        let writer = LogWriter::open(disk, &end, start, wall(), options.files)?;
        log.set_home(writer.log().0, writer.run());
        let (taken, latest): (&[u64], u64) = match start {
            Start::NewRun => (&[], 0),
            Start::SameRun => (&end.positions, end.greatest_timestamp),
        };
        let feed = Feed::new(log, taken, latest);
        Ok((Self::spawn(feed, writer, options.interval)?, restored))
    }

    fn spawn<D>(feed: Feed, writer: LogWriter<D>, interval: Duration) -> Result<Self>
    where
        D: Disk + Send + 'static,
        D::File: Send,
    {
        let shared = Arc::new(Shared {
            durable: AtomicU64::new(writer.durable().epoch),
            state: Mutex::new(State::Writing),
            stop: AtomicBool::new(false),
        });
        let mut thread = Writer {
            feed,
            shared: Arc::clone(&shared),
            is_pending: false,
        };
        let spawned = thread::Builder::new()
            .name("bpfdb-log".into())
            .spawn(move || {
                let _told = TellsOfPanic(Arc::clone(&thread.shared));
                thread.run(writer, interval);
            });
        Ok(Self {
            shared,
            thread: Some(spawned.map_err(Error::Thread)?),
        })
    }

    /// All commits with a timestamp up to this are durable.
    pub fn durable(&self) -> u64 {
        self.shared.durable.load(Ordering::Acquire)
    }

    pub fn state(&self) -> State {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Everything that was committed before is durable when this has returned, unless the log has
/// failed.
impl Drop for Durability {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It has said why, if it panicked.
            let _ = thread.join();
        }
    }
}

/// The end of the log that this engine's memory is a run of.
fn known_end<D: Disk>(disk: &D, (id, run): ([u8; 16], u64)) -> Result<LogEnd> {
    let end = Recovery::new(disk.clone(), 0)?.finish()?;
    let Some(control) = end.control else {
        return Err(Error::Stranger("the directory has no log".into()));
    };
    if control.log.0 != id {
        return Err(Error::Stranger("it belongs to another one".into()));
    }
    let last = end.segment.map_or(0, |segment| segment.run);
    if last != run {
        let why = format!("it is run {run} of the log, whose last run is {last}");
        return Err(Error::Stranger(why));
    }
    Ok(end)
}

fn wall() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// Bytes of the next segment that are written after each group.
const PREPARED_BYTES: u64 = 1 << 20;

/// Between attempts on a disk that is full.
const FULL_PAUSE: Duration = Duration::from_millis(100);

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

impl Shared {
    fn set_state(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

struct Writer {
    feed: Feed,
    shared: Arc<Shared>,
    /// Whether the feed has a part that is not durable yet.
    is_pending: bool,
}

impl Writer {
    fn run<D: Disk>(&mut self, mut writer: LogWriter<D>, interval: Duration) {
        loop {
            // Before the group: what was committed before the order to stop is in it.
            let stops = self.shared.stop.load(Ordering::Acquire);
            let pause = match self.write_group(&mut writer) {
                Ok(()) => {
                    self.shared.set_state(State::Writing);
                    interval
                }
                Err(Error::Log(error @ LogError::Full { .. })) => {
                    self.shared.set_state(State::Full(error.to_string()));
                    FULL_PAUSE
                }
                Err(error) => {
                    tracing::error!(%error, "the log has ended: nothing is durable from now on");
                    self.shared.set_state(State::Failed(error.to_string()));
                    return;
                }
            };
            if stops {
                break;
            }
            thread::park_timeout(pause);
        }
        if let Err(error) = writer.close() {
            tracing::warn!(%error, "the log was not closed");
        }
    }

    /// Everything that was committed before becomes durable.
    fn write_group<D: Disk>(&mut self, writer: &mut LogWriter<D>) -> Result<()> {
        if self.is_pending {
            self.append(writer, writer.durable().epoch)?;
        }
        let epoch = self.feed.begin_group();
        let mut is_begun = false;
        while !self.feed.take()? {
            self.append(writer, writer.durable().epoch)?;
            is_begun = true;
        }
        // A group of nothing needs no batch, if what is durable has all its commits.
        if is_begun || self.feed.count > 0 || self.feed.is_ahead_of(writer.durable().epoch) {
            self.append(writer, epoch)?;
        } else {
            self.feed.give_up()?;
        }
        self.shared.durable.store(epoch, Ordering::Release);
        // The next segment, a bit at a time, so that no group waits for all of it.
        writer.prepare(PREPARED_BYTES)?;
        Ok(())
    }

    fn append<D: Disk>(&mut self, writer: &mut LogWriter<D>, epoch: u64) -> Result<()> {
        self.is_pending = true;
        writer.append(Batch {
            epoch,
            positions: self.feed.positions(),
            wall: wall(),
            records: &self.feed.records,
            record_count: self.feed.count,
        })?;
        self.is_pending = false;
        self.feed.give_up()
    }
}
