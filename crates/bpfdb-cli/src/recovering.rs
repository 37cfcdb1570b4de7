//! How far the recovery of a server has come: a bar on a terminal; else a line of the log now and
//! then, for whoever looks at the journal of a service.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use bpfdb_durability::RecoveryProgress;

use crate::bars::Progress;

/// Between two lines.
const EVERY: Duration = Duration::from_secs(5);

pub(crate) struct Recovering {
    bar: Progress,
    /// Nobody sees the bar.
    is_told: bool,
    told: Instant,
}

impl Recovering {
    pub(crate) fn new() -> Self {
        Self {
            bar: Progress::bytes("recovering", 0),
            is_told: !stderr().is_terminal(),
            told: Instant::now(),
        }
    }

    pub(crate) fn at(&mut self, progress: &RecoveryProgress) {
        self.bar.length(progress.bytes_in_all);
        self.bar.at(progress.bytes);
        if self.is_due(Instant::now()) {
            tracing::info!(
                bytes = progress.bytes,
                of = progress.bytes_in_all,
                records = progress.records,
                "recovering"
            );
        }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.is_told && now.duration_since(self.told) >= EVERY;
        if is_due {
            self.told = now;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_now_and_then_if_nobody_sees_the_bar() {
        let mut recovering = Recovering::new();
        let begun = recovering.told;
        let mut lines = |is_told| {
            (recovering.is_told, recovering.told) = (is_told, begun);
            let looks = (0..=30).map(|second| begun + Duration::from_secs(second));
            looks.filter(|&now| recovering.is_due(now)).count()
        };
        assert_eq!((lines(true), lines(false)), (6, 0));
    }
}
