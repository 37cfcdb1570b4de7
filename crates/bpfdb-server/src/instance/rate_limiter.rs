//! Bounds how often a message is logged that a client can provoke.

use std::time::{Duration, Instant};

/// For messages that a client could have the server write without end.
#[derive(Debug, Default)]
pub(crate) struct RateLimiter {
    last: Option<Instant>,
}

impl RateLimiter {
    const PERIOD: Duration = Duration::from_secs(1);

    /// True once a second at most.
    pub(crate) fn is_due(&mut self) -> bool {
        self.is_due_at(Instant::now())
    }

    fn is_due_at(&mut self, now: Instant) -> bool {
        let due = self
            .last
            .is_none_or(|last| now.duration_since(last) >= Self::PERIOD);
        if due {
            self.last = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_a_second() {
        let (mut limiter, start) = (RateLimiter::default(), Instant::now());
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        assert!(limiter.is_due_at(start));
        assert!(!limiter.is_due_at(after(999)));
        assert!(limiter.is_due_at(after(1000)));
        assert!(!limiter.is_due_at(after(1500)));
    }
}
