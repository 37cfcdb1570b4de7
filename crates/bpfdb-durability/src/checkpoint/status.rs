//! The status of checkpoints, and when one is due.

use std::time::{Duration, SystemTime};

/// When checkpoints are made, besides those that are asked for.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointOptions {
    /// So long after the one before was begun, if anything was written since.
    pub every: Option<Duration>,
    /// When the log has so many bytes since the last one, and as much as `log_percent` says.
    /// `None`: never.
    pub log_bytes: Option<u64>,
    /// Bytes of the log, as a percentage of those of the last checkpoint: 100 writes everything
    /// twice at most.
    pub log_percent: u32,
    /// After one that failed the next is not due for so long.
    pub retry: Duration,
    /// Most bytes that are written in a second. `None`: as many as the disk takes.
    pub rate: Option<u64>,
}

impl Default for CheckpointOptions {
    fn default() -> Self {
        Self {
            every: None,
            log_bytes: Some(256 << 20),
            log_percent: 100,
            retry: Duration::from_secs(10),
            rate: None,
        }
    }
}

impl CheckpointOptions {
    /// None but those that are asked for.
    pub fn on_request() -> Self {
        Self {
            log_bytes: None,
            ..Self::default()
        }
    }

    /// Bytes of the log from which on a checkpoint is due, after one of so many bytes.
    pub(super) fn log_due(&self, last_bytes: u64) -> u64 {
        let share = u128::from(last_bytes) * u128::from(self.log_percent) / 100;
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        self.log_bytes.map_or(u64::MAX, |bytes| bytes.max(share))
    }
}

/// What a checkpoint is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The engine's records are written to a file.
    Walking,
    /// The file is complete, and waits until the log has all that it needs with it.
    Waiting,
}

/// How far a checkpoint is.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointProgress {
    pub phase: Phase,
    pub begun: SystemTime,
    pub entries: u64,
    /// Of entries, so far.
    pub bytes: u64,
    /// Which part of the index was visited, from 0 to 1.
    pub part: f64,
}

impl CheckpointProgress {
    /// Bytes of the whole checkpoint, as far as is known.
    pub fn bytes_in_all(&self) -> u64 {
        match self.part > 0.01 {
            true => (self.bytes as f64 / self.part) as u64,
            false => self.bytes,
        }
    }
}

/// A checkpoint that counts.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointDone {
    pub number: u64,
    /// Recovery replays the commits with a later timestamp.
    pub start: u64,
    pub entries: u64,
    /// Of the file.
    pub bytes: u64,
    pub finished: SystemTime,
    /// Zero, if it was made by an earlier process.
    pub took: Duration,
}

/// All that is known of checkpoints.
#[derive(Clone, Debug, Default)]
pub struct CheckpointStatus {
    /// The one that is being made.
    pub running: Option<CheckpointProgress>,
    /// The one that counts.
    pub last: Option<CheckpointDone>,
    /// Why the last attempt failed; `None`: it did not.
    pub failure: Option<String>,
    /// Attempts that are over, of this process.
    pub attempts: u64,
    /// Number of the last of these that made one; 0: none did. It has what was committed before any
    /// earlier one was asked for, too.
    pub last_made: u64,
    /// Of these, how many failed.
    pub failed: u64,
    /// Bytes of records that the log got since the last checkpoint.
    pub log_bytes: u64,
    /// How many these are, as far as this process has written them.
    pub log_records: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_checkpoint_is_not_made_for_a_short_log() {
        let options = CheckpointOptions {
            log_bytes: Some(100),
            log_percent: 50,
            ..CheckpointOptions::default()
        };
        assert_eq!(options.log_due(0), 100);
        assert_eq!(options.log_due(1000), 500);
        assert_eq!(options.log_due(u64::MAX), u64::MAX / 2);
        assert_eq!(CheckpointOptions::on_request().log_due(5), u64::MAX);
    }
}
