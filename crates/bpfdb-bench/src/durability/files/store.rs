//! A database with its files: how it is filled, started, stopped.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use super::save;
use crate::durability::Setup;
use crate::durability::client::Client;
use crate::durability::writers::Target;
use crate::tcp::{Server, fill};

/// What is to be in the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// A checkpoint, or an RDB file.
    Saved,
    /// The log alone, or an append-only file that was never rewritten.
    Logged,
}

#[derive(Clone)]
pub(super) enum Program {
    Bpfdb,
    /// Which one, and the redis-server.
    Redis(usize, PathBuf),
}

impl Program {
    /// All that are compared, bpfdb first.
    pub(super) fn all(setup: &Setup<'_>) -> Vec<Self> {
        let redis = setup.redis.iter().cloned().enumerate();
        let redis = redis.map(|(number, program)| Self::Redis(number, program));
        [Self::Bpfdb].into_iter().chain(redis).collect()
    }

    /// Whether it goes on with its data in memory when its process was killed.
    pub(super) fn goes_on(&self) -> bool {
        matches!(self, Self::Bpfdb)
    }

    fn folder(&self, setup: &Setup<'_>, name: &str) -> PathBuf {
        match self {
            Self::Bpfdb => setup.place.disk(&format!("bpfdb-{name}")),
            Self::Redis(number, _) => setup.place.disk(&format!("redis-{number}-{name}")),
        }
    }

    fn run(&self, setup: &Setup<'_>, folder: &Path, kept: Kept) -> Result<Server> {
        let settings: &[&str] = match (self, kept) {
            (Self::Bpfdb, _) => &["--checkpoint-every", "0", "--checkpoint-log-size", "0"],
            (_, Kept::Saved) => &["--appendonly", "no"],
            (_, Kept::Logged) => &["--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"],
        };
        match self {
            Self::Bpfdb => setup.bpfdb(folder, settings),
            Self::Redis(_, program) => Setup::redis(program, folder, settings),
        }
    }

    /// Seconds that it takes to start without data.
    pub(super) fn start_empty(&self, setup: &Setup<'_>) -> Result<f64> {
        let folder = self.folder(setup, "empty");
        let mut server = self.run(setup, &folder, Kept::Saved)?;
        server.stop()?;
        fs::remove_dir_all(&folder)?;
        Ok(server.start_time.as_secs_f64())
    }
}

/// Stopped, but while it is measured.
pub(super) struct Store {
    pub(super) program: Program,
    pub(super) server: Server,
    pub(super) folder: PathBuf,
    kept: Kept,
    pub(super) size: u32,
    pub(super) records: u32,
    /// Bytes of records in bpfdb's log when it was filled.
    pub(super) logged: Option<u64>,
}

impl Store {
    /// With all records in its files.
    pub(super) fn fill(
        setup: &Setup<'_>,
        program: &Program,
        kept: Kept,
        size: u32,
        records: u32,
    ) -> Result<Self> {
        let folder = program.folder(setup, &format!("{kept:?}"));
        let mut store = Self {
            program: program.clone(),
            server: program.run(setup, &folder, kept)?,
            folder,
            kept,
            size,
            records,
            logged: None,
        };
        eprintln!(
            "{}: {records} records of {size} B into {}",
            super::NAME,
            store.name()
        );
        fill(&store.server, records, size)?;
        match (kept, program) {
            (Kept::Saved, _) => {
                save::save(&store)?;
            }
            (Kept::Logged, Program::Bpfdb) => store.logged = Some(logged(&store.server)?),
            (Kept::Logged, Program::Redis(..)) => {}
        }
        store.stop()?;
        Ok(store)
    }

    pub(super) fn name(&self) -> String {
        self.server.name.clone()
    }

    /// Where writers write.
    pub(super) fn target(&self) -> Target<'_> {
        Target {
            server: &self.server,
            records: self.records,
            size: self.size,
        }
    }

    /// Seconds until it answers, with all its records, from files that are not in memory.
    pub(super) fn start(&mut self) -> Result<f64> {
        for_each_file(&self.folder, &mut forget)?;
        self.restart()
    }

    fn restart(&mut self) -> Result<f64> {
        self.server.restart()?;
        let seconds = self.server.start_time.as_secs_f64();
        let found = Client::new(&self.server)?.ask(&["DBSIZE"])?;
        ensure!(
            found == format!(":{}", self.records),
            "{} has {found} records after a start",
            self.name()
        );
        Ok(seconds)
    }

    /// Seconds until it answers again after its process was killed.
    pub(super) fn kill_and_start(&mut self) -> Result<f64> {
        self.server.kill()?;
        self.restart()
    }

    pub(super) fn stop(&mut self) -> Result<()> {
        self.server.stop()
    }

    /// That its files take on the disk.
    pub(super) fn bytes(&self) -> Result<u64> {
        let mut bytes = 0;
        let files = self.folder.join(match (&self.program, self.kept) {
            (Program::Bpfdb, Kept::Saved) => "checkpoint",
            (Program::Bpfdb, Kept::Logged) => "log",
            (_, Kept::Saved) => save::RDB,
            (_, Kept::Logged) => "appendonlydir",
        });
        for_each_file(&files, &mut |path| {
            // `st_blocks` is in units of 512 bytes, whatever the file system's are.
            bytes += path.metadata()?.blocks() * 512;
            Ok(())
        })?;
        Ok(bytes)
    }

    pub(super) fn remove(self) -> Result<()> {
        let Self { server, folder, .. } = self;
        drop(server);
        fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))
    }
}

/// Bytes of the records that the log has, when all of them are on the disk.
fn logged(server: &Server) -> Result<u64> {
    let mut client = Client::new(server)?;
    client.ask(&["SET", "key:000000000000", "the last"])?;
    client.ask(&["WAITAOF", "1", "0", "0"])?;
    client.figure("log_bytes")
}

/// Each file below a folder, or the file itself.
fn for_each_file(path: &Path, call: &mut dyn FnMut(&Path) -> Result<()>) -> Result<()> {
    if !path.is_dir() {
        return call(path);
    }
    for entry in fs::read_dir(path).with_context(|| format!("list {}", path.display()))? {
        for_each_file(&entry?.path(), call)?;
    }
    Ok(())
}

/// Drops a file from the page cache.
pub(super) fn forget(path: &Path) -> Result<()> {
    let file = File::open(path)?;
    // What is not on the disk stays.
    file.sync_all()?;
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
    Ok(())
}
