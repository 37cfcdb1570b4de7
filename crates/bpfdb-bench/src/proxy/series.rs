//! Which ways are measured under which loads. Those of one series stand beside each other in its tables.

use super::cgroup::Cgroup;
use super::pooler::Poolers;
use super::subject::{self, Subject};
use super::{Figures, Load, MANY, ycsb};
use crate::plan::{Part, Plan};

/// What a series is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subjects {
    /// Clients, proxy and database on one machine.
    Local,
    /// Clients and database are elsewhere than the proxy.
    Remote,
    /// With a mirror and without.
    Mirrored,
}

pub(super) struct Series {
    pub(super) about: Subjects,
    pub(super) subjects: Vec<Subject>,
    pub(super) loads: Vec<Load>,
    /// Of each load.
    pub(super) figures: Vec<Figures>,
    /// Why the others are not the newer ones.
    pub(super) note: Option<String>,
}

/// Those of these parts.
pub(super) fn chosen(
    plan: &Plan,
    only: &[Part],
    cgroup: &Cgroup,
    poolers: &Poolers,
) -> Vec<Series> {
    let parts = Part::chosen(&Part::PROXY, only);
    let series = parts.into_iter().map(|part| {
        let (about, subjects, loads) = match part {
            Part::Remote => (
                Subjects::Remote,
                subject::remote(&poolers.all),
                remote(plan.quick),
            ),
            Part::Mirror => {
                let subjects = subject::mirrored(cgroup);
                (Subjects::Mirrored, subjects, mirrored(plan.quick))
            }
            _ => (
                Subjects::Local,
                subject::local(cgroup, &poolers.all),
                local(plan.quick),
            ),
        };
        Series {
            about,
            figures: loads.iter().map(|_| Figures::of(subjects.len())).collect(),
            subjects,
            loads,
            note: poolers.note.clone(),
        }
    });
    series.collect()
}

const CLIENTS: [u32; 3] = [1, 16, 64];
const PGBENCH: [&str; 2] = ["select-only", "tpcb-like"];

const fn load(script: &'static str, protocol: &'static str, clients: u32) -> Load {
    Load {
        script,
        protocol,
        clients,
    }
}

fn local(quick: bool) -> Vec<Load> {
    if quick {
        return ["select-only", ycsb::NAME]
            .map(|script| load(script, "simple", 4))
            .into();
    }
    let mut all = Vec::new();
    let mut with = |script, protocols: &[&'static str]| {
        for protocol in protocols {
            all.extend(CLIENTS.map(|clients| load(script, protocol, clients)));
        }
    };
    for script in PGBENCH {
        with(script, &["simple", "extended", "prepared"]);
    }
    with(ycsb::NAME, &["simple", "prepared"]);
    all.push(load("select-only", "simple", MANY));
    all.retain(|load| !load.waits_for_itself());
    all
}

fn remote(quick: bool) -> Vec<Load> {
    if quick {
        return vec![load("select-only", "simple", 4)];
    }
    let mut all = CLIENTS
        .map(|clients| load("select-only", "simple", clients))
        .to_vec();
    all.extend(["extended", "prepared"].map(|protocol| load("select-only", protocol, 16)));
    all.extend(["tpcb-like", ycsb::NAME].map(|script| load(script, "simple", 16)));
    all
}

fn mirrored(quick: bool) -> Vec<Load> {
    if quick {
        return vec![load("select-only", "simple", 4)];
    }
    let mut all = CLIENTS
        .map(|clients| load("select-only", "simple", clients))
        .to_vec();
    all.extend([
        load("select-only", "prepared", 16),
        load("tpcb-like", "simple", 16),
    ]);
    all
}
