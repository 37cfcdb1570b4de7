//! Every gauge and counter of the engine with its name. With those of the front ends (in the crates
//! that load these) they are what `bpfdb stats` prints and what a metrics endpoint exports.

use crate::operators::COUNTED_OPERATORS;
use crate::stats::Stats;
use crate::{ConflictCause, SEGMENT_SIZE, Status};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Gauge,
    /// Never falls while the engine lives.
    Counter,
}

#[derive(Clone, Debug)]
pub struct Figure {
    /// Where it stands in the output of `bpfdb stats`: names with dots between.
    pub path: String,
    /// What it is called among other programs' metrics, without prefix, suffix
    /// and unit.
    pub metric: &'static str,
    /// What distinguishes it from others of the same metric.
    pub label: Option<(&'static str, String)>,
    pub kind: Kind,
    pub help: &'static str,
    pub value: u64,
}

impl Stats {
    /// Those of the engine; a front end has its own besides.
    pub fn figures(&self) -> Vec<Figure> {
        let mut figures = self.gauges();
        figures.extend(self.size_classes());
        figures.extend(self.operations());
        figures.extend(self.errors());
        figures.extend(self.conflicts());
        figures.extend(self.events());
        figures
    }

    #[rustfmt::skip]
    fn gauges(&self) -> Vec<Figure> {
        [
            ("data.records", "records", self.records, "Records, deleted ones that snapshots see included"),
            ("data.history_versions", "history_versions", self.history_versions, "Versions older than the newest of their record"),
            ("data.expiring", "expiring", self.expiring, "Versions with an expiry, those of snapshots and open transactions included"),
            ("data.slots_used", "slots_used", self.slots_used(), "Slots in use, of all size classes"),
            ("memory.limit_bytes", "memory_limit_bytes", self.segments_max * SEGMENT_SIZE, "Most memory that the engine takes"),
            ("memory.added_bytes", "memory_added_bytes", self.memory_added(), "Memory that the engine has taken from the kernel"),
            ("memory.used_bytes", "memory_used_bytes", self.memory_used(), "Memory that the data takes"),
            ("memory.held_bytes", "memory_held_bytes", self.memory_held(), "Memory in pages of index and slabs: what counts against the limit"),
            ("memory.kept_bytes", "memory_kept_bytes", self.memory_kept(), "Of that, what no data takes: kept for data to come"),
            ("memory.segments", "memory_segments", self.segments, "Memory segments added"),
            ("memory.pages_taken", "memory_pages_taken", self.pages_taken, "Pages cut off the segments so far"),
            ("memory.pages_free", "memory_pages_free", self.pages_free, "Pages given back, to be used again"),
            ("memory.index_pages", "memory_index_pages", self.index_pages, "Pages of the index"),
            ("sessions.open", "sessions_open", self.sessions, "Sessions in use, connections included"),
            ("sessions.in_transaction", "sessions_in_transaction", self.transactions, "Sessions with an open transaction"),
            ("sessions.snapshots", "snapshots", self.snapshots, "Read-only transactions that run"),
            ("sessions.locks", "locks", self.locks, "Locks of open transactions"),
            ("sessions.clock", "clock", self.clock, "The engine's clock of commits"),
        ]
        .into_iter()
        .map(|(path, metric, value, help)| gauge(path.into(), metric, None, value, help))
        .collect()
    }

    fn size_classes(&self) -> impl Iterator<Item = Figure> {
        let used = self.classes.iter().filter(|class| class.pages > 0);
        used.flat_map(|class| {
            let figure = |name: &str, metric, value, help| {
                let path = format!("memory.size_classes.{}.{name}", class.size);
                gauge(
                    path,
                    metric,
                    Some(("size", class.size.to_string())),
                    value,
                    help,
                )
            };
            [
                figure(
                    "pages",
                    "size_class_pages",
                    class.pages,
                    "Pages of a size class",
                ),
                figure(
                    "slots",
                    "size_class_slots",
                    class.slots,
                    "Slots of a size class",
                ),
                figure(
                    "used",
                    "size_class_slots_used",
                    class.used,
                    "Slots of a size class in use",
                ),
            ]
        })
    }

    fn operations(&self) -> impl Iterator<Item = Figure> {
        COUNTED_OPERATORS.iter().map(|&(name, number)| Figure {
            path: format!("operations.{name}"),
            metric: "operations",
            label: Some(("operation", name.into())),
            kind: Kind::Counter,
            help: "Operators executed",
            value: self.counters.operations[number as usize],
        })
    }

    fn conflicts(&self) -> impl Iterator<Item = Figure> {
        ConflictCause::ALL.iter().map(|&cause| Figure {
            path: format!("conflicts.{}", cause.name()),
            metric: "conflicts",
            label: Some(("cause", cause.name().into())),
            kind: Kind::Counter,
            help: "Errors CONFLICT of operators, each attempt of a command, by cause",
            value: self.counters.conflicts[cause as usize],
        })
    }

    fn errors(&self) -> impl Iterator<Item = Figure> {
        let errors = Status::ALL.iter().filter(|status| status.is_error());
        errors.map(|status| {
            let name = status.name().to_ascii_lowercase();
            Figure {
                path: format!("errors.{name}"),
                metric: "errors",
                label: Some(("error", name)),
                kind: Kind::Counter,
                help: "Errors of operators, by cause",
                value: self.counters.statuses[status.code() as usize],
            }
        })
    }

    #[rustfmt::skip]
    fn events(&self) -> Vec<Figure> {
        let c = &self.counters;
        [
            ("memory_lost", c.memory_lost, "Slots and pages that could not be given back: their list changed all the while"),
            ("latch_retries", c.latch_retries, "Tries again for a latch"),
            ("read_retries", c.read_retries, "Reads begun again because of a writer"),
            ("autocommit_retries", c.autocommit_retries, "Single operators tried again after a conflict"),
            ("commits_helped", c.commits_helped, "Commits that another session finished"),
            ("page_splits", c.page_splits, "Index pages split"),
            ("page_merges", c.page_merges, "Index pages merged"),
            ("pages_reclaimed", c.pages_reclaimed, "Pages that went back to be used again"),
            ("versions_pruned", c.versions_pruned, "Old versions thrown away"),
            ("snapshots_revoked", c.snapshots_revoked, "Read-only transactions ended because they were old and in the way"),
            ("records_swept", c.records_swept, "Deleted records taken out of the index"),
            ("records_expired", c.records_expired, "Expired records taken out of the index"),
            ("records_evicted", c.records_evicted, "Records deleted because memory was full"),
            ("sessions_reaped", c.sessions_reaped, "Idle transactions rolled back"),
            ("gets_found", self.gets_found, "GETs that found a value"),
            ("gets_missed", self.gets_missed, "GETs that found none"),
        ]
        .into_iter()
        .map(|(name, value, help)| Figure {
            path: format!("events.{name}"),
            metric: name,
            label: None,
            kind: Kind::Counter,
            help,
            value,
        })
        .collect()
    }
}

fn gauge(
    path: String,
    metric: &'static str,
    label: Option<(&'static str, String)>,
    value: u64,
    help: &'static str,
) -> Figure {
    Figure {
        path,
        metric,
        label,
        kind: Kind::Gauge,
        help,
        value,
    }
}
