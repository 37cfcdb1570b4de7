//! Where a server's engine is pinned, so that it outlives the process.
//!
//! A server claims its folder before it does anything else, and mounts the bpf
//! file system if there is none. The last one to give up its folder unmounts it
//! again, if a process of bpfdb has mounted it. A lock file makes claim and
//! give-up exclude each other.
//!
//! The claim is the library's ([`bpfdb::Claim`]), held until the process ends: two
//! servers on one port, at different addresses or in namespaces that share the
//! file system, must not use one engine as if each were alone.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bpfdb::{Claim, Engine, Error};
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MsFlags, mount, umount};

const MOUNT_POINT: &str = "/sys/fs/bpf";
/// Source of a mount that is ours, in the mount table.
const SOURCE: &str = "bpfdb";
const LOCK_FILE: &str = "/run/bpfdb.lock";

/// The claimed folder of one server.
pub(crate) struct Pins {
    root: PathBuf,
    claim: Claim,
}

/// Between two looks at the pins.
const LOOK: Duration = Duration::from_secs(1);

/// A thread that looks at the pins; it ends when this is dropped.
pub(crate) struct Watch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has said why, if it panicked.
            let _ = thread.join();
        }
    }
}

/// The folder itself, if it is not the one that was claimed; else the first pin that is not there.
fn first_missing(claim: &Claim) -> Option<PathBuf> {
    match claim.has_folder() {
        true => bpfdb::first_missing_pin(claim.folder()),
        false => Some(claim.folder().to_owned()),
    }
}

/// The library's claim, or why it cannot be had.
fn claim(path: &Path) -> Result<Claim> {
    Claim::take(path).map_err(|error| match error {
        Error::Owned { .. } => anyhow!(
            "another server uses the data in {}: choose another --port, or stop that server",
            path.display()
        ),
        error => error.into(),
    })
}

impl Pins {
    /// Claims the folder of the server on `port`; 0: one for a port not known
    /// yet, see [`Pins::rename`].
    pub(crate) fn claim(port: u16) -> Result<Self> {
        let _lock = lock()?;
        let root = match bpfdb::mounts::bpffs()? {
            Some(root) => root,
            None => mount_bpffs()?,
        };
        let name = match port {
            0 => format!("starting-{}", std::process::id()),
            port => port.to_string(),
        };
        let claim = claim(&root.join("bpfdb").join(name))?;
        Ok(Self { root, claim })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.claim.folder()
    }

    /// For the engine that is opened or pinned in the folder.
    pub(crate) fn claim_of_folder(&self) -> &Claim {
        &self.claim
    }

    /// Moves the claim to the folder of `port`, now that it is known.
    pub(crate) fn rename(&mut self, port: u16) -> Result<()> {
        let path = self.root.join("bpfdb").join(port.to_string());
        if path == self.folder() {
            return Ok(());
        }
        let _lock = lock()?;
        let claim = claim(&path)?;
        if Engine::is_pinned(&path) {
            bail!(
                "the kernel gave this server port {port}, and has the data of an earlier server on \
                 it: start this one again, or that one with --port {port}"
            );
        }
        claim.clear()?;
        remove(std::mem::replace(&mut self.claim, claim))
    }

    /// Folders of other servers, living or dead, in which an engine is pinned.
    pub(crate) fn others(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.root.join("bpfdb"));
        let paths = entries
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path());
        paths
            .filter(|path| path != self.folder() && Engine::is_pinned(path))
            .collect()
    }

    /// Memory of what is pinned in the folder, bytes; 0 if that is not known.
    pub(crate) fn memory(&self) -> u64 {
        bpfdb::pinned_memory(self.folder()).unwrap_or(0)
    }

    /// The first thing that is missing of the folder with what is pinned in it.
    pub(crate) fn first_missing(&self) -> Option<PathBuf> {
        first_missing(&self.claim)
    }

    /// From now on it is logged when something of the folder is removed, until what this returns is
    /// dropped.
    pub(crate) fn watch(&self) -> Result<Watch> {
        let (stop, stopped) = mpsc::channel();
        let claim = self.claim.clone();
        let look = move || {
            while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if let Some(missing) = first_missing(&claim) {
                    let missing = missing.display();
                    tracing::error!(
                        %missing,
                        "a pin of the data in the kernel was removed: if this server is killed, what \
                         is in no log is lost, and no other program finds the data; stop the server, \
                         and start it again"
                    );
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("bpfdb-pins".into()).spawn(look);
        Ok(Watch {
            stop: Some(stop),
            thread: Some(thread.context("cannot start the thread that watches the pins")?),
        })
    }

    /// Unpins whatever is in the folder, and keeps the claim.
    pub(crate) fn clear(&self) -> Result<()> {
        let _lock = lock()?;
        Ok(self.claim.clear()?)
    }

    /// Gives up the folder and what is pinned in it; its memory is free when
    /// its last user is gone.
    pub(crate) fn give_up(self) -> Result<()> {
        let lock = lock()?;
        remove(self.claim)?;
        if lock.is_none() {
            return Ok(());
        }
        // Fails, and shall, if other servers have theirs beside it.
        if fs::remove_dir(self.root.join("bpfdb")).is_ok() && is_ours(&self.root) {
            let _ = umount(self.root.as_path());
        }
        Ok(())
    }
}

/// Only a user of the kernel's data may open the file: a process that can open it can hold up all
/// servers. `None`: this process may not write there, because it is not root or is confined. Such a
/// process cannot mount or unmount either, so that only the claims of folders are left to exclude.
fn lock() -> Result<Option<Flock<File>>> {
    let opened = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(LOCK_FILE);
    let private = |file: &File| file.set_permissions(Permissions::from_mode(0o600));
    let file = opened.and_then(|file| private(&file).map(|()| file));
    let is_forbidden = |error: &io::Error| {
        use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
    };
    let file = match file {
        Err(error) if is_forbidden(&error) => return Ok(None),
        file => file.with_context(|| format!("cannot open {LOCK_FILE}"))?,
    };
    Flock::lock(file, FlockArg::LockExclusive)
        .map(Some)
        .map_err(|(_, error)| io::Error::from(error))
        .with_context(|| format!("cannot lock {LOCK_FILE}"))
}

fn mount_bpffs() -> Result<PathBuf> {
    mount(
        Some(SOURCE),
        MOUNT_POINT,
        Some("bpf"),
        MsFlags::empty(),
        // As systemd does. Without it any user may make folders there.
        Some("mode=0700"),
    )
    .with_context(|| format!("cannot mount a bpf file system on {MOUNT_POINT}"))?;
    Ok(MOUNT_POINT.into())
}

/// Has a process of bpfdb mounted it, and is it empty?
fn is_ours(root: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let ours = is_mounted_by_us(&table, root);
    // The kernel's own files end in ".debug".
    let pinned = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| !entry.file_name().to_string_lossy().ends_with(".debug"))
    };
    ours && fs::read_dir(root).is_ok_and(|mut entries| !entries.any(pinned))
}

/// Is the file system that is seen at `root` one of ours? Others may be hidden below it: the last
/// line of the mount table with this point is the one that is seen.
fn is_mounted_by_us(table: &str, root: &Path) -> bool {
    let mounts = table.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        Some((fields.next()?, Path::new(fields.next()?)))
    });
    let mut from_the_top = mounts.rev().filter(|(_, point)| *point == root);
    from_the_top
        .next()
        .is_some_and(|(source, _)| source == SOURCE)
}

/// Removes a folder with what is pinned in it, and gives up the claim.
fn remove(claim: Claim) -> Result<()> {
    let folder = claim.folder();
    if !folder.exists() {
        return Ok(());
    }
    claim.clear()?;
    fs::remove_dir(folder).with_context(|| format!("cannot remove {}", folder.display()))
}

/// Folder of the engine of the server on `port`.
pub(crate) fn folder_of(port: u16) -> Result<PathBuf> {
    let root = bpfdb::mounts::bpffs()?.unwrap_or_else(|| MOUNT_POINT.into());
    Ok(root.join("bpfdb").join(port.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_that_hides_ours_is_not_ours() {
        let ours = "proc /proc proc rw 0 0\nbpfdb /sys/fs/bpf bpf rw 0 0\n";
        let hidden = format!("{ours}none /sys/fs/bpf bpf rw 0 0\n");
        let root = Path::new("/sys/fs/bpf");
        assert!(is_mounted_by_us(ours, root));
        assert!(!is_mounted_by_us(&hidden, root));
        assert!(!is_mounted_by_us(ours, Path::new("/sys/fs")));
    }
}
