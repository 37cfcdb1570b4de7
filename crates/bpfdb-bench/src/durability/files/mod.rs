//! `durability-files`: a checkpoint beside writers, recovery, a start after `kill -9`, and bytes
//! on the disk; beside Redis's BGSAVE, its starts from an RDB file and from an append-only file,
//! and the bytes of these.
//!
//! ```text
//! store.rs       a database with its files: how it is filled, saved, started
//! save.rs        one checkpoint, or BGSAVE: how long, how much processor time
//! sequential.rs  how quick the disk is by itself
//! figures.rs     what was measured
//! tables.rs      the table
//! targets.rs     what is promised
//! stalls.rs      for `tier`: what writers wait for at most while a checkpoint is made
//! ```
//!
//! Each database has two stores with all records: one for checkpoints, and one that has only its
//! log. All are stopped but the one that is measured. A round, for each database in turn:
//!
//! 0. All are stopped, and the disk is measured by itself, with as many bytes as the checkpoint has.
//! 1. A server without data starts and stops: what each start costs.
//! 2. The first store starts from the checkpoint of the round before, which nothing was written after.
//! 3. Writers write as fast as they can, each waiting for its replies; after a while a checkpoint
//!    is made beside them. The 99th percentiles are those of before and during.
//! 4. bpfdb is killed (SIGKILL) and started again: it goes on with the data in the kernel. The
//!    time is counted beyond that of the start without data.
//! 5. Another checkpoint is made with no writers: processor time of the process, and the bytes.
//! 6. It stops. The other store starts from its log alone, and stops.
//!
//! A start lasts until PING is answered. Before it, the files are dropped from the page cache, as
//! after a loss of power. Checkpoints are made at these moments only.

mod figures;
mod save;
mod sequential;
mod stalls;
mod store;
mod tables;
mod targets;

use anyhow::Result;

use super::Setup;
use super::disk::Disk;
use super::writers;
use crate::report::Table;
use figures::{Figures, What};
pub(crate) use stalls::{Stalls, stalls};
use store::{Kept, Program, Store};

const NAME: &str = "durability-files";

/// Of one database.
struct Stores {
    saved: Store,
    logged: Store,
}

pub(super) fn measure(setup: &Setup<'_>) -> Result<Vec<Table>> {
    let mut disk = Disk::new(&setup.place, setup.plan.quick)?;
    let mut figures = Figures::default();
    let mut names = Vec::new();
    for &(size, records) in &setup.plan.files {
        let programs = Program::all(setup);
        let mut stores = (programs.iter())
            .map(|program| Stores::fill(setup, program, size, records))
            .collect::<Result<Vec<_>>>()?;
        names = stores.iter().map(|stores| stores.saved.name()).collect();
        run(setup, &mut stores, &mut disk, &mut figures)?;
        for stores in stores {
            stores.remove()?;
        }
    }
    let mut table = tables::table(setup.plan, names, &figures);
    disk.note(&mut table);
    setup.note(&mut table);
    setup.place.clear()?;
    Ok(vec![table])
}

/// All rounds with values of one size.
fn run(
    setup: &Setup<'_>,
    stores: &mut [Stores],
    disk: &mut Disk,
    figures: &mut Figures,
) -> Result<()> {
    let rounds = setup.plan.rounds;
    for round in 0..rounds {
        disk.look()?;
        for (which, stores) in stores.iter_mut().enumerate() {
            let Store { size, records, .. } = stores.saved;
            let name = stores.saved.name();
            eprintln!("{NAME}, {size} B: round {} of {rounds}: {name}", round + 1);
            let alone =
                sequential::measure(&setup.place.disk("sequential"), stores.saved.bytes()?)?;
            figures.add(What::DiskWrites, size, which, alone.written);
            figures.add(What::DiskReads, size, which, alone.read);
            stores.round(setup, &mut |what, figure| {
                figures.add(what, size, which, figure);
            })?;
            let each = |bytes: u64| bytes as f64 / f64::from(records);
            figures.add(What::LogBytes, size, which, each(stores.logged.bytes()?));
            if let Some(bytes) = stores.logged.logged {
                figures.add(What::Logged, size, which, each(bytes));
            }
            figures.add(What::SaveBytes, size, which, each(stores.saved.bytes()?));
        }
    }
    Ok(())
}

impl Stores {
    fn fill(setup: &Setup<'_>, program: &Program, size: u32, records: u32) -> Result<Self> {
        Ok(Self {
            saved: Store::fill(setup, program, Kept::Saved, size, records)?,
            logged: Store::fill(setup, program, Kept::Logged, size, records)?,
        })
    }

    fn round(&mut self, setup: &Setup<'_>, keep: &mut dyn FnMut(What, f64)) -> Result<()> {
        let empty = self.saved.program.start_empty(setup)?;
        keep(What::EmptyStart, empty);

        keep(What::SavedStart, self.saved.start()?);
        let before = setup.plan.writers_time;
        let save = || save::save(&self.saved);
        let (seen, saved) = writers::beside(self.saved.target(), before, save)?;
        keep(What::Before, seen.before.p99);
        keep(What::During, seen.during.p99);
        keep(What::Refused, seen.refused);
        keep(What::Busy, saved.seconds);
        keep(What::BusySpeed, saved.megabytes_per_second());
        if self.saved.program.goes_on() {
            keep(What::GoesOn, self.saved.kill_and_start()? - empty);
        }
        let saved = save::save(&self.saved)?;
        keep(What::Idle, saved.seconds);
        keep(What::IdleSpeed, saved.megabytes_per_second());
        keep(
            What::Processor,
            saved.processor * 1e9 / f64::from(self.saved.records),
        );
        self.saved.stop()?;

        keep(What::LogStart, self.logged.start()?);
        self.logged.stop()
    }

    fn remove(self) -> Result<()> {
        self.saved.remove()?;
        self.logged.remove()
    }
}
