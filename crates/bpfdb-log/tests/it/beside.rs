//! Whoever reads a log beside its living writer finds that it ends somewhere, and never that it is
//! corrupt.

use crate::it::common;

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use bpfdb_log::simulation::{Fault, Operation, SimulatedDisk, SimulatedFile};
use bpfdb_log::{Disk, DiskFile, LogError, LogWriter, Recovery, Start};
use common::{append_at, only_read, options, reopen, set};

/// What happens before each look at the disk.
#[derive(Clone)]
struct Watch<'a> {
    looks: Rc<Cell<u64>>,
    happens: &'a dyn Fn(u64),
}

impl Watch<'_> {
    fn look(&self) {
        let number = self.looks.get();
        self.looks.set(number + 1);
        (self.happens)(number);
    }
}

/// A disk that is only read.
#[derive(Clone)]
struct Watched<'a> {
    disk: SimulatedDisk,
    watch: Watch<'a>,
}

struct WatchedFile<'a> {
    file: SimulatedFile,
    watch: Watch<'a>,
}

impl<'a> Disk for Watched<'a> {
    type File = WatchedFile<'a>;

    fn open(&self, name: &str) -> io::Result<Option<WatchedFile<'a>>> {
        self.watch.look();
        let watch = self.watch.clone();
        let file = self.disk.open(name)?;
        Ok(file.map(|file| WatchedFile { file, watch }))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.watch.look();
        self.disk.list(folder)
    }

    only_read!();
}

impl DiskFile for WatchedFile<'_> {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.watch.look();
        self.file.read(offset, bytes)
    }

    fn size(&self) -> io::Result<u64> {
        self.watch.look();
        self.file.size()
    }

    fn write(&self, _: u64, _: &[u8]) -> io::Result<usize> {
        unreachable!("it is only read")
    }

    fn flush(&self) -> io::Result<()> {
        unreachable!("it is only read")
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        unreachable!("it is only read")
    }
}

/// A writer that has begun, or not yet.
struct Living {
    disk: SimulatedDisk,
    writer: Option<LogWriter<SimulatedDisk>>,
    written: u64,
}

/// What there is at first.
#[derive(Clone, Copy, Debug)]
enum Before {
    Nothing,
    /// And no segment.
    ControlFile,
    Commits(u64),
}

impl Before {
    fn commits(self) -> u64 {
        match self {
            Self::Nothing | Self::ControlFile => 0,
            Self::Commits(commits) => commits,
        }
    }
}

impl Living {
    fn with(before: Before) -> Self {
        let mut living = Self {
            disk: SimulatedDisk::new(0),
            writer: None,
            written: 0,
        };
        match before {
            Before::Nothing => {}
            Before::Commits(commits) => living.write(commits),
            Before::ControlFile => {
                // The first file is the control file.
                living.disk.fail(Operation::Create, 1, Fault::Full);
                let full = reopen(&living.disk, Start::NewRun, options(4, 2));
                assert!(matches!(full, Err(LogError::Full { .. })));
            }
        }
        living
    }

    /// Commits, each in a batch of its own: three of them fill a segment.
    fn write(&mut self, commits: u64) {
        let begin = || reopen(&self.disk, Start::NewRun, options(4, 2)).unwrap();
        let writer = self.writer.get_or_insert_with(begin);
        for _ in 0..commits {
            self.written += 1;
            let epoch = self.written;
            append_at(writer, epoch, epoch, &set(epoch, b"key", &[0; 100])).unwrap();
        }
    }
}

/// From the nth look on there are `burst` more commits before each look, until there are enough.
/// What was read, and whether all of it was read before.
fn read_beside(before: Before, nth: u64, burst: u64) -> Result<(Vec<u64>, bool), LogError> {
    let living = RefCell::new(Living::with(before));
    let enough = before.commits() + 2 * burst;
    let begun = Cell::new(false);
    let happens = |look| {
        let mut living = living.borrow_mut();
        if look >= nth && living.written < enough {
            begun.set(true);
            living.write(burst);
        }
    };
    let disk = living.borrow().disk.clone();
    let watch = Watch {
        looks: Rc::default(),
        happens: &happens,
    };
    let recovery = Recovery::new(Watched { disk, watch }, 0)?;
    let times = recovery.map(|commit| Ok(commit?.timestamp));
    let times = times.collect::<Result<Vec<_>, LogError>>()?;
    Ok((times, !begun.get()))
}

#[test]
fn a_log_that_grows_meanwhile_is_not_corrupt() {
    let commits = [0, 1, 2, 3, 5].map(Before::Commits);
    for before in [Before::Nothing, Before::ControlFile]
        .into_iter()
        .chain(commits)
    {
        for burst in 1..=7 {
            for nth in 0.. {
                let case = format!("{before:?}, and {burst} commits before look {nth}");
                let (times, is_over) = match read_beside(before, nth, burst) {
                    Ok(read) => read,
                    Err(error) => panic!("{case}: {error}"),
                };
                let expected: Vec<u64> = (1..=times.len() as u64).collect();
                assert_eq!(times, expected, "{case}");
                assert!(times.len() as u64 >= before.commits(), "{case}");
                if is_over {
                    break;
                }
            }
        }
    }
}
