//! Engines with a log, for tests that work either way: all of them with
//! `BPFDB_TEST_LOG=async` or `sync`. The latter is for the server's clients.

use std::env;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bpfdb::{Engine, Options};
use bpfdb_durability::Durability;
use bpfdb_log::Directory;
use tempfile::TempDir;

/// A file system in memory: a busy disk is no subject of these tests.
const MEMORY: &str = "/dev/shm";
const VARIABLE: &str = "BPFDB_TEST_LOG";
/// Longer than a busy disk takes for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// Is a log wanted?
pub fn is_wanted() -> bool {
    env::var_os(VARIABLE).is_some()
}

/// Shall clients be told only what is durable?
pub fn is_sync() -> bool {
    env::var(VARIABLE).is_ok_and(|mode| mode == "sync")
}

/// The options of an engine, with a log if one is wanted.
pub fn options(options: &Options) -> Options {
    Options {
        log_ring: if is_wanted() { 16 << 20 } else { 0 },
        ..options.clone()
    }
}

/// An engine's log in a directory of its own, which goes with it.
pub struct TestLog {
    pub durability: Arc<Durability>,
    _directory: TempDir,
}

impl TestLog {
    /// Of an engine that was made with [`options`]; `None` if no log is wanted.
    pub fn start(engine: &Engine) -> Option<Self> {
        if !is_wanted() {
            return None;
        }
        let directory = tempfile::tempdir_in(MEMORY).expect("a directory");
        let disk = Directory::own(&directory.path().join("data")).expect("a data directory");
        let options = bpfdb_durability::Options {
            files: bpfdb_log::Options {
                segment_size: 16 << 20,
                batch_size: 8 << 20,
                spares: 1,
            },
            ..bpfdb_durability::Options::default()
        };
        let (durability, _) = Durability::start(engine, disk, options).expect("a log");
        Some(Self {
            durability: Arc::new(durability),
            _directory: directory,
        })
    }

    /// Waits until the log holds nothing of the engine's memory.
    pub fn settle(&self, engine: &Engine) {
        let (now, start) = (engine.now(), Instant::now());
        self.durability.want(now, 1);
        while self.durability.durable() < now {
            assert!(start.elapsed() < PATIENCE, "{:?}", self.durability.state());
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}
