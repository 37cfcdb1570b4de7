//! Rows of cold values. They are there if the server has the setting `tier`.

use bpfdb::figures::Kind;
use bpfdb_tier::Figures;

use crate::stats::metric::{Field, Metric};

const fn row(
    name: &'static str,
    kind: Kind,
    field: &'static str,
    help: &'static str,
    read: fn(&Figures) -> u64,
) -> Metric<Figures> {
    Metric {
        name,
        kind,
        help,
        read,
        info: Field::of("tier", field),
    }
}

/// Name, kind, field of INFO's section Tier, help, value.
#[rustfmt::skip]
pub(crate) static TIER: &[Metric<Figures>] = &[
    row("tier_memory_bytes", Kind::Gauge, "tier_memory", "Memory for data above which values go to files", |tier| tier.memory),
    row("tier_values", Kind::Gauge, "tier_values", "Values that are in files", |tier| tier.found.values),
    row("tier_value_bytes", Kind::Gauge, "tier_value_bytes", "Bytes of these values", |tier| tier.found.bytes),
    row("tier_runs", Kind::Gauge, "tier_runs", "Files of values", |tier| tier.found.runs),
    row("tier_file_bytes", Kind::Gauge, "tier_file_bytes", "Bytes of these files", |tier| tier.found.file_bytes),
    row("tier_fetches", Kind::Counter, "tier_fetches", "Values that were read from files", |tier| tier.fetches),
    row("tier_prefetches", Kind::Counter, "tier_prefetches", "Reads of values that the kernel has begun before they were asked for", |tier| tier.prefetch.started),
    row("tier_prefetches_crowded", Kind::Counter, "tier_prefetches_crowded", "Reads that it could not begin: no slot was free for the place, the queue was full, or others wrote to it", |tier| tier.prefetch.crowded),
    row("tier_prefetches_used", Kind::Counter, "tier_prefetches_used", "Of these reads, those that had completed when their value was asked for", |tier| tier.prefetch.used),
    row("tier_prefetches_late", Kind::Counter, "tier_prefetches_late", "Those that have completed after their value was asked for", |tier| tier.prefetch.late),
    row("tier_prefetches_unused", Kind::Counter, "tier_prefetches_unused", "Those whose bytes were not taken", |tier| tier.prefetch.unused),
    row("tier_prefetches_failed", Kind::Counter, "tier_prefetches_failed", "Those that failed, or found something else", |tier| tier.prefetch.failed),
    row("tier_parked", Kind::Counter, "tier_parked", "GETs of values in files that have waited in the kernel for their value", |tier| tier.park.parked),
    row("tier_parked_answered", Kind::Counter, "tier_parked_answered", "Those that the kernel has answered", |tier| tier.park.answered),
    row("tier_parked_left", Kind::Counter, "tier_parked_left", "Those that it has left to the daemon when the read had ended: it had failed, or the key had changed", |tier| tier.park.left),
    row("tier_parked_taken", Kind::Counter, "tier_parked_taken", "Those that the daemon has answered", |tier| tier.park.taken),
    row("tier_seats", Kind::Gauge, "tier_seats", "Connections that may have such a request, and those that are gone and have a read under way", |tier| tier.park.seats),
    row("tier_promotions", Kind::Counter, "tier_promotions", "Values that came back to memory when they were read", |tier| tier.promotions),
    row("tier_demotions", Kind::Counter, "tier_demotions", "Values that went to files", |tier| tier.demotions),
    row("tier_demoted_bytes", Kind::Counter, "tier_demoted_bytes", "Bytes of these", |tier| tier.demoted_bytes),
    row("tier_moved", Kind::Counter, "tier_moved", "Values that were rewritten, so that their file could go", |tier| tier.moved),
    row("tier_read_bytes", Kind::Counter, "tier_read_bytes", "Bytes of files that were read to rewrite what is left of them", |tier| tier.read_bytes),
    row("tier_runs_removed", Kind::Counter, "tier_runs_removed", "Files that went", |tier| tier.runs_removed),
    row("tier_corrupt", Kind::Counter, "tier_corrupt", "Values that were found damaged", |tier| tier.corrupt),
    row("tier_unavailable", Kind::Counter, "tier_unavailable", "Values whose file could not be read", |tier| tier.unavailable),
    row("tier_write_errors", Kind::Counter, "tier_write_errors", "Writes of values to files that failed", |tier| tier.write_errors),
];
