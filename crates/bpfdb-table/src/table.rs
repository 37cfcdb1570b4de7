//! An open table.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::abi::BLOCK_MIN;
use crate::buffer::Buffer;
use crate::error::{Result, damaged, io};
use crate::header::About;

impl AsFd for Table {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Through the page cache.
    Cached,
    /// Past it (O_DIRECT): each read is one of the disk.
    Direct,
}

/// A table that is open. It stays what it is if another gets its name.
#[derive(Debug)]
pub struct Table {
    path: PathBuf,
    file: File,
    about: About,
}

impl Table {
    /// Reads header and footer. The path is that in messages.
    ///
    /// # Errors
    /// [`Error::Foreign`](crate::Error::Foreign), [`Error::Version`](crate::Error::Version),
    /// [`Error::Damaged`](crate::Error::Damaged): it is no table, or not a whole one.
    /// [`Error::Io`](crate::Error::Io): it cannot be opened or read; with [`Access::Direct`] also if the
    /// file system has no O_DIRECT, or none for so small blocks.
    pub fn open(path: &Path, access: Access) -> Result<Self> {
        let flags = match access {
            Access::Cached => 0,
            Access::Direct => libc::O_DIRECT,
        };
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = opened.map_err(io(format!("open {}", path.display())))?;
        Self::of_file(file, path)
    }

    /// The same of a file that is open already, for reading.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub fn of_file(file: File, path: &Path) -> Result<Self> {
        let action = || io(format!("read {}", path.display()));
        let length = file.metadata().map_err(action())?.len();
        let (mut header, mut footer) = (Buffer::new(), Buffer::new());
        let begin = file
            .read_at(&mut header[..BLOCK_MIN], 0)
            .map_err(action())?;
        let size = About::block_size(path, &header[..begin])?;
        if length < size as u64 {
            return Err(damaged(path, length, "the file is cut"));
        }
        let header = &mut header[..size];
        file.read_exact_at(header, 0).map_err(action())?;
        let last = (length / size as u64 - 1) * size as u64;
        let footer = &mut footer[..size];
        file.read_exact_at(footer, last).map_err(action())?;
        Ok(Self {
            about: About::read(path, header, footer, length)?,
            path: path.into(),
            file,
        })
    }

    pub fn about(&self) -> &About {
        &self.about
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn block_size(&self) -> usize {
        self.about.block_size as usize
    }

    /// The byte at which a block begins.
    pub(crate) fn offset(&self, number: u64) -> u64 {
        number * u64::from(self.about.block_size)
    }

    /// Leaves that have about so many bytes together: at least as many as are read at once.
    pub(crate) fn leaves_of(&self, bytes: usize) -> u64 {
        ((bytes / self.block_size()) as u64).max(self.span())
    }

    /// Leaves that are read at once when many are wanted.
    pub(crate) fn span(&self) -> u64 {
        (Buffer::LEN / self.block_size()) as u64
    }
}
