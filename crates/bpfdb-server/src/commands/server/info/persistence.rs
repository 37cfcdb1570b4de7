//! The section Persistence. The log is what Redis's append-only file is: its fields have the
//! names of that.

use std::time::SystemTime;

use super::{Page, Source};
use crate::instance::Instance;
use crate::instance::log::Log;
use crate::stats::rows::log::Readings;

pub(super) fn persistence(page: &mut Page, source: &Source<'_>) {
    let operations = &source.stats.counters.operations;
    let count = |operation: u32| operations[operation as usize];
    let changes = count(bpfdb::abi::BPFDB_OP_SET) + count(bpfdb::abi::BPFDB_OP_DELETE);
    checkpoints(page, source.instance, changes);
    append_only(page, &source.instance.log);
    page.lines(&[
        ("module_fork_in_progress", &0),
        ("module_fork_last_cow_size", &0),
    ]);
    if let Some(log) = &source.log {
        own(page, log);
    }
}

/// A checkpoint is what Redis's RDB file is.
fn checkpoints(page: &mut Page, instance: &Instance, changes: u64) {
    let status = instance.log.checkpoint_status();
    // Without a log there is no last save.
    let changes = status.as_ref().map_or(changes, |status| status.log_records);
    let status = status.unwrap_or_default();
    let (running, last) = (status.running, status.last);
    let entries = running.map_or(0, |running| running.entries);
    let whole = |part: f64| (entries as f64 / part.max(0.01)) as u64;
    let state = if status.failure.is_none() {
        "ok"
    } else {
        "err"
    };
    let loaded = instance.log.loaded();
    page.lines(&[
        ("loading", &0),
        ("async_loading", &0),
        ("current_cow_peak", &0),
        ("current_cow_size", &0),
        ("current_cow_size_age", &0),
        ("current_fork_perc", &"0.00"),
        ("current_save_keys_processed", &entries),
        (
            "current_save_keys_total",
            &running.map_or(0, |running| whole(running.part)),
        ),
        ("rdb_changes_since_last_save", &changes),
        ("rdb_bgsave_in_progress", &i32::from(running.is_some())),
        ("rdb_last_save_time", &instance.last_save()),
        ("rdb_last_bgsave_status", &state),
        (
            "rdb_last_bgsave_time_sec",
            &last.map_or(-1, |last| last.took.as_secs() as i64),
        ),
        (
            "rdb_current_bgsave_time_sec",
            &running.map_or(-1, |running| seconds_since(running.begun)),
        ),
        ("rdb_saves", &(status.attempts - status.failed)),
        ("rdb_last_cow_size", &0),
        ("rdb_last_load_keys_expired", &loaded.expired),
        ("rdb_last_load_keys_loaded", &loaded.keys),
    ]);
}

/// A checkpoint is also what a rewrite of Redis's append-only file leaves: BGREWRITEAOF makes one.
fn append_only(page: &mut Page, log: &Log) {
    let state = |fine: bool| if fine { "ok" } else { "err" };
    let there = log.checkpoint_status();
    let status = there.clone().unwrap_or_default();
    page.lines(&[
        ("aof_enabled", &i32::from(log.is_there())),
        (
            "aof_rewrite_in_progress",
            &i32::from(status.running.is_some()),
        ),
        ("aof_rewrite_scheduled", &0),
        (
            "aof_last_rewrite_time_sec",
            &status.last.map_or(-1, |last| last.took.as_secs() as i64),
        ),
        (
            "aof_current_rewrite_time_sec",
            &status
                .running
                .map_or(-1, |running| seconds_since(running.begun)),
        ),
        (
            "aof_last_bgrewrite_status",
            &state(status.failure.is_none()),
        ),
        ("aof_rewrites", &(status.attempts - status.failed)),
        // How many more there were is not kept.
        (
            "aof_rewrites_consecutive_failures",
            &i32::from(status.failure.is_some()),
        ),
        ("aof_last_write_status", &state(log.refusal().is_none())),
        ("aof_last_cow_size", &0),
    ]);
    let Some(status) = there else {
        return;
    };
    // What is read at a start: the checkpoint, as it would be Redis's base file, and the log after
    // it.
    let base = status.last.map_or(0, |last| last.bytes);
    page.lines(&[
        ("aof_current_size", &(base + status.log_bytes)),
        ("aof_base_size", &base),
    ]);
}

fn seconds_since(time: SystemTime) -> i64 {
    time.elapsed().unwrap_or_default().as_secs() as i64
}

/// What Redis has no field for.
fn own(page: &mut Page, log: &Readings) {
    let figures = &log.figures;
    let mean = figures.flush_time.as_micros() / u128::from(figures.flushes.max(1));
    page.metrics(&["log_durable_timestamp"]);
    page.lines(&[
        ("log_state", &log.state.name()),
        ("log_refusal", &log.state.reason().unwrap_or_default()),
    ]);
    page.metrics(&["log_records", "log_bytes", "log_flushes"]);
    page.line("log_flush_mean_usec", mean);
    page.metrics(&[
        "log_exposure_usec",
        "log_exposure_p99_usec",
        "log_exposure_most_usec",
        "checkpoint_attempts",
    ]);
    page.line("checkpoint_last_made", log.checkpoint.last_made);
    page.metrics(&[
        "checkpoint_failures",
        "checkpoint_last_usec",
        "checkpoint_entries",
        "checkpoint_bytes",
        "checkpoint_log_bytes",
    ]);
}
