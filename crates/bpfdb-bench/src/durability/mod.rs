//! Costs and gains of durability: the log inside the kernel and through the server,
//! replies that wait for the disk, checkpoints, recovery.
//!
//! ```text
//! place.rs      where files are written, and what device that is
//! disk.rs       how quick the disk is at the moment
//! client.rs     a connection that asks a server about itself
//! rows.rs       what all tables of loads have in common
//! writers.rs    clients that write before something and during it
//! log/          durability-log:    an engine with a log beside one without, in the kernel
//! server.rs     durability-server: bpfdb serve with a log beside one without
//! sync/         durability-sync:   replies when it is on the disk, four databases; and from
//!               durability-sync-remote: another network namespace
//! exposure.rs   durability-async:  replies at once; how much a loss of power may take
//! files/        durability-files:  checkpoints, recovery, bytes on the disk
//! ```
//!
//! All of it is written to one folder of one disk (`--data-dir`), but for logs in memory
//! (`/dev/shm`), which show what is left when the disk is no limit. Before each round 4 KiB
//! are written and flushed again and again, and how long that took stands below the table: a
//! disk that is throttled, or used by others, shows there.

mod client;
mod disk;
mod exposure;
mod files;
mod log;
mod place;
mod rows;
mod server;
mod sync;
mod writers;

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::machine;
use crate::plan::{Part, Plan};
use crate::report::Table;
use crate::tcp::{DESCRIPTORS, NetworkNamespace, Server, rivals};
pub(crate) use client::{checkpoint, fork_of_bgsave};
pub(crate) use disk::Disk;
pub(crate) use files::{Stalls, stalls};
pub(crate) use place::Place;
use rows::Rows;
pub(crate) use rows::{note_refused, until_room};
pub(crate) use writers::{Latencies, Samples, Target, beside};

/// What all tables need.
pub(crate) struct Setup<'a> {
    plan: &'a Plan,
    pub(crate) place: Place,
    /// Each redis-server to compare with.
    pub(crate) redis: Vec<PathBuf>,
    /// Why one is missing.
    missing: Option<String>,
}

impl<'a> Setup<'a> {
    /// `folder`: where files go; `redis`: a redis-server to compare with besides the one in PATH.
    pub(crate) fn new(plan: &'a Plan, folder: Option<&Path>, redis: Option<&Path>) -> Result<Self> {
        let (redis, missing) = match rivals(plan, redis) {
            Ok((redis, missing)) => (redis, missing),
            Err(error) => (Vec::new(), Some(format!("no Redis: {error:#}"))),
        };
        Ok(Self {
            plan,
            place: Place::new(folder, plan.quick)?,
            redis,
            missing,
        })
    }

    /// Server and client, both here: on loopback.
    fn namespaces() -> [NetworkNamespace; 2] {
        [NetworkNamespace::here(), NetworkNamespace::here()]
    }

    /// `bpfdb serve` with a log in this folder, answering through TCP.
    pub(crate) fn bpfdb(&self, folder: &Path, settings: &[&str]) -> Result<Server> {
        self.bpfdb_between(&Self::namespaces(), "off", folder, settings)
    }

    /// The same, with this for `local-clients`.
    pub(crate) fn bpfdb_for(
        &self,
        local: &str,
        folder: &Path,
        settings: &[&str],
    ) -> Result<Server> {
        self.bpfdb_between(&Self::namespaces(), local, folder, settings)
    }

    /// The same in the first of these namespaces, with clients in the second.
    fn bpfdb_between(
        &self,
        namespaces: &[NetworkNamespace; 2],
        local: &str,
        folder: &Path,
        settings: &[&str],
    ) -> Result<Server> {
        let folder = folder.display().to_string();
        let log = ["--appendonly", "yes", "--dir", &folder];
        let settings = [&log[..], &["--local-clients", local], settings].concat();
        Server::bpfdb_with(&settings, namespaces, self.plan.quick)
    }

    /// A redis-server with its files in this folder, which is made.
    pub(crate) fn redis(program: &Path, folder: &Path, settings: &[&str]) -> Result<Server> {
        Self::redis_between(&Self::namespaces(), program, folder, settings)
    }

    /// The same between namespaces.
    fn redis_between(
        namespaces: &[NetworkNamespace; 2],
        program: &Path,
        folder: &Path,
        settings: &[&str],
    ) -> Result<Server> {
        std::fs::create_dir_all(folder)?;
        let folder = folder.display().to_string();
        let settings = [&["--dir", folder.as_str(), "--save", ""][..], settings].concat();
        Server::redis_with(&settings, program, namespaces)
    }

    /// All tables of `rows`; below the first one stands how the disk was.
    fn tables(&self, rows: &Rows<'_>, mut rates: Table, disk: &Disk) -> Vec<Table> {
        disk.note(&mut rates);
        self.note(&mut rates);
        vec![rates, rows.latencies(), rows.processor()]
    }

    /// Says below a table where it was measured, and which subjects are missing.
    pub(crate) fn note(&self, table: &mut Table) {
        table.note(self.place.note());
        if let Some(missing) = &self.missing {
            table.note(missing);
        }
    }
}

/// Hands each table to `keep`. `only`: these parts, all if there is none; `folder`: where files go; `redis`: a redis-server to compare
/// with besides the one in PATH.
pub(crate) fn measure(
    plan: &Plan,
    only: &[Part],
    folder: Option<&Path>,
    redis: Option<&Path>,
    keep: &mut dyn FnMut(Table),
) -> Result<()> {
    machine::raise_descriptor_limit(DESCRIPTORS)?;
    let setup = Setup::new(plan, folder, redis)?;
    for part in Part::chosen(&Part::DURABILITY, only) {
        if part != Part::Log && !Server::is_built()? {
            keep(Table::skipped(
                "durability-server",
                "bpfdb serve",
                "the program bpfdb is not built",
            ));
            return Ok(());
        }
        let tables = match part {
            Part::Log => log::measure(&setup)?,
            Part::Server => server::measure(&setup)?,
            Part::Sync => sync::measure(&setup)?,
            Part::Async => exposure::measure(&setup)?,
            Part::Files => files::measure(&setup)?,
            // Of other scenarios.
            Part::Lookups
            | Part::Ranges
            | Part::Pool
            | Part::Here
            | Part::Remote
            | Part::Mirror
            | Part::Values
            | Part::Snapshots
            | Part::Report
            | Part::Ycsb
            | Part::Commands
            | Part::Queues
            | Part::Ordered
            | Part::Send => continue,
        };
        tables.into_iter().for_each(&mut *keep);
    }
    Ok(())
}
