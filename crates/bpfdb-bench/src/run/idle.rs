//! A writer beside read-only transactions that are never ended: what do their
//! snapshots cost it?

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use bpfdb::{Engine, Options};

use super::worker::{Mix, Outcome, Worker};
use super::{DRAWS, SEED, loaded_engine};
use crate::machine::pin;
use crate::plan::Plan;
use crate::random::{Distribution, sequence};
use crate::report::{Cell, Table};
use crate::sample::Sample;

/// Snapshots that are idle while the writer runs.
const SNAPSHOTS: [u32; 5] = [0, 1, 100, 1000, 5000];
/// One of half of the rate that the writer has alone is the target beside this many.
const TARGET_AT: u32 = 1000;
const TARGET: f64 = 0.5;
const VALUE: usize = 16;
const BATCH: usize = 128;

/// Keys that the writer sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Keys {
    One,
    All,
}

impl Keys {
    const ALL: [Self; 2] = [Self::One, Self::All];

    fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::All => "all, uniform",
        }
    }
}

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Table>> {
    let uniform = sequence(Distribution::Uniform, plan.versions_records, DRAWS, SEED);
    let engine = loaded_engine(
        plan.versions_records,
        VALUE,
        Options {
            max_sessions: SNAPSHOTS[SNAPSHOTS.len() - 1] + 16,
            ..Options::default()
        },
    )?;
    let mut rates: BTreeMap<(Keys, u32), Sample> = BTreeMap::new();

    plan.repeat("snapshots", |_, warm_up| {
        for keys in Keys::ALL {
            let draws = match keys {
                Keys::One => &[0][..],
                Keys::All => &uniform,
            };
            for snapshots in SNAPSHOTS {
                let outcome = beside(&engine, snapshots, draws, plan)?;
                if !warm_up {
                    let rate = outcome.rate();
                    rates.entry((keys, snapshots)).or_default().push(rate);
                }
            }
        }
        Ok(())
    })?;
    Ok(vec![table(&rates, plan)])
}

/// A writer beside so many snapshots, which have begun just before.
fn beside(engine: &Engine, snapshots: u32, draws: &[u32], plan: &Plan) -> Result<Outcome> {
    let sessions = (0..snapshots)
        .map(|_| engine.open_session()?.context("there are sessions"))
        .collect::<Result<Vec<_>>>()?;
    // One buffer for all of them.
    let mut reader = engine.borrow_session(0)?;
    for &session in &sessions {
        reader.redirect(session);
        reader.begin_read_only()?;
    }
    let mix = Mix {
        set_percent: 100,
        batch: BATCH,
        value: VALUE,
    };
    pin(0)?;
    let outcome = Worker::new(engine, mix, draws, 0)?.run(plan.versions_time)?;
    for &session in &sessions {
        engine.close_session(session)?;
    }
    engine.sweep()?;
    Ok(outcome)
}

fn table(rates: &BTreeMap<(Keys, u32), Sample>, plan: &Plan) -> Table {
    let mut table = Table::new(
        "snapshots",
        format!(
            "One writer beside idle snapshots, batches of {BATCH} SETs, {} records with values \
             of {VALUE} B; thousands of SETs per second",
            plan.versions_records
        ),
        &["keys", "idle snapshots", "SETs", "of the rate alone"],
    );
    for keys in Keys::ALL {
        let alone = &rates[&(keys, 0)];
        for snapshots in SNAPSHOTS {
            let rate = &rates[&(keys, snapshots)];
            let share = rate.over(alone);
            let share = if snapshots == TARGET_AT {
                Cell::at_least(&share, TARGET)
            } else {
                Cell::figure(&share, 2)
            };
            let name = Cell::from(keys.name());
            table.row([name, snapshots.into(), Cell::thousands(rate), share]);
        }
    }
    table
}
