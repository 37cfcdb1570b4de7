//! Makes a control file anew, of what segments and checkpoints say of themselves, when neither of
//! its slots is valid; or one is not, and the other one names what is not there any more.
//!
//! # Rules
//!
//! 1. Segments go oldest first, and only when a checkpoint counts that does not need them. So what
//!    the oldest segment is says which checkpoints can count: none is needed if the log's beginning
//!    is there; else the oldest that needs no segment before it. A later one may not count yet.
//!    What was only retained is needed then: recovery begins with that, and takes longer.
//! 2. What stands nowhere else is lost: whether a later segment has vanished, whether the last
//!    batches were durable, and the earliest point of a copy, which then seems to give every
//!    point. Batches that are damaged at the end are taken for torn ones.
//! 3. A slot of a format that this program does not know is no damage.
//! 4. If both slots are valid, it is not the control file that is damaged.

use crate::disk::Disk;
use crate::error::{LogError, Result, flush_step, step};
use crate::format::checkpoint::{self, Mark};
use crate::format::control::{Control, ControlFile, Slots};
use crate::format::layout::{COUNT_MAX, Invalid, LogId};
use crate::format::segment::{self, SegmentHeader, read_header};

/// A control file that is to be written. Nothing has changed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuilt {
    control: Control,
}

impl Rebuilt {
    /// `None`: a slot leads to the log, or there is nothing that it would be the control file of.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] if nothing says where the log begins; [`LogError::Refused`] if
    /// segments are of different logs, or the file of another version; [`LogError::Io`].
    pub fn plan<D: Disk>(disk: &D) -> Result<Option<Self>> {
        let slots = Slots::read(disk)?;
        refuse_other_version(slots.as_ref())?;
        let valid = slots.as_ref().and_then(Slots::newest);
        let is_whole = slots.is_some_and(|Slots(slots)| slots.iter().all(Result::is_ok));
        if let Some(valid) = &valid
            && (is_whole || leads_somewhere(disk, valid)?)
        {
            return Ok(None);
        }
        let numbers = segment::numbers(disk)?;
        let (Some(&first), Some(&newest)) = (numbers.first(), numbers.last()) else {
            return Ok(None);
        };
        let oldest = read_header(disk, first)?
            .ok_or_else(|| LogError::corrupt(segment::name(first), 0, "the segment vanished"))?;
        let run = greatest_run(disk, &oldest, &numbers)?;
        let (first_needed, checkpoint) = beginning(disk, &oldest, newest)?;
        let base = match valid {
            Some(valid) if valid.log == oldest.log => following(valid),
            _ => Control::new(oldest.log),
        };
        let control = Control {
            run: base.run.max(run),
            first_needed,
            first_retained: 0,
            newest_segment: base.newest_segment.max(newest),
            checkpoint,
            ..base
        };
        Ok(Some(Self { control }))
    }

    /// What it will say.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Writes the file, in the place of what is there.
    ///
    /// # Errors
    /// Those of writing: to be tried again.
    pub fn apply<D: Disk>(&self, disk: &D) -> Result<()> {
        let name = crate::format::control::NAME;
        ControlFile::create(disk, self.control).map_err(step("write", name))?;
        disk.flush_folder("")
            .map_err(flush_step("the data directory"))?;
        Ok(())
    }
}

fn refuse_other_version(slots: Option<&Slots>) -> Result<()> {
    let reasons = slots.iter().flat_map(|Slots(slots)| slots);
    let mut reasons = reasons.filter_map(|slot| slot.as_ref().err());
    match reasons.find(|why| matches!(why, Invalid::Version(_))) {
        Some(why) => Err(LogError::Refused(format!("the control file: {why}"))),
        None => Ok(()),
    }
}

/// Whether what a slot names as the log's beginning is there, be it damaged.
fn leads_somewhere<D: Disk>(disk: &D, control: &Control) -> Result<bool> {
    let is_there = |name: &str| {
        let file = disk.open(name).map_err(LogError::io("open", name));
        file.map(|file| file.is_some())
    };
    if let Some(mark) = control.checkpoint
        && !is_there(&checkpoint::name(mark.number))?
    {
        return Ok(false);
    }
    is_there(&segment::name(control.first_needed))
}

/// What is still true of what the slot says that is valid.
fn following(valid: Control) -> Control {
    Control {
        // A greater one is not valid.
        generation: (valid.generation + 1).min(COUNT_MAX - 1),
        closed: false,
        ..valid
    }
}

/// Of all segments with a valid header. One that is not is found when the log is read.
fn greatest_run<D: Disk>(disk: &D, oldest: &SegmentHeader, numbers: &[u64]) -> Result<u64> {
    let mut run = 0;
    for &number in numbers {
        match read_header(disk, number) {
            Ok(Some(header)) if header.log != oldest.log => {
                let why = format!("{} is of another log", segment::name(number));
                return Err(LogError::Refused(why));
            }
            Ok(Some(header)) => run = run.max(header.run),
            Ok(None) | Err(LogError::Corrupt(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(run)
}

/// The first segment that recovery needs, and the checkpoint that it begins with: rule 1.
/// A checkpoint whose first segment is not there is none: commits that it needs are in that.
fn beginning<D: Disk>(
    disk: &D,
    oldest: &SegmentHeader,
    newest: u64,
) -> Result<(u64, Option<Mark>)> {
    let is_there = oldest.number..=newest;
    if oldest.before == 0 {
        return Ok((oldest.number, None));
    }
    for number in checkpoint::numbers(disk)? {
        match whole(disk, oldest.log, number) {
            Ok((first, mark)) if is_there.contains(&first) => return Ok((first, Some(mark))),
            Ok(_) | Err(LogError::Corrupt(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let why = "the log before it was removed, and there is no checkpoint to begin with";
    Err(LogError::corrupt(segment::name(oldest.number), 0, why))
}

/// The first segment that a checkpoint needs, and what the control file would say of it.
fn whole<D: Disk>(disk: &D, log: LogId, number: u64) -> Result<(u64, Mark)> {
    let (header, footer) = checkpoint::read_ends(disk, number)?;
    let mark = checkpoint::mark_of(number, &header, &footer)?;
    checkpoint::CheckpointReader::open(disk, log, mark)?;
    Ok((header.first_segment, mark))
}
