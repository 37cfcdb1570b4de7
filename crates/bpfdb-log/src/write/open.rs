//! How a log is opened for writing, behind what recovery found.

use std::collections::VecDeque;
use std::io;

use crate::disk::buffer::AlignedBuffer;
use crate::disk::{Disk, DiskFile};
use crate::error::{LogError, Result, StepError, flush_step, step};
use crate::format::batch::{BatchHeader, BatchView};
use crate::format::control::{self, Control, ControlFile};
use crate::format::layout::{BLOCK, COUNT_MAX, LogId, RunId};
use crate::format::segment::{self, SegmentHeader};
use crate::read::reader::read_control;
use crate::read::recovery::LogEnd;
use crate::write::beginning::first_retained;
use crate::write::spares::Spares;
use crate::write::writer::{Durable, LogWriter, Options, Start, Tail, begin_segment};

impl<D: Disk> LogWriter<D> {
    /// Opens the log that ends with `end`, or makes one if there is none, and begins a segment.
    /// `wall`: nanoseconds of UNIX time.
    ///
    /// # Errors
    /// [`LogError::Full`]: to be tried again, with the same end while no other process has the directory.
    /// [`LogError::Io`], [`LogError::Failed`]: to be tried again, after another recovery.
    /// [`LogError::Refused`]: impossible options, [`Start::SameRun`] without a run, or a log whose numbers
    /// a writer has made so large that there are none after them.
    pub fn open(disk: D, end: &LogEnd, start: Start, wall: u64, options: Options) -> Result<Self> {
        options.check()?;
        check_numbers(end)?;
        let control = open_control(&disk, end)?;
        write_doubtful(&disk, end)?;
        let header = first_header(&disk, &control.now, end, start, wall)?;
        let first_kept = control.now.first_kept();
        let (size, limit) = (options.segment_size, options.spares);
        let mut spares = Spares::adopt(disk.clone(), size, limit, first_kept)?;
        if spares.ready() == 0 {
            spares.prepare(u64::MAX)?;
        }
        let current = begin_segment(&disk, &mut spares, header)?;
        let mut writer = Self {
            queue: None,
            under_way: VecDeque::new(),
            buffers: Vec::new(),
            disk,
            options,
            control,
            control_is_late: true,
            spares,
            current,
            tail: Tail {
                offset: BLOCK as u64,
                sequence: end.sequence,
                checksum: end.checksum,
            },
            durable: durable(end),
            floor: floor(end, start),
            positions: positions(end, start),
            recycled_before: first_kept,
            is_unconfirmed: false,
            has_remains: false,
            uses_reserve: false,
            told_of_space: false,
            buffer: AlignedBuffer::zeroed(0),
            failure: None,
        };
        writer.settle_control()?;
        tracing::info!(log = %writer.log(), run = header.run, segment = header.number, "opened the log");
        Ok(writer)
    }
}

/// What this owner writes must be readable for the next one.
fn check_numbers(end: &LogEnd) -> Result<()> {
    let header = end.segment.map_or([0; 2], |last| [last.number, last.run]);
    let control = end.control.map_or([0; 4], |control| {
        let checkpoint = control.checkpoint.map_or(0, |mark| mark.number);
        [
            control.generation,
            control.run,
            control.newest_segment,
            checkpoint,
        ]
    });
    let mut numbers = header.into_iter().chain(control).chain([end.sequence]);
    match numbers.all(|number| number < COUNT_MAX / 2) {
        true => Ok(()),
        false => Err(LogError::Refused(
            "its numbers have come to their end".into(),
        )),
    }
}

/// Makes durable what the log has, as [`LogWriter::open`] does: but that needs space for more.
/// `end` knows of it then.
///
/// # Errors
/// Those of [`LogWriter::open`].
pub fn settle<D: Disk>(disk: &D, end: &mut LogEnd) -> Result<()> {
    write_doubtful(disk, end)?;
    (end.doubtful_offset, end.doubtful_seed) = (end.offset, end.checksum);
    Ok(())
}

/// Gives up what is retained before this segment, of a log that cannot be opened for lack of space:
/// [`LogWriter::open`] makes spares of it. `end` knows of it then.
///
/// # Errors
/// [`LogError::Full`]: to be tried again. [`LogError::Io`].
pub fn give_up_before<D: Disk>(disk: &D, end: &mut LogEnd, segment: u64) -> Result<()> {
    let Some(now) = end.control else {
        return Ok(());
    };
    let mut control = open_control(disk, end)?;
    let first = segment.clamp(now.first_kept(), now.first_needed);
    let next = Control {
        first_retained: first_retained(first, now.first_needed),
        ..now
    };
    // Both slots say so, or the one that counts is not touched again.
    let written = control.write(next).and_then(|()| control.write(next));
    written.map_err(step("write", control::NAME))?;
    end.control = Some(control.now);
    Ok(())
}

/// The control file, durable. Both slots name the same beginning: what is before it is recycled
/// next, and perhaps an earlier owner did not come to write the second one.
fn open_control<D: Disk>(disk: &D, end: &LogEnd) -> Result<ControlFile<D::File>> {
    // An attempt before this one, which found no space, may have made it, and a segment of it.
    let now = match end.control {
        Some(now) => Some(now),
        None => read_control(disk).map_err(healing)?,
    };
    let Some(now) = now else {
        let id = disk.random().map_err(step("draw", "an identity"))?;
        let control = ControlFile::create(disk, Control::new(LogId(id)));
        return Ok(control.map_err(step("create", control::NAME))?);
    };
    let control = ControlFile::open(disk, now).map_err(step("open", control::NAME))?;
    let mut control = control.ok_or_else(|| {
        let missing = io::ErrorKind::NotFound.into();
        step("open", control::NAME)(missing)
    })?;
    let written = control.write_again().and_then(|()| control.write(now));
    written.map_err(step("write", control::NAME))?;
    Ok(control)
}

/// Files that cannot be opened for want of descriptors can be opened later.
fn healing(error: LogError) -> LogError {
    match error {
        LogError::Io {
            action,
            file,
            source,
        } => step(action, file)(source).into(),
        error => error,
    }
}

/// Makes durable what a dead owner may have left in the page cache. It is written again and not
/// only flushed: if a flush of it has failed before, the next one says nothing about it. All
/// segments but the last were flushed before the last one was begun. The name of the
/// control file may not be durable either. That of a segment is, or the segment is the last one
/// and has no batch: then it is replaced.
fn write_doubtful<D: Disk>(disk: &D, end: &LogEnd) -> Result<(), StepError> {
    if let Some(last) = &end.segment {
        let name = segment::name(last.number);
        let (from, to) = (disk.open(&name), disk.open_for_writing(&name));
        let from = from.map_err(step("open", &name))?;
        let to = to.map_err(step("open", &name))?;
        if let (Some(from), Some(to)) = (from, to) {
            let written = write_again(&from, &to, end);
            written.map_err(step("write", &name))?;
        }
    }
    let flushed = disk.flush_folder("");
    flushed.map_err(flush_step("the data directory"))
}

/// Batch by batch. Each is verified once more: what the page cache had may have gone since recovery
/// read it, if a flush of it had failed, and what the disk has instead is not to become durable.
fn write_again<F: DiskFile>(from: &F, to: &F, end: &LogEnd) -> io::Result<()> {
    let mut buffer = AlignedBuffer::zeroed(0);
    let (mut offset, mut seed) = (end.doubtful_offset, end.doubtful_seed);
    while offset < end.offset {
        buffer.resize(BLOCK);
        read_exactly(from, offset, &mut buffer)?;
        let size = BatchHeader::peek(&buffer).map_err(changed)?.size();
        buffer.resize(size as usize);
        read_exactly(from, offset, &mut buffer)?;
        seed = BatchView::decode(&buffer, seed)
            .map_err(changed)?
            .header
            .checksum;
        to.write_flushed(offset, &buffer)?;
        offset += size;
    }
    match (offset, seed) == (end.offset, end.checksum) || end.doubtful_offset == end.offset {
        true => Ok(()),
        false => Err(changed("it ends elsewhere")),
    }
}

fn read_exactly<F: DiskFile>(from: &F, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
    match from.read_whole(offset, bytes)? == bytes.len() {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn changed(why: impl std::fmt::Display) -> io::Error {
    let why = format!("a batch is not what it was when the log was read: {why}");
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Header of the segment that begins now. It takes the place of a last segment without batches,
/// or else a daemon that cannot start would leave one at every attempt.
fn first_header<D: Disk>(
    disk: &D,
    control: &Control,
    end: &LogEnd,
    start: Start,
    wall: u64,
) -> Result<SegmentHeader> {
    let last_run = end.segment.map_or(0, |last| last.run);
    let run = match (start, end.segment) {
        (Start::NewRun, _) => control.run.max(last_run) + 1,
        (Start::SameRun, Some(last)) => last.run,
        (Start::SameRun, None) => {
            return Err(LogError::Refused("no run has begun in this log".into()));
        }
    };
    let mut header = match end.segment {
        Some(last) if end.offset == BLOCK as u64 => last,
        Some(last) => behind(&last, end),
        None => very_first(control, end),
    };
    header.wall = wall;
    if run != last_run {
        let id = disk.random().map_err(step("draw", "an identity"))?;
        header.run = run;
        header.run_id = RunId(id);
        header.cut = end.epoch;
    }
    Ok(header)
}

fn very_first(control: &Control, end: &LogEnd) -> SegmentHeader {
    SegmentHeader {
        log: control.log,
        number: control.first_needed,
        run: 0,
        run_id: RunId::default(),
        first_sequence: end.sequence + 1,
        before: 0,
        before_end: 0,
        before_checksum: 0,
        cut: 0,
        wall: 0,
    }
}

/// In the same run.
fn behind(last: &SegmentHeader, end: &LogEnd) -> SegmentHeader {
    SegmentHeader {
        number: last.number + 1,
        first_sequence: end.sequence + 1,
        before: last.number,
        before_end: end.offset,
        before_checksum: end.checksum,
        cut: 0,
        ..*last
    }
}

fn durable(end: &LogEnd) -> Durable {
    let holder = end
        .segment
        .map_or(0, |last| match end.offset == BLOCK as u64 {
            true => last.before,
            false => last.number,
        });
    Durable {
        segment: if end.sequence == 0 { 0 } else { holder },
        sequence: end.sequence,
        epoch: end.epoch,
    }
}

/// A new run's clock begins above everything that was ever in the log.
fn floor(end: &LogEnd, start: Start) -> u64 {
    match start {
        Start::NewRun => end.greatest_timestamp,
        Start::SameRun => end.epoch,
    }
}

fn positions(end: &LogEnd, start: Start) -> Vec<u64> {
    match start {
        Start::NewRun => Vec::new(),
        Start::SameRun => end.positions.clone(),
    }
}
