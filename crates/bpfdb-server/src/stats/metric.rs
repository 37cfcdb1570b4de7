//! A metric is one row of a table: what it is called, what it means, and how it is read. INFO,
//! /metrics and docs/metrics.md are written from the rows.
//!
//! Rows of the daemon stand in `numbers.rs` and in the folder `rows`; those of the engine are
//! [`bpfdb::figures`], and those of the network's programs `front_end.rs`.

use std::fmt;

use bpfdb::figures::Kind;

use super::kernel_counters::KernelCounters;

/// One number, which is read from an `S`.
pub(crate) struct Metric<S: 'static> {
    /// Without the prefix `bpfdb_`, and without the suffix `_total` that a counter has in /metrics.
    /// The last word is the unit, if there is one: `bytes`, `seconds`, `microseconds`.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// One line without a full stop.
    pub(crate) help: &'static str,
    pub(crate) read: fn(&S) -> u64,
    pub(crate) info: Option<Field>,
}

/// Where INFO shows a metric. A field of which the section does not say where it stands comes at the
/// section's end.
pub(crate) struct Field {
    pub(crate) section: &'static str,
    pub(crate) name: &'static str,
    /// What the kernel counted besides, which /metrics has under another name.
    pub(crate) kernel: fn(&KernelCounters) -> u64,
}

impl Field {
    pub(crate) const fn of(section: &'static str, name: &'static str) -> Option<Self> {
        let kernel = |_: &KernelCounters| 0;
        Some(Self {
            section,
            name,
            kernel,
        })
    }
}

/// One metric with a number for each of several values of its labels. They are in /metrics only.
pub(crate) struct Family<S: 'static> {
    pub(crate) name: &'static str,
    pub(crate) labels: &'static [&'static str],
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
    /// Calls the function with the labels' values, in the order of `labels`, and the number.
    pub(crate) each: fn(&S, Each<'_>) -> fmt::Result,
}

pub(crate) type Each<'a> = &'a mut dyn FnMut(&[&str], u64) -> fmt::Result;

/// The fields of a section of INFO that come from a table, and their values.
pub(crate) fn fields<'a, S>(
    table: &'static [Metric<S>],
    section: &'a str,
    read: impl Fn() -> &'a S + 'a,
    kernel: &'a KernelCounters,
) -> impl Iterator<Item = (&'static str, u64)> + 'a {
    table.iter().filter_map(move |metric| {
        let field = metric.info.as_ref()?;
        let value = || (metric.read)(read()) + (field.kernel)(kernel);
        (field.section == section).then(|| (field.name, value()))
    })
}
