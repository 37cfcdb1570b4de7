//! For `tier`: what writers wait for at most while a checkpoint is made, beside Redis's BGSAVE.
//!
//! A store of each database, which runs only while it is measured. A round, for each in turn: it starts from its
//! checkpoint, writers write as fast as they can, each waiting for its replies, and after a while a
//! checkpoint is made beside them.

use anyhow::Result;

use super::save;
use super::store::{Kept, Program, Store};
use crate::durability::Setup;
use crate::durability::client::{Client, last_fork};
use crate::durability::writers::{Samples, beside};
use crate::sample::Sample;

/// Of one database, a figure for each round.
pub(crate) struct Stalls {
    pub(crate) name: String,
    pub(crate) before: Samples,
    pub(crate) during: Samples,
    /// How long the checkpoint took, and the fork that Redis makes for it, in seconds.
    pub(crate) seconds: Sample,
    pub(crate) fork: Sample,
}

/// Of all databases, bpfdb first, with so many records of so many bytes.
pub(crate) fn stalls(setup: &Setup<'_>, size: u32, records: u32) -> Result<Vec<Stalls>> {
    let plan = setup.plan;
    let programs = Program::all(setup);
    let mut stores = (programs.iter())
        .map(|program| Store::fill(setup, program, Kept::Saved, size, records))
        .collect::<Result<Vec<_>>>()?;
    let mut all: Vec<Stalls> = (stores.iter())
        .map(|store| Stalls {
            name: store.name(),
            before: Samples::default(),
            during: Samples::default(),
            seconds: Sample::default(),
            fork: Sample::default(),
        })
        .collect();
    for round in 0..plan.rounds {
        eprintln!(
            "writers beside checkpoints: round {} of {}",
            round + 1,
            plan.rounds
        );
        for (store, stalls) in stores.iter_mut().zip(&mut all) {
            store.start()?;
            let save = || save::save(store);
            let (seen, saved) = beside(store.target(), plan.writers_time, save)?;
            stalls.before.push(seen.before);
            stalls.during.push(seen.during);
            stalls.seconds.push(saved.seconds);
            if let Program::Redis(..) = store.program {
                let micros = last_fork(&mut Client::new(&store.server)?)?;
                stalls.fork.push(micros / 1e6);
            }
            store.stop()?;
        }
    }
    for store in stores {
        store.remove()?;
    }
    Ok(all)
}
