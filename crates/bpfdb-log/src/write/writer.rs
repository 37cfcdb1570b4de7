//! Writes the log. One process does, which owns the directory; one thread of it.
//!
//! ```text
//!              no space                      begin, append, end
//!    ┌── Full ◄──────────┐          ┌───────────────────────────────┐
//!    └──────────────────►│   open   │ append: plan ─► place ─► flush │──► durable
//!     append again       └──────────┴───────────────┬───────────────┘
//!                                                   │ a write or flush fails
//!                                                   └──► Failed, for ever
//! ```
//!
//! # Rules
//!
//! 1. A batch is durable when it and all before it are flushed, and not before.
//! 2. A segment is flushed before the header of the next one is written, which says where it ends.
//! 3. A header is flushed before its file gets the name of a segment; the name before the control
//!    file knows it; all of this before a batch is written there.
//! 4. Both slots of the control file say that a segment is neither needed nor retained, durably,
//!    before that is written over; and so of a checkpoint before it is removed. Either of them is
//!    enough then.
//! 5. What a dead owner wrote may be in the page cache only, and its flush may have failed. It is
//!    written again, and flushed, before anything is built on it.
//! 6. A spare is kept in reserve: the log calls the disk full while it has one. Only what gives
//!    space back may use it ([`LogWriter::use_reserve`]).
//! 7. A batch counts as durable only if its segment, the control file and the lock still have their
//!    names after its flush: a directory that was removed takes writes as before.
//! 8. Batches that are [submitted](LogWriter::submit) are under way together, and end in any order.
//!    One counts when it and all before it have ended: what lies behind a hole is none of the
//!    log's. They go past the page cache, which may report an error to another write than the one it
//!    is of. While they are under way no other batch is written, no segment begun, and the log is not
//!    closed. The beginning of the log may change ([`LogWriter::install_retaining`],
//!    [`LogWriter::give_up_before`], [`LogWriter::recycle`]), and a spare may be written
//!    ([`LogWriter::prepare`]): neither touches the segment that batches go to, and the control file
//!    calls durable only what counts.
//! 9. After a write or flush that failed it is not known what the disk has. Nothing is tried again,
//!    and nothing counts that did not before. Lack of space is no such failure: what was written so far lies behind the end of the log, and
//!    the next attempt writes over it.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::disk::buffer::AlignedBuffer;
use crate::disk::queue::WriteQueue;
use crate::disk::{Disk, DiskFile, owner};
use crate::error::{Failure, LogError, Result, StepError, flush_step, step};
use crate::format::batch::{self, BatchHeader};
use crate::format::control::{self, Control, ControlFile};
use crate::format::layout::{BLOCK, LogId, RunId};
use crate::format::moment::Moment;
use crate::format::segment::{self, SegmentHeader};
use crate::write::plan::{Chunk, Plan};
use crate::write::spares::Spares;

/// Sizes of the files, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// A multiple of a block, two blocks at least.
    pub segment_size: u64,
    /// The largest batch on the disk: a multiple of a block that fits into a segment behind its
    /// header. A larger group takes several, and writer and readers keep one in memory.
    pub batch_size: u64,
    /// Spare files that are kept, and as many as were segments between two checkpoints, if
    /// that is more; others are removed.
    pub spares: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_size: 64 << 20,
            batch_size: 16 << 20,
            spares: 4,
        }
    }
}

impl Options {
    pub(crate) fn check(&self) -> Result<()> {
        let block = BLOCK as u64;
        let whole =
            self.segment_size.is_multiple_of(block) && self.batch_size.is_multiple_of(block);
        let fits = (block..=self.segment_size.saturating_sub(block)).contains(&self.batch_size);
        if whole && fits && self.batch_size <= batch::SIZE_MAX && self.spares > 0 {
            return Ok(());
        }
        Err(LogError::Refused(format!("impossible sizes: {self:?}")))
    }
}

/// Spares that are kept for what gives space back.
pub(crate) const RESERVE: usize = 1;

/// What an open log is to go on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The engine's memory is new, and has what recovery found.
    NewRun,
    /// The engine's memory outlived its last owner. The caller appends everything again that
    /// [`crate::LogEnd::positions`] does not cover.
    SameRun,
}

/// What [`LogWriter::append`] makes durable: a group of commits, or a part of one.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// All commits with a timestamp up to this are in here or were appended before. If it is that
    /// of the batch before, this is a part of a group.
    pub epoch: u64,
    /// For each ring, up to where its records are in here or were appended before.
    pub positions: &'a [u64],
    /// Nanoseconds of UNIX time.
    pub wall: u64,
    /// As in [`crate::format::record`], one behind the other.
    pub records: &'a [u8],
    pub record_count: u32,
}

/// What is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durable {
    pub segment: u64,
    /// Sequence number of the last batch.
    pub sequence: u64,
    pub epoch: u64,
}

/// The segment that batches go to.
pub(crate) struct Current<F> {
    pub(crate) header: SegmentHeader,
    pub(crate) file: Arc<F>,
}

impl<F> Current<F> {
    pub(crate) fn name(&self) -> String {
        segment::name(self.header.number)
    }
}

/// Where the next batch goes. Only what is flushed counts, so an attempt works on a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    pub(crate) offset: u64,
    /// Sequence number of the last batch.
    pub(crate) sequence: u64,
    pub(crate) checksum: u32,
}

/// A batch that is under way.
pub(crate) struct UnderWay {
    pub(crate) sequence: u64,
    pub(crate) epoch: u64,
    /// Where the log ended before it.
    pub(crate) before: Tail,
    /// [`LogWriter::floor`] and [`LogWriter::positions`] before it.
    pub(crate) floor_before: u64,
    pub(crate) positions_before: Vec<u64>,
    /// What came of it. `None`: it has not ended.
    pub(crate) result: Option<io::Result<()>>,
}

/// A log that is open for writing.
pub struct LogWriter<D: Disk> {
    /// First: no write is under way any more when the lock of the directory is given up.
    pub(crate) queue: Option<Box<dyn WriteQueue<D::File>>>,
    /// Batches that were submitted and do not count yet, in the order of the log.
    pub(crate) under_way: VecDeque<UnderWay>,
    /// Memory for batches.
    pub(crate) buffers: Vec<AlignedBuffer>,
    pub(crate) disk: D,
    pub(crate) options: Options,
    pub(crate) control: ControlFile<D::File>,
    /// Whether the control file does not know the current segment yet.
    pub(crate) control_is_late: bool,
    pub(crate) spares: Spares<D>,
    pub(crate) current: Current<D::File>,
    /// Behind all batches, those that are under way included.
    pub(crate) tail: Tail,
    pub(crate) durable: Durable,
    /// Every commit that comes has a greater timestamp.
    pub(crate) floor: u64,
    /// Those of the last complete group; empty before the first of a run.
    pub(crate) positions: Vec<u64>,
    /// Segments before this one are spares, or gone.
    pub(crate) recycled_before: u64,
    /// Whether nothing on the disk says yet that the last batch is durable.
    pub(crate) is_unconfirmed: bool,
    /// Whether batches lie behind the end: those that are under way, or that an attempt left
    /// which ran out of space.
    pub(crate) has_remains: bool,
    /// Whether the spare in reserve may be used.
    pub(crate) uses_reserve: bool,
    /// Whether it was reported that there is no space, since there was.
    pub(crate) told_of_space: bool,
    pub(crate) buffer: AlignedBuffer,
    pub(crate) failure: Option<Failure>,
}

impl<D: Disk> LogWriter<D> {
    /// Identity of the log.
    pub fn log(&self) -> LogId {
        self.control.now.log
    }

    /// Where its files are.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// Number of the run.
    pub fn run(&self) -> u64 {
        self.current.header.run
    }

    /// Identity of the run.
    pub fn run_id(&self) -> RunId {
        self.current.header.run_id
    }

    /// What is durable by now.
    pub fn durable(&self) -> Durable {
        self.durable
    }

    /// The epoch of the last batch, though it may be under way.
    pub fn submitted_epoch(&self) -> u64 {
        let last = self.under_way.back();
        last.map_or(self.durable.epoch, |batch| batch.epoch)
    }

    /// Number of the segment that batches go to.
    pub fn segment(&self) -> u64 {
        self.current.header.number
    }

    /// Number of the first segment that recovery needs.
    pub fn first_needed(&self) -> u64 {
        self.control.now.first_needed
    }

    /// Writes a group, in as many batches as it takes, and returns when it is durable.
    ///
    /// # Errors
    /// [`LogError::Refused`]: not even tried. [`LogError::Full`]: not durable; the caller appends
    /// the same records again, alone or with more. [`LogError::Failed`]: this log is over.
    pub fn append(&mut self, group: Batch<'_>) -> Result<Durable> {
        self.settled()?;
        let plan = self.plan(&group)?;
        self.settle_control()?;
        self.take_space(&plan)?;
        let spans = plan.spans(self.tail.offset, self.options.segment_size);
        for (n, span) in spans.into_iter().enumerate() {
            if n > 0 {
                self.roll_over(group.wall)?;
            }
            self.write_span(&group, &plan, span)?;
        }
        self.durable.epoch = group.epoch;
        self.floor = self.floor.max(group.epoch);
        self.positions.clear();
        self.positions.extend(group.positions);
        self.is_unconfirmed = true;
        Ok(self.durable)
    }

    /// Says on the disk that the last batch is durable, by an empty one behind it, unless
    /// something says so already. For a writer that has nothing to write for a while: until then
    /// no reader of the log can distinguish that batch from one whose flush is not over, and a
    /// damaged one is taken for one that a crash tore. `wall`: nanoseconds of UNIX time.
    ///
    /// # Errors
    /// Those of [`LogWriter::append`].
    pub fn confirm(&mut self, wall: u64) -> Result<()> {
        if self.is_unconfirmed {
            let positions = self.positions.clone();
            self.append(Batch {
                epoch: self.durable.epoch,
                positions: &positions,
                wall,
                records: &[],
                record_count: 0,
            })?;
            // A loss of this one is none.
            self.is_unconfirmed = false;
        }
        self.usable()
    }

    /// Writes over at most `budget` bytes of the segment that comes next, so that it is there
    /// before it is needed. `true`: it is ready.
    ///
    /// # Errors
    /// [`LogError::Full`]: batches still fit into the current segment. [`LogError::Failed`].
    pub fn prepare(&mut self, budget: u64) -> Result<bool> {
        self.usable()?;
        if self.spares.ready() > self.reserve() {
            // Also if it came from segments that were given up: the next full disk is reported.
            self.told_of_space = false;
            return Ok(true);
        }
        let ready = self.spares.prepare(budget);
        self.told_of_space &= ready.is_err();
        ready.map_err(|error| self.stop(error))
    }

    /// Whether there is no spare at all, not even the one that is kept in reserve.
    pub fn lacks_reserve(&self) -> bool {
        self.spares.ready() == 0
    }

    /// From now on the spare that is kept in reserve may be used: for a writer that, on a full disk,
    /// needs a little more of the log so that a [checkpoint](Self::install) may count, which gives
    /// much back. `false`: there is none, or it may be used already.
    pub fn use_reserve(&mut self) -> bool {
        !std::mem::replace(&mut self.uses_reserve, true) && self.spares.ready() > 0
    }

    /// Ends [`LogWriter::use_reserve`].
    pub fn keep_reserve(&mut self) {
        self.uses_reserve = false;
    }

    /// Says from which point on the log is complete, before anything is written to it.
    ///
    /// # Errors
    /// [`LogError::Full`], [`LogError::Failed`].
    pub(crate) fn begin_at(&mut self, complete_from: Moment) -> Result<()> {
        self.usable()?;
        self.write_control(Control {
            complete_from,
            ..self.control_now()
        })
    }

    /// Ends the log properly: the next owner knows that nothing is missing.
    ///
    /// # Errors
    /// [`LogError::Full`], [`LogError::Failed`]: it ends as by a crash, which loses nothing.
    pub fn close(mut self) -> Result<()> {
        self.settled()?;
        self.clear_remains()?;
        let next = Control {
            closed: true,
            ..self.control_now()
        };
        self.write_control(next)
    }

    pub(crate) fn usable(&self) -> Result<()> {
        match &self.failure {
            None => Ok(()),
            Some(failure) => Err(LogError::Failed(failure.clone())),
        }
    }

    /// [`LogWriter::usable`], and no batch is under way.
    pub(crate) fn settled(&self) -> Result<()> {
        self.usable()?;
        match self.under_way.len() {
            0 => Ok(()),
            count => Err(LogError::Refused(format!("{count} batches are under way"))),
        }
    }

    pub(crate) fn plan(&self, group: &Batch<'_>) -> Result<Plan> {
        let last = self.submitted_epoch();
        if group.epoch < last {
            let why = format!("epoch {} after {last}", group.epoch);
            return Err(LogError::Refused(why));
        }
        let rings = group.positions.len();
        if !self.positions.is_empty() && self.positions.len() != rings {
            let why = format!("{rings} rings after {}", self.positions.len());
            return Err(LogError::Refused(why));
        }
        Plan::new(
            group.records,
            group.record_count,
            rings,
            self.floor,
            self.options.batch_size,
        )
    }

    /// Spares that must be left.
    fn reserve(&self) -> usize {
        match self.uses_reserve {
            true => 0,
            false => RESERVE,
        }
    }

    /// Takes all space that the group needs before the first byte of it is written.
    fn take_space(&mut self, plan: &Plan) -> Result<()> {
        let spans = plan.spans(self.tail.offset, self.options.segment_size);
        let needed = match spans.len() - 1 {
            0 => 0,
            segments => segments + self.reserve(),
        };
        while self.spares.ready() < needed {
            let ready = self.spares.prepare(u64::MAX);
            ready.map_err(|error| self.stop(error))?;
        }
        Ok(())
    }

    /// Writes and flushes those batches of a group that go to the current segment.
    fn write_span(&mut self, group: &Batch<'_>, plan: &Plan, span: Range<usize>) -> Result<()> {
        if span.is_empty() {
            return Ok(());
        }
        let mut tail = self.tail;
        self.has_remains = true;
        for chunk in &plan.chunks[span.clone()] {
            tail = self.write_chunk(group, plan, chunk, tail, span.len() == 1)?;
        }
        // A durable write says nothing about those before it: several take a flush of the file.
        if span.len() > 1 {
            let flushed = self.current.file.flush();
            let name = self.current.name();
            flushed.map_err(|error| self.stop(flush_step(name)(error)))?;
        }
        self.find_names().map_err(|error| self.stop(error))?;
        self.has_remains = false;
        self.durable.segment = self.segment();
        self.durable.sequence = tail.sequence;
        self.tail = tail;
        Ok(())
    }

    /// The files that the next owner begins with are where it looks for them.
    pub(crate) fn find_names(&self) -> Result<(), StepError> {
        let name = self.current.name();
        let current = self.disk.check_name(&name, &self.current.file);
        current.map_err(step("find", name))?;
        let control = self.control.check_name(&self.disk);
        control.map_err(step("find", control::NAME))?;
        self.disk.check_lock().map_err(step("find", owner::NAME))
    }

    /// Writes a batch, durably if it is `alone`. Returns where the next one goes.
    fn write_chunk(
        &mut self,
        group: &Batch<'_>,
        plan: &Plan,
        chunk: &Chunk,
        tail: Tail,
        alone: bool,
    ) -> Result<Tail> {
        let checksum = self.encode(group, plan, chunk, tail);
        let file = &self.current.file;
        let written = match alone {
            true => file.write_flushed(tail.offset, &self.buffer),
            false => file.write_whole(tail.offset, &self.buffer),
        };
        let name = self.current.name();
        written.map_err(|error| self.stop(step("write", name)(error)))?;
        Ok(Tail {
            offset: tail.offset + chunk.size,
            sequence: tail.sequence + 1,
            checksum,
        })
    }

    /// Puts a batch into the buffer and returns its checksum. Only the last batch of a group has
    /// its epoch and its positions: with the others the group is not complete.
    pub(crate) fn encode(
        &mut self,
        group: &Batch<'_>,
        plan: &Plan,
        chunk: &Chunk,
        tail: Tail,
    ) -> u32 {
        let complete = plan.chunks.last() == Some(chunk);
        let none = vec![0; plan.rings];
        let (epoch, positions) = match complete {
            true => (group.epoch, group.positions),
            false if self.positions.is_empty() => (self.durable.epoch, &none[..]),
            false => (self.durable.epoch, &self.positions[..]),
        };
        let header = BatchHeader {
            checksum: 0,
            payload: 0,
            log: self.control.now.log,
            segment: self.current.header.number,
            sequence: tail.sequence + 1,
            epoch,
            durable: self.durable.sequence,
            wall: group.wall,
            records: chunk.records,
            rings: 0,
        };
        let payload = &group.records[chunk.bytes.clone()];
        batch::encode(&mut self.buffer, header, positions, payload, tail.checksum)
    }

    /// Ends the log where the last durable batch does: a batch behind it may be valid.
    fn clear_remains(&mut self) -> Result<()> {
        if self.has_remains {
            let zeros = AlignedBuffer::zeroed(BLOCK);
            let written = self.current.file.write_flushed(self.tail.offset, &zeros);
            let name = self.current.name();
            written.map_err(|error| self.stop(step("write", name)(error)))?;
            self.has_remains = false;
        }
        Ok(())
    }

    /// Goes on in a new segment. What is in the old one is flushed.
    fn roll_over(&mut self, wall: u64) -> Result<()> {
        let old = &self.current.header;
        let header = SegmentHeader {
            log: old.log,
            number: old.number + 1,
            run: old.run,
            run_id: old.run_id,
            first_sequence: self.tail.sequence + 1,
            before: old.number,
            before_end: self.tail.offset,
            before_checksum: self.tail.checksum,
            cut: 0,
            wall,
        };
        let current = begin_segment(&self.disk, &mut self.spares, header);
        self.current = current.map_err(|error| self.stop(error))?;
        self.tail.offset = BLOCK as u64;
        self.has_remains = false;
        self.is_unconfirmed = false;
        self.control_is_late = true;
        tracing::debug!(segment = header.number, "began a segment");
        self.settle_control()
    }

    /// Tells the control file about the current segment, if that is still to be done.
    pub(crate) fn settle_control(&mut self) -> Result<()> {
        match self.control_is_late {
            true => self.write_control(self.control_now()),
            false => Ok(()),
        }
    }

    /// What the control file should say now.
    pub(crate) fn control_now(&self) -> Control {
        Control {
            run: self.current.header.run,
            durable_segment: self.durable.segment,
            durable_sequence: self.durable.sequence,
            closed: false,
            newest_segment: self.current.header.number,
            ..self.control.now
        }
    }

    pub(crate) fn write_control(&mut self, next: Control) -> Result<()> {
        let written = self.control.write(next);
        written.map_err(|error| self.stop(step("write", control::NAME)(error)))?;
        self.control_is_late = false;
        Ok(())
    }

    /// Lack of space, or of descriptors, heals; anything else is the end of this log.
    pub(crate) fn stop(&mut self, error: StepError) -> LogError {
        if error.heals {
            // It is tried again and again.
            if !std::mem::replace(&mut self.told_of_space, true) {
                let (action, file) = (error.action, &error.file);
                tracing::warn!(action, file, error = %error.source, "the log has to wait");
            }
            return error.into();
        }
        let failure = Failure {
            action: error.action,
            file: error.file,
            source: Arc::new(error.source),
        };
        tracing::error!(%failure, "the log has failed");
        self.failure = Some(failure.clone());
        LogError::Failed(failure)
    }
}

/// Makes a segment of a spare, durably.
pub(crate) fn begin_segment<D: Disk>(
    disk: &D,
    spares: &mut Spares<D>,
    header: SegmentHeader,
) -> Result<Current<D::File>, StepError> {
    let number = spares.take().ok_or_else(|| {
        let missing = std::io::ErrorKind::NotFound.into();
        step("find a spare for", segment::name(header.number))(missing)
    })?;
    let file = write_header(disk, number, &header).inspect_err(|_| spares.put_back(number))?;
    let flushed = disk.flush_folder(segment::FOLDER);
    flushed.map_err(flush_step(segment::FOLDER))?;
    let file = Arc::new(file);
    Ok(Current { header, file })
}

/// Writes the header into a spare, and gives it the segment's name.
fn write_header<D: Disk>(
    disk: &D,
    spare: u64,
    header: &SegmentHeader,
) -> Result<D::File, StepError> {
    let from = segment::spare_name(spare);
    let file = disk
        .open_for_writing(&from)
        .and_then(|file| file.ok_or_else(|| std::io::ErrorKind::NotFound.into()));
    let file = file.map_err(step("open", &from))?;
    let block = AlignedBuffer::from(&header.encode()[..]);
    file.write_flushed(0, &block)
        .map_err(step("write", &from))?;
    let to = segment::name(header.number);
    disk.rename(&from, &to).map_err(step("rename", &from))?;
    Ok(file)
}
