//! The clock that expiry goes by: UNIX time in milliseconds.
//!
//! ```text
//! UNIX time of the engine = CLOCK_BOOTTIME + offset
//!                           goes on by itself  published here, each second
//! ```
//!
//! Programs cannot read CLOCK_REALTIME, and no key may die because a clock jumped for a
//! moment: CLOCK_TAI, when a time daemon sets the kernel's leap seconds, or
//! CLOCK_REALTIME, when it is set wrong and right again. CLOCK_BOOTTIME does neither. The
//! offset follows CLOCK_REALTIME: by small amounts at once, by a step when that has stood
//! for `LOOKS` seconds (`clock.rs`). It is one word, so that a program sees it whole. If no thread
//! publishes it any more, the clock goes on as it was set.

use std::io;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::abi;
use crate::error::{Result, system};
use crate::memory::Memory;

/// Attempts to read two clocks at one moment.
const TRIES: u32 = 8;

/// Compares the clocks, and publishes what is between them.
pub(crate) fn synchronize(memory: &Memory) -> Result<()> {
    let clock = memory.clock();
    let (realtime, _) = between(memory, libc::CLOCK_REALTIME)?;
    let (boottime, error) = between(memory, libc::CLOCK_BOOTTIME)?;
    // Zero, but for what the measurement is worth.
    let namespace = if boottime.abs() <= error {
        0
    } else {
        -boottime
    };
    clock.namespace.store(namespace, Ordering::Relaxed);

    let offset = offset_of(memory);
    let mut follower = (clock.follower.lock()).unwrap_or_else(PoisonError::into_inner);
    if follower.accepts(offset.load(Ordering::Relaxed), realtime) {
        offset.store(realtime, Ordering::Relaxed);
    }
    Ok(())
}

/// As the programs have it.
pub(crate) fn now(memory: &Memory) -> u64 {
    match fixed_of(memory).load(Ordering::Relaxed) {
        0 => unix_time(memory),
        fixed => fixed,
    }
}

pub(crate) fn stop(memory: &Memory, time: u64) {
    fixed_of(memory).store(time, Ordering::Relaxed);
}

fn unix_time(memory: &Memory) -> u64 {
    let boottime = read(libc::CLOCK_BOOTTIME).expect("CLOCK_BOOTTIME can be read");
    let namespace = memory.clock().namespace.load(Ordering::Relaxed);
    let nanoseconds = boottime + namespace + offset_of(memory).load(Ordering::Relaxed);
    nanoseconds.max(0) as u64 / 1_000_000
}

/// A clock of this process - the clock of the programs, nanoseconds, and by how much that
/// may be wrong. Another process's program may have been faster: it too ran in between.
fn between(memory: &Memory, clock: libc::clockid_t) -> Result<(i64, i64)> {
    let mut best = (0, i64::MAX);
    for _ in 0..TRIES {
        let before = read(clock)?;
        memory.clock().driver().run(abi::BPFDB_DRIVER_CLOCK, &[])?;
        let sample = boot_of(memory).load(Ordering::Acquire) as i64;
        let error = read(clock)? - before;
        // Negative: the clock was set meanwhile.
        if (0..best.1).contains(&error) {
            best = (before + error / 2 - sample, error);
        }
    }
    Ok(best)
}

fn offset_of(memory: &Memory) -> &AtomicI64 {
    // SAFETY: an aligned i64 inside the mapping, which lives as long as memory.
    unsafe { AtomicI64::from_ptr(&raw mut (*memory.state_pointer()).time.offset) }
}

fn fixed_of(memory: &Memory) -> &AtomicU64 {
    // SAFETY: as above.
    unsafe { AtomicU64::from_ptr(&raw mut (*memory.state_pointer()).time.fixed) }
}

fn boot_of(memory: &Memory) -> &AtomicU64 {
    // SAFETY: as above.
    unsafe { AtomicU64::from_ptr(&raw mut (*memory.state_pointer()).time.boot) }
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
