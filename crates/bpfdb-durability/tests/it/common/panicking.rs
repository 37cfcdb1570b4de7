//! A simulated disk whose user panics: a bug in what makes a checkpoint, at one of its steps.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bpfdb_log::Disk;
use bpfdb_log::simulation::{SimulatedDisk, SimulatedFile};

#[derive(Clone)]
pub(crate) struct Panicking {
    pub(crate) disk: SimulatedDisk,
    /// The next checkpoint panics when its file is made: in the thread that writes it.
    pub(crate) at_create: Arc<AtomicBool>,
    /// The same, when its file gets its name: in the thread of checkpoints itself.
    pub(crate) at_rename: Arc<AtomicBool>,
}

impl Panicking {
    pub(crate) fn new(disk: SimulatedDisk) -> Self {
        Self {
            disk,
            at_create: Arc::default(),
            at_rename: Arc::default(),
        }
    }
}

fn panic_once(armed: &AtomicBool, name: &str) {
    let is_due = name.starts_with("checkpoint/") && armed.swap(false, Ordering::Relaxed);
    assert!(!is_due, "on purpose: {name}");
}

impl Disk for Panicking {
    type File = SimulatedFile;

    fn create(&self, name: &str) -> io::Result<SimulatedFile> {
        panic_once(&self.at_create, name);
        self.disk.create(name)
    }

    fn open(&self, name: &str) -> io::Result<Option<SimulatedFile>> {
        self.disk.open(name)
    }

    fn open_for_writing(&self, name: &str) -> io::Result<Option<SimulatedFile>> {
        self.disk.open_for_writing(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        panic_once(&self.at_rename, from);
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn make_folder(&self, name: &str) -> io::Result<()> {
        self.disk.make_folder(name)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.disk.list(folder)
    }

    fn flush_folder(&self, folder: &str) -> io::Result<()> {
        self.disk.flush_folder(folder)
    }

    fn random(&self) -> io::Result<[u8; 16]> {
        self.disk.random()
    }
}
