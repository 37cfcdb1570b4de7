//! Timers of test programs. The kernel does not wait for memory when a program makes one, so that
//! this may fail on a busy machine, and succeed a moment later.

use std::thread::sleep;
use std::time::{Duration, Instant};

use bpfdb::Status;

const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

/// Runs a program that starts a timer, until there is memory for it.
///
/// # Panics
/// There is none for ten seconds, or the program says something else.
pub(crate) fn start(run: impl Fn() -> u32) {
    let begun = Instant::now();
    let mut status = run();
    while status == Status::MemoryPending.code() && begun.elapsed() < PATIENCE {
        sleep(PAUSE);
        status = run();
    }
    assert_eq!(Status::from_code(status), Some(Status::Ok), "{status}");
}
