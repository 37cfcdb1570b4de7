//! A cgroup of the server's own.
//!
//! The program that sees new connections is attached to a cgroup, and runs for
//! the sockets in it. A socket belongs to the cgroup in which it was created,
//! and a connection to that of its listener. So this process enters the cgroup
//! to create the listener, and leaves it: nothing else gets in, and the
//! process stays where its service manager put it.
//!
//! A server that is killed leaves its cgroup, which the next one removes. Whose it is says a lock
//! on its folder: numbers of processes mean nothing across containers, which may see the same
//! hierarchy.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::FlockOperation;

use crate::error::{Error, Result, system};

/// A process is in one cgroup only: threads that start servers take turns.
static MOVING: Mutex<()> = Mutex::new(());
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Others may remove what is not locked yet, and processes of other containers have the same
/// number.
const ATTEMPTS: u32 = 100;

#[derive(Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
    /// Locked for as long as the server runs.
    folder: File,
}

impl Cgroup {
    /// Creates a cgroup below the one that this process is in.
    pub(crate) fn create() -> Result<Self> {
        let parent = {
            // Another server may have moved this process into its own for a moment.
            let _turn = MOVING.lock().unwrap_or_else(PoisonError::into_inner);
            current()?
        };
        remove_left_over(&parent);
        for _ in 0..ATTEMPTS {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("bpfdb-{}-{number}", process::id()));
            // What a process had that was killed and had this one's id.
            remove_if_left_over(&path);
            match fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                created => {
                    created.map_err(system(format!("create cgroup {}", path.display())))?;
                }
            }
            if let Some(folder) = own(&path) {
                return Ok(Self { path, folder });
            }
        }
        Err(Error::Unsupported(format!(
            "cannot keep a cgroup below {}: others remove it",
            parent.display()
        )))
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

/// Cgroups of servers that were killed: nothing else removes them.
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
            remove_if_left_over(&entry.path());
        }
    }
}

/// Locks a cgroup's folder. `None`: another server has taken it for a left-over one, and removes it.
fn own(path: &Path) -> Option<File> {
    let folder = File::open(path).ok()?;
    rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
    let (locked, named) = (folder.metadata().ok()?, fs::metadata(path).ok()?);
    (locked.ino() == named.ino()).then_some(folder)
}

fn remove_if_left_over(path: &Path) {
    if let Some(_locked) = own(path) {
        // Fails if it is in use all the same, and shall.
        let _ = fs::remove_dir(path);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_has_locked_is_left_over() {
        let folder = std::env::temp_dir().join(format!("bpfdb-cgroup-{}", process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let owned = own(&folder).expect("nobody has it");
        assert!(own(&folder).is_none());
        remove_if_left_over(&folder);
        assert!(folder.is_dir(), "it is in use");
        drop(owned);
        remove_if_left_over(&folder);
        assert!(!folder.exists());
        assert!(own(&folder).is_none());
    }
}
