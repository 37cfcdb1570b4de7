//! From which point in time recovery is possible, and what is retained for that.

use std::path::Path;

use anyhow::{Context, Result};
use bpfdb_log::{Beginning, Corrupt, Directory, Moment, RetainedReport, check_retained};
use bpfdb_server::settings::Size;
use serde_json::{Value, json};

use super::{Section, line};
use crate::times;

pub(super) fn section(dir: &Path) -> Result<Section> {
    let shown = dir.display();
    let report = check_retained(&Directory::read_only(dir))
        .with_context(|| format!("cannot read what {shown} retains"))?;
    Ok(Section {
        name: "recovery",
        is_fine: report.damaged.is_empty(),
        text: text(&report),
        json: describe(&report),
    })
}

fn describe(report: &RetainedReport) -> Value {
    let wall = |moment: &Moment| (moment.wall > 0).then(|| times::show(moment.wall));
    json!({
        "earliest": report.earliest.as_ref().map(|moment| json!({
            "timestamp": moment.epoch,
            "wall": wall(moment),
        })),
        "retained_bytes": report.bytes,
        "retained": report.beginnings.iter().map(|beginning| json!({
            "checkpoint": beginning.mark.map(|mark| mark.number),
            "first_segment": beginning.first_segment,
            "timestamp": beginning.earliest.epoch,
            "wall": wall(&beginning.earliest),
            "checkpoint_bytes": beginning.bytes,
        })).collect::<Vec<_>>(),
        "damaged": report.damaged.iter().map(|damage| json!({
            "file": damage.file,
            "offset": damage.offset,
            "why": damage.why,
        })).collect::<Vec<_>>(),
    })
}

fn text(report: &RetainedReport) -> String {
    let mut text = String::new();
    if let Some(earliest) = &report.earliest {
        line(&mut text, "recovery", &from(earliest));
    }
    if !report.beginnings.is_empty() {
        line(&mut text, "retained", &retained(report));
    }
    // The one that a start needs has its own section.
    let is_not_needed = |damage: &&Corrupt| report.needed.as_ref() != Some(&damage.file);
    for damage in report.damaged.iter().filter(is_not_needed) {
        let what = format!("{damage}; a server starts all the same");
        line(&mut text, "DAMAGED", &what);
    }
    text
}

fn from(earliest: &Moment) -> String {
    match earliest.wall {
        0 => "is possible to any point, from the beginning of the log on".into(),
        wall => format!(
            "is possible to any point from timestamp {} ({}) on",
            earliest.epoch,
            times::show(wall)
        ),
    }
}

fn retained(report: &RetainedReport) -> String {
    let has_checkpoint = |one: &&Beginning| one.mark.is_some();
    let checkpoints = report.beginnings.iter().filter(has_checkpoint).count();
    format!(
        "{}, with {checkpoints} older checkpoints; no start reads it",
        Size(report.bytes)
    )
}
