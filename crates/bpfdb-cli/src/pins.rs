//! Where a server's engine is pinned, so that it outlives the process.
//!
//! A server claims its folder before it does anything else, and mounts the bpf
//! file system if nobody has. The last one to give up its folder unmounts it
//! again, if it was one of us who mounted it. A lock file makes claim and
//! give-up exclude each other.
//!
//! The claim is a lock on the folder itself, held until the process ends: two
//! servers on one port, at different addresses or in namespaces that share the
//! file system, must not use one engine as if each were alone.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MsFlags, mount, umount};

const MOUNT_POINT: &str = "/sys/fs/bpf";
/// Source of a mount that is ours, in the mount table.
const SOURCE: &str = "bpfdb";
const LOCK_FILE: &str = "/run/bpfdb.lock";

/// The claimed folder of one server.
pub(crate) struct Pins {
    root: PathBuf,
    folder: Folder,
}

/// A folder that is locked as long as this value lives.
struct Folder {
    path: PathBuf,
    lock: Flock<File>,
}

impl Folder {
    /// Creates it if need be.
    fn lock(path: PathBuf) -> Result<Self> {
        loop {
            fs::create_dir_all(&path)
                .with_context(|| format!("cannot create {}", path.display()))?;
            let file =
                File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
            let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => lock,
                Err((_, Errno::EWOULDBLOCK)) => bail!(
                    "another server uses the data in {}: choose another --port, or stop that server",
                    path.display()
                ),
                Err((_, error)) => {
                    return Err(io::Error::from(error))
                        .with_context(|| format!("cannot lock {}", path.display()));
                }
            };
            // Its last owner may have removed it in between.
            if is_at(&lock, &path)? {
                return Ok(Self { path, lock });
            }
        }
    }

    /// Unpins whatever is in it.
    fn clear(&self) -> Result<()> {
        let cannot = || format!("cannot empty {}", self.path.display());
        for entry in fs::read_dir(&self.path).with_context(cannot)? {
            fs::remove_file(entry.with_context(cannot)?.path()).with_context(cannot)?;
        }
        Ok(())
    }

    /// Removes it, and holds nothing of its file system any more.
    fn remove(self) -> Result<()> {
        remove(&self.path)?;
        drop(self.lock);
        Ok(())
    }
}

fn is_at(file: &File, path: &Path) -> Result<bool> {
    let ours = file.metadata().context("cannot look at a folder")?;
    Ok(
        fs::metadata(path)
            .is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())),
    )
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
        let folder = Folder::lock(root.join("bpfdb").join(name))?;
        Ok(Self { root, folder })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// Moves the claim to the folder of `port`, now that it is known.
    pub(crate) fn rename(&mut self, port: u16) -> Result<()> {
        let path = self.root.join("bpfdb").join(port.to_string());
        if path == self.folder.path {
            return Ok(());
        }
        let _lock = lock()?;
        let folder = Folder::lock(path)?;
        folder.clear()?;
        std::mem::replace(&mut self.folder, folder).remove()
    }

    /// Unpins whatever is in the folder, and keeps the claim.
    pub(crate) fn clear(&self) -> Result<()> {
        let _lock = lock()?;
        self.folder.clear()
    }

    /// Gives up the folder and what is pinned in it; its memory is free when
    /// its last user is gone.
    pub(crate) fn give_up(self) -> Result<()> {
        let _lock = lock()?;
        self.folder.remove()?;
        // Fails, and shall, if other servers have theirs beside it.
        if fs::remove_dir(self.root.join("bpfdb")).is_ok() && is_ours(&self.root) {
            let _ = umount(self.root.as_path());
        }
        Ok(())
    }
}

fn lock() -> Result<Flock<File>> {
    let file = File::create(LOCK_FILE).with_context(|| format!("cannot open {LOCK_FILE}"))?;
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
        None::<&str>,
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

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Folder of the engine of the server on `port`.
pub(crate) fn folder_of(port: u16) -> Result<PathBuf> {
    let root = bpfdb::mounts::bpffs()?.unwrap_or_else(|| MOUNT_POINT.into());
    Ok(root.join("bpfdb").join(port.to_string()))
}
