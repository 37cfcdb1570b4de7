//! The log: what it has, what is durable, where it ends, and where it is damaged.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use bpfdb_log::control::{Control, Slots};
use bpfdb_log::{Directory, Place, Report, SegmentReport, check_and_tell};
use bpfdb_server::settings::Size;
use serde_json::{Value, json};

use super::{Section, line};
use crate::bars::Progress;
use crate::times;

pub(super) fn section(dir: &Path) -> Result<Section> {
    let report = read(dir).with_context(|| format!("cannot read the log of {}", dir.display()))?;
    let control = report.slots.as_ref().and_then(Slots::newest);
    let is_fine = report.fault.is_none() && control.is_some();
    Ok(Section {
        name: "log",
        is_fine,
        json: describe(&report, control.as_ref()),
        text: text(dir, &report, control.as_ref()),
    })
}

fn read(dir: &Path) -> Result<Report> {
    let disk = Directory::read_only(dir);
    let folder = dir.join("log");
    let size = |number: u64| {
        let name = bpfdb_log::segment::name(number);
        std::fs::metadata(dir.join(name)).map_or(0, |file| file.len())
    };
    let total = std::fs::read_dir(&folder).map_or(0, |files| {
        let sizes = files.flatten().filter_map(|file| {
            let is_segment = file.path().extension().is_some_and(|end| end == "log");
            is_segment.then(|| file.metadata().map_or(0, |file| file.len()))
        });
        sizes.sum()
    });
    let progress = Progress::bytes("checking the log", total);
    let (mut segment, mut before) = (0, 0);
    Ok(check_and_tell(&disk, 0, |place| {
        if place.segment < segment {
            (segment, before) = (0, 0);
        }
        if place.segment > segment {
            before += if segment == 0 { 0 } else { size(segment) };
            segment = place.segment;
        }
        progress.at(before + place.offset);
    })?)
}

fn describe(report: &Report, control: Option<&Control>) -> Value {
    let end = &report.end;
    json!({
        "format_version": control.map(|control| control.version),
        "id": control.map(|control| control.log.to_string()),
        "run": control.map(|control| control.run),
        "control": control.map(|control| json!({
            "generation": control.generation,
            "first_needed_segment": control.first_needed,
            "newest_segment": control.newest_segment,
            "durable_batch": control.durable_sequence,
            "closed": control.closed,
            "valid_slots": report.slots.iter().flat_map(|slots| &slots.0).filter(|slot| slot.is_ok()).count(),
        })),
        "files": {
            "segments": report.files.segments,
            "spares": report.files.spares,
            "bytes": report.files.size,
            "foreign": report.files.foreign,
        },
        "segments": report.segments.iter().map(segment_json).collect::<Vec<_>>(),
        "runs": report.runs.iter().map(|run| json!({
            "run": run.run,
            "batches": run.batches,
            "epochs": run.epochs,
            "commits": run.commits,
            "dropped_commits": run.dropped,
            "end": run.end,
            "first_wall": run.walls.map(|walls| times::show(walls.0)),
            "last_wall": run.walls.map(|walls| times::show(walls.1)),
            "clock_steps_back": run.clock_steps_back,
        })).collect::<Vec<_>>(),
        "durable": { "batch": report.durable.sequence, "timestamp": report.durable.epoch },
        "end": {
            "place": report.whole_up_to.map(|place| place.to_string()),
            "batch": end.sequence,
            "timestamp": end.epoch,
            "greatest_timestamp": end.greatest_timestamp,
            "closed": end.closed,
            "torn_bytes": end.torn_bytes,
        },
        "fault": report.fault.as_ref().map(|fault| json!({
            "file": fault.file,
            "offset": fault.offset,
            "why": fault.why,
        })),
        "truncate_at": report.fault.as_ref().and(report.whole_up_to).map(|place| place.to_string()),
    })
}

fn segment_json(segment: &SegmentReport) -> Value {
    json!({
        "number": segment.header.number,
        "file": bpfdb_log::segment::name(segment.header.number),
        "run": segment.header.run,
        "cut": segment.header.cut,
        "begun": times::show(segment.header.wall),
        "first_batch": segment.header.first_sequence,
        "last_batch": segment.last_sequence,
        "batches": segment.batches,
        "records": segment.records,
        "commits": segment.commits,
        "payload_bytes": segment.payload,
        "first_epoch": segment.first_epoch,
        "last_epoch": segment.last_epoch,
        "last_wall": times::show(segment.last_wall),
        "end": segment.end,
        "bytes": segment.size,
    })
}

fn text(dir: &Path, report: &Report, control: Option<&Control>) -> String {
    let mut text = String::new();
    match control {
        Some(control) => about_control(&mut text, report, control),
        None if report.fault.is_none() => line(&mut text, "log", "NONE: there is no control file"),
        None => {}
    }
    table(&mut text, report);
    about_runs(&mut text, report);
    if control.is_some() {
        about_end(&mut text, report);
    }
    about_fault(&mut text, dir, report);
    text
}

fn about_control(text: &mut String, report: &Report, control: &Control) {
    let id = format!(
        "{}, format version {}, run {}",
        control.log, control.version, control.run
    );
    line(text, "log", &id);
    let slots = report.slots.iter().flat_map(|slots| &slots.0);
    let invalid = slots.filter_map(|slot| slot.err()).next();
    let control = match invalid {
        // A log that was never written has one slot.
        Some(_) if control.generation == 1 => "generation 1".to_owned(),
        Some(why) => format!(
            "generation {}; the other slot is not valid: {why}",
            control.generation
        ),
        None => format!("generation {}", control.generation),
    };
    line(text, "control", &control);
    let files = &report.files;
    let mut what = format!(
        "{} segments, {} spares, {}",
        files.segments.len(),
        files.spares,
        Size(files.size)
    );
    if !files.foreign.is_empty() {
        what += &format!("; not ours: {}", files.foreign.join(", "));
    }
    line(text, "files", &what);
}

fn table(text: &mut String, report: &Report) {
    if report.segments.is_empty() {
        return;
    }
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "\n{:<18}{:>5}{:>24}{:>10}{:>12}{:>22}{:>16}",
        "segment", "run", "batches", "commits", "used", "up to timestamp", "of"
    );
    for segment in &report.segments {
        let header = &segment.header;
        let batches = match segment.batches {
            0 => "none".to_owned(),
            _ => format!("{} to {}", header.first_sequence, segment.last_sequence),
        };
        let _ = writeln!(
            text,
            "{:016x}  {:>5}{batches:>24}{:>10}{:>12}{:>22}{:>16}",
            header.number,
            header.run,
            segment.commits,
            Size(segment.end).to_string(),
            segment.last_epoch,
            Size(segment.size).to_string(),
        );
    }
    text.push('\n');
}

fn about_runs(text: &mut String, report: &Report) {
    for run in &report.runs {
        let mut what = format!(
            "{} transactions in {} epochs, up to timestamp {}",
            run.commits, run.epochs, run.end
        );
        if let Some((first, last)) = run.walls {
            what += &format!(", from {} to {}", times::show(first), times::show(last));
        }
        if run.dropped > 0 {
            what += &format!("; {} more do not count", run.dropped);
        }
        if run.clock_steps_back > 0 {
            what += &format!("; the wall clock went back {} times", run.clock_steps_back);
        }
        line(text, &format!("run {}", run.run), &what);
    }
}

fn about_end(text: &mut String, report: &Report) {
    let (durable, end) = (&report.durable, &report.end);
    let what = match durable.sequence {
        0 => "nothing says that a batch is".to_owned(),
        _ => format!(
            "up to timestamp {} (batch {})",
            durable.epoch, durable.sequence
        ),
    };
    line(text, "durable", &what);
    if report.fault.is_some() {
        return;
    }
    let place = report
        .whole_up_to
        .map_or("no segment".to_owned(), |place| place.to_string());
    let how = match end.closed {
        true => "closed properly",
        false => "open, or its owner has crashed",
    };
    let what = format!(
        "{place}, timestamp {} (batch {}); {how}",
        end.epoch, end.sequence
    );
    line(text, "end", &what);
    if end.torn_bytes > 0 {
        let what = format!(
            "{} bytes behind the end: a crash tore them, or they are being written; no reply has said that they are durable",
            end.torn_bytes
        );
        line(text, "torn", &what);
    }
}

fn about_fault(text: &mut String, dir: &Path, report: &Report) {
    let Some(fault) = &report.fault else {
        return;
    };
    line(text, "CORRUPT", &fault.to_string());
    let dir = dir.display();
    match report.whole_up_to {
        Some(place) => about_repair(text, &dir.to_string(), place, report.end.epoch),
        None => line(
            text,
            "repair",
            "nothing of the log is whole: use a copy of the directory",
        ),
    }
}

fn about_repair(text: &mut String, dir: &str, place: Place, epoch: u64) {
    let what = format!("up to {place}, timestamp {epoch}");
    line(text, "whole", &what);
    let _ = write!(
        text,
        "\nA server does not start from it. Either go on from what is whole:\n  \
         bpfdb repair --dir {dir} --truncate-at {place}\n\
         or leave it as it is, and make a new directory of what is whole:\n  \
         bpfdb recover --dir {dir} --to NEW --until {epoch}\n"
    );
}
