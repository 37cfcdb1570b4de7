//! The interface to a disk, as the log needs it.
//!
//! Names are relative to the data directory, whose folder `log` exists. Two kinds of disks are
//! there: [`crate::Directory`], and with the feature `simulation` one in memory that loses power
//! and fails on demand.

pub(crate) mod buffer;
pub(crate) mod directory;
pub(crate) mod folders;
pub(crate) mod owner;
pub(crate) mod queue;
#[cfg(feature = "simulation")]
pub mod simulation;

use std::io;
use std::os::fd::BorrowedFd;

use crate::format::layout::BLOCK;

/// A write that makes no progress is tried again so often.
const ATTEMPTS: u32 = 8;

/// The files of a data directory. Clones are the same directory.
pub trait Disk: Clone {
    type File: DiskFile;

    /// Makes a file and opens it for writing. Its name is durable after
    /// [`Disk::flush_folder`].
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`], among others.
    fn create(&self, name: &str) -> io::Result<Self::File>;

    /// Opens a file for reading. `None`: there is none.
    fn open(&self, name: &str) -> io::Result<Option<Self::File>>;

    /// Opens a file that is read once from its beginning to its end, best by whole blocks into an
    /// [`crate::AlignedBuffer`]. `None`: there is none.
    fn open_for_scan(&self, name: &str) -> io::Result<Option<Self::File>> {
        self.open(name)
    }

    /// Opens a file for writing by whole blocks. `None`: there is none.
    fn open_for_writing(&self, name: &str) -> io::Result<Option<Self::File>>;

    /// Replaces `to` if it exists. Durable after [`Disk::flush_folder`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Durable after [`Disk::flush_folder`].
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes a folder in the data directory, unless it is there. Durable after
    /// [`Disk::flush_folder`] of `""`.
    fn make_folder(&self, name: &str) -> io::Result<()>;

    /// Whether the file that was opened for writing by this name can still be found by it. Its bytes
    /// can be written and flushed in any case, but no later owner finds them if it was removed. A disk
    /// in memory, of which no other process removes files, has nothing to look at.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]: the name is gone, or is another file's.
    fn check_name(&self, _name: &str, _file: &Self::File) -> io::Result<()> {
        Ok(())
    }

    /// Whether another process that wants to own the disk still finds it locked.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]: it does not.
    fn check_lock(&self) -> io::Result<()> {
        Ok(())
    }

    /// Names of the files of a folder, without it.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Makes durable what files the folder has; `""` is the data directory itself.
    fn flush_folder(&self, folder: &str) -> io::Result<()>;

    /// Bytes that its files may still take. A disk without a size has room for any.
    fn free(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    /// Random bits for the identity of a log.
    fn random(&self) -> io::Result<[u8; 16]>;
}

/// An open file.
pub trait DiskFile {
    /// Reads up to `bytes.len()` bytes; 0 at the end of the file.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize>;

    /// Writes up to `bytes.len()` bytes. Offset, length and address are multiples of a block.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<usize>;

    /// Like [`DiskFile::write`], and what it says to have written is durable.
    fn write_durably(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let written = self.write(offset, bytes)?;
        self.flush().map(|()| written)
    }

    /// Whether each durable write goes to the disk by itself, and has the errors of no other. The page
    /// cache reports an error of writing back once for an open file: of several durable writes any may
    /// get it. Where this is not known, it is so. What was direct may cease to be, but not the other way.
    fn is_direct(&self) -> bool {
        false
    }

    /// Makes durable all that was written.
    fn flush(&self) -> io::Result<()>;

    /// Takes space for so many bytes from the beginning. The file's size stays as it is.
    fn allocate(&self, size: u64) -> io::Result<()>;

    /// Bytes of the file.
    fn size(&self) -> io::Result<u64>;

    /// The file of the system that it is, by which the kernel can read it; `None`: it is none.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Reads what need not be waited for; fewer bytes than asked for, or an error, if there is more. That of the kind
    /// [`io::ErrorKind::WouldBlock`] says that what is missing is on its way, most times: Linux says the same of a read that it
    /// could not begin without waiting.
    fn read_at_hand(&self, _offset: u64, _bytes: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Fills `bytes` unless the file ends before; says how many were read.
    fn read_whole(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < bytes.len() {
            match self.read(offset + done as u64, &mut bytes[done..]) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Writes all of `bytes`, whole blocks. Not durable yet.
    fn write_whole(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        write_all(offset, bytes, |offset, bytes| self.write(offset, bytes))
    }

    /// Writes all of `bytes`, whole blocks, and makes them durable. Says nothing about what was
    /// written to the file before.
    fn write_flushed(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        write_all(offset, bytes, |offset, bytes| {
            self.write_durably(offset, bytes)
        })
    }
}

/// Goes on behind a short write, from its last whole block: O_DIRECT takes nothing else.
fn write_all(
    mut offset: u64,
    mut bytes: &[u8],
    write: impl Fn(u64, &[u8]) -> io::Result<usize>,
) -> io::Result<()> {
    let mut attempts = 0;
    while !bytes.is_empty() {
        let written = match write(offset, bytes) {
            Ok(written) => written.min(bytes.len()) / BLOCK * BLOCK,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        attempts = if written == 0 { attempts + 1 } else { 0 };
        if attempts == ATTEMPTS {
            return Err(io::ErrorKind::WriteZero.into());
        }
        offset += written as u64;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Whether an error of reading says that the medium does not give back what it has: a sector that is
/// worn out or was torn by a loss of power, or a checksum of the file system that is wrong.
pub(crate) fn is_unreadable(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let damage = [
        Errno::IO,
        Errno::NODATA,
        Errno::BADMSG,
        Errno::UCLEAN,
        Errno::ILSEQ,
    ];
    let number = error.raw_os_error();
    damage
        .iter()
        .any(|errno| number == Some(errno.raw_os_error()))
}

/// Fills `bytes` unless the file ends before; says how many were read, and how many of those are in
/// blocks that cannot be read, which are zeros then. For a search for what can be saved.
pub(crate) fn read_around<F: DiskFile>(
    file: &F,
    offset: u64,
    bytes: &mut [u8],
) -> io::Result<(usize, u64)> {
    match file.read_whole(offset, bytes) {
        Err(error) if is_unreadable(&error) => {}
        read => return read.map(|read| (read, 0)),
    }
    let (mut done, mut unreadable) = (0, 0);
    for block in bytes.chunks_mut(BLOCK) {
        let read = match file.read_whole(offset + done as u64, block) {
            Err(error) if is_unreadable(&error) => {
                block.fill(0);
                unreadable += block.len() as u64;
                block.len()
            }
            read => read?,
        };
        done += read;
        if read < block.len() {
            break;
        }
    }
    Ok((done, unreadable))
}

/// Whether this process, or the machine, has as many open files as it may: nothing was done.
pub(crate) fn lacks_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE)
    )
}

/// Whether an error says that there is no space, which may come back.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
