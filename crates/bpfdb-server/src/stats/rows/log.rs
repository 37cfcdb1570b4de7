//! Rows of the log and of checkpoints. They are there if the engine has a log.

use std::time::UNIX_EPOCH;

use bpfdb::figures::Kind;
use bpfdb_durability::{CheckpointStatus, Durability, Figures, RetentionStatus, State};

use crate::stats::metric::{Family, Field, Metric};

const NANOS_IN_SECOND: u64 = 1_000_000_000;

/// What the log says about itself, read at one time.
#[derive(Debug)]
pub(crate) struct Readings {
    pub(crate) state: State,
    /// Commits up to this timestamp are durable.
    pub(crate) durable: u64,
    pub(crate) figures: Figures,
    pub(crate) checkpoint: CheckpointStatus,
    retention: RetentionStatus,
}

impl Readings {
    pub(crate) fn of(durability: &Durability) -> Self {
        Self {
            state: durability.state(),
            durable: durability.durable(),
            figures: durability.figures(),
            checkpoint: durability.checkpoint_status(),
            retention: durability.retention_status(),
        }
    }

    /// UNIX time at which the last checkpoint was made; 0 if there is none.
    fn finished_seconds(&self) -> u64 {
        let last = self.checkpoint.last;
        let finished = last.and_then(|last| last.finished.duration_since(UNIX_EPOCH).ok());
        finished.map_or(0, |since| since.as_secs())
    }
}

const fn row(
    name: &'static str,
    kind: Kind,
    field: &'static str,
    help: &'static str,
    read: fn(&Readings) -> u64,
) -> Metric<Readings> {
    let info = if field.is_empty() {
        None
    } else {
        Field::of("persistence", field)
    };
    Metric {
        name,
        kind,
        help,
        read,
        info,
    }
}

/// Name, kind, field of INFO's section Persistence (empty: none), help, value.
#[rustfmt::skip]
pub(crate) static LOG: &[Metric<Readings>] = &[
    row("log_writable", Kind::Gauge, "", "1: the log takes commits; 0: the engine is read-only", |log| u64::from(log.state == State::Writing)),
    row("log_durable_timestamp", Kind::Gauge, "log_durable_timestamp", "Commits up to this timestamp are durable", |log| log.durable),
    row("log_groups", Kind::Counter, "", "Groups of commits that became durable together", |log| log.figures.groups),
    row("log_records", Kind::Counter, "log_records", "Records written to the log", |log| log.figures.records),
    row("log_bytes", Kind::Counter, "log_bytes", "Bytes of records written to the log", |log| log.figures.bytes),
    row("log_flushes", Kind::Counter, "log_flushes", "Writes of the log with their flushes", |log| log.figures.flushes),
    row("log_flush_microseconds", Kind::Counter, "", "Time that these took", |log| log.figures.flush_time.as_micros() as u64),
    row("log_flushes_overlapping", Kind::Counter, "log_flushes_overlapping", "Those of them that were begun while another was under way", |log| log.figures.overlapping),
    row("log_exposure_microseconds", Kind::Gauge, "log_exposure_usec", "Age of the oldest commit of the last group when it was durable, at most", |log| log.figures.exposure.as_micros() as u64),
    row("log_exposure_p99_microseconds", Kind::Gauge, "log_exposure_p99_usec", "99 of 100 groups had at most this one", |log| log.figures.exposure_p99.as_micros() as u64),
    row("log_exposure_most_microseconds", Kind::Gauge, "log_exposure_most_usec", "The longest of these", |log| log.figures.exposure_most.as_micros() as u64),
    row("log_since_checkpoint_bytes", Kind::Gauge, "checkpoint_log_bytes", "Bytes of records in the log that the last checkpoint does not have", |log| log.checkpoint.log_bytes),
    row("log_since_checkpoint_records", Kind::Gauge, "", "The same records, of this process", |log| log.checkpoint.log_records),
    row("checkpoint_running", Kind::Gauge, "", "1: a checkpoint is being made", |log| u64::from(log.checkpoint.running.is_some())),
    row("checkpoint_attempts", Kind::Counter, "checkpoint_attempts", "Attempts to make a checkpoint that are over", |log| log.checkpoint.attempts),
    row("checkpoint_failures", Kind::Counter, "checkpoint_failures", "Those of them that failed", |log| log.checkpoint.failed),
    row("checkpoint_entries", Kind::Gauge, "checkpoint_entries", "Entries of the last checkpoint", |log| log.checkpoint.last.map_or(0, |last| last.entries)),
    row("checkpoint_bytes", Kind::Gauge, "checkpoint_bytes", "Bytes of the last checkpoint", |log| log.checkpoint.last.map_or(0, |last| last.bytes)),
    row("checkpoint_last_microseconds", Kind::Gauge, "checkpoint_last_usec", "Time that the last checkpoint took; 0: an earlier process made it", |log| log.checkpoint.last.map_or(0, |last| last.took.as_micros() as u64)),
    row("checkpoint_finished_seconds", Kind::Gauge, "", "UNIX time at which the last checkpoint was made; 0: there is none", Readings::finished_seconds),
    row("log_retained_bytes", Kind::Gauge, "log_retained_bytes", "Bytes of segments and checkpoints that are retained for recovery to an earlier time", |log| log.retention.bytes),
    row("log_earliest_timestamp", Kind::Gauge, "log_earliest_timestamp", "The earliest timestamp that recovery can reach", |log| log.retention.earliest.epoch),
    row("log_earliest_seconds", Kind::Gauge, "log_earliest_time", "UNIX time of that; 0: when there was nothing", |log| log.retention.earliest.wall / NANOS_IN_SECOND),
];

pub(crate) static STATES: &[Family<Readings>] = &[Family {
    name: "log_state",
    labels: &["state"],
    kind: Kind::Gauge,
    help: "How the log does: 1 for the state that it is in",
    each: |log, each| {
        let mut states = ["writing", "stalled", "full", "failed"].into_iter();
        states.try_for_each(|state| each(&[state], u64::from(log.state.name() == state)))
    },
}];

/// It is there only while there is a reason.
pub(crate) static REFUSALS: &[Family<Readings>] = &[Family {
    name: "log_refusal",
    labels: &["reason"],
    kind: Kind::Gauge,
    help: "Why the engine is read-only; absent while it is not",
    each: |log, each| {
        // A quotation mark or a backslash would end the label's value.
        let reason = log.state.reason().unwrap_or_default();
        each(&[&reason.replace(['"', '\\'], "'")], 1)
    },
}];
