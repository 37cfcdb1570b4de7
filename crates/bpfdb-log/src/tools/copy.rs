//! Makes a new log of an old one, up to a point in time.
//!
//! # Rules
//!
//! 1. The old log is only read.
//! 2. The new one has an identity of its own: an engine's memory that belongs to the old one is
//!    not taken for a part of it, although both have the same past.
//! 3. It has exactly the commits of the old one up to the point, with their timestamps; and the
//!    wall clocks of their epochs, of which those within a second of the first may become one.
//!    If the old one begins with a checkpoint, the new one begins with what that has, as commits with
//!    timestamps up to its start; then no point before its end can be had, and the new control file
//!    says so. Of those that are retained it is the latest sound one from which the point can be had.
//! 4. It ends with the last epoch that is complete: that of the old one's last batch, or the end of
//!    its checkpoint, which is later if nothing was written since.
//! 5. It is of the old log as one reading of its control file says. If the owner gives up meanwhile
//!    what that names, there is no copy, and the caller may try again ([`LogError::GivenUp`]).
//! 6. It is closed when it has all of them, and not before. A crash leaves it without the mark.

use crate::disk::Disk;
use crate::error::{LogError, Result};
use crate::format::checkpoint::{CheckpointReader, Contents, Mark};
use crate::format::control::Control;
use crate::format::form::ValueType;
use crate::format::layout::LogId;
use crate::format::moment::Moment;
use crate::format::record::{Entry, Part, Value, encode_commit, encode_part};
use crate::read::reader::read_control;
use crate::read::recovered::{LargeValue, RecoveredCommit};
use crate::read::recovery::{LogEnd, Recovery};
use crate::read::retained::Beginnings;
use crate::read::until::Until;
use crate::write::writer::{Batch, LogWriter, Options, Start};

/// Records that are gathered for a group, in bytes.
const GROUP_BYTES: usize = 1 << 20;

/// An epoch is kept apart from one that is so much later or earlier, in nanoseconds.
const GROUP_TIME: u64 = 1_000_000_000;

/// What a copy has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    pub commits: u64,
    pub writes: u64,
    /// Bytes of records.
    pub bytes: u64,
    /// Where it ends.
    pub moment: Moment,
}

/// Copies the log of `from` to `to`, which has none. `None`: all of it. Calls `tell` now and then.
///
/// # Errors
/// [`LogError::Refused`] if there is no log, or one in the new directory;
/// [`LogError::TooEarly`] if the point is before the end of the oldest checkpoint that is retained;
/// those of reading and writing.
pub fn copy_until<S: Disk, T: Disk>(
    from: &S,
    to: &T,
    until: Option<Until>,
    options: Options,
    tell: impl FnMut(&Copied),
) -> Result<Copied> {
    let control = read_control(from)?;
    let control = control.ok_or_else(|| LogError::Refused("there is no log to copy".into()))?;
    if read_control(to)?.is_some() {
        return Err(LogError::Refused("the new directory has a log".into()));
    }
    // The log as if the checkpoint counted with which the copy begins.
    let chosen = choose(from, &control, until);
    let (control, until) = chosen.map_err(|error| explain(from, &control, error))?;
    let explained = |error| explain(from, &control, error);
    let recovery = begin(from, &control, until).map_err(explained)?;
    let mut writer = LogWriter::open(to.clone(), &LogEnd::default(), Start::NewRun, 0, options)?;
    // A copy makes no checkpoints.
    writer.use_reserve();
    let copied = Copy::new(writer, options).fill(from, &control, recovery, tell);
    copied.map_err(explained)
}

/// The latest sound beginning from which the point can be had, and its timestamp.
fn choose<S: Disk>(
    from: &S,
    control: &Control,
    until: Option<Until>,
) -> Result<(Control, Option<u64>)> {
    let mut beginnings = Beginnings::find(from, control)?;
    let Some(oldest) = beginnings.list.first().copied() else {
        return Err(beginnings
            .damaged
            .pop()
            .map_or_else(gone, LogError::Corrupt));
    };
    let timestamp = match until {
        Some(until) => Some(until.timestamp_among(from, control, &beginnings)?),
        None => None,
    };
    let mut damage = None;
    for beginning in beginnings.for_timestamp(timestamp.unwrap_or(u64::MAX)) {
        match beginning.verify(from, control) {
            Ok(()) => return Ok((beginning.view(control), timestamp)),
            Err(error) => {
                let corrupt = error.damage()?;
                tracing::warn!(%corrupt, "a checkpoint is damaged: looking for an older one");
                damage.get_or_insert(corrupt);
            }
        }
    }
    Err(damage.map_or(LogError::TooEarly(oldest.earliest), LogError::Corrupt))
}

fn gone() -> LogError {
    LogError::Gone {
        timestamp: 1,
        complete_after: None,
    }
}

/// The commits that come behind the checkpoint, if there is one.
fn begin<S: Disk>(from: &S, control: &Control, until: Option<u64>) -> Result<Recovery<S>> {
    let mark = control.needed_checkpoint();
    if control.first_needed > 1 && mark.is_none() {
        return Err(gone());
    }
    let mut recovery = Recovery::of(from.clone(), Some(*control), 0, until);
    recovery.skip_up_to(mark.map_or(0, |mark| mark.start));
    Ok(recovery)
}

/// What looks like damage is none if the owner has given up meanwhile what was to be copied.
fn explain<S: Disk>(from: &S, control: &Control, error: LogError) -> LogError {
    let is_given_up = || {
        let now = read_control(from).ok().flatten();
        now.is_some_and(|now| !is_there(from, &now, control))
    };
    match error {
        LogError::Corrupt(_) if is_given_up() => LogError::GivenUp,
        error => error,
    }
}

/// Whether the owner has kept what this view begins with.
fn is_there<S: Disk>(from: &S, now: &Control, view: &Control) -> bool {
    let is_same = now.first_needed == view.first_needed && now.checkpoint == view.checkpoint;
    let is_retained = || Beginnings::find(from, now).is_ok_and(|beginnings| beginnings.has(view));
    is_same || is_retained()
}

/// A large value of a checkpoint, whose bytes follow.
struct PromisedValue {
    key: Vec<u8>,
    kind: ValueType,
    expires: Option<u64>,
    len: u64,
    come: u64,
}

impl PromisedValue {
    fn of(entry: &Entry<'_>) -> Option<Self> {
        let Value::Large { kind, len, .. } = entry.value else {
            return None;
        };
        Some(Self {
            key: entry.key.to_vec(),
            kind,
            expires: entry.expires,
            len,
            come: 0,
        })
    }
}

struct Copy<D: Disk> {
    writer: LogWriter<D>,
    records: Vec<u8>,
    record_count: u32,
    /// Timestamp and wall clock of the last commit.
    last: Moment,
    /// Wall clock of the first commit behind the last epoch that was closed; `None`: there is none.
    group_wall: Option<u64>,
    /// The timestamp of the checkpoint's start; 0: there is none.
    last_of_checkpoint: u64,
    /// All commits up to this one are in the checkpoint, or come.
    complete: Moment,
    next_id: u64,
    part_max: usize,
    done: Copied,
}

impl<D: Disk> Copy<D> {
    fn new(writer: LogWriter<D>, options: Options) -> Self {
        // A part fits into a batch with its header, and that of the batch.
        let part_max = (options.batch_size / 2).min(GROUP_BYTES as u64) as usize;
        Self {
            writer,
            records: Vec::new(),
            record_count: 0,
            last: Moment::default(),
            group_wall: None,
            last_of_checkpoint: 0,
            complete: Moment::default(),
            next_id: 1,
            part_max,
            done: Copied::default(),
        }
    }

    fn fill<S: Disk>(
        mut self,
        from: &S,
        control: &Control,
        mut recovery: Recovery<S>,
        mut tell: impl FnMut(&Copied),
    ) -> Result<Copied> {
        if let Some(mark) = control.needed_checkpoint() {
            self.add_checkpoint(from, control.log, mark)?;
            tell(&self.done);
        } else if control.complete_from != Moment::default() {
            // A copy of a copy.
            self.writer.begin_at(control.complete_from)?;
        }
        for commit in recovery.by_ref() {
            self.add(&commit?, from)?;
            tell(&self.done);
        }
        self.finish(recovery.moment())
    }

    /// Each entry becomes a commit. Those of the first group have timestamp 1, and each further group
    /// the next, as far as the checkpoint's start: so a reader of the copy can let go of a group
    /// when its epoch is over, and need not hold all of them.
    fn add_checkpoint<S: Disk>(&mut self, from: &S, log: LogId, mark: Mark) -> Result<()> {
        // It was verified when it was chosen.
        let mut reader = CheckpointReader::open(from, log, mark)?;
        self.last = Moment {
            epoch: mark.start.min(1),
            wall: reader.header().wall,
        };
        self.last_of_checkpoint = mark.start;
        self.complete = Moment {
            epoch: mark.end,
            wall: reader.footer().wall,
        };
        self.group_wall = Some(self.last.wall);
        self.writer.begin_at(self.complete)?;
        let mut large = None;
        while let Some(block) = reader.next_block()? {
            match block.contents()? {
                Contents::Entries(entries, _) => {
                    for entry in entries {
                        self.add_entry(&entry.map_err(|why| block.corrupt(why))?)?;
                    }
                }
                Contents::Large(entry) => large = PromisedValue::of(&entry),
                Contents::LargeBytes(bytes) => self.add_promised(&mut large, bytes)?,
            }
        }
        self.last.epoch = mark.start;
        Ok(())
    }

    fn add_entry(&mut self, entry: &Entry<'_>) -> Result<()> {
        encode_commit(self.last.epoch, &[*entry], &mut self.records);
        self.record_count += 1;
        self.done.commits += 1;
        self.done.writes += 1;
        if self.records.len() < GROUP_BYTES {
            return Ok(());
        }
        if self.last.epoch == self.last_of_checkpoint {
            return self.append_open();
        }
        self.append(self.last)?;
        self.last.epoch += 1;
        Ok(())
    }

    /// Bytes of a large value; with the last of them comes its entry.
    fn add_promised(&mut self, large: &mut Option<PromisedValue>, bytes: &[u8]) -> Result<()> {
        let Some(value) = large else {
            return Ok(());
        };
        let id = self.next_id;
        for bytes in bytes.chunks(self.part_max) {
            let offset = value.come;
            encode_part(&Part { id, offset, bytes }, &mut self.records);
            self.record_count += 1;
            value.come += bytes.len() as u64;
            if self.records.len() >= GROUP_BYTES {
                self.append_open()?;
            }
        }
        if value.come == value.len {
            self.next_id += 1;
            let entry = Entry {
                key: &value.key,
                value: Value::Large {
                    kind: value.kind,
                    id,
                    len: value.len,
                },
                expires: value.expires,
            };
            self.add_entry(&entry)?;
        }
        Ok(())
    }

    /// A part of the group that is being gathered: more of its epoch follows.
    fn append_open(&mut self) -> Result<()> {
        self.append(Moment {
            epoch: self.writer.durable().epoch,
            wall: self.last.wall,
        })
    }

    fn add<S: Disk>(&mut self, commit: &RecoveredCommit, from: &S) -> Result<()> {
        let is_later = commit.timestamp > self.last.epoch;
        let is_far = |first: u64| commit.wall.abs_diff(first) >= GROUP_TIME;
        let is_over = self.group_wall.is_some_and(is_far) || self.records.len() >= GROUP_BYTES;
        if is_later && is_over {
            // All commits up to the last one are there.
            self.append(self.last)?;
            self.group_wall = None;
        }
        self.group_wall.get_or_insert(commit.wall);
        self.last = Moment {
            epoch: commit.timestamp,
            wall: commit.wall,
        };
        let first_id = self.next_id;
        for value in &commit.large_values {
            self.add_large(value, from)?;
        }
        self.add_commit(commit, first_id)?;
        self.done.commits += 1;
        Ok(())
    }

    /// A large value is not gathered: a part of the group is written whenever there is enough.
    fn add_large<S: Disk>(&mut self, value: &LargeValue, from: &S) -> Result<()> {
        let (id, mut offset, mut written) = (self.next_id, 0, Ok(()));
        self.next_id += 1;
        value.read(from, |bytes| {
            for bytes in bytes.chunks(self.part_max) {
                encode_part(&Part { id, offset, bytes }, &mut self.records);
                self.record_count += 1;
                offset += bytes.len() as u64;
                if self.records.len() >= GROUP_BYTES && written.is_ok() {
                    written = self.append_open();
                }
            }
        })?;
        written
    }

    fn add_commit(&mut self, commit: &RecoveredCommit, mut id: u64) -> Result<()> {
        let mut entries = Vec::new();
        for entry in commit.entries() {
            let mut entry: Entry<'_> =
                entry.map_err(|why| LogError::Refused(format!("a commit's entry: {why}")))?;
            if let Value::Large { id: own, .. } = &mut entry.value {
                *own = id;
                id += 1;
            }
            entries.push(entry);
        }
        self.done.writes += entries.len() as u64;
        encode_commit(commit.timestamp, &entries, &mut self.records);
        self.record_count += 1;
        Ok(())
    }

    fn append(&mut self, moment: Moment) -> Result<()> {
        self.writer.append(Batch {
            epoch: moment.epoch,
            positions: &[],
            wall: moment.wall,
            records: &self.records,
            record_count: self.record_count,
        })?;
        self.done.bytes += self.records.len() as u64;
        self.records.clear();
        self.record_count = 0;
        Ok(())
    }

    /// `moment`: the last epoch of the old log that is complete, as its batches say.
    fn finish(mut self, mut moment: Moment) -> Result<Copied> {
        if moment.epoch < self.complete.epoch {
            moment = self.complete;
        }
        // What is gathered may be of a much earlier time than that of the last epoch, which has nothing
        // that counts: a point in time in the copy would be without it.
        let is_far = |first: u64| moment.wall.abs_diff(first) >= GROUP_TIME;
        let is_open = self.record_count > 0 || self.last.epoch > self.writer.durable().epoch;
        if is_open && self.last.epoch < moment.epoch && self.group_wall.is_some_and(is_far) {
            self.append(self.last)?;
        }
        if moment.epoch > self.writer.durable().epoch || self.record_count > 0 {
            self.append(moment)?;
        }
        self.writer.close()?;
        self.done.moment = moment;
        Ok(self.done)
    }
}
