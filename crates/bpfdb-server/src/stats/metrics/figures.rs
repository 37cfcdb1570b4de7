//! The rows of all tables, as /metrics has them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bpfdb::Engine;
use bpfdb::figures::Figure;
use bpfdb_durability::Durability;
use bpfdb_tier::Tier;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::encode::{families, family, metrics, one};
use crate::stats::front_end;
use crate::stats::histogram::Histogram;
use crate::stats::numbers::NUMBERS;
use crate::stats::rows::{daemon, log, procedures, tier};
use crate::stats::statistics::Statistics;

pub(super) fn registry(
    engine: &Engine,
    statistics: &Arc<Statistics>,
    log: Option<&Arc<Durability>>,
    tier: Option<&Arc<Tier>>,
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
    if let Some(tier) = tier {
        registry.register_collector(Box::new(TierFigures(Arc::clone(tier))));
    }
    registry
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
    let row = (first.metric, first.help, first.kind);
    let Some((label, _)) = first.label else {
        return one(encoder, row, first.value);
    };
    family(encoder, row, &[label], |each| {
        let mut labelled = same.filter_map(|figure| Some((figure.label.as_ref()?, figure.value)));
        labelled.try_for_each(|((_, name), value)| each(&[name], value))
    })
}

#[derive(Debug)]
struct DaemonFigures {
    engine: Engine,
    statistics: Arc<Statistics>,
}

impl Collector for DaemonFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        metrics(&mut encoder, daemon::SERVER, &self.statistics)?;
        metrics(&mut encoder, NUMBERS, &self.statistics.numbers)?;
        families(&mut encoder, daemon::WAY, &self.statistics)?;
        // If the engine cannot be read now, the next scrape has these.
        if let Ok(engine) = self.engine.stats() {
            let daemon = Arc::clone(&self.statistics);
            let requests = daemon::Requests { engine, daemon };
            families(&mut encoder, daemon::REQUESTS, &requests)?;
        }
        self.durations(&mut encoder)
    }
}

impl DaemonFigures {
    fn durations(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (name, help) = daemon::DURATIONS;
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (name, of) in self.statistics.used_commands() {
            let labels = [("command", name)];
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

/// As they were within the last second.
#[derive(Debug)]
struct Procedures(Arc<Statistics>);

impl Collector for Procedures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = self.0.procedures.get();
        metrics(&mut encoder, procedures::PROGRAMS, &all.programs)?;
        families(&mut encoder, procedures::PROCEDURES, &all)
    }
}

#[derive(Debug)]
struct LogFigures(Arc<Durability>);

impl Collector for LogFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let readings = log::Readings::of(&self.0);
        metrics(&mut encoder, log::LOG, &readings)?;
        families(&mut encoder, log::STATES, &readings)?;
        if readings.state.reason().is_some() {
            families(&mut encoder, log::REFUSALS, &readings)?;
        }
        Ok(())
    }
}

#[derive(Debug)]
struct TierFigures(Arc<Tier>);

impl Collector for TierFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        metrics(&mut encoder, tier::TIER, &self.0.figures())
    }
}
