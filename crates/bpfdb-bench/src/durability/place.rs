//! Where files are written. A folder of its own is made there, and goes at the end.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use tempfile::TempDir;

use crate::tcp::own_folder;

/// A file system in memory: there the disk is no limit.
const MEMORY: &str = "/dev/shm";
/// Others may pass: PostgreSQL runs as a user of its own. Each database protects its files.
const MODE: u32 = 0o755;

pub(crate) struct Place {
    disk: TempDir,
    memory: TempDir,
    device: String,
}

impl Place {
    /// `folder`: on the disk to be measured. One in memory is taken for a quick run only.
    pub(crate) fn new(folder: Option<&Path>, quick: bool) -> Result<Self> {
        let folder = match folder {
            Some(folder) => folder.to_owned(),
            None => build_folder()?,
        };
        let told = || format!("--data-dir {}", folder.display());
        fs::create_dir_all(&folder).with_context(told)?;
        let is_memory = statfs(&folder).with_context(told)?.filesystem_type() == TMPFS_MAGIC;
        ensure!(
            quick || !is_memory,
            "{} is in memory (tmpfs): name a folder on a disk by --data-dir",
            folder.display()
        );
        let disk = tempfile::tempdir_in(&folder).with_context(told)?;
        fs::set_permissions(disk.path(), Permissions::from_mode(MODE)).with_context(told)?;
        Ok(Self {
            device: device_of(disk.path())?,
            disk,
            memory: tempfile::tempdir_in(MEMORY).context(MEMORY)?,
        })
    }

    /// A name for a folder on the disk.
    pub(crate) fn disk(&self, name: &str) -> PathBuf {
        self.disk.path().join(name)
    }

    /// A name for a folder in memory.
    pub(crate) fn memory(&self, name: &str) -> PathBuf {
        self.memory.path().join(name)
    }

    /// File system and device.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    /// Removes what a measurement has left, so that the next one finds the same disk.
    pub(crate) fn clear(&self) -> Result<()> {
        for folder in [&self.disk, &self.memory] {
            for entry in fs::read_dir(folder.path())? {
                let path = entry?.path();
                let action = || format!("remove {}", path.display());
                let removed = match path.is_dir() {
                    true => fs::remove_dir_all(&path),
                    false => fs::remove_file(&path),
                };
                removed.with_context(action)?;
            }
        }
        Ok(())
    }

    pub(super) fn note(&self) -> String {
        format!("the disk: {}; in memory: tmpfs", self.device)
    }
}

/// Above the folder of this program: a build is as large as what is written, and so is
/// seldom in memory.
fn build_folder() -> Result<PathBuf> {
    let own = own_folder()?;
    let parent = own.parent().context("this program's folder is the root")?;
    Ok(parent.to_owned())
}

/// `ext4 (rw,relatime) on /dev/vda`.
fn device_of(folder: &Path) -> Result<String> {
    let folder = folder.canonicalize()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("list what is mounted")?;
    Ok(describe(&mounts, &folder).unwrap_or_else(|| "an unknown file system".into()))
}

/// The mount that is nearest to the folder; the last one, if several are at one place.
fn describe(mounts: &str, folder: &Path) -> Option<String> {
    let mounted = mounts.lines().filter_map(|line| {
        let (mount, device) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(4);
        let point = mount.next()?;
        folder
            .starts_with(point)
            .then_some((point.len(), mount.next()?, device))
    });
    let (_, options, device) = mounted.max_by_key(|&(length, ..)| length)?;
    let mut device = device.split(' ');
    let kind = device.next()?;
    Some(format!("{kind} ({options}) on {}", device.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "21 1 254:0 / / rw,relatime - ext4 /dev/vda rw,lazytime\n\
        22 21 0:5 / /dev rw,nosuid - devtmpfs devtmpfs rw\n\
        30 21 8:1 / /data rw,noatime shared:3 - xfs /dev/sda1 rw\n";

    #[test]
    fn a_folder_is_on_the_nearest_mount() {
        let told = |folder| describe(MOUNTS, Path::new(folder)).expect("a mount");
        assert_eq!(told("/data/x"), "xfs (rw,noatime) on /dev/sda1");
        assert_eq!(told("/database"), "ext4 (rw,relatime) on /dev/vda");
    }

    #[test]
    fn memory_is_refused_where_figures_count() {
        let memory = tempfile::tempdir_in(MEMORY).expect("a folder");
        let refused = Place::new(Some(memory.path()), false)
            .err()
            .expect("an error");
        assert!(refused.to_string().contains("--data-dir"), "{refused}");
        assert!(Place::new(Some(memory.path()), true).is_ok());
    }
}
