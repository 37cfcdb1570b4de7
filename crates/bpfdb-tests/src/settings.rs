//! Settings of a run from the environment.

use std::env;
use std::time::SystemTime;

/// The number in an environment variable.
pub fn number(name: &str) -> Option<u64> {
    let value = env::var(name).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} is no number: {value}")))
}

/// Different in every run; a failing test prints it.
pub fn fresh_seed() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(1, |since| since.as_nanos() as u64)
}

/// Does this run in the emulated machine of `make vm`? It takes ten or twenty times as long, so
/// that its times say nothing, and a millisecond is not enough for any work.
pub fn is_emulated() -> bool {
    env::var_os("BPFDB_TEST_EMULATED").is_some()
}
