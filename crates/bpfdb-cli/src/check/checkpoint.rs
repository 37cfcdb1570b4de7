//! The checkpoint that recovery would begin with: what it has, and whether it is whole.

use std::path::Path;

use anyhow::{Context, Result};
use bpfdb_log::checkpoint::{CheckpointReader, Footer, Mark};
use bpfdb_log::control::Control;
use bpfdb_log::{Directory, LogError, Recovery};
use bpfdb_server::settings::Size;
use serde_json::{Value, json};

use super::{Section, line};

/// An owner may replace it while it is read: then the next one is.
const ATTEMPTS: u32 = 5;

pub(super) fn section(dir: &Path) -> Result<Section> {
    let disk = Directory::read_only(dir);
    let mut found = read(&disk)?;
    for _ in 1..ATTEMPTS {
        match found {
            Found::Damaged(..) => found = read(&disk)?,
            _ => break,
        }
    }
    Ok(Section {
        name: "checkpoint",
        is_fine: !matches!(found, Found::Damaged(..)),
        text: text(&found),
        json: describe(&found),
    })
}

/// Nothing brings the bytes back.
pub(crate) const WAYS_OUT: &str = "a server does not recover from it: use `bpfdb recover` if it can go back to an \
     older one, else a copy; or if the data is in the kernel still, start a server and run SAVE";

/// What is wrong with it, if there is one.
///
/// # Errors
/// It cannot be read.
pub(crate) fn damage(disk: &Directory) -> Result<Option<LogError>> {
    Ok(match read(disk)? {
        Found::Damaged(_, error) => Some(error),
        Found::Nothing | Found::Whole(..) => None,
    })
}

enum Found {
    Nothing,
    Whole(Mark, Footer),
    Damaged(Mark, LogError),
}

fn read(disk: &Directory) -> Result<Found> {
    // What is wrong with the control file the section of the log says.
    let Ok(recovery) = Recovery::new(disk.clone(), 0) else {
        return Ok(Found::Nothing);
    };
    let Some(control) = recovery.control().copied() else {
        return Ok(Found::Nothing);
    };
    let Some(mark) = control.checkpoint else {
        return Ok(Found::Nothing);
    };
    match verified(disk, &control, mark) {
        Ok(footer) => Ok(Found::Whole(mark, footer)),
        Err(error) if error.is_damage() => Ok(Found::Damaged(mark, error)),
        Err(error) => Err(error).context("cannot read the checkpoint"),
    }
}

fn verified(disk: &Directory, control: &Control, mark: Mark) -> Result<Footer, LogError> {
    let mut reader = CheckpointReader::open(disk, control.log, mark)?;
    reader.verify()?;
    Ok(*reader.footer())
}

fn describe(found: &Found) -> Value {
    match found {
        Found::Nothing => Value::Null,
        Found::Whole(mark, footer) => json!({
            "number": mark.number,
            "start": mark.start,
            "end": mark.end,
            "keys": footer.entries,
            "bytes": footer.bytes,
        }),
        Found::Damaged(mark, error) => json!({
            "number": mark.number,
            "start": mark.start,
            "end": mark.end,
            "corrupt": error.to_string(),
        }),
    }
}

fn text(found: &Found) -> String {
    let what = match found {
        Found::Nothing => "none".into(),
        Found::Whole(mark, footer) => format!(
            "{}, {} keys, {}; commits after {} are in the log",
            mark.number,
            footer.entries,
            Size(footer.bytes),
            mark.start
        ),
        Found::Damaged(_, error) => format!("{error}; {WAYS_OUT}"),
    };
    let mut text = String::new();
    line(&mut text, "checkpoint", &what);
    text
}
