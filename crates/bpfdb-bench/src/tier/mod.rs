//! `tier`: more data than memory, and snapshots of all of it.
//!
//! ```text
//! values.rs       values in files, beside Redis that evicts                       ┐ the part
//! cold.rs         GET of values in files, read by the daemon or by the kernel     │ `values`
//! compaction.rs   what is live of a file is rewritten: time, calls, processor     ┘
//! calls.rs        counts system calls
//! creation.rs     what it takes to create a snapshot, by the number of records   ┐
//! fork.rs         what it takes to fork a process with as much memory            │ the part
//! many.rs         sessions that write beside a thousand snapshots a second       │ `snapshots`
//! checkpoint.rs   clients that write beside a checkpoint, and beside BGSAVE      ┘
//! report/         writers beside reports, each over a snapshot of its own: the part `report`
//! ycsb/           workloads of YCSB, beside Redis and RocksDB: the part `ycsb`
//! page_cache.rs   files that the page cache does not have
//! beside.rs       sessions that write beside something else
//! latencies.rs    columns of tables
//! ```

mod beside;
mod calls;
mod checkpoint;
mod cold;
mod compaction;
mod creation;
mod fork;
mod latencies;
mod many;
mod page_cache;
mod report;
mod values;
mod ycsb;

use std::path::Path;

use anyhow::Result;

use crate::durability::Setup;
use crate::machine;
use crate::plan::{Part, Plan};
use crate::report::Table;
use crate::tcp::{DESCRIPTORS, Server};

/// Hands each table to `keep`. `only`: these parts, all if there is none; `folder`: where files go; `redis`: a redis-server
/// to compare with besides the one in PATH.
pub(crate) fn measure(
    plan: &Plan,
    only: &[Part],
    folder: Option<&Path>,
    redis: Option<&Path>,
    keep: &mut dyn FnMut(Table),
) -> Result<()> {
    machine::raise_descriptor_limit(DESCRIPTORS)?;
    let setup = Setup::new(plan, folder, redis)?;
    let parts = Part::chosen(&Part::TIER, only);
    if parts.contains(&Part::Snapshots) {
        keep(creation::measure(plan, &setup)?);
        keep(many::measure(plan)?);
    }
    if parts.contains(&Part::Report) {
        keep(report::sessions(plan)?);
    }
    if !Server::is_built()? {
        keep(Table::skipped(
            "tier",
            "values in files",
            "the program bpfdb is not built",
        ));
        return Ok(());
    }
    if parts.contains(&Part::Snapshots) {
        keep(checkpoint::measure(plan, &setup)?);
    }
    if parts.contains(&Part::Report) {
        keep(report::clients(plan, &setup)?);
    }
    if parts.contains(&Part::Values) {
        values::measure(plan, &setup)?
            .into_iter()
            .for_each(&mut *keep);
        keep(cold::measure(plan, &setup)?);
        keep(compaction::measure(plan, &setup.place)?);
        setup.place.clear()?;
    }
    if parts.contains(&Part::Ycsb) {
        ycsb::measure(plan, &setup)?
            .into_iter()
            .for_each(&mut *keep);
    }
    Ok(())
}
