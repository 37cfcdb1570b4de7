//! A data directory on a real file system.
//!
//! A file for writing is opened with O_DIRECT where the file system knows it, and a batch is
//! written and made durable by one `pwritev2(RWF_DSYNC)`. Where one of them is unknown, the file
//! falls back to the page cache and `fdatasync`, which gives the same promise. A file that is read
//! once from its beginning to its end is opened with O_DIRECT, too: the page cache would cost a
//! copy, and memory that other programs need.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use rustix::fs::{
    AtFlags, FallocateFlags, OFlags, StatxFlags, fallocate, fcntl_setfl, fdatasync, statvfs, statx,
};
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2, pwritev2};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::disk::folders::{Folders, Identity};
use crate::disk::owner::Owner;
use crate::disk::{Disk, DiskFile};
use crate::error::Result;
use crate::format::layout::BLOCK;

/// A data directory. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Directory {
    /// As the user names it.
    path: PathBuf,
    /// Where its files are: of an owner the directory whose lock it has.
    files: PathBuf,
    /// The lock, if this process may write.
    owner: Option<Arc<Owner>>,
    folders: Arc<Folders>,
}

impl Directory {
    /// A directory to write to, which is made if need be. The last clone gives up the lock.
    ///
    /// # Errors
    /// See [`Owner::take`].
    pub fn own(path: &Path) -> Result<Self> {
        let owner = Owner::take(path)?;
        Ok(Self {
            path: path.to_owned(),
            files: owner.path(),
            owner: Some(Arc::new(owner)),
            folders: Arc::default(),
        })
    }

    /// A directory to read only, with or without an owner.
    pub fn read_only(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            files: path.to_owned(),
            owner: None,
            folders: Arc::default(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The note that the owner before has left; see [`Directory::leave_note`].
    pub fn note(&self) -> Option<&str> {
        self.owner.as_ref()?.left()
    }

    /// Leaves a note of one line for the next owner, in the place of the one before, or none. It is not
    /// flushed: a note is about what a loss of power takes.
    ///
    /// # Errors
    /// Those of writing; this process does not own the directory.
    pub fn leave_note(&self, note: Option<&str>) -> io::Result<()> {
        match &self.owner {
            Some(owner) => owner.leave(note),
            None => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
        }
    }

    /// Where a file is that is to be changed.
    fn owned(&self, name: &str) -> io::Result<PathBuf> {
        match self.owner {
            Some(_) => Ok(self.files.join(name)),
            None => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
        }
    }
}

/// An open file of a data directory.
#[derive(Debug)]
pub struct DirectoryFile {
    file: File,
    /// Whether it bypasses the page cache.
    direct: AtomicBool,
    /// Whether a write can be durable at once.
    durable_writes: AtomicBool,
    /// Whether the file system says that it takes requests of whole blocks past the page cache. Some
    /// take the flag at open, and use the page cache nevertheless.
    takes_direct: OnceLock<bool>,
    identity: OnceLock<Identity>,
}

fn has_another(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("another file has {what}"))
}

impl DirectoryFile {
    fn new(file: File, direct: bool) -> Self {
        Self {
            file,
            direct: AtomicBool::new(direct),
            durable_writes: AtomicBool::new(true),
            takes_direct: OnceLock::new(),
            identity: OnceLock::new(),
        }
    }

    /// It does not change while the file is open, and is asked for after each flush.
    fn identity(&self) -> io::Result<Identity> {
        match self.identity.get() {
            Some(identity) => Ok(*identity),
            None => {
                let identity = Identity::of(&self.file)?;
                Ok(*self.identity.get_or_init(|| identity))
            }
        }
    }

    fn write_once(&self, offset: u64, bytes: &[u8], flags: ReadWriteFlags) -> io::Result<usize> {
        self.directly_or_not(|| pwritev2(&self.file, &[IoSlice::new(bytes)], offset, flags))
    }

    /// Some file systems take the flag at open, and refuse the request. Then it is made again
    /// through the page cache.
    fn directly_or_not(
        &self,
        mut request: impl FnMut() -> rustix::io::Result<usize>,
    ) -> io::Result<usize> {
        match request() {
            Err(Errno::INVAL) if self.direct.swap(false, Relaxed) => {
                fcntl_setfl(&self.file, OFlags::empty())?;
                Ok(request()?)
            }
            result => Ok(result?),
        }
    }
}

/// Whether a file system promises that requests of whole blocks bypass the page cache. Linux before 6.1,
/// and file systems that do not know the question, promise nothing.
fn takes_direct(file: &File) -> bool {
    let Ok(found) = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) else {
        return false;
    };
    let known = found.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    let alignments = [found.stx_dio_mem_align, found.stx_dio_offset_align];
    let fits = |alignment| (1..=BLOCK as u32).contains(&alignment);
    known && alignments.into_iter().all(fits)
}

fn open(path: &Path, options: &mut OpenOptions) -> io::Result<DirectoryFile> {
    let direct = OFlags::DIRECT.bits() as i32;
    match options.custom_flags(direct).open(path) {
        Ok(file) => Ok(DirectoryFile::new(file, true)),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            let file = options.custom_flags(0).open(path)?;
            Ok(DirectoryFile::new(file, false))
        }
        Err(error) => Err(error),
    }
}

fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Disk for Directory {
    type File = DirectoryFile;

    fn create(&self, name: &str) -> io::Result<DirectoryFile> {
        let path = self.owned(name)?;
        // A file system that refuses O_DIRECT may have made the file by then: so first this.
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        open(&path, OpenOptions::new().read(true).write(true))
    }

    fn open(&self, name: &str) -> io::Result<Option<DirectoryFile>> {
        let file = if_there(File::open(self.files.join(name)))?;
        Ok(file.map(|file| DirectoryFile::new(file, false)))
    }

    fn open_for_scan(&self, name: &str) -> io::Result<Option<DirectoryFile>> {
        let path = self.files.join(name);
        if_there(open(&path, OpenOptions::new().read(true)))
    }

    fn open_for_writing(&self, name: &str) -> io::Result<Option<DirectoryFile>> {
        let path = self.owned(name)?;
        if_there(open(&path, OpenOptions::new().read(true).write(true)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.owned(from)?, self.owned(to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.owned(name)?)
    }

    fn make_folder(&self, name: &str) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(self.owned(name)?) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    fn check_name(&self, name: &str, file: &DirectoryFile) -> io::Result<()> {
        match &self.owner {
            Some(owner) if owner.find(name)? != file.identity()? => Err(has_another("its name")),
            _ => Ok(()),
        }
    }

    /// Without the name of the lock another owner would find nothing that is locked.
    fn check_lock(&self) -> io::Result<()> {
        match &self.owner {
            Some(owner) if !owner.has_name()? => Err(has_another("the name of the lock")),
            _ => Ok(()),
        }
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let names = fs::read_dir(self.files.join(folder))?
            .map(|file| Ok(file?.file_name().to_string_lossy().into_owned()));
        names.collect()
    }

    fn flush_folder(&self, folder: &str) -> io::Result<()> {
        self.folders.flush(&self.owned(folder)?)
    }

    fn free(&self) -> io::Result<u64> {
        let space = statvfs(&self.files)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn random(&self) -> io::Result<[u8; 16]> {
        let mut bits = [0; 16];
        // So few bytes are never cut short.
        getrandom(&mut bits, GetRandomFlags::empty())?;
        Ok(bits)
    }
}

impl DiskFile for DirectoryFile {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.directly_or_not(|| pread(&self.file, &mut *bytes, offset))
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.write_once(offset, bytes, ReadWriteFlags::empty())
    }

    fn write_durably(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        if self.durable_writes.load(Relaxed) {
            match self.write_once(offset, bytes, ReadWriteFlags::DSYNC) {
                Err(error) if Errno::from_io_error(&error) == Some(Errno::OPNOTSUPP) => {
                    self.durable_writes.store(false, Relaxed);
                }
                result => return result,
            }
        }
        let written = self.write(offset, bytes)?;
        self.flush().map(|()| written)
    }

    fn is_direct(&self) -> bool {
        self.direct.load(Relaxed)
            && self.durable_writes.load(Relaxed)
            && *self.takes_direct.get_or_init(|| takes_direct(&self.file))
    }

    fn flush(&self) -> io::Result<()> {
        loop {
            match fdatasync(&self.file) {
                Err(Errno::INTR) => {}
                result => return Ok(result?),
            }
        }
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        loop {
            match fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, size) {
                Err(Errno::INTR) => {}
                // The segment is written over in any case, which takes the space too.
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
                result => return Ok(result?),
            }
        }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    /// From the page cache.
    fn read_at_hand(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let mut bytes = [IoSliceMut::new(bytes)];
        Ok(preadv2(
            &self.file,
            &mut bytes,
            offset,
            ReadWriteFlags::NOWAIT,
        )?)
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;
    use crate::disk::buffer::AlignedBuffer;

    /// As the log does after each flush.
    fn check(disk: &Directory, file: &DirectoryFile) -> io::Result<()> {
        disk.check_name("log/file", file)?;
        disk.check_lock()
    }

    /// The file stays open: its bytes can be written and flushed, and they are not found again.
    #[test]
    fn a_file_that_was_removed_or_replaced_has_no_name() {
        for removed in ["log/file", "owner", "log", ""] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("data");
            let disk = Directory::own(&path).expect("made");
            let file = disk.create("log/file").expect("made");
            check(&disk, &file).expect("it is there");
            let gone = path.join(removed);
            match gone.is_dir() {
                true => fs::remove_dir_all(&gone).expect("removed"),
                false => fs::remove_file(&gone).expect("removed"),
            }
            check(&disk, &file).expect_err(removed);
            fs::create_dir_all(path.join("log")).expect("made");
            for name in ["log/file", "owner"] {
                let new = OpenOptions::new()
                    .append(true)
                    .create(true)
                    .open(path.join(name));
                new.expect("made");
            }
            let error = check(&disk, &file).expect_err(removed);
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{removed}: {error}");
        }
    }

    /// A directory may be moved while it is in use.
    #[test]
    fn a_directory_that_was_moved_has_its_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let [before, after] = ["before", "after"].map(|name| folder.path().join(name));
        let disk = Directory::own(&before).expect("made");
        let file = disk.create("log/file").expect("made");
        fs::rename(&before, &after).expect("moved");
        check(&disk, &file).expect("it is there");
    }

    /// An error of writing back would be reported to one of several writes.
    #[test]
    fn a_file_is_direct_until_it_falls_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = Directory::own(&folder.path().join("data")).expect("made");
        let open = |name: &str| {
            let mut file = disk.create(name).expect("made");
            // Whatever this file system is.
            *file.direct.get_mut() = true;
            file.takes_direct = OnceLock::from(true);
            assert!(file.is_direct());
            file
        };
        let file = open("log/refused");
        let mut requests = [Ok(0), Err(Errno::INVAL)].into_iter();
        let mut request = || requests.next_back().expect("two requests");
        file.directly_or_not(&mut request).expect("made again");
        assert!(!file.is_direct(), "it goes through the page cache");
        let mut file = open("log/flushed");
        *file.durable_writes.get_mut() = false;
        assert!(!file.is_direct(), "it is flushed");
        let mut file = open("log/unknown");
        file.takes_direct = OnceLock::from(false);
        assert!(!file.is_direct(), "the file system promises nothing");
        let read = disk.open("log/refused").expect("opened").expect("there");
        assert!(!read.is_direct(), "it was not opened so");
        // A file in memory has nothing but its page cache.
        let memory = memfd_create("file", MemfdFlags::CLOEXEC).expect("made");
        assert!(!takes_direct(&memory.into()));
    }

    /// What a file system without O_DIRECT does, and one without writes that are durable at once: the
    /// first refuses requests of a file that was opened so.
    #[test]
    fn what_is_refused_goes_through_the_page_cache() {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = Directory::own(&folder.path().join("data")).expect("made");
        let mut file = disk.create("log/file").expect("made");
        *file.direct.get_mut() = true;
        let block = AlignedBuffer::from(&[7; BLOCK][..]);
        let mut requests = 0;
        let written = file.directly_or_not(|| {
            requests += 1;
            match requests {
                1 => Err(Errno::INVAL),
                _ => pwritev2(
                    &file.file,
                    &[IoSlice::new(&block)],
                    0,
                    ReadWriteFlags::empty(),
                ),
            }
        });
        assert_eq!(written.expect("through the page cache"), BLOCK);
        assert!(!file.direct.load(Relaxed));
        assert!(
            file.directly_or_not(|| Err(Errno::INVAL)).is_err(),
            "now it counts"
        );
        file.durable_writes.store(false, Relaxed);
        file.write_flushed(BLOCK as u64, &block)
            .expect("written, then flushed");
        let mut read = [0; 2 * BLOCK];
        let reader = disk.open("log/file").expect("opened").expect("there");
        assert_eq!(reader.read_whole(0, &mut read).expect("read"), read.len());
        assert!(read.iter().all(|byte| *byte == 7));
    }
}
