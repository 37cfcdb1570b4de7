//! The section Persistence. The log is what Redis's append-only file is: its fields have the
//! names of that.

use super::{Page, Source};
use crate::instance::log::Log;

pub(super) fn persistence(page: &mut Page, source: &Source<'_>) {
    let operations = &source.stats.counters.operations;
    let count = |operation: u32| operations[operation as usize];
    let changes = count(bpfdb::abi::BPFDB_OP_SET) + count(bpfdb::abi::BPFDB_OP_DELETE);
    page.lines(&[
        ("loading", &0),
        ("async_loading", &0),
        ("current_cow_peak", &0),
        ("current_cow_size", &0),
        ("current_cow_size_age", &0),
        ("current_fork_perc", &"0.00"),
        ("current_save_keys_processed", &0),
        ("current_save_keys_total", &0),
        ("rdb_changes_since_last_save", &changes),
        ("rdb_bgsave_in_progress", &0),
        ("rdb_last_save_time", &source.instance.started),
        ("rdb_last_bgsave_status", &"ok"),
        ("rdb_last_bgsave_time_sec", &-1),
        ("rdb_current_bgsave_time_sec", &-1),
        ("rdb_saves", &0),
        ("rdb_last_cow_size", &0),
        ("rdb_last_load_keys_expired", &0),
        ("rdb_last_load_keys_loaded", &0),
    ]);
    append_only(page, &source.instance.log);
    page.lines(&[
        ("module_fork_in_progress", &0),
        ("module_fork_last_cow_size", &0),
    ]);
    own(page, &source.instance.log);
}

fn append_only(page: &mut Page, log: &Log) {
    let status = if log.refusal().is_none() { "ok" } else { "err" };
    page.lines(&[
        ("aof_enabled", &i32::from(log.is_there())),
        ("aof_rewrite_in_progress", &0),
        ("aof_rewrite_scheduled", &0),
        ("aof_last_rewrite_time_sec", &-1),
        ("aof_current_rewrite_time_sec", &-1),
        ("aof_last_bgrewrite_status", &"ok"),
        ("aof_rewrites", &0),
        ("aof_rewrites_consecutive_failures", &0),
        ("aof_last_write_status", &status),
        ("aof_last_cow_size", &0),
    ]);
}

/// What Redis has no field for.
fn own(page: &mut Page, log: &Log) {
    let Some(durability) = log.durability() else {
        return;
    };
    let figures = durability.figures();
    let mean = figures.flush_time.as_micros() / u128::from(figures.flushes.max(1));
    page.lines(&[
        ("log_durable_timestamp", &durability.durable()),
        ("log_state", &durability.state().name()),
        ("log_records", &figures.records),
        ("log_bytes", &figures.bytes),
        ("log_flushes", &figures.flushes),
        ("log_flush_mean_usec", &mean),
        ("log_exposure_usec", &figures.exposure.as_micros()),
        ("log_exposure_most_usec", &figures.exposure_most.as_micros()),
    ]);
}
