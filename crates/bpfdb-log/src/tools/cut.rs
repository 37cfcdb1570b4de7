//! Ends a log at a place, so that it can be started from what is whole.
//!
//! ```text
//! segment 2                   segment 3                segment 2            segment 3
//! ┌───┬─────┬─────┬──────┬─┐ ┌───┬──────┬──────┐      ┌───┬─────┬─────┬──┐ ┌───────────────────┐
//! │   │ ≤ 3 │ ≤ 5 │ lost │…│ │   │ lost │ lost │  ──► │   │ ≤ 3 │ ≤ 5 │…….│ │ run + 1, cut 5,   │
//! └───┴─────┴─────┴──────┴─┘ └───┴──────┴──────┘      └───┴─────┴─────┴──┘ │ ends there: ▲     │
//!                 ▲ place                                                  └───────────────────┘
//! ```
//!
//! # Rules
//!
//! 1. No byte of the log is changed. The segments behind the place go away, the last first; then
//!    the log is opened as after a crash, which begins a segment that says where the one before it
//!    ends, and what the new run is based on.
//! 2. Until the control file is written, which is last, it knows of a segment or of a batch that is
//!    not there. So a crash in between leaves what was there before, or a log that is corrupt and
//!    can be cut again, or the one that was wanted. It never leaves another one.
//! 3. A file that goes away never becomes a spare, and the spares that are there are removed: what
//!    the segments behind the place had would be valid in those that get their numbers.
//! 4. The new run begins above every timestamp that is lost, as far as these can be read. So a
//!    timestamp that a client has seen is not used for another commit.
//! 5. What goes away is kept in a folder, if that is asked for: the control file and the segment of
//!    the place as copies, the segments behind as they are.

use crate::disk::buffer::AlignedBuffer;
use crate::disk::{Disk, DiskFile, read_around};
use crate::error::{LogError, Result, flush_step, step};
use crate::format::control::{self, Control};
use crate::format::layout::{BLOCK, round_up};
use crate::format::place::Place;
use crate::format::segment::{self, FOLDER, Named, read_header};
use crate::read::reader::read_control;
use crate::read::recovery::{LogEnd, Recovery};
use crate::tools::lost::Lost;
use crate::write::writer::{Batch, LogWriter, Options, Start};

/// Copied at once, in bytes.
const STRIDE: usize = 1 << 20;

/// A cut that is planned. Nothing has changed yet.
pub struct Cut {
    control: Control,
    place: Place,
    end: LogEnd,
    lost: Lost,
}

impl Cut {
    /// Reads the log up to `place`, and looks what is behind it. Commits up to `after` are in a
    /// checkpoint, as in [`Recovery::new`].
    ///
    /// # Errors
    /// [`LogError::Refused`] if no batch ends there, or nothing of the log would be left;
    /// [`LogError::Corrupt`] if the log is not even whole up to there; [`LogError::Io`].
    pub fn plan<D: Disk>(disk: &D, after: u64, place: Place) -> Result<Self> {
        let control = read_control(disk)?.ok_or_else(|| refused("there is no log"))?;
        let limit = resolve(disk, &control, place)?;
        let mut recovery = Recovery::up_to(disk.clone(), control, after, limit);
        let mut dropped = 0;
        while recovery.step()?.is_some() {
            recovery.forget_ready();
            dropped = recovery.end().dropped;
        }
        let mut end = recovery.end().clone();
        if end.epoch == 0 {
            add_retained(disk, &control, limit, &mut end);
        }
        let last = end.segment.map_or(0, |header| header.number);
        let place = Place {
            segment: last,
            offset: end.offset,
        };
        if limit.offset == 0 && last + 1 != limit.segment {
            return Err(refused(&format!("there is no segment before {limit}")));
        }
        let held = end.dropped - dropped;
        let lost = Lost::survey(disk, &control, place, &end, held)?;
        Ok(Self {
            control,
            place,
            end,
            lost,
        })
    }

    /// Where the log ends then.
    pub fn place(&self) -> Place {
        self.place
    }

    /// What is left.
    pub fn end(&self) -> &LogEnd {
        &self.end
    }

    /// What goes away.
    pub fn lost(&self) -> &Lost {
        &self.lost
    }

    /// Cuts the log. `keep`: name of a folder of the data directory that gets what goes away; it
    /// is made. `wall`: nanoseconds of UNIX time.
    ///
    /// # Errors
    /// Those of writing. Nothing more is lost by them: the log is as it was, or as is wanted, or
    /// corrupt, and can be cut again.
    pub fn apply<D: Disk>(self, disk: &D, keep: Option<&str>, wall: u64) -> Result<()> {
        let options = self.options(disk)?;
        if let Some(folder) = keep {
            self.copy_to(disk, folder)?;
        }
        remove_spares(disk)?;
        for number in self.lost.segments.iter().rev() {
            let name = segment::name(*number);
            let gone = match keep {
                Some(folder) => disk.rename(&name, &kept(folder, &name)),
                None => disk.remove(&name),
            };
            gone.map_err(step("move away", &name))?;
        }
        for folder in keep.iter().copied().chain([FOLDER]) {
            disk.flush_folder(folder).map_err(flush_step(folder))?;
        }
        let mut writer = LogWriter::open(disk.clone(), &self.end, Start::NewRun, wall, options)?;
        if self.lost.greatest_timestamp > self.end.greatest_timestamp {
            writer.append(Batch {
                epoch: self.lost.greatest_timestamp,
                positions: &[],
                wall,
                records: &[],
                record_count: 0,
            })?;
        }
        writer.close()
    }

    /// Sizes as they are, so that the spares stay of use. The file that is damaged may be shorter.
    fn options<D: Disk>(&self, disk: &D) -> Result<Options> {
        let mut segment_size = 0;
        for file in disk.list(FOLDER).map_err(LogError::io("list", FOLDER))? {
            if Named::parse(&file).is_some() {
                segment_size = size_of(disk, &format!("{FOLDER}/{file}"))?.max(segment_size);
            }
        }
        let segment_size = round_up(segment_size, BLOCK as u64);
        let default = Options::default();
        let rest = segment_size.saturating_sub(BLOCK as u64);
        let options = Options {
            segment_size,
            batch_size: default.batch_size.min(rest),
            ..default
        };
        Ok(match options.check() {
            Ok(()) => options,
            Err(_) => default,
        })
    }

    fn copy_to<D: Disk>(&self, disk: &D, folder: &str) -> Result<()> {
        disk.make_folder(folder).map_err(step("make", folder))?;
        for name in [control::NAME.to_owned(), segment::name(self.place.segment)] {
            copy(disk, &name, &kept(folder, &name))?;
        }
        for folder in [folder, ""] {
            disk.flush_folder(folder).map_err(flush_step(folder))?;
        }
        Ok(())
    }

    /// The control slot that counted.
    pub fn control(&self) -> &Control {
        &self.control
    }
}

fn remove_spares<D: Disk>(disk: &D) -> Result<()> {
    for file in disk.list(FOLDER).map_err(LogError::io("list", FOLDER))? {
        if let Some(Named::Spare(_)) = Named::parse(&file) {
            let name = format!("{FOLDER}/{file}");
            disk.remove(&name).map_err(step("remove", &name))?;
        }
    }
    Ok(())
}

fn size_of<D: Disk>(disk: &D, name: &str) -> Result<u64> {
    let file = disk.open(name).map_err(LogError::io("open", name))?;
    let size = file.map_or(Ok(0), |file| file.size());
    size.map_err(LogError::io("find the size of", name))
}

/// Name that a file has in the folder of what goes away.
fn kept(folder: &str, name: &str) -> String {
    let file = name.rsplit('/').next().unwrap_or(name);
    format!("{folder}/{file}")
}

fn refused(why: &str) -> LogError {
    LogError::Refused(why.to_owned())
}

/// If recovery needs no batch before the place, what is retained before it says up to where the
/// run was durable; the next run must say the same, or no reader could go on from there. What cannot
/// be read says nothing.
fn add_retained<D: Disk>(disk: &D, control: &Control, limit: Place, end: &mut LogEnd) {
    for first_needed in (control.first_kept()..control.first_needed).rev() {
        let view = Control {
            first_needed,
            ..*control
        };
        let mut recovery = Recovery::up_to(disk.clone(), view, u64::MAX, limit);
        loop {
            match recovery.step() {
                Ok(Some(_)) => recovery.forget_ready(),
                Ok(None) => break,
                Err(_) => return,
            };
        }
        let found = recovery.end();
        if found.epoch > 0 {
            end.epoch = found.epoch;
            end.greatest_timestamp = end.greatest_timestamp.max(found.greatest_timestamp);
            return;
        }
    }
}

/// Of a place before a segment's header, the end of the segment before, if that header says it.
fn resolve<D: Disk>(disk: &D, control: &Control, place: Place) -> Result<Place> {
    let first = Place {
        segment: control.first_needed,
        offset: BLOCK as u64,
    };
    if place < first {
        let why = format!(
            "nothing of the log would be left: it begins with segment {}",
            first.segment
        );
        return Err(refused(&why));
    }
    if place.offset > 0 {
        return Ok(place);
    }
    match read_header(disk, place.segment) {
        Ok(Some(header)) if header.log == control.log && header.before_end > 0 => Ok(Place {
            segment: header.before,
            offset: header.before_end,
        }),
        Ok(_) | Err(LogError::Corrupt(_)) => Ok(place),
        Err(error) => Err(error),
    }
}

/// Copies a file, durably, whole blocks of it. Those that the disk does not give back are zeros.
fn copy<D: Disk>(disk: &D, from: &str, to: &str) -> Result<()> {
    let source = disk.open(from).map_err(step("open", from))?;
    let source = source.ok_or_else(|| LogError::corrupt(from, 0, "the file is missing"))?;
    let target = disk.create(to).map_err(step("create", to))?;
    let size = source.size().map_err(step("find the size of", from))?;
    let mut buffer = AlignedBuffer::zeroed(STRIDE);
    let mut offset = 0;
    while offset < size {
        let read = read_around(&source, offset, &mut buffer);
        let (read, unreadable) = read.map_err(step("read", from))?;
        if unreadable > 0 {
            tracing::warn!(
                file = from,
                offset,
                unreadable,
                "zeros are kept instead of what the disk cannot read"
            );
        }
        let whole = read / BLOCK * BLOCK;
        let written = target.write_whole(offset, &buffer[..whole]);
        written.map_err(step("write", to))?;
        offset += whole as u64;
        if read < STRIDE {
            break;
        }
    }
    target.flush().map_err(flush_step(to))?;
    Ok(())
}
