//! `bpfdb repair`.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use bpfdb_log::control::Control;
use bpfdb_log::{Cut, Directory, Disk, Place, Rebuilt, check};
use serde_json::json;

use crate::bars::Progress;
use crate::check::checkpoint;
use crate::{output, times};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Data directory, which no server may use
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Where the log is to end, as `bpfdb check` prints it; else where it stops being whole
    #[arg(long, value_name = "SEGMENT:OFFSET")]
    truncate_at: Option<Place>,
    /// Do it, without asking
    #[arg(long)]
    yes: bool,
    /// Do not keep what is cut off
    #[arg(long)]
    discard: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let dir = &arguments.dir;
    // To own a directory would make it.
    if !dir.join("control").exists() && !dir.join("log").exists() {
        bail!(
            "{} is no data directory: it has neither control file nor log",
            dir.display()
        );
    }
    let disk = Directory::own(dir)?;
    if let Some(rebuilt) = Rebuilt::plan(&disk).context("cannot make the control file anew")? {
        rebuild(arguments, &disk, &rebuilt)?;
        return Ok(ExitCode::SUCCESS);
    }
    let damage = {
        let _progress = Progress::unknown("reading the checkpoint");
        checkpoint::damage(&disk)?
    };
    if let Some(damage) = damage {
        let ways_out = checkpoint::WAYS_OUT;
        bail!("no repair helps, for the checkpoint is damaged: {damage}; {ways_out}");
    }
    let Some(place) = find_place(arguments, &disk)? else {
        output::print(&format!("{}: the log is whole\n", dir.display()))?;
        return Ok(ExitCode::SUCCESS);
    };
    let cut = {
        let _progress = Progress::unknown("reading the log");
        Cut::plan(&disk, 0, place).with_context(|| format!("cannot cut the log at {place}"))?
    };
    output::print(&describe(&cut))?;
    if !arguments.yes && !confirm()? {
        bail!("nothing was changed; --yes does it");
    }
    apply(arguments, &disk, cut)?;
    Ok(ExitCode::SUCCESS)
}

fn rebuild(arguments: &Arguments, disk: &Directory, rebuilt: &Rebuilt) -> Result<()> {
    output::print(&describe_rebuilt(rebuilt.control()))?;
    if !arguments.yes && !confirm()? {
        bail!("nothing was changed; --yes does it");
    }
    let control = arguments.dir.join("control");
    if !arguments.discard && control.exists() {
        let folder = free_name(&arguments.dir, times::now());
        let kept = arguments.dir.join(&folder).join("control");
        let made = disk.make_folder(&folder);
        made.and_then(|()| fs::copy(&control, &kept))
            .with_context(|| format!("cannot keep the old one as {}", kept.display()))?;
    }
    rebuilt.apply(disk)?;
    output::print("the control file is there: run `bpfdb check`\n")
}

fn describe_rebuilt(control: &Control) -> String {
    let (first, newest) = (control.first_needed, control.newest_segment);
    let begins = control.checkpoint.map_or_else(
        || "at its very beginning".to_owned(),
        |mark| format!("with checkpoint {}", mark.number),
    );
    format!(
        "No slot of the control file leads to the log. What it said can be told from the segments:\n  \
         log {}, run {}, segments {first} to {newest}; recovery begins {begins}\n\
         Lost: whether there was a segment after {newest}, and up to where the last one was \
         durable.\nIf its end is damaged, that will be taken for what a crash tore.\n",
        control.log, control.run
    )
}

/// `None`: the log is whole, and it is not to be cut.
fn find_place(arguments: &Arguments, disk: &Directory) -> Result<Option<Place>> {
    if arguments.truncate_at.is_some() {
        return Ok(arguments.truncate_at);
    }
    let _progress = Progress::unknown("checking the log");
    let report = check(disk, 0)?;
    match (report.fault, report.whole_up_to) {
        (None, _) => Ok(None),
        (Some(_), Some(place)) => Ok(Some(place)),
        (Some(fault), None) => bail!("nothing of the log is whole: {fault}"),
    }
}

fn apply(arguments: &Arguments, disk: &Directory, cut: Cut) -> Result<()> {
    let now = times::now();
    let place = cut.place();
    let folder = (!arguments.discard).then(|| free_name(&arguments.dir, now));
    let note = folder.as_ref().map(|_| note(&cut, now));
    cut.apply(disk, folder.as_deref(), now)
        .with_context(|| format!("the log is not cut yet: run `bpfdb repair` at {place} again"))?;
    let mut text = format!("the log ends at {place}, and a server can start from it\n");
    if let (Some(folder), Some(note)) = (folder, note) {
        let path = arguments.dir.join(folder);
        // The log is repaired, with or without it.
        fs::write(path.join("cut.json"), note)
            .with_context(|| format!("cannot say in {} what is there", path.display()))?;
        writeln!(text, "what was cut off is kept in {}", path.display())?;
    }
    output::print(&text)
}

/// A folder that is not there yet, named after the time.
fn free_name(dir: &Path, now: u64) -> String {
    let time = times::show(now);
    let second = time.split('.').next().unwrap_or(&time).replace(':', "-");
    let names = (1..).map(|n| match n {
        1 => format!("cut-{second}Z"),
        n => format!("cut-{second}Z-{n}"),
    });
    let mut free = names.filter(|name| !dir.join(name).exists());
    free.next().unwrap_or_default()
}

/// For a user who finds the folder later.
fn note(cut: &Cut, now: u64) -> String {
    let lost = cut.lost();
    let note = json!({
        "cut_at": cut.place().to_string(),
        "date": times::show(now),
        "log": cut.control().log.to_string(),
        "kept_up_to": cut.end().epoch,
        "lost": {
            "commits": lost.commits,
            "batches": lost.batches,
            "unreadable_batches": lost.unreadable,
            "unreadable_bytes": lost.unreadable_bytes,
            "greatest_timestamp": lost.greatest_timestamp,
            "breaks_checkpoint": lost.breaks_checkpoint.is_some(),
        },
    });
    format!("{note:#}\n")
}

fn describe(cut: &Cut) -> String {
    let (end, lost) = (cut.end(), cut.lost());
    let mut text = format!(
        "The log is to end at {}, with timestamp {} (batch {}).\n",
        cut.place(),
        end.epoch,
        end.sequence
    );
    let mut line = |line: String| text += &format!("  {line}\n");
    line(format!(
        "lost: {} transactions in {} batches that can be read",
        lost.commits, lost.batches
    ));
    if lost.unreadable > 0 {
        line(format!(
            "lost: {} batches that cannot be read, with {} records",
            lost.unreadable, lost.unreadable_records
        ));
    }
    if lost.unreadable_bytes > 0 {
        line(format!(
            "lost: whatever is in {} bytes that the disk cannot read",
            lost.unreadable_bytes
        ));
    }
    if let Some((first, last)) = lost.epochs {
        line(format!("their epochs: {first} to {last}"));
    }
    if let Some((first, last)) = lost.walls {
        line(format!(
            "written: {} to {}",
            times::show(first),
            times::show(last)
        ));
    }
    if !lost.segments.is_empty() {
        line(format!("segments that go: {}", lost.segments.len()));
    }
    if let Some((start, last)) = lost.breaks_checkpoint {
        line(format!(
            "the checkpoint needs the transactions {start} to {last}, of which some are lost:"
        ));
        line("any key that one of these wrote may be missing, or have a part of it".into());
        line("a copy of the directory, or a dump, is better than what will be left".into());
    }
    let durable = match lost.was_durable {
        true => "Some of it was durable: clients may have had replies that depend on it.",
        false => "Nothing says that any of it was durable.",
    };
    text + durable + "\n"
}

/// Asks, if there is a terminal.
fn confirm() -> Result<bool> {
    if !io::stdin().is_terminal() {
        return Ok(false);
    }
    output::print("Type yes to cut it: ")?;
    io::stdout().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim() == "yes")
}
