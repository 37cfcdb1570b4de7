//! Where a server's engine is pinned, so that it outlives the process.
//!
//! A server claims its folder before it does anything else, and mounts the bpf
//! file system if nobody has. The last one to give up its folder unmounts it
//! again, if it was one of us who mounted it. A lock file makes claim and
//! give-up exclude each other.
//!
//! The claim is the library's ([`bpfdb::Claim`]), held until the process ends: two
//! servers on one port, at different addresses or in namespaces that share the
//! file system, must not use one engine as if each were alone.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

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

    /// Unpins whatever is in the folder, and keeps the claim.
    pub(crate) fn clear(&self) -> Result<()> {
        let _lock = lock()?;
        Ok(self.claim.clear()?)
    }

    /// Gives up the folder and what is pinned in it; its memory is free when
    /// its last user is gone.
    pub(crate) fn give_up(self) -> Result<()> {
        let _lock = lock()?;
        remove(self.claim)?;
        // Fails, and shall, if other servers have theirs beside it.
        if fs::remove_dir(self.root.join("bpfdb")).is_ok() && is_ours(&self.root) {
            let _ = umount(self.root.as_path());
        }
        Ok(())
    }
}

/// Only who may use the kernel's data may open the file: whoever can holds up all servers.
fn lock() -> Result<Flock<File>> {
    let opened = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(LOCK_FILE);
    let private = |file: &File| file.set_permissions(Permissions::from_mode(0o600));
    let file = opened.and_then(|file| private(&file).map(|()| file));
    let file = file.with_context(|| format!("cannot open {LOCK_FILE}"))?;
    Flock::lock(file, FlockArg::LockExclusive)
        .map_err(|(_, error)| io::Error::from(error))
        .with_context(|| format!("cannot lock {LOCK_FILE}"))
}

fn mount_bpffs() -> Result<PathBuf> {
    mount(
        Some(SOURCE),
        MOUNT_POINT,
        Some("bpf"),
        MsFlags::empty(),
        // As systemd does. Without it anybody may make folders there.
        Some("mode=0700"),
    )
    .with_context(|| format!("cannot mount a bpf file system on {MOUNT_POINT}"))?;
    Ok(MOUNT_POINT.into())
}

/// Did one of us mount it, and is nothing of anybody left in it?
fn is_ours(root: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let ours = table.lines().any(|line| {
        let mut fields = line.split(' ');
        fields.next() == Some(SOURCE) && fields.next().is_some_and(|point| Path::new(point) == root)
    });
    // The kernel's own files end in ".debug".
    let pinned = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| !entry.file_name().to_string_lossy().ends_with(".debug"))
    };
    ours && fs::read_dir(root).is_ok_and(|mut entries| !entries.any(pinned))
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
