//! `bpfdb tail`.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use bpfdb_log::reader::read_control;
use bpfdb_log::{Beginnings, Directory, Follower, LogError, RecoveredCommit, Until};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::changes::{self, LineError};
use crate::times::{self, HINT, Moment};

/// Between two looks for more, in milliseconds: the writer of an idle log closes an epoch every 20.
const INTERVAL: u16 = 50;

/// Bytes that are gathered for a write to standard output.
const BUFFER: usize = 1 << 16;

/// The lines are described in docs/formats/changes.md.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Data directory
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Begin with the transactions of this timestamp, or of the first epoch not before this time
    #[arg(long, value_name = HINT)]
    from: Option<Moment>,
    /// End behind the transactions of this timestamp, or before the first epoch after this time
    #[arg(long, value_name = HINT)]
    until: Option<Moment>,
    /// Wait for more at the end
    #[arg(long, short)]
    follow: bool,
}

/// What a transaction is to the range that was asked for.
enum Place {
    Before,
    Inside,
    Behind,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match tail(arguments) {
        Err(LineError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => {
            Ok(ExitCode::SUCCESS)
        }
        Err(LineError::Log(error)) => {
            Err(times::explained(error)).with_context(|| format!("{}", arguments.dir.display()))
        }
        Err(error) => Err(error).with_context(|| format!("{}", arguments.dir.display())),
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
}

fn tail(arguments: &Arguments) -> Result<(), LineError> {
    let from = match arguments.from {
        Some(Moment(Until::Timestamp(timestamp))) => Some(timestamp),
        _ => None,
    };
    let disk = Directory::read_only(&arguments.dir);
    let mut follower = Follower::new(disk.clone(), from, None)?;
    // Not before: what was given up meanwhile would be missing.
    if let Some(Moment(Until::Wall(wall))) = arguments.from {
        refuse_before(&disk, wall)?;
    }
    let mut out = BufWriter::with_capacity(BUFFER, io::stdout().lock());
    let mut has_begun = false;
    loop {
        let Some(commit) = follower.next_commit()? else {
            out.flush()?;
            if !arguments.follow || !wait()? {
                say_rest(&follower, arguments.follow);
                return Ok(());
            }
            continue;
        };
        match arguments.place(&commit, &mut has_begun) {
            Place::Before => {}
            Place::Inside => changes::write_line(&mut out, &commit, &|value, take| {
                follower.read_large(value, take)
            })?,
            Place::Behind => return Ok(out.flush()?),
        }
    }
}

/// What was given up must not be missing without a word.
fn refuse_before(disk: &Directory, wall: u64) -> Result<(), LogError> {
    let Some(control) = read_control(disk)? else {
        return Ok(());
    };
    let mut found = Beginnings::find(disk, &control)?;
    match found.earliest() {
        Some(earliest) if wall < earliest.wall => Err(LogError::TooEarly(earliest)),
        // It is not known when the log begins that is left.
        None if control.first_kept() > 1 => match found.damaged.pop() {
            Some(corrupt) => Err(LogError::Corrupt(corrupt)),
            None => Err(LogError::Gone {
                timestamp: 1,
                complete_after: None,
            }),
        },
        _ => Ok(()),
    }
}

impl Arguments {
    fn place(&self, commit: &RecoveredCommit, has_begun: &mut bool) -> Place {
        let is_before = match self.from {
            Some(Moment(Until::Wall(wall))) => !*has_begun && commit.wall < wall,
            _ => false,
        };
        let is_behind = match self.until {
            Some(Moment(Until::Wall(wall))) => commit.wall > wall,
            Some(Moment(Until::Timestamp(timestamp))) => commit.timestamp > timestamp,
            None => false,
        };
        *has_begun |= !is_before;
        match (is_before, is_behind) {
            (true, _) => Place::Before,
            (false, true) => Place::Behind,
            (false, false) => Place::Inside,
        }
    }
}

/// Waits for a moment. `false`: the reader has closed the output.
fn wait() -> io::Result<bool> {
    let out = io::stdout();
    let mut fds = [PollFd::new(out.as_fd(), PollFlags::empty())];
    match poll(&mut fds, PollTimeout::from(INTERVAL)) {
        Ok(0) | Err(nix::errno::Errno::EINTR) => Ok(true),
        Ok(_) => {
            let gone = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
            let events = fds[0].revents();
            Ok(!events.is_some_and(|events| events.intersects(gone)))
        }
        Err(error) => Err(error.into()),
    }
}

/// What was not shown, for people.
fn say_rest(follower: &Follower<Directory>, follow: bool) {
    if follower.unconfirmed() > 0 && !follow {
        let batches = follower.unconfirmed();
        // There is nowhere else to report that the output is closed.
        let _ = writeln!(
            io::stderr(),
            "bpfdb: {batches} more groups are written, but not known to be durable: not shown"
        );
    }
}
