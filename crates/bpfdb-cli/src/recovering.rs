//! How far the recovery of a server has come: a bar on a terminal; else a line of the log now and
//! then, for the journal of a service. The service manager is notified in either case.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use bpfdb_durability::RecoveryProgress;

use crate::bars::Progress;
use bpfdb_service::notify;

/// Between two lines.
const EVERY: Duration = Duration::from_secs(5);

pub(crate) struct Recovering {
    bar: Progress,
    /// Whether lines are to be written, because no terminal shows the bar.
    has_lines: bool,
    told: Instant,
}

impl Recovering {
    pub(crate) fn new() -> Self {
        notify::starting("recovering");
        Self {
            bar: Progress::bytes("recovering", 0),
            has_lines: !stderr().is_terminal(),
            told: Instant::now(),
        }
    }

    pub(crate) fn at(&mut self, progress: &RecoveryProgress) {
        self.bar.length(progress.bytes_in_all);
        self.bar.at(progress.bytes);
        if !self.is_due(Instant::now()) {
            return;
        }
        let (bytes, of) = (progress.bytes, progress.bytes_in_all);
        notify::starting(&format!("recovering: {bytes} of {of} bytes"));
        if self.has_lines {
            tracing::info!(bytes, of, records = progress.records, "recovering");
        }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now.duration_since(self.told) >= EVERY;
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
    fn a_line_now_and_then() {
        let mut recovering = Recovering::new();
        let begun = recovering.told;
        let looks = (0..=30).map(|second| begun + Duration::from_secs(second));
        let lines = looks.filter(|&now| recovering.is_due(now)).count();
        assert_eq!(lines, 6);
    }
}
