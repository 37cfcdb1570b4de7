//! Rows of procedures.

use bpfdb::figures::Kind;

use crate::stats::metric::{Family, Field, Metric};
use crate::stats::procedures::{AllProcedures, Programs};

pub(crate) static PROGRAMS: &[Metric<Programs>] = &[
    Metric {
        name: "procedure_programs",
        kind: Kind::Gauge,
        help: "Programs of compiled procedures in the kernel",
        read: |programs| programs.number,
        info: Field::of("bpfdb", "bpfdb_procedure_programs"),
    },
    Metric {
        name: "procedure_code_bytes",
        kind: Kind::Gauge,
        help: "Machine code of these programs",
        read: |programs| programs.machine_code,
        info: Field::of("bpfdb", "bpfdb_procedure_code_bytes"),
    },
];

pub(crate) static PROCEDURES: &[Family<AllProcedures>] = &[
    Family {
        name: "procedure_calls",
        labels: &["name", "kind", "path"],
        kind: Kind::Counter,
        help: "Calls of procedures that have a program, by path: the kernel or the daemon",
        each: |all, each| {
            all.each.iter().try_for_each(|one| {
                each(&[&one.name, one.kind, "kernel"], one.kernel)?;
                each(&[&one.name, one.kind, "daemon"], one.daemon)
            })
        },
    },
    Family {
        name: "procedure_retries",
        labels: &["name", "kind"],
        kind: Kind::Counter,
        help: "Attempts of the kernel that were repeated after a conflict",
        each: |all, each| {
            let mut procedures = all.each.iter();
            procedures.try_for_each(|one| each(&[&one.name, one.kind], one.retries))
        },
    },
    Family {
        name: "procedure_deoptimisations",
        labels: &["reason"],
        kind: Kind::Counter,
        help: "Calls that were deoptimised: the daemon ran them again, by reason",
        each: |all, each| {
            let mut reasons = all.deoptimisations.iter();
            reasons.try_for_each(|&(reason, calls)| each(&[reason], calls))
        },
    },
];
