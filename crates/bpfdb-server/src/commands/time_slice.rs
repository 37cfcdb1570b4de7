//! How long one connection is served before others are.

use std::time::{Duration, Instant};

/// As long as a step of a long command.
const LONGEST: Duration = Duration::from_millis(1);
/// Bytes of replies that may wait to be sent before no more requests are executed.
const OUTPUT_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeSlice {
    end: Instant,
}

impl TimeSlice {
    pub(crate) fn begin() -> Self {
        Self::of(LONGEST)
    }

    pub(crate) fn of(time: Duration) -> Self {
        Self {
            end: Instant::now() + time,
        }
    }

    /// Has it lasted long enough?
    pub(crate) fn is_over(self) -> bool {
        Instant::now() >= self.end
    }

    /// May another request be executed, with so many bytes of replies?
    pub(crate) fn has_room(self, replies: usize) -> bool {
        self.has_room_at(Instant::now(), replies)
    }

    /// The same for a caller that knows the time.
    pub(crate) fn has_room_at(self, now: Instant, replies: usize) -> bool {
        replies < OUTPUT_MAX && now < self.end
    }
}
