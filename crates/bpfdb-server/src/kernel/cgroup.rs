//! A cgroup of the server's own.
//!
//! The program that sees new connections is attached to a cgroup, and runs for
//! the sockets in it. A socket belongs to the cgroup in which it was created,
//! and a connection to that of its listener. So this process enters the cgroup
//! to create the listener, and leaves it: nothing else gets in, and the
//! process stays where its service manager put it.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result, system};

/// A process is in one cgroup only: threads that start servers take turns.
static MOVING: Mutex<()> = Mutex::new(());
static NUMBER: AtomicU32 = AtomicU32::new(0);

#[derive(Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
    folder: File,
}

impl Cgroup {
    /// Creates a cgroup below the one that this process is in.
    pub(crate) fn create() -> Result<Self> {
        let parent = current()?;
        remove_left_over(&parent);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("bpfdb-{}-{number}", process::id()));

        // What a process had that was killed and had this one's id.
        let _ = fs::remove_dir(&path);
        fs::create_dir(&path).map_err(system(format!("create cgroup {}", path.display())))?;
        let folder =
            File::open(&path).map_err(system(format!("open cgroup {}", path.display())))?;
        Ok(Self { path, folder })
    }

    pub(crate) fn fd(&self) -> i32 {
        self.folder.as_raw_fd()
    }

    /// Runs `work` with this process inside the cgroup.
    pub(crate) fn inside<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let _turn = MOVING.lock().unwrap_or_else(PoisonError::into_inner);
        let before = current()?;

        enter(&self.path)?;
        let result = work();
        enter(&before)?;
        result
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove the cgroup");
        }
    }
}

/// Cgroups of servers that were killed: nobody else removes them.
fn remove_left_over(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.strip_prefix("bpfdb-")?.split('-').next())
            .filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Fails if it is in use all the same, and shall.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn enter(path: &Path) -> Result<()> {
    fs::write(path.join("cgroup.procs"), process::id().to_string())
        .map_err(system(format!("enter cgroup {}", path.display())))
}

/// Where the cgroup v2 hierarchy is mounted: the root of what is visible here.
pub(crate) fn root() -> Result<PathBuf> {
    bpfdb::mounts::cgroup2()
        .map_err(system("read the mount table"))?
        .ok_or_else(|| {
            Error::Unsupported(
                "no cgroup v2 hierarchy is mounted; mount one: \
                 mount -t cgroup2 none /sys/fs/cgroup/unified"
                    .into(),
            )
        })
}

/// The cgroup v2 that this process is in.
fn current() -> Result<PathBuf> {
    let mount = root()?;
    let table = fs::read_to_string("/proc/self/cgroup").map_err(system("find the own cgroup"))?;
    let own = table
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))
        .unwrap_or_default();
    let path = mount.join(own);
    // In a container the table may name what is not visible here.
    Ok(if path.is_dir() { path } else { mount })
}
