//! A simulated disk that forgets no segment: so a test can read the whole log, whatever
//! checkpoints have made of it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use bpfdb_log::Disk;
use bpfdb_log::control::Control;
use bpfdb_log::reader::read_control;
use bpfdb_log::simulation::{SimulatedDisk, SimulatedFile};

#[derive(Clone)]
pub(crate) struct Archive {
    disk: SimulatedDisk,
    /// Contents of the segments that went, by their names.
    gone: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

impl Archive {
    pub(crate) fn new(disk: SimulatedDisk) -> Self {
        Self {
            disk,
            gone: Arc::default(),
        }
    }

    pub(crate) fn lose_power(&self) -> Self {
        Self {
            disk: self.disk.lose_power(),
            gone: Arc::clone(&self.gone),
        }
    }

    /// What recovery finds.
    pub(crate) fn disk(&self) -> SimulatedDisk {
        self.disk.fork()
    }

    /// The same without any checkpoint, with all segments that ever were.
    pub(crate) fn whole_log(&self) -> SimulatedDisk {
        let whole = SimulatedDisk::new(0);
        for name in self.disk.names() {
            if name.starts_with("log/") {
                whole.put(&name, &self.disk.contents(&name).expect("listed"));
            }
        }
        let names = whole.names();
        for (name, contents) in self.gone.lock().expect("no panic").iter() {
            if !names.contains(name) {
                whole.put(name, contents);
            }
        }
        let control = read_control(&self.disk).expect("read").expect("there");
        let control = Control {
            first_needed: 1,
            first_retained: 0,
            checkpoint: None,
            ..control
        };
        let at = (control.generation % 2) as usize * 4096;
        let mut slots = vec![0; 8192];
        slots[at..at + 4096].copy_from_slice(&control.encode());
        whole.put("control", &slots);
        whole
    }

    fn keep(&self, name: &str) {
        if name.ends_with(".log")
            && let Some(contents) = self.disk.contents(name)
        {
            let mut gone = self.gone.lock().expect("no panic");
            gone.insert(name.to_owned(), contents);
        }
    }
}

impl Disk for Archive {
    type File = SimulatedFile;

    fn create(&self, name: &str) -> io::Result<SimulatedFile> {
        self.disk.create(name)
    }

    fn open(&self, name: &str) -> io::Result<Option<SimulatedFile>> {
        self.disk.open(name)
    }

    fn open_for_writing(&self, name: &str) -> io::Result<Option<SimulatedFile>> {
        self.disk.open_for_writing(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.keep(from);
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.keep(name);
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
