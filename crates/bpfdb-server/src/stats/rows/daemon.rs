//! Rows of what the daemon knows besides its [numbers](crate::stats::numbers): by connection path,
//! by command, by cause.

use std::sync::Arc;

use bpfdb::figures::Kind;
use bpfdb::{ConflictCause, Stats};

use crate::stats::kernel_counters::KernelCounters;
use crate::stats::metric::{Family, Field, Metric};
use crate::stats::statistics::{Statistics, WAYS};

pub(crate) static SERVER: &[Metric<Statistics>] = &[Metric {
    name: "uptime_seconds",
    kind: Kind::Gauge,
    help: "Time since the server began",
    read: |statistics| statistics.uptime().as_secs(),
    info: Field::of("server", "uptime_in_seconds"),
}];

pub(crate) static WAY: &[Family<Statistics>] = &[Family {
    name: "connections_by_way",
    labels: &["way"],
    kind: Kind::Gauge,
    help: "Connections through TCP by how they are served: local is in the client's send(), \
           the others say why not",
    each: |statistics, each| {
        let mut ways = WAYS.iter().zip(&statistics.ways);
        ways.try_for_each(|(way, count)| each(&[*way], count.get()))
    },
}];

/// What both have counted: the kernel since the engine was created, the daemon since it began or
/// since CONFIG RESETSTAT.
pub(crate) struct Requests {
    pub(crate) engine: Stats,
    pub(crate) daemon: Arc<Statistics>,
}

pub(crate) static REQUESTS: &[Family<Requests>] = &[
    Family {
        name: "requests",
        labels: &["path"],
        kind: Kind::Counter,
        help: "Requests answered, by path: the kernel or the daemon",
        each: |requests, each| {
            let kernel = requests.engine.counters.redis().requests_by_kernel();
            each(&["kernel"], kernel)?;
            each(&["daemon"], requests.daemon.commands_executed())
        },
    },
    Family {
        name: "conflict_replies",
        labels: &["cause"],
        kind: Kind::Counter,
        help: "Replies CONFLICT, of kernel and daemon, by cause",
        each: |requests, each| {
            let kernel = KernelCounters::of(&requests.engine);
            ConflictCause::ALL.iter().try_for_each(|&cause| {
                let daemon = requests.daemon.conflicts(cause).get();
                each(&[cause.name()], kernel.conflicts(cause) + daemon)
            })
        },
    },
    Family {
        name: "commands_rejected",
        labels: &["command"],
        kind: Kind::Counter,
        help: "Requests that the daemon refused to execute",
        each: |requests, each| {
            let mut used = requests.daemon.used_commands();
            used.try_for_each(|(name, of)| each(&[name], of.rejected.get()))
        },
    },
    Family {
        name: "commands_failed",
        labels: &["command"],
        kind: Kind::Counter,
        help: "Commands that the daemon executed and that failed",
        each: |requests, each| {
            let mut used = requests.daemon.used_commands();
            used.try_for_each(|(name, of)| each(&[name], of.failed.get()))
        },
    },
];

/// The one histogram, of each command that was executed: its name and help.
pub(crate) const DURATIONS: (&str, &str) = (
    "command_duration_seconds",
    "Commands that the daemon executed, and how long they took",
);
