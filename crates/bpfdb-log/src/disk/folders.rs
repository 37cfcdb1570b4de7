//! Folders that were flushed before stay open.
//!
//! A file that has its new name already must not wait for a descriptor until its folder is flushed:
//! it would not be known whether the name is there.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::path::Arg;

#[derive(Debug, Default)]
pub(crate) struct Folders {
    open: Mutex<HashMap<PathBuf, File>>,
}

impl Folders {
    /// Makes durable what files the folder has.
    pub(crate) fn flush(&self, path: &Path) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Another one may have been put in its place.
        if let Some(folder) = open.get(path)
            && is_at(folder, path)?
        {
            return folder.sync_all();
        }
        let folder = File::open(path)?;
        let flushed = folder.sync_all();
        open.insert(path.to_owned(), folder);
        flushed
    }
}

/// Which file or folder it is, whatever its names are: no other one has these numbers while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    device: (u32, u32),
    number: u64,
}

impl Identity {
    /// Of what has this name in the folder.
    ///
    /// Nothing else is asked for, least of all times: on Linux 6.13 and later a file whose time of change was asked for gets a new,
    /// exact one with its next write (multigrain timestamps), where otherwise one in some milliseconds does. Then each write of the
    /// log, which is looked up after each flush, would take the disk another request.
    pub(crate) fn find(folder: impl AsFd, name: impl Arg) -> io::Result<Self> {
        Self::ask(folder, name, AtFlags::empty())
    }

    /// Of an open file or folder.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        Self::ask(file, "", AtFlags::EMPTY_PATH)
    }

    fn ask(folder: impl AsFd, name: impl Arg, flags: AtFlags) -> io::Result<Self> {
        let found = statx(folder, name, flags, StatxFlags::INO)?;
        Ok(Self {
            device: (found.stx_dev_major, found.stx_dev_minor),
            number: found.stx_ino,
        })
    }
}

/// Whether the path leads to the open folder.
fn is_at(folder: &File, path: &Path) -> io::Result<bool> {
    Ok(Identity::of(folder)? == Identity::find(CWD, path)?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_folder_that_took_the_place_of_another_is_flushed() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = parent.path().join("log");
        fs::create_dir(&path).expect("made");
        let folders = Folders::default();
        folders.flush(&path).expect("flushed");
        folders.flush(&path).expect("flushed");
        fs::rename(&path, parent.path().join("old")).expect("renamed");
        folders.flush(&path).expect_err("it is gone");
        fs::create_dir(&path).expect("made");
        folders.flush(&path).expect("flushed");
        let open = folders.open.lock().expect("nobody panics");
        assert!(is_at(&open[&path], &path).expect("both are there"));
    }
}
