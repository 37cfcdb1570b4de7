//! `bpfdb recover`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};

use anyhow::{Context, Result, bail};
use bpfdb_log::{Copied, Directory, LogError, Options, Until, copy_until};
use bpfdb_server::settings::Size;

use crate::bars::Progress;
use crate::output;
use crate::times::{self, HINT, Moment};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The old data directory, which is only read
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// The new one, which is made; it may exist if it is empty
    #[arg(long, value_name = "NEW")]
    to: PathBuf,
    /// Up to this timestamp, or up to the last epoch that is not after this time; else all
    #[arg(long, value_name = HINT)]
    until: Option<Moment>,
}

/// The new directory gets its name when it has everything, so that no server starts from a part.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let to = &arguments.to;
    if fs::read_dir(to).is_ok_and(|mut files| files.next().is_some()) {
        bail!("{} is not empty", to.display());
    }
    let parent = match to.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = to.file_name().context("the new directory needs a name")?;
    let hidden = Hidden::beside(parent, &name.to_string_lossy());
    let copied = copy(&arguments.dir, arguments.until, &hidden)?;
    fs::rename(&hidden.0, to)
        .and_then(|()| File::open(parent)?.sync_all())
        .with_context(|| format!("cannot give the new directory the name {}", to.display()))?;
    output::print(&describe(&copied, to))?;
    if let Some(Until::Timestamp(timestamp)) = arguments.until.map(|moment| moment.0)
        && timestamp > copied.moment.epoch
    {
        // It may be meant as seconds of UNIX time.
        let _ = writeln!(
            io::stderr(),
            "bpfdb: timestamp {timestamp} is later than all of the log, so all of it was copied; a \
             time is written as 2026-11-23T11:59:59Z"
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// A directory that is removed unless it was renamed.
pub(crate) struct Hidden(PathBuf);

impl Hidden {
    /// A name that is not in use in this folder.
    pub(crate) fn beside(folder: &Path, name: &str) -> Self {
        Self(folder.join(format!(".{name}-{}", process::id())))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    fn clear(&self) {
        // After success it is not there.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Attempts that a server may frustrate which makes checkpoints meanwhile.
const ATTEMPTS: u32 = 8;

/// Copies the log of a data directory. Tries again what a checkpoint of a running server took away.
pub(crate) fn copy(from: &Path, until: Option<Moment>, to: &Hidden) -> Result<Copied> {
    let given_up = |outcome: &Result<Copied>| {
        let error = outcome.as_ref().err()?.downcast_ref::<LogError>()?;
        matches!(error, LogError::GivenUp).then_some(())
    };
    for _ in 1..ATTEMPTS {
        let outcome = copy_once(from, until, &to.0);
        if given_up(&outcome).is_none() {
            return outcome;
        }
        tracing::debug!("a checkpoint has replaced what was to be copied: trying again");
        to.clear();
    }
    copy_once(from, until, &to.0)
}

fn copy_once(from: &Path, until: Option<Moment>, to: &Path) -> Result<Copied> {
    let old = Directory::read_only(from);
    let until = until.map(|moment| moment.0);
    let progress = Progress::unknown("copying the log");
    let tell = |copied: &Copied| {
        progress.say(format!(
            "{} transactions, {}",
            copied.commits,
            Size(copied.bytes)
        ));
    };
    copy_until(&old, &Directory::own(to)?, until, Options::default(), tell)
        .map_err(times::explained)
        .with_context(|| format!("cannot recover from {}", from.display()))
}

fn describe(copied: &Copied, to: &Path) -> String {
    let Copied {
        commits,
        writes,
        moment,
        ..
    } = copied;
    let to = to.display();
    format!(
        "{to}: {commits} transactions with {writes} writes, up to timestamp {} ({})\n",
        moment.epoch,
        times::show(moment.wall)
    )
}
