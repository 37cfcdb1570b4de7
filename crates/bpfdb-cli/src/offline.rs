//! The data of a directory without its server: in an engine that this process alone has.

use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context, Error, Result};
use bpfdb::Engine;
use bpfdb_durability::{CheckpointOptions, Durability, Options};
use bpfdb_log::Directory;
use bpfdb_server::settings::{Settings, memory};

use crate::interrupts::Interrupts;
use crate::recover::{self, Hidden};
use crate::times::Moment;

/// An engine with what a data directory has. Its log is a copy, which is removed in the end; the
/// directory itself is only read.
pub(crate) struct Offline {
    // They end in this order.
    _log: Durability,
    pub(crate) engine: Engine,
    _copy: Hidden,
}

impl Offline {
    /// As the directory was at `until`, or with all of it. The copy is made in the folder `beside`.
    /// A signal ends it when the copy is made.
    pub(crate) fn open(
        directory: &Path,
        until: Option<Moment>,
        beside: &Path,
        interrupts: &Interrupts,
    ) -> Result<Self> {
        let copy = Hidden::beside(beside, "recovered");
        recover::copy(directory, until, &copy)?;
        let limit = memory::memory_limit(&Settings::default()).map_err(Error::msg)?;
        let engine = Engine::create(&bpfdb::Options {
            memory_limit: limit,
            log_ring: memory::LOG_RING,
            ..bpfdb::Options::default()
        })?;
        let options = Options {
            checkpoints: CheckpointOptions {
                every: None,
                log_bytes: None,
                ..CheckpointOptions::default()
            },
            ..Options::default()
        };
        let disk = Directory::own(copy.path())?;
        let started =
            Durability::start_telling(&engine, disk, options, |_| match interrupts.check() {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            });
        let (log, _) =
            started.with_context(|| format!("cannot recover from {}", directory.display()))?;
        Ok(Self {
            _log: log,
            engine,
            _copy: copy,
        })
    }
}
