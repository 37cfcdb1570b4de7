//! `bpfdb checkpoint`: has a running server make a checkpoint, and waits for it.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use crate::bars::Progress;
use crate::output;
use crate::server::{Address, Server};

/// Between two looks at how far it is.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: Address,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut server = Server::connect(&arguments.server)?;
    let before = Figures::of(&mut server)?;
    // One that is being made began before: it does not have what was written since. If others asked
    // meanwhile, the one that is waited for may be theirs. It began after this was called, too.
    server.ask(&["BGSAVE", "SCHEDULE"])?;
    let wanted = before.attempts + 1 + u64::from(before.running);
    let bar = Progress::count("keys", before.total);
    let last = loop {
        let now = Figures::of(&mut server)?;
        bar.length(now.total);
        bar.at(now.done);
        if now.attempts >= wanted {
            break now;
        }
        thread::sleep(PAUSE);
    };
    drop(bar);
    if last.last_made < wanted {
        bail!("the checkpoint failed: the server's log says why");
    }
    output::print(&format!(
        "checkpoint of {} keys, {} bytes\n",
        last.entries, last.bytes
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// What INFO says of checkpoints.
struct Figures {
    running: bool,
    attempts: u64,
    /// Number of the last attempt that made one.
    last_made: u64,
    done: u64,
    total: u64,
    entries: u64,
    bytes: u64,
}

impl Figures {
    fn of(server: &mut Server) -> Result<Self> {
        let text = server.ask(&["INFO", "persistence"])?;
        let text = text.as_str().unwrap_or_default();
        let field = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(known, _)| *known == name).map(|found| found.1)
        };
        let number = |name| field(name).and_then(|text| text.parse().ok()).unwrap_or(0);
        Ok(Self {
            running: number("rdb_bgsave_in_progress") > 0,
            attempts: number("checkpoint_attempts"),
            last_made: number("checkpoint_last_made"),
            done: number("current_save_keys_processed"),
            total: number("current_save_keys_total"),
            entries: number("checkpoint_entries"),
            bytes: number("checkpoint_bytes"),
        })
    }
}
