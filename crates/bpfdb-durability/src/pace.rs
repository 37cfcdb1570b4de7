//! How soon groups follow each other, and which thread goes first on a processor that many want.

use std::time::{Duration, Instant};

/// A pause ends when a ring may be filled to this part. The rest is for what comes while the
/// group is written.
const FILLED: f64 = 0.25;

/// Nice value of the thread that writes the log. Every commit waits for it when a ring is
/// full. It takes a fifth of a processor where others keep all of them busy.
pub(crate) const WRITER_NICE: i32 = -10;

/// Nice value of the threads that make a checkpoint, for which no client waits.
const CHECKPOINT_NICE: i32 = 10;

/// Gives this thread a nice value. Without the right to it the thread keeps its own: the log is written all
/// the same, later.
pub(crate) fn prefer_this_thread(nice: i32) {
    if let Err(error) = rustix::process::setpriority_process(None, nice) {
        tracing::debug!(nice, %error, "a thread keeps its priority");
    }
}

/// Lets others go first on this thread's processor. Not if the thread could not be given its rank
/// back.
pub(crate) fn rank_below_others() {
    if rustix::process::setpriority_process(None, -1).is_ok() {
        prefer_this_thread(CHECKPOINT_NICE);
    }
}

/// Ends [`rank_below_others`].
pub(crate) fn rank_as_others() {
    prefer_this_thread(0);
}

/// When groups begin, and how quick the rings are filled.
#[derive(Debug)]
pub(crate) struct Pace {
    begun: Instant,
    /// Of a ring, how much of it is filled in a second; of the fullest.
    rate: f64,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            rate: 0.0,
        }
    }

    /// A group begins, for which a ring was filled to this part.
    pub(crate) fn begin(&mut self, filled: f64) {
        let now = Instant::now();
        let since = now.duration_since(self.begun).as_secs_f64();
        self.rate = filled / since.max(1e-6);
        self.begun = now;
    }

    /// How long to wait before the next group: `interval`, or as long as the rings have room.
    pub(crate) fn pause(&self, interval: Duration) -> Duration {
        let filled_after = FILLED / self.rate.max(1e-9);
        let due = filled_after - self.begun.elapsed().as_secs_f64();
        interval.min(Duration::try_from_secs_f64(due.max(0.0)).unwrap_or(interval))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(20);

    fn pause_after(filled: f64, since: Duration) -> Duration {
        let mut pace = Pace::new();
        pace.begun = Instant::now()
            .checked_sub(since)
            .expect("the clock is older");
        pace.begin(filled);
        pace.pause(INTERVAL)
    }

    #[test]
    fn an_idle_engine_has_the_whole_interval() {
        assert_eq!(pause_after(0.0, INTERVAL), INTERVAL);
        assert_eq!(pause_after(0.01, INTERVAL), INTERVAL);
    }

    /// Half a ring in 20 ms: a quarter in 10.
    #[test]
    fn a_ring_that_fills_quickly_is_emptied_before_it_is_full() {
        let pause = pause_after(0.5, INTERVAL);
        assert!(pause <= Duration::from_millis(10), "{pause:?}");
        assert!(pause >= Duration::from_millis(5), "{pause:?}");
        assert!(pause_after(1.0, Duration::from_millis(1)) < Duration::from_micros(300));
    }
}
