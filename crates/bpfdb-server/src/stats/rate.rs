//! How fast something happens.

use std::time::Instant;

/// How fast a counter grows, looked at once in a while.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    last: Option<(Instant, u64)>,
    per_second: u64,
}

impl Rate {
    pub(crate) fn look(&mut self, count: u64) {
        self.look_at(count, Instant::now());
    }

    fn look_at(&mut self, count: u64, now: Instant) {
        if let Some((before, counted)) = self.last {
            let seconds = now.duration_since(before).as_secs_f64();
            let more = count.saturating_sub(counted);
            self.per_second = (more as f64 / seconds.max(0.001)) as u64;
        }
        self.last = Some((now, count));
    }

    pub(crate) fn per_second(&self) -> u64 {
        self.per_second
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rates() {
        let (mut rate, start) = (Rate::default(), Instant::now());
        rate.look_at(10, start);
        assert_eq!(rate.per_second(), 0);
        rate.look_at(1010, start + Duration::from_millis(500));
        assert_eq!(rate.per_second(), 2000);
    }
}
