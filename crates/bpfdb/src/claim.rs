//! The right to a folder of pins: one process at a time owns an engine.
//!
//! It is a lock on the folder itself (`flock`), which belongs to the open file and not
//! to the process: children that are forked keep it, programs that are executed do not,
//! and the kernel gives it up when the last process that has the file is gone, however it
//! ended.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result, system};
use crate::maps;

/// A folder that no other process can claim. Clones are the same claim; it ends with the last
/// one, which an [`crate::Engine`] may hold.
#[derive(Clone, Debug)]
pub struct Claim {
    folder: PathBuf,
    /// Its lock ends when it is closed, everywhere.
    file: Arc<File>,
}

impl Claim {
    /// Claims `folder`, which is created if need be. Does not wait.
    ///
    /// # Errors
    /// [`Error::Owned`] if another process, or another engine of this one, has it.
    pub fn take(folder: &Path) -> Result<Self> {
        loop {
            fs::create_dir_all(folder).map_err(system(format!("create {}", folder.display())))?;
            let file = File::open(folder).map_err(system(format!("open {}", folder.display())))?;
            lock(&file, folder)?;
            // Its last owner may have removed it in between.
            if is_at(&file, folder)? {
                return Ok(Self {
                    folder: folder.to_owned(),
                    file: Arc::new(file),
                });
            }
        }
    }

    /// The folder that is claimed.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the folder is still there, and is the one that was claimed.
    pub fn has_folder(&self) -> bool {
        is_at(&self.file, &self.folder).unwrap_or(false)
    }

    /// Unpins whatever is in the folder. The data is gone when its last user is.
    pub fn clear(&self) -> Result<()> {
        maps::unpin(&self.folder)
    }
}

fn lock(file: &File, folder: &Path) -> Result<()> {
    // SAFETY: flock takes no pointers; the descriptor is open.
    let result = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::WouldBlock {
        return Err(Error::Owned {
            path: folder.to_owned(),
        });
    }
    Err(system(format!("lock {}", folder.display()))(error))
}

fn is_at(file: &File, path: &Path) -> Result<bool> {
    let ours = file.metadata().map_err(system("look at a folder"))?;
    Ok(
        fs::metadata(path)
            .is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())),
    )
}
