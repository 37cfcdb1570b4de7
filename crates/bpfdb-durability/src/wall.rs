//! The wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds of UNIX time.
pub(crate) fn wall() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}
