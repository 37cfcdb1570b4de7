//! The clock that expiry goes by: UNIX time in milliseconds.
//!
//! Programs cannot read CLOCK_REALTIME, but CLOCK_TAI, which differs by a number
//! of seconds that changes when somebody tells the kernel (a time daemon, after
//! its start or at a leap second). User space writes the difference into the
//! engine's state at the beginning and every second.

use std::io;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Result, system};
use crate::memory::Memory;

/// Tells the programs what is between the two clocks.
pub(crate) fn synchronize(memory: &Memory) -> Result<()> {
    tai_offset_of(memory).store(tai_offset()?, Ordering::Relaxed);
    Ok(())
}

pub(crate) fn now(memory: &Memory) -> u64 {
    match fixed_of(memory).load(Ordering::Relaxed) {
        0 => unix_time(),
        fixed => fixed,
    }
}

pub(crate) fn stop(memory: &Memory, time: u64) {
    fixed_of(memory).store(time, Ordering::Relaxed);
}

fn unix_time() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

fn tai_offset_of(memory: &Memory) -> &AtomicI64 {
    // SAFETY: an aligned i64 inside the mapping, which lives as long as memory.
    unsafe { AtomicI64::from_ptr(&raw mut (*memory.state_pointer()).time.tai_offset) }
}

fn fixed_of(memory: &Memory) -> &AtomicU64 {
    // SAFETY: as above.
    unsafe { AtomicU64::from_ptr(&raw mut (*memory.state_pointer()).time.fixed) }
}

/// CLOCK_TAI - CLOCK_REALTIME in nanoseconds: always whole seconds.
fn tai_offset() -> Result<i64> {
    const SECOND: i64 = 1_000_000_000;
    let realtime = read(libc::CLOCK_REALTIME)?;
    let tai = read(libc::CLOCK_TAI)?;
    Ok((tai - realtime + SECOND / 2).div_euclid(SECOND) * SECOND)
}

fn read(clock: libc::clockid_t) -> Result<i64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(system("read a clock")(io::Error::last_os_error()));
    }
    Ok(time.tv_sec * 1_000_000_000 + time.tv_nsec)
}
