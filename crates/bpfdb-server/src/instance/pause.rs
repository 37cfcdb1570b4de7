//! CLIENT PAUSE: which requests wait, and until when.

use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub(crate) struct Pause {
    until: Option<Instant>,
    /// Not only what writes.
    all: bool,
}

impl Pause {
    /// Begins, or goes on: the longer and the stricter of two pauses counts.
    pub(crate) fn begin(&mut self, now: Instant, length: Duration, all: bool) {
        let end = now.checked_add(length).unwrap_or(now + Self::LONGEST);
        self.until = Some(self.until.map_or(end, |until| until.max(end)));
        self.all |= all;
    }

    const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn is_on(&self) -> bool {
        self.until.is_some()
    }

    pub(crate) fn stops_all(&self) -> bool {
        self.is_on() && self.all
    }

    /// How long it still takes.
    pub(crate) fn left(&self, now: Instant) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_and_the_stricter_counts() {
        let now = Instant::now();
        let mut pause = Pause::default();
        assert!(!pause.is_on() && pause.left(now).is_none());
        pause.begin(now, Duration::from_secs(2), true);
        pause.begin(now, Duration::from_secs(1), false);
        assert!(pause.stops_all());
        assert_eq!(pause.left(now), Some(Duration::from_secs(2)));
        pause.begin(now, Duration::MAX, false);
        assert!(pause.left(now) > Some(Duration::from_secs(1 << 20)));
        pause.end();
        assert!(!pause.is_on() && !pause.stops_all());
    }
}
