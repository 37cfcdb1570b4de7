//! Rows in the OpenMetrics text format.

use std::fmt;

use bpfdb::figures::Kind;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::stats::metric::{Each, Family, Metric};

/// Name, help, kind.
pub(super) type Row<'a> = (&'a str, &'a str, Kind);

pub(super) fn metrics<S>(
    encoder: &mut DescriptorEncoder<'_>,
    table: &[Metric<S>],
    from: &S,
) -> fmt::Result {
    table.iter().try_for_each(|metric| {
        let row = (metric.name, metric.help, metric.kind);
        one(encoder, row, (metric.read)(from))
    })
}

pub(super) fn families<S>(
    encoder: &mut DescriptorEncoder<'_>,
    table: &[Family<S>],
    from: &S,
) -> fmt::Result {
    table.iter().try_for_each(|of| {
        let row = (of.name, of.help, of.kind);
        family(encoder, row, of.labels, |each| (of.each)(from, each))
    })
}

/// A metric without labels.
pub(super) fn one(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, kind): Row<'_>,
    value: u64,
) -> fmt::Result {
    let metric = encoder.encode_descriptor(name, help, None, metric_type(kind))?;
    number(metric, kind, value)
}

/// A metric with labels. The function calls another with their values and the number, for each
/// number.
pub(super) fn family(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, kind): Row<'_>,
    labels: &[&str],
    all: impl FnOnce(Each<'_>) -> fmt::Result,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, metric_type(kind))?;
    all(&mut |values, value| {
        let labels: Vec<_> = labels.iter().copied().zip(values.iter().copied()).collect();
        number(metric.encode_family(&labels)?, kind, value)
    })
}

pub(super) fn number(mut metric: MetricEncoder<'_>, kind: Kind, value: u64) -> fmt::Result {
    match kind {
        Kind::Counter => metric.encode_counter::<NoLabelSet, _, u64>(&value, None),
        Kind::Gauge => metric.encode_gauge(&i64::try_from(value).unwrap_or(i64::MAX)),
    }
}

pub(super) fn metric_type(kind: Kind) -> MetricType {
    match kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
    }
}
