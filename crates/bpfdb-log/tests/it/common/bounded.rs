//! A disk at which a reader may look so often, and no more: the bound grows with what the disk has,
//! and not with what its files say of themselves.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_log::{BLOCK, Disk, DiskFile};

/// For each file, and for each block of it. The check reads everything up to sixteen times, and
/// more than once each time.
const LOOKS: u64 = 300;
/// Readers read so many bytes at once whatever a file has.
const READ_AT_ONCE: usize = 1 << 20;

/// Panics when there were too many looks, or when one asks for more than any file has.
#[derive(Clone)]
pub(crate) struct Bounded {
    disk: SimulatedDisk,
    bound: Rc<Bound>,
}

struct Bound {
    looks: Cell<u64>,
    most: u64,
    longest: usize,
}

impl Bound {
    fn look(&self) {
        self.looks.set(self.looks.get() + 1);
        let most = self.most;
        assert!(self.looks.get() <= most, "more than {most} looks at a disk");
    }
}

impl Bounded {
    pub(crate) fn new(disk: SimulatedDisk) -> Self {
        let names = disk.names();
        let sizes = names.iter().filter_map(|name| disk.contents(name));
        let sizes: Vec<usize> = sizes.map(|contents| contents.len()).collect();
        let blocks: usize = sizes.iter().map(|size| 1 + size.div_ceil(BLOCK)).sum();
        let bound = Bound {
            looks: Cell::new(0),
            most: LOOKS * (1 + blocks as u64),
            longest: sizes.into_iter().max().unwrap_or(0).max(READ_AT_ONCE),
        };
        Self {
            disk,
            bound: Rc::new(bound),
        }
    }

    fn file<F>(&self, file: F) -> BoundedFile<F> {
        let bound = Rc::clone(&self.bound);
        BoundedFile { file, bound }
    }
}

pub(crate) struct BoundedFile<F> {
    file: F,
    bound: Rc<Bound>,
}

impl Disk for Bounded {
    type File = BoundedFile<<SimulatedDisk as Disk>::File>;

    fn create(&self, name: &str) -> io::Result<Self::File> {
        Ok(self.file(self.disk.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Option<Self::File>> {
        self.bound.look();
        Ok(self.disk.open(name)?.map(|file| self.file(file)))
    }

    fn open_for_writing(&self, name: &str) -> io::Result<Option<Self::File>> {
        self.bound.look();
        let file = self.disk.open_for_writing(name)?;
        Ok(file.map(|file| self.file(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn make_folder(&self, name: &str) -> io::Result<()> {
        self.disk.make_folder(name)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.bound.look();
        self.disk.list(folder)
    }

    fn flush_folder(&self, folder: &str) -> io::Result<()> {
        self.disk.flush_folder(folder)
    }

    fn random(&self) -> io::Result<[u8; 16]> {
        self.disk.random()
    }
}

impl<F: DiskFile> DiskFile for BoundedFile<F> {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.bound.look();
        let (len, longest) = (bytes.len(), self.bound.longest);
        assert!(len <= longest, "{len} bytes of a file of {longest} at most");
        self.file.read(offset, bytes)
    }

    fn size(&self) -> io::Result<u64> {
        self.bound.look();
        self.file.size()
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(offset, bytes)
    }

    fn write_durably(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_durably(offset, bytes)
    }

    fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    fn flush(&self) -> io::Result<()> {
        self.file.flush()
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        self.file.allocate(size)
    }
}
