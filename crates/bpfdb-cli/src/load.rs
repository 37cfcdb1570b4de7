//! `bpfdb serve --load-rdb`: a server begins with what a file of Redis has.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bpfdb::Engine;
use bpfdb_copies::{Options, VerifiedCopy};
use bpfdb_durability::Durability;
use bpfdb_server::Loaded;

use crate::bars::Progress;
use crate::data::not_written;
use crate::interrupts::Interrupts;
use bpfdb_service::notify;

/// Whether the file is right, without an engine.
pub(crate) fn check(file: &Path, interrupts: &Interrupts) -> Result<()> {
    let mut check = |_| interrupts.check();
    let copy = VerifiedCopy::open_watched(file, Options::default(), &mut check);
    copy.map(drop)
        .with_context(|| format!("cannot load {}", file.display()))
}

/// Fills an engine that has no keys, before any client is served: with all of the file, or the
/// server does not start. With a log, the keys are durable when this returns a line for the
/// greeting, and what INFO has of it. A signal ends it between two keys.
pub(crate) fn load(
    engine: &Engine,
    log: Option<&Durability>,
    file: &Path,
) -> Result<(String, Loaded)> {
    let told = || format!("cannot load {}", file.display());
    let interrupts = Interrupts::hold()?;
    let mut loading = Loading::begin(file);
    let mut check = |_| {
        loading.at();
        interrupts.check()
    };
    let mut copy = VerifiedCopy::open_watched(file, Options::default(), &mut check)
        .context("`bpfdb restore` beside a running server has options for it")
        .with_context(told)?;
    let bar = Progress::count("keys", copy.contents().keys);
    let loaded = copy.load(engine, &mut |keys| {
        bar.at(keys);
        loading.at();
        interrupts.check()
    });
    drop(bar);
    let loaded = loaded.with_context(told)?;
    if let Some(log) = log {
        let settled = log.settle(engine.now());
        settled.map_err(not_written).with_context(told)?;
    }
    let (written, expired) = (loaded.written, loaded.expired);
    let file = file.display();
    let line =
        format!("  loaded {file}: {written} keys, and {expired} that had expired left out\n");
    let loaded = Loaded {
        keys: written,
        expired,
    };
    Ok((line, loaded))
}

/// Tells the manager of services that a long start goes on.
struct Loading {
    status: String,
    told: Instant,
}

impl Loading {
    const EVERY: Duration = Duration::from_secs(5);

    fn begin(file: &Path) -> Self {
        let status = format!("loading {}", file.display());
        notify::starting(&status);
        Self {
            status,
            told: Instant::now(),
        }
    }

    fn at(&mut self) {
        if self.told.elapsed() >= Self::EVERY {
            self.told = Instant::now();
            notify::starting(&self.status);
        }
    }
}
