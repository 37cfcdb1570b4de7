//! Engines with a log, for tests that work either way: all of them with
//! `BPFDB_TEST_LOG=async` or `sync`. The latter is for the server's clients.
//!
//! At the end of such a test what is on the disk is recovered into another engine, which must
//! have the same records then ([`TestLog::compare`]).

use std::collections::BTreeMap;
use std::env;
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bpfdb::{Engine, Entry, Options, Session, ValueType};
use bpfdb_durability::Durability;
use bpfdb_log::Directory;
use tempfile::TempDir;

/// A file system in memory: a busy disk is no subject of these tests.
const MEMORY: &str = "/dev/shm";
/// Bytes of each ring.
const RING: u32 = 16 << 20;
/// Bytes that a recovered engine may need besides.
const MORE_MEMORY: u64 = 256 << 20;
const VARIABLE: &str = "BPFDB_TEST_LOG";
/// Names the file that gets a line for each log: a run of a suite because of the log looks
/// whether there was one (`scripts/suites.sh`).
const COUNTED: &str = "BPFDB_TEST_LOGS";
/// Longer than a busy disk takes for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// Is a log wanted?
pub fn is_wanted() -> bool {
    env::var_os(VARIABLE).is_some()
}

/// Shall replies wait until what they expose is durable?
pub fn is_sync() -> bool {
    env::var(VARIABLE).is_ok_and(|mode| mode == "sync")
}

/// The options of an engine, with a log if one is wanted.
pub fn options(options: &Options) -> Options {
    Options {
        log_ring: if is_wanted() { RING } else { 0 },
        ..options.clone()
    }
}

/// An engine's log in a directory of its own, which goes with it.
pub struct TestLog {
    pub durability: Arc<Durability>,
    directory: TempDir,
}

/// Keys with their values, the types of those, and when they expire.
type Contents = BTreeMap<Vec<u8>, TypedEntry>;
type TypedEntry = (ValueType, Entry);

impl TestLog {
    /// Of an engine that was made with [`options`]; `None` if no log is wanted.
    pub fn start(engine: &Engine) -> Option<Self> {
        if !is_wanted() {
            return None;
        }
        let directory = tempfile::tempdir_in(MEMORY).expect("a directory");
        let durability = begin(engine, &directory);
        count();
        Some(Self {
            durability: Arc::new(durability),
            directory,
        })
    }

    /// Ends the log, and recovers it into another engine: that has the same keys, values and
    /// times of expiry as this one. There are no writes any more, and no other process holds the log.
    ///
    /// # Panics
    /// If anything differs.
    pub fn compare(self, engine: &Engine) {
        let durability = Arc::into_inner(self.durability).expect("nobody else holds the log");
        durability.settle(engine.now()).expect("all is durable");
        durability.close().expect("a log that has everything");
        // Nothing expires between the two looks.
        let now = engine.now_ms();
        engine.stop_clock(now);
        let expected = contents(engine);
        let recovered = Engine::create(&Options {
            // Gaps are not where they were.
            memory_limit: 2 * engine.memory_limit() + MORE_MEMORY,
            log_ring: RING,
            ..Options::default()
        });
        let recovered = recovered.expect("another engine");
        recovered.stop_clock(now);
        drop(begin(&recovered, &self.directory));
        differ(&expected, &contents(&recovered));
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

fn count() {
    if let Some(path) = env::var_os(COUNTED) {
        let mut file = File::options().append(true).open(path).expect("the file");
        file.write_all(b"log\n").expect("a line");
    }
}

/// The log in this directory, which is recovered first.
fn begin(engine: &Engine, directory: &TempDir) -> Durability {
    let disk = Directory::own(&directory.path().join("data")).expect("a data directory");
    let options = bpfdb_durability::Options {
        files: bpfdb_log::Options {
            segment_size: 16 << 20,
            batch_size: 12 << 20,
            spares: 1,
        },
        ..bpfdb_durability::Options::default()
    };
    Durability::start(engine, disk, options).expect("a log").0
}

/// At one moment.
fn contents(engine: &Engine) -> Contents {
    let mut session = engine.session().expect("a session");
    session.begin_read_only().expect("a snapshot");
    let keys = keys(&mut session);
    let mut read = |key: &Vec<u8>| {
        let entry = session.typed_entry(key).expect("read");
        entry.expect("in the snapshot")
    };
    let contents = keys.into_iter().map(|key| (key.clone(), read(&key)));
    contents.collect()
}

fn keys(session: &mut Session) -> Vec<Vec<u8>> {
    let (mut all, mut cursor) = (Vec::new(), 0);
    loop {
        let (next, keys) = session.scan(cursor, 1000).expect("scanned");
        all.extend(keys);
        if next == 0 {
            return all;
        }
        cursor = next;
    }
}

/// Says of the first record that differs what there is and what there should be.
fn differ(expected: &Contents, recovered: &Contents) {
    let keys = expected.keys().chain(recovered.keys());
    for key in keys {
        let (expected, recovered) = (expected.get(key), recovered.get(key));
        assert!(
            expected == recovered,
            "{:?} was recovered as {}, not {}",
            key.escape_ascii().to_string(),
            show(recovered),
            show(expected)
        );
    }
}

fn show(entry: Option<&TypedEntry>) -> String {
    const SHOWN: usize = 40;
    entry.map_or_else(
        || "absent".to_owned(),
        |(value_type, Entry { value, expires_at })| {
            let (len, start) = (value.len(), &value[..value.len().min(SHOWN)]);
            format!(
                "{value_type:?} {:?}… ({len} bytes, {expires_at:?})",
                start.escape_ascii().to_string()
            )
        },
    )
}
