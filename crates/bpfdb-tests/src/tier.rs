//! Values that go to files all the time, for tests that work either way: in all of their engines with
//! `BPFDB_TEST_TIER=on`. Every value that is long enough goes as soon as no transaction has it, and
//! comes back when it is read twice.

use std::env;
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bpfdb::Engine;
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_tier::{Options, Tier};

const VARIABLE: &str = "BPFDB_TEST_TIER";
/// Names the file that gets a line for each engine of which values went to files: whoever runs a suite
/// because of cold values looks whether there were some (`scripts/test.sh`).
const COUNTED: &str = "BPFDB_TEST_LOGS";
/// Of each file, bytes: small, so that files are full, rewritten and removed within a test.
const RUN_SIZE: u64 = 256 << 10;

/// Buffers of sessions that cold values take of an engine.
const SESSIONS: u32 = 2;
/// Sessions without a buffer that they take besides: one, of the program that looks for what is live.
const SESSIONS_OF_PROGRAMS: u32 = 1;

/// Are cold values wanted in all engines?
pub fn is_wanted() -> bool {
    env::var_os(VARIABLE).is_some()
}

/// The options of an engine, with sessions for cold values if these are wanted.
pub fn options(is_wanted: bool, options: &bpfdb::Options) -> bpfdb::Options {
    let mut options = options.clone();
    if is_wanted {
        options.max_sessions += SESSIONS + SESSIONS_OF_PROGRAMS;
        options.user_sessions += SESSIONS;
    }
    options
}

/// Has values of this engine go to files in memory; `None` if that is not wanted.
pub fn start(is_wanted: bool, engine: &Engine) -> Option<Arc<Tier>> {
    if !is_wanted {
        return None;
    }
    let options = Options {
        memory: 0,
        run_size: RUN_SIZE,
        rest: Duration::from_millis(20),
    };
    let tier = Tier::start(engine, SimulatedDisk::new(1), options).expect("cold values");
    Some(Arc::new(tier))
}

/// Notes that values went to files, at the end of an engine's use.
pub fn count(tier: &Tier) {
    let path = env::var_os(COUNTED).filter(|_| tier.figures().demotions > 0);
    if let Some(path) = path {
        let mut file = File::options().append(true).open(path).expect("the file");
        file.write_all(b"tier\n").expect("a line");
    }
}
