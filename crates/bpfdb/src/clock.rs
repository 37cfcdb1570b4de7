//! A process's view of the clock of the programs; `time.rs` says how it is kept right.

use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex};

use crate::driver::Driver;

/// Nanoseconds; what differs by more is a step. Time daemons slew what is less.
const STEP: i64 = 100_000_000;
/// A step is followed when so many looks in a row have found it.
const LOOKS: u32 = 3;
/// What user space knows of the clock of the programs.
#[derive(Debug)]
pub(crate) struct Clock {
    /// Reads the clock of the programs.
    driver: Arc<Driver>,
    /// That clock - CLOCK_BOOTTIME of this process, nanoseconds: not 0 in a time
    /// namespace.
    pub(crate) namespace: AtomicI64,
    pub(crate) follower: Mutex<Follower>,
}

/// Decides when a step of CLOCK_REALTIME is followed.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    offset: i64,
    looks: u32,
}

impl Follower {
    /// Shall the offset that was measured replace the one that is published?
    pub(crate) fn accepts(&mut self, published: i64, measured: i64) -> bool {
        // 0: none is.
        if published == 0 || is_near(published, measured) {
            self.looks = 0;
            return true;
        }
        if self.looks == 0 || !is_near(self.offset, measured) {
            self.looks = 0;
        }
        self.offset = measured;
        self.looks += 1;
        if self.looks < LOOKS {
            return false;
        }
        self.looks = 0;
        true
    }
}

fn is_near(one: i64, other: i64) -> bool {
    one.abs_diff(other) <= STEP as u64
}

impl Clock {
    pub(crate) fn new(driver: Driver) -> Self {
        Self {
            driver: Arc::new(driver),
            namespace: AtomicI64::new(0),
            follower: Mutex::default(),
        }
    }

    pub(crate) fn driver(&self) -> &Arc<Driver> {
        &self.driver
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_700_000_000_000_000_000;
    const SECOND: i64 = 1_000_000_000;

    /// What is published after each look.
    fn published(measured: &[i64]) -> Vec<i64> {
        let mut follower = Follower::default();
        let mut offset = 0;
        let look = |&measured: &i64| {
            if follower.accepts(offset, measured) {
                offset = measured;
            }
            offset
        };
        measured.iter().map(look).collect()
    }

    #[test]
    fn the_first_offset_is_taken() {
        assert_eq!(published(&[START]), [START]);
    }

    #[test]
    fn small_differences_are_followed_at_once() {
        let slewed: Vec<i64> = (0..10).map(|i| START - i * STEP / 2).collect();
        assert_eq!(published(&slewed), slewed);
    }

    #[test]
    fn a_step_is_followed_when_it_stands() {
        for step in [37 * SECOND, -3600 * SECOND, STEP + 1] {
            let after = START + step;
            assert_eq!(
                published(&[START, after, after + 1, after + 2, after + 3]),
                [START, START, START, after + 2, after + 3],
                "{step}"
            );
        }
    }

    #[test]
    fn a_clock_that_is_wrong_for_a_moment_is_not() {
        let wrong = START + 37 * SECOND;
        let far = START + 86_400 * SECOND;
        let measured = [START, wrong, wrong, START, wrong, far, wrong, far, START];
        assert_eq!(published(&measured), [START; 9]);
    }
}
