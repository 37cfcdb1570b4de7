//! What /metrics tells of procedures, as it was within the last second.

use std::fmt;
use std::sync::Arc;

use bpfdb::figures::Kind;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::figures::{family, metric_type, number};
use crate::stats::procedures::{AllProcedures, ProcedureFigures};
use crate::stats::statistics::Statistics;

#[derive(Debug)]
pub(super) struct Procedures(pub(super) Arc<Statistics>);

impl Collector for Procedures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = self.0.procedures.get();
        let programs = "Programs of compiled procedures in the kernel";
        let machine_code = "Machine code of these programs";
        for (name, help, value) in [
            ("procedure_programs", programs, all.programs),
            ("procedure_code_bytes", machine_code, all.machine_code),
        ] {
            let metric = encoder.encode_descriptor(name, help, None, metric_type(Kind::Gauge))?;
            number(metric, Kind::Gauge, value)?;
        }
        calls(&mut encoder, &all)?;
        retries(&mut encoder, &all)?;
        let help = "Calls that the kernel gave up and the daemon ran, by reason";
        family(
            &mut encoder,
            ("procedure_deoptimisations", help, Kind::Counter),
            "reason",
            all.deoptimisations.iter().copied(),
        )
    }
}

fn calls(encoder: &mut DescriptorEncoder<'_>, all: &AllProcedures) -> fmt::Result {
    let help = "Calls of procedures that have a program, by who ran them";
    let mut metric =
        encoder.encode_descriptor("procedure_calls", help, None, MetricType::Counter)?;
    for one in &all.each {
        for (path, calls) in [("kernel", one.kernel), ("daemon", one.daemon)] {
            let [name, kind] = labels(one);
            let labels = [name, kind, ("path", path)];
            number(metric.encode_family(&labels)?, Kind::Counter, calls)?;
        }
    }
    Ok(())
}

fn retries(encoder: &mut DescriptorEncoder<'_>, all: &AllProcedures) -> fmt::Result {
    let help = "Attempts of the kernel that were repeated after a conflict";
    let mut metric =
        encoder.encode_descriptor("procedure_retries", help, None, MetricType::Counter)?;
    for one in &all.each {
        let labels = labels(one);
        number(metric.encode_family(&labels)?, Kind::Counter, one.retries)?;
    }
    Ok(())
}

fn labels(one: &ProcedureFigures) -> [(&'static str, &str); 2] {
    [("name", &one.name), ("kind", one.kind)]
}
