//! What is retained for recovery to an earlier time, and from which point on it is whole.

use super::{ATTEMPTS, size_of};
use crate::disk::Disk;
use crate::error::{Corrupt, LogError, Result};
use crate::format::checkpoint;
use crate::format::control::Control;
use crate::format::layout::BLOCK;
use crate::format::moment::Moment;
use crate::format::place::Place;
use crate::format::segment;
use crate::read::reader::read_control;
use crate::read::recovery::Recovery;
use crate::read::retained::{Beginning, Beginnings};

/// What a directory has besides what a start needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetainedReport {
    /// Every point from this one on can be had. `None`: the log, or its only checkpoint, is damaged
    /// or not there.
    pub earliest: Option<Moment>,
    /// From where, besides that of a start; oldest first.
    pub beginnings: Vec<Beginning>,
    /// Of segments and checkpoints.
    pub bytes: u64,
    /// What is damaged of it, and of the checkpoint that a start needs. Of what is not needed a server
    /// starts all the same.
    pub damaged: Vec<Corrupt>,
    /// Name of that checkpoint's file; `None`: there is none.
    pub needed: Option<String>,
}

/// Reads all that is retained, up to what a start needs. An owner may give it up meanwhile: then
/// this begins anew.
///
/// # Errors
/// [`LogError::Io`]; [`LogError::Refused`] if the owner is always faster.
pub fn check_retained<D: Disk>(disk: &D) -> Result<RetainedReport> {
    for _ in 0..ATTEMPTS {
        // What is wrong with it the check of the log says.
        let control = match read_control(disk) {
            Ok(Some(control)) => control,
            Ok(None) | Err(LogError::Corrupt(_)) => return Ok(RetainedReport::default()),
            Err(error) => return Err(error),
        };
        let report = examine(disk, &control)?;
        let now = read_control(disk)?;
        let is_same = now.is_some_and(|now| {
            (now.first_kept(), now.checkpoint) == (control.first_kept(), control.checkpoint)
        });
        if is_same || report.damaged.is_empty() {
            return Ok(report);
        }
    }
    let why = "the log changes faster than it can be read: try again, or stop its owner";
    Err(LogError::Refused(why.into()))
}

fn examine<D: Disk>(disk: &D, control: &Control) -> Result<RetainedReport> {
    let found = Beginnings::find(disk, control)?;
    let mut report = RetainedReport {
        bytes: segments(disk, control)?,
        damaged: found.damaged,
        needed: control
            .needed_checkpoint()
            .map(|mark| checkpoint::name(mark.number)),
        ..RetainedReport::default()
    };
    let is_older = |one: &Beginning| one.mark != control.needed_checkpoint();
    // A fault makes all beginnings before it useless.
    let mut broken_before = 0;
    for beginning in found.list {
        if is_older(&beginning) {
            report.bytes = report.bytes.saturating_add(beginning.bytes);
            report.beginnings.push(beginning);
        }
        if report.earliest.is_some() || beginning.first_segment <= broken_before {
            // Of no use for that; but recovery may begin there, and would look for an older one.
            if is_older(&beginning)
                && let Err(error) = beginning.verify(disk, control)
            {
                report.damaged.push(error.damage()?);
            }
            continue;
        }
        match read_all(disk, control, &beginning) {
            Ok(()) => report.earliest = Some(beginning.earliest),
            Err((segment, damage)) => {
                broken_before = broken_before.max(segment);
                report.damaged.push(damage?);
            }
        }
    }
    Ok(report)
}

/// Bytes of the segments before the first that a start needs.
fn segments<D: Disk>(disk: &D, control: &Control) -> Result<u64> {
    let mut size = 0_u64;
    // Those that are there: a control file may name any range.
    for number in segment::numbers(disk)? {
        if (control.first_kept()..control.first_needed).contains(&number) {
            size = size.saturating_add(size_of(disk, &segment::name(number))?);
        }
    }
    Ok(size)
}

/// Verifies a checkpoint, and the log from there up to what a start needs. Else the segment that is
/// damaged, or 0, and how.
fn read_all<D: Disk>(
    disk: &D,
    control: &Control,
    beginning: &Beginning,
) -> Result<(), (u64, Result<Corrupt>)> {
    let verified = beginning.verify(disk, control);
    verified.map_err(|error| (0, error.damage()))?;
    // A start needs all of its log.
    if beginning.first_segment == control.first_needed {
        return Ok(());
    }
    let limit = Place {
        segment: control.first_needed,
        offset: BLOCK as u64,
    };
    let after = beginning.mark.map_or(0, |mark| mark.start);
    let mut recovery = Recovery::up_to(disk.clone(), beginning.view(control), after, limit);
    loop {
        match recovery.step() {
            Ok(Some(_)) => drop(recovery.forget_ready()),
            Ok(None) => return Ok(()),
            Err(error) => {
                let last = recovery.end().segment;
                let segment = last.map_or(beginning.first_segment, |header| header.number);
                return Err((segment, error.damage()));
            }
        }
    }
}
