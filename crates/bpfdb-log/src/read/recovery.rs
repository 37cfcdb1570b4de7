//! Reads the log as what it means: the commits that count, in the order of their timestamps.
//!
//! ```text
//! batches    ──►  held            ──►  window           ──►  commits
//! (by file)       those of later       (previous epoch,      by timestamp
//!                 epochs               epoch]
//!                   │ end of the run: timestamp > end
//!                   └──► dropped: never acknowledged
//! ```
//!
//! A batch may hold commits of a later epoch than its own, because sessions go on while the
//! writer collects. They are held until a batch of that epoch comes. If the run ends before, they
//! are ghosts: no reply has said that they are durable, and other commits that they depend on may be
//! missing. They are dropped, and the cut of the next run says that they stay so.
//!
//! Recovery may end earlier, at a given timestamp: see [`Recovery::bounded`]. Then it reads
//! only up to the epoch that has it, and what is behind may even be corrupt.
//!
//! Memory: the commits of one window and of those behind it, which were in the rings at one time.
//! Of large values only the places are kept; [`LargeValue::read`] fetches the bytes.

use std::collections::{HashMap, VecDeque};

use crate::disk::{Disk, DiskFile};
use crate::error::{LogError, Result};
use crate::format::batch::BatchView;
use crate::format::control::Control;
use crate::format::moment::Moment;
use crate::format::place::Place;
use crate::format::record::{self, Part, Record, Records, Value};
use crate::format::segment::{self, Named, SegmentHeader, read_header};
use crate::read::reader::{Ahead, Item, LogReader, read_control};
use crate::read::recovered::{LargeValue, Piece, RecoveredCommit};
use crate::read::until::Until;

/// What recovery found: everything that a new writer must know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// `None`: this directory never had a log.
    pub control: Option<Control>,
    /// The last segment. `None`: no run has begun.
    pub segment: Option<SegmentHeader>,
    /// Behind the last batch in that segment, in bytes.
    pub offset: u64,
    /// From here on nothing says that the batches of that segment were ever flushed: they may be
    /// in the page cache only.
    pub doubtful_offset: u64,
    /// Checksum of the last batch before that place; 0: there is none.
    pub doubtful_seed: u32,
    /// Sequence number of the last batch; 0: none.
    pub sequence: u64,
    /// Its checksum; 0: none.
    pub checksum: u32,
    /// Commits up to this timestamp count, and all of them are there.
    pub epoch: u64,
    /// The greatest timestamp in the log, those that do not count included.
    pub greatest_timestamp: u64,
    /// Of the last batch of the last run: for each ring, up to where its records are in the log.
    /// Empty if that run has no batch.
    pub positions: Vec<u64>,
    /// Commits that do not count.
    pub dropped: u64,
    /// Bytes of batches that a crash tore, behind the end.
    pub torn_bytes: u64,
    /// Whether the log was closed.
    pub closed: bool,
    /// Bytes of the records that were read, those that were skipped included.
    pub record_bytes: u64,
}

/// A batch that nothing calls durable.
struct Doubtful {
    sequence: u64,
    /// Where it begins.
    offset: u64,
    /// Checksum of the batch before.
    seed: u32,
}

struct Held {
    timestamp: u64,
    entries: Vec<u8>,
    large_values: Vec<LargeValue>,
}

/// An iterator over the commits that count. It ends after an error.
pub struct Recovery<D: Disk> {
    reader: Option<LogReader<D>>,
    /// Commits up to this timestamp are in the checkpoint.
    after: u64,
    ready: VecDeque<RecoveredCommit>,
    held: Vec<Held>,
    parts: HashMap<u64, LargeValue>,
    /// The batches of this segment that no later one calls durable.
    doubtful: VecDeque<Doubtful>,
    /// Whether a batch, or a cut, has said what `end.epoch` is.
    epoch_known: bool,
    end: LogEnd,
    failed: bool,
    /// Commits with a later timestamp are not asked for.
    until: Option<u64>,
    /// The last epoch that is complete.
    moment: Moment,
    /// Whether commits are of no interest, but only where they end.
    end_only: bool,
}

impl<D: Disk> Recovery<D> {
    /// Commits with a timestamp up to `after` are skipped, and those that the checkpoint has which
    /// the control file names. 0: no others.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] if there is no valid control file, but a log; [`LogError::Io`].
    pub fn new(disk: D, after: u64) -> Result<Self> {
        let control = read_control(&disk)?;
        Ok(Self::of(disk, control, after, None))
    }

    /// Of the log as `control` says that it is, which is that of [`read_control`]. Ends with the
    /// commits up to the timestamp `until`.
    pub(crate) fn of(disk: D, control: Option<Control>, after: u64, until: Option<u64>) -> Self {
        let reader = control.map(|control| LogReader::new(disk, control));
        Self {
            until,
            ..Self::with(reader, control, after)
        }
    }

    /// Ends with the commits of a point in time. Those up to `after` are in a checkpoint, which
    /// must not be later than that.
    ///
    /// # Errors
    /// Those of [`Recovery::new`] and [`Until::timestamp`]; [`LogError::Refused`] if the checkpoint
    /// is later.
    pub fn bounded(disk: D, after: u64, until: Until) -> Result<Self> {
        let control = read_control(&disk)?;
        let until = until.timestamp_of(&disk, control)?;
        if until < after {
            let why = format!("the checkpoint has commits up to {after}, later than {until}");
            return Err(LogError::Refused(why));
        }
        Ok(Self::of(disk, control, after, Some(until)))
    }

    /// Reads the log up to a place, and nothing that says what is behind it. `control` is that of
    /// [`read_control`].
    pub(crate) fn up_to(disk: D, control: Control, after: u64, limit: Place) -> Self {
        let reader = LogReader::up_to(disk, control, limit);
        Self::with(Some(reader), Some(control), after)
    }

    fn with(reader: Option<LogReader<D>>, control: Option<Control>, after: u64) -> Self {
        let checkpoint = control.and_then(|control| control.checkpoint);
        Self {
            reader,
            after: checkpoint.map_or(after, |mark| after.max(mark.start)),
            ready: VecDeque::new(),
            held: Vec::new(),
            parts: HashMap::new(),
            doubtful: VecDeque::new(),
            epoch_known: false,
            end: LogEnd {
                control,
                // The log may have nothing that is so late, but what comes must be later: else
                // it would be taken for what the checkpoint has.
                greatest_timestamp: checkpoint.map_or(0, |mark| mark.end),
                ..LogEnd::default()
            },
            failed: false,
            until: None,
            moment: Moment::default(),
            end_only: false,
        }
    }

    /// The end of the log, for an engine whose memory outlived its last owner. Reads from the
    /// segment on that the control file calls durable, so the time does not depend on the length
    /// of the log. What is before is not looked at. [`LogEnd::greatest_timestamp`] is that of what was
    /// read, and [`LogEnd::dropped`] 0.
    ///
    /// # Errors
    /// Those of [`Recovery::new`] and [`Recovery::finish`].
    pub fn end_of(disk: D) -> Result<LogEnd> {
        let control = read_control(&disk)?;
        let Some(control) = control else {
            return Ok(LogEnd::default());
        };
        let from = control.durable_segment.max(control.first_needed);
        let end = Self::end_from(&disk, control, from)?;
        if !end.positions.is_empty() || from == control.first_needed {
            return Ok(end);
        }
        // Nothing there says what the rings have given up. What is before does, unless the run
        // began behind it.
        let first = read_header(&disk, from)?;
        match (first, end.segment) {
            (Some(first), Some(last)) if first.run != last.run => Ok(end),
            _ => Self::end_from(&disk, control, control.first_needed),
        }
    }

    /// The end of the log, and nothing of what is before a segment but how long it is.
    fn end_from(disk: &D, control: Control, segment: u64) -> Result<LogEnd> {
        let from = Control {
            first_needed: segment,
            ..control
        };
        let reader = LogReader::new(disk.clone(), from);
        let mut recovery = Self::with(Some(reader), Some(control), 0);
        recovery.end_only = true;
        let end = recovery.finish()?;
        let skipped = bytes_between(disk, control.first_needed, segment)?;
        Ok(LogEnd {
            record_bytes: end.record_bytes + skipped,
            ..end
        })
    }

    /// The last epoch that was read to its end, or that in which a bounded recovery ended, with the
    /// bound as its timestamp.
    pub fn moment(&self) -> Moment {
        self.moment
    }

    /// The end of the log. Reads what was not read yet.
    ///
    /// # Errors
    /// The one that the iterator returned, or would have returned. [`LogError::Refused`] if it was
    /// bounded: no log goes on from there.
    pub fn finish(mut self) -> Result<LogEnd> {
        if self.until.is_some() {
            let why = "a recovery to a point in time does not know the end of the log";
            return Err(LogError::Refused(why.into()));
        }
        if self.failed {
            return Err(LogError::Refused("recovery has failed before".into()));
        }
        while self.step()?.is_some() {
            self.forget_ready();
        }
        tracing::info!(
            sequence = self.end.sequence,
            epoch = self.end.epoch,
            dropped = self.end.dropped,
            torn_bytes = self.end.torn_bytes,
            "read the log to its end"
        );
        Ok(self.end)
    }

    /// Reads on, and says what it has read. `None`: this is the end.
    pub(crate) fn step(&mut self) -> Result<Option<Item>> {
        let Some(mut reader) = self.reader.take() else {
            return Ok(None);
        };
        if self.until.is_some_and(|until| until <= self.moment.epoch) {
            return Ok(None);
        }
        let item = reader.advance()?;
        match item {
            Some(Item::Segment(header)) => self.begin_segment(&reader, header)?,
            Some(Item::Batch(_)) => self.take_batch(&reader)?,
            None => {
                self.note_end(&reader);
                return Ok(None);
            }
        }
        self.reader = Some(reader);
        Ok(item)
    }

    /// See [`LogReader::look_ahead`]. Of no use after an error.
    pub(crate) fn look_ahead(&mut self) -> Result<Ahead> {
        let Some(mut reader) = self.reader.take() else {
            return Ok(Ahead::Nothing(0));
        };
        let ahead = reader.look_ahead()?;
        if let Ahead::Replaced(header) = ahead {
            self.begin_segment(&reader, header)?;
        }
        self.reader = Some(reader);
        Ok(ahead)
    }

    /// From now on commits with a timestamp up to `after` are skipped.
    pub(crate) fn skip_up_to(&mut self, after: u64) {
        self.after = after;
    }

    /// The next of the commits that were read.
    pub(crate) fn pop_ready(&mut self) -> Option<RecoveredCommit> {
        self.ready.pop_front()
    }

    /// Where the next batch is, if the log goes on in this segment.
    pub(crate) fn place(&self) -> Option<Place> {
        let (reader, segment) = (self.reader.as_ref()?, self.end.segment?);
        Some(Place {
            segment: segment.number,
            offset: reader.position().offset,
        })
    }

    /// Where it is: the segment, and the bytes before what is read next.
    pub fn position(&self) -> (u64, u64) {
        let at = self
            .reader
            .as_ref()
            .map_or(0, |reader| reader.position().offset);
        (self.end.segment.map_or(0, |segment| segment.number), at)
    }

    /// The control file, as it was when this began. `None`: this directory never had a log.
    pub fn control(&self) -> Option<&Control> {
        self.end.control.as_ref()
    }

    /// What is known by now.
    pub(crate) fn end(&self) -> &LogEnd {
        &self.end
    }

    /// Skips the commits that were read, and says how many.
    pub(crate) fn forget_ready(&mut self) -> u64 {
        let count = self.ready.len() as u64;
        self.ready.clear();
        count
    }

    fn begin_segment(&mut self, reader: &LogReader<D>, header: SegmentHeader) -> Result<()> {
        let new_run = self
            .end
            .segment
            .is_none_or(|before| before.run != header.run);
        if new_run {
            if self.epoch_known && header.cut != self.end.epoch {
                let why = format!(
                    "it begins run {} with the cut {}, but the run before ends with epoch {}",
                    header.run, header.cut, self.end.epoch
                );
                return Err(LogError::corrupt(reader.file_name(), 0, why));
            }
            self.end_run();
            self.end.epoch = self.end.epoch.max(header.cut);
            self.epoch_known |= header.cut != 0 || header.before == 0;
            self.end.greatest_timestamp = self.end.greatest_timestamp.max(header.cut);
        }
        // A segment is flushed before the next one begins.
        self.doubtful.clear();
        self.end.segment = Some(header);
        Ok(())
    }

    /// What was held did not become durable in time, and never will.
    fn end_run(&mut self) {
        self.end.dropped += self.held.len() as u64;
        self.held.clear();
        self.parts.clear();
        self.end.positions.clear();
    }

    fn take_batch(&mut self, reader: &LogReader<D>) -> Result<()> {
        let batch = reader.batch();
        let at = reader.position().offset - batch.header.size();
        if batch.header.epoch < self.end.epoch {
            let why = format!(
                "its epoch {} is before {}",
                batch.header.epoch, self.end.epoch
            );
            return Err(corrupt(reader, &batch, 0, why));
        }
        let count = self.take_records(&batch, at, reader)?;
        if count != batch.header.records {
            let why = format!("it has {count} records instead of {}", batch.header.records);
            return Err(corrupt(reader, &batch, 0, why));
        }
        self.end.record_bytes += u64::from(batch.header.payload);
        self.doubtful.push_back(Doubtful {
            sequence: batch.header.sequence,
            offset: at,
            seed: reader.seed(),
        });
        while let Some(first) = self.doubtful.front()
            && first.sequence <= batch.header.durable
        {
            self.doubtful.pop_front();
        }
        self.end.positions = batch.positions();
        self.close_window(batch.header.epoch, batch.header.wall);
        Ok(())
    }

    /// Takes the records of the batch that begins at `at`, and says how many there are.
    fn take_records(
        &mut self,
        batch: &BatchView<'_>,
        at: u64,
        reader: &LogReader<D>,
    ) -> Result<u32> {
        let start = batch.header.header_size();
        let mut count = 0;
        for record in Records::new(batch.payload) {
            let (offset, record) =
                record.map_err(|why| corrupt(reader, batch, start, why.to_string()))?;
            let offset = start + offset as u64;
            self.take_record(record, at + offset, reader)
                .map_err(|why| corrupt(reader, batch, offset, why))?;
            count += 1;
        }
        Ok(count)
    }

    fn take_record(
        &mut self,
        record: Record<'_>,
        offset: u64,
        reader: &LogReader<D>,
    ) -> Result<(), String> {
        match record {
            Record::Commit(commit) if self.end_only => {
                let latest = self.end.greatest_timestamp.max(commit.timestamp);
                self.end.greatest_timestamp = latest;
                Ok(())
            }
            Record::Part(_) if self.end_only => Ok(()),
            Record::Commit(commit) => self.take_commit(commit),
            Record::Part(part) => {
                let segment = reader.segment().map_or(0, |header| header.number);
                self.take_part(part, segment, offset)
            }
        }
    }

    fn take_commit(&mut self, commit: record::Commit<'_>) -> Result<(), String> {
        let timestamp = commit.timestamp;
        if self.epoch_known && timestamp <= self.end.epoch {
            return Err(format!(
                "a commit with timestamp {timestamp} comes after epoch {}",
                self.end.epoch
            ));
        }
        self.end.greatest_timestamp = self.end.greatest_timestamp.max(timestamp);
        let large_values = match self.gather(commit) {
            Ok(large_values) => large_values,
            // Of a group that was interrupted and written again, perhaps without the beginning
            // of its large values: that was in a part that was durable.
            Err(_) if self.is_held(commit) => return Ok(()),
            Err(why) => return Err(why),
        };
        self.held.push(Held {
            timestamp,
            entries: commit.bytes().to_vec(),
            large_values,
        });
        Ok(())
    }

    /// Was the same commit read before, of an epoch that is not complete?
    fn is_held(&self, commit: record::Commit<'_>) -> bool {
        let mut held = self.held.iter();
        held.any(|held| held.timestamp == commit.timestamp && held.entries == commit.bytes())
    }

    /// The large values of a commit, one for each entry that names one: several may name the
    /// same, and its parts are there once. Checks all entries on the way.
    fn gather(&mut self, commit: record::Commit<'_>) -> Result<Vec<LargeValue>, String> {
        let mut large_values = Vec::new();
        for entry in commit.entries() {
            let entry = entry.map_err(|why| format!("an entry: {why}"))?;
            let Value::Large { id, len, .. } = entry.value else {
                continue;
            };
            let found = self.parts.get(&id).filter(|value| value.come == len);
            // Of what a checkpoint has, the first parts may be gone.
            if found.is_none() && commit.timestamp > self.after {
                return Err(format!("parts of the large value {id} are missing"));
            }
            large_values.extend(found.map(|value| LargeValue {
                len,
                ..value.clone()
            }));
        }
        for value in &large_values {
            self.parts.remove(&value.id);
        }
        Ok(large_values)
    }

    /// Notes where the bytes of a part are. `offset` is that of the record.
    fn take_part(&mut self, part: Part<'_>, segment: u64, offset: u64) -> Result<(), String> {
        let value = self.parts.entry(part.id).or_default();
        if part.offset == 0 {
            *value = LargeValue {
                id: part.id,
                ..LargeValue::default()
            };
        }
        // A group that was interrupted is written again, perhaps from the middle of a value on:
        // the same bytes in the same parts.
        while value.come > part.offset && value.pop() {}
        if part.offset != value.come {
            // The value's beginning is in a segment that is not needed any more.
            self.parts.remove(&part.id);
            return Ok(());
        }
        if part.bytes.is_empty() {
            return Ok(());
        }
        value.push(Piece {
            segment,
            offset: offset + record::PART_HEADER as u64,
            len: part.bytes.len() as u64,
            checksum: crc32c::crc32c(part.bytes),
        });
        Ok(())
    }

    /// All commits up to `epoch` are here.
    fn close_window(&mut self, epoch: u64, wall: u64) {
        if epoch > self.moment.epoch {
            let epoch = self.until.map_or(epoch, |until| until.min(epoch));
            self.moment = Moment { epoch, wall };
        }
        // All that is held is of later epochs. To move it for each batch that closes none takes a
        // time that grows with the square of what is held.
        if self.epoch_known && epoch == self.end.epoch {
            return;
        }
        self.end.epoch = epoch;
        self.epoch_known = true;
        self.end.greatest_timestamp = self.end.greatest_timestamp.max(epoch);
        let (mut window, held) = std::mem::take(&mut self.held)
            .into_iter()
            .partition::<Vec<_>, _>(|commit| commit.timestamp <= epoch);
        self.held = held;
        // A group that was interrupted may have been written again: the same bytes are the same
        // commit, because two commits of one timestamp never write the same key.
        window.sort_by(|a, b| (a.timestamp, &a.entries).cmp(&(b.timestamp, &b.entries)));
        window.dedup_by(|a, b| (a.timestamp, &a.entries) == (b.timestamp, &b.entries));
        let wanted = self.after..=self.until.unwrap_or(u64::MAX);
        let new = window
            .into_iter()
            .filter(|commit| wanted.contains(&commit.timestamp) && commit.timestamp > self.after);
        self.ready.extend(new.map(|commit| RecoveredCommit {
            timestamp: commit.timestamp,
            wall,
            entries: commit.entries,
            large_values: commit.large_values,
        }));
    }

    fn note_end(&mut self, reader: &LogReader<D>) {
        let position = reader.position();
        self.end.dropped += self.held.len() as u64;
        self.end.offset = position.offset;
        let doubtful = self.doubtful.front();
        let doubtful = doubtful.map(|first| (first.offset, first.seed));
        (self.end.doubtful_offset, self.end.doubtful_seed) =
            doubtful.unwrap_or((position.offset, position.checksum));
        self.end.sequence = position.sequence;
        self.end.checksum = position.checksum;
        let control = reader.control();
        self.end.closed = control.closed && control.durable_sequence == position.sequence;
        // Behind a proper end is only what a lack of space stopped.
        self.end.torn_bytes = if self.end.closed {
            0
        } else {
            reader.torn_bytes()
        };
    }
}

/// Bytes of the segments with numbers from one up to another.
fn bytes_between<D: Disk>(disk: &D, from: u64, to: u64) -> Result<u64> {
    if from == to {
        return Ok(0);
    }
    let names = disk.list(segment::FOLDER);
    let names = names.map_err(LogError::io("list", segment::FOLDER))?;
    let is_between = |name: &String| matches!(Named::parse(name), Some(Named::Segment(n)) if (from..to).contains(&n));
    let size = |name: String| {
        let name = format!("{}/{name}", segment::FOLDER);
        let file = disk.open(&name).map_err(LogError::io("open", &name))?;
        let size = file.map_or(Ok(0), |file| file.size());
        size.map_err(LogError::io("find the size of", &name))
    };
    names.into_iter().filter(is_between).map(size).sum()
}

/// Of the batch that was read last; `offset` is within it.
fn corrupt<D: Disk>(
    reader: &LogReader<D>,
    batch: &BatchView<'_>,
    offset: u64,
    why: String,
) -> LogError {
    let at = reader.position().offset - batch.header.size();
    let why = format!("batch {}: {why}", batch.header.sequence);
    LogError::corrupt(reader.file_name(), at + offset, why)
}

impl<D: Disk> Iterator for Recovery<D> {
    type Item = Result<RecoveredCommit>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(commit) = self.ready.pop_front() {
                return Some(Ok(commit));
            }
            if self.failed {
                return None;
            }
            match self.step() {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
    }
}
