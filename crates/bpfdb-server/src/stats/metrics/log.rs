//! What /metrics tells of the log and of checkpoints. INFO persistence has the same figures.

use std::fmt;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use bpfdb::figures::Kind;
use bpfdb_durability::{Durability, State};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::figures::{family, metric_type, number};

#[derive(Debug)]
pub(super) struct LogFigures(pub(super) Arc<Durability>);

/// Name, kind, help, value.
type Row = (&'static str, Kind, &'static str, u64);

impl Collector for LogFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let state = self.0.state();
        let rows = self.log(&state).into_iter().chain(self.checkpoints());
        for (name, kind, help, value) in rows.chain(self.retained()) {
            let metric = encoder.encode_descriptor(name, help, None, metric_type(kind))?;
            number(metric, kind, value)?;
        }
        encode_state(&mut encoder, &state)
    }
}

impl LogFigures {
    #[rustfmt::skip]
    fn log(&self, state: &State) -> Vec<Row> {
        let figures = self.0.figures();
        vec![
            ("log_writable", Kind::Gauge, "1: the log takes commits; 0: the engine is read-only", u64::from(*state == State::Writing)),
            ("log_durable_timestamp", Kind::Gauge, "Commits up to this timestamp are durable", self.0.durable()),
            ("log_groups", Kind::Counter, "Groups of commits that became durable together", figures.groups),
            ("log_records", Kind::Counter, "Records written to the log", figures.records),
            ("log_bytes", Kind::Counter, "Bytes of records written to the log", figures.bytes),
            ("log_flushes", Kind::Counter, "Writes of the log with their flushes", figures.flushes),
            ("log_flush_microseconds", Kind::Counter, "Time that these took", figures.flush_time.as_micros() as u64),
            ("log_exposure_microseconds", Kind::Gauge, "Age of the oldest commit of the last group when it was durable, at most", figures.exposure.as_micros() as u64),
            ("log_exposure_p99_microseconds", Kind::Gauge, "99 of 100 groups had at most this one", figures.exposure_p99.as_micros() as u64),
            ("log_exposure_most_microseconds", Kind::Gauge, "The longest of these", figures.exposure_most.as_micros() as u64),
        ]
    }

    #[rustfmt::skip]
    fn retained(&self) -> Vec<Row> {
        let retained = self.0.retention_status();
        vec![
            ("log_retained_bytes", Kind::Gauge, "Bytes of segments and checkpoints that are retained for recovery to an earlier time", retained.bytes),
            ("log_earliest_timestamp", Kind::Gauge, "The earliest timestamp that recovery can reach", retained.earliest.epoch),
            ("log_earliest_seconds", Kind::Gauge, "UNIX time of that; 0: when there was nothing", retained.earliest.wall / 1_000_000_000),
        ]
    }

    #[rustfmt::skip]
    fn checkpoints(&self) -> Vec<Row> {
        let status = self.0.checkpoint_status();
        let finished = status.last.and_then(|last| last.finished.duration_since(UNIX_EPOCH).ok());
        let (entries, bytes, took) = status.last.map_or((0, 0, 0), |last| {
            (last.entries, last.bytes, last.took.as_micros() as u64)
        });
        vec![
            ("log_since_checkpoint_bytes", Kind::Gauge, "Bytes of records in the log that the last checkpoint does not have", status.log_bytes),
            ("log_since_checkpoint_records", Kind::Gauge, "The same records, of this process", status.log_records),
            ("checkpoint_running", Kind::Gauge, "1: a checkpoint is being made", u64::from(status.running.is_some())),
            ("checkpoint_attempts", Kind::Counter, "Attempts to make a checkpoint that are over", status.attempts),
            ("checkpoint_failures", Kind::Counter, "Those of them that failed", status.failed),
            ("checkpoint_entries", Kind::Gauge, "Entries of the last checkpoint", entries),
            ("checkpoint_bytes", Kind::Gauge, "Bytes of the last checkpoint", bytes),
            ("checkpoint_last_microseconds", Kind::Gauge, "Time that the last checkpoint took; 0: an earlier process made it", took),
            ("checkpoint_finished_seconds", Kind::Gauge, "UNIX time at which the last checkpoint was made; 0: there is none", finished.map_or(0, |since| since.as_secs())),
        ]
    }
}

/// Which state it is, and in words why the engine is read-only, if it is.
fn encode_state(encoder: &mut DescriptorEncoder<'_>, state: &State) -> fmt::Result {
    let is = |name: &'static str| (name, u64::from(state.name() == name));
    let help = "How the log does: 1 for the state that it is in";
    let states = ["writing", "stalled", "full", "failed"].map(is);
    family(encoder, ("log_state", help, Kind::Gauge), "state", states)?;
    let Some(reason) = state.reason() else {
        return Ok(());
    };
    // Of a label's value these would be the end.
    let reason = reason.replace(['"', '\\'], "'");
    let help = "Why the engine is read-only; absent while it is not";
    let refusal = [(reason.as_str(), 1)];
    family(
        encoder,
        ("log_refusal", help, Kind::Gauge),
        "reason",
        refusal,
    )
}
