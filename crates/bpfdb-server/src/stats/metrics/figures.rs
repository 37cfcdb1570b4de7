//! What /metrics tells: the figures of the engine, and those of the daemon.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bpfdb::figures::{Figure, Kind};
use bpfdb::{ConflictCause, Engine};
use bpfdb_durability::Durability;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::log::LogFigures;
use super::procedures::Procedures;
use crate::stats::front_end;
use crate::stats::kernel_counters::KernelCounters;
use crate::stats::statistics::{Histogram, Number, Statistics, WAYS};

pub(super) fn registry(
    engine: &Engine,
    statistics: &Arc<Statistics>,
    log: Option<&Arc<Durability>>,
) -> Registry {
    let mut registry = Registry::with_prefix("bpfdb");
    registry.register_collector(Box::new(EngineFigures(engine.clone())));
    registry.register_collector(Box::new(DaemonFigures {
        engine: engine.clone(),
        statistics: Arc::clone(statistics),
    }));
    registry.register_collector(Box::new(Procedures(Arc::clone(statistics))));
    if let Some(log) = log {
        registry.register_collector(Box::new(LogFigures(Arc::clone(log))));
    }
    registry
}

type Labels<'a> = [(&'static str, &'a str); 1];

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

/// One metric with one label, whose values these are.
pub(super) fn family<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, kind): (&str, &str, Kind),
    label: &'static str,
    values: impl IntoIterator<Item = (&'a str, u64)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, metric_type(kind))?;
    for (value_of_label, value) in values {
        let labels: Labels<'_> = [(label, value_of_label)];
        number(metric.encode_family(&labels)?, kind, value)?;
    }
    Ok(())
}

#[derive(Debug)]
struct EngineFigures(Engine);

impl Collector for EngineFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let figures = match self.0.stats() {
            Ok(stats) => front_end::figures(&stats),
            Err(error) => {
                tracing::warn!(%error, "cannot read the engine's figures");
                return Ok(());
            }
        };
        let mut done: Vec<&str> = Vec::new();
        for first in &figures {
            if done.contains(&first.metric) {
                continue;
            }
            done.push(first.metric);
            let same = figures.iter().filter(|one| one.metric == first.metric);
            encode_figures(&mut encoder, first, same)?;
        }
        Ok(())
    }
}

fn encode_figures<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    first: &Figure,
    same: impl Iterator<Item = &'a Figure>,
) -> fmt::Result {
    let Some((label, _)) = first.label else {
        let metric =
            encoder.encode_descriptor(first.metric, first.help, None, metric_type(first.kind))?;
        return number(metric, first.kind, first.value);
    };
    let values = same.filter_map(|figure| {
        let (_, name) = figure.label.as_ref()?;
        Some((name.as_str(), figure.value))
    });
    family(
        encoder,
        (first.metric, first.help, first.kind),
        label,
        values,
    )
}

#[derive(Debug)]
struct DaemonFigures {
    engine: Engine,
    statistics: Arc<Statistics>,
}

impl Collector for DaemonFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.plain(&mut encoder)?;
        self.ways(&mut encoder)?;
        self.requests(&mut encoder)?;
        self.durations(&mut encoder)
    }
}

impl DaemonFigures {
    fn ways(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let counts = self.statistics.ways.iter().map(Number::get);
        let about = "Connections through TCP by how they are served: local is in the client's send(), \
                     the others say why not";
        family(
            encoder,
            ("connections_by_way", about, Kind::Gauge),
            "way",
            WAYS.into_iter().zip(counts),
        )
    }

    #[rustfmt::skip]
    fn plain(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let s = &self.statistics;
        for (name, kind, help, value) in [
            ("uptime_seconds", Kind::Gauge, "Time since the server began", s.uptime().as_secs()),
            ("connections", Kind::Gauge, "Connections of clients", s.connections.get()),
            ("connections_unix", Kind::Gauge, "Connections through the Unix-domain socket", s.connections_unix.get()),
            ("connections_received", Kind::Counter, "Connections accepted", s.connections_received.get()),
            ("connections_rejected", Kind::Counter, "Connections refused: too many", s.connections_rejected.get()),
            ("connections_timed_out", Kind::Counter, "Connections closed because they were idle", s.connections_timed_out.get()),
            ("connections_over_output_limit", Kind::Counter, "Connections closed because they did not read", s.connections_over_output_limit.get()),
            ("connections_evicted", Kind::Counter, "Connections closed because all together used too much memory", s.connections_evicted.get()),
            ("subscribers", Kind::Gauge, "Connections that have subscribed to something", s.subscribers.get()),
            ("channels", Kind::Gauge, "Channels that have subscribers", s.channels.get()),
            ("patterns", Kind::Gauge, "Patterns of channels that have subscribers", s.patterns.get()),
            ("shard_channels", Kind::Gauge, "Shard channels that have subscribers", s.shard_channels.get()),
            ("messages_published", Kind::Counter, "Messages that were published", s.messages_published.get()),
            ("messages_delivered", Kind::Counter, "Messages published, once for each receiver", s.messages_delivered.get()),
            ("client_memory_bytes", Kind::Gauge, "Memory that the daemon takes for requests and replies", s.client_memory.get()),
            ("input_bytes", Kind::Counter, "Bytes that the daemon received", s.input_bytes.get()),
            ("output_bytes", Kind::Counter, "Bytes that the daemon sent", s.output_bytes.get()),
            ("error_replies", Kind::Counter, "Errors that the daemon replied", s.error_replies.get()),
            ("authentications_failed", Kind::Counter, "Wrong passwords", s.authentications_failed.get()),
        ] {
            let metric = encoder.encode_descriptor(name, help, None, metric_type(kind))?;
            number(metric, kind, value)?;
        }
        Ok(())
    }

    fn requests(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        // What is not known now is told the next time.
        let Ok(stats) = self.engine.stats() else {
            return Ok(());
        };
        family(
            encoder,
            ("requests", "Requests answered, by who did", Kind::Counter),
            "path",
            [
                ("kernel", stats.counters.redis().requests_by_kernel()),
                ("daemon", self.statistics.commands_executed()),
            ],
        )?;
        let kernel = KernelCounters::of(&stats);
        let conflicts = |cause: ConflictCause| {
            let daemon = self.statistics.conflicts(cause).get();
            (cause.name(), kernel.conflicts(cause) + daemon)
        };
        family(
            encoder,
            (
                "conflict_replies",
                "Replies CONFLICT, of kernel and daemon, by cause",
                Kind::Counter,
            ),
            "cause",
            ConflictCause::ALL.iter().map(|&cause| conflicts(cause)),
        )?;
        let used = || self.statistics.used_commands();
        family(
            encoder,
            (
                "commands_rejected",
                "Requests that the daemon refused to execute",
                Kind::Counter,
            ),
            "command",
            used().map(|(name, of)| (name, of.rejected.get())),
        )?;
        family(
            encoder,
            (
                "commands_failed",
                "Commands that the daemon executed and that failed",
                Kind::Counter,
            ),
            "command",
            used().map(|(name, of)| (name, of.failed.get())),
        )
    }

    fn durations(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut metric = encoder.encode_descriptor(
            "command_duration_seconds",
            "Commands that the daemon executed, and how long they took",
            None,
            MetricType::Histogram,
        )?;
        for (name, of) in self.statistics.used_commands() {
            let labels: Labels<'_> = [("command", name)];
            let sum = of.nanoseconds.get() as f64 / 1e9;
            let buckets = buckets(&of.times);
            let count = buckets.iter().map(|(_, count)| count).sum();
            metric
                .encode_family(&labels)?
                .encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }
}

/// Powers of four of nanoseconds, always the same.
fn buckets(times: &Histogram) -> Vec<(f64, u64)> {
    let octaves: Vec<_> = times.octaves().collect();
    let pairs = octaves.chunks(2);
    let last = pairs.len() - 1;
    let bucket = |(number, pair): (usize, &[(Duration, u64)])| {
        let end = pair.last().map_or(0.0, |(end, _)| end.as_secs_f64());
        let end = if number == last { f64::INFINITY } else { end };
        (end, pair.iter().map(|(_, count)| count).sum())
    };
    pairs.enumerate().map(bucket).collect()
}
