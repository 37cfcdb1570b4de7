//! The program of commands that have one of their own (`bpf/redis/apart.bpf.h` is the other side): it is
//! loaded while the server serves already, on a thread of its own. Until it is there, the daemon answers
//! these commands.

use std::os::fd::{AsFd, AsRawFd};
use std::thread::{self, JoinHandle};

use libbpf_rs::{MapCore, MapFlags, MapHandle, OpenObject};

use super::programs::Programs;
use super::redis;
use crate::error::{Error, Result, bpf, system};

/// Of the map with the program as its only entry.
const MAP: &str = "apart";

/// The program, not loaded yet. It has its descriptors already: clients that come before it is loaded do
/// not take them.
pub(crate) struct Apart {
    object: OpenObject,
    name: String,
    place: MapHandle,
}

/// The thread that loads the program. It is waited for when this is dropped: the program has the maps of
/// the server.
#[derive(Debug)]
pub(crate) struct Loading {
    thread: Option<JoinHandle<()>>,
}

impl Apart {
    /// With the maps of the programs that are there.
    ///
    /// # Errors
    /// The object is of another version, or there is no descriptor.
    pub(crate) fn open(programs: &Programs) -> Result<Self> {
        let front_end = redis::front_end();
        let name = front_end.program(redis::APART);
        let mut object = bpfdb::open_object(front_end.object, front_end.name)?;

        for mut program in object.progs_mut() {
            let is_wanted = program.name() == name.as_str();
            program.set_autoload(is_wanted);
        }
        let shared = programs.shared_maps()?;
        for mut map in object.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let (_, fd) = shared
                .iter()
                .find(|(known, _)| *known == name)
                .ok_or_else(|| Error::Unsupported(format!("the BPF object has no map {name}")))?;
            map.reuse_fd(fd.as_fd())
                .map_err(bpf(format!("share map {name}")))?;
        }
        Ok(Self {
            object,
            name,
            place: programs.map(MAP)?,
        })
    }

    /// Loads the program on a thread of its own.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn load_beside(self) -> Result<Loading> {
        let thread = thread::Builder::new()
            .name("bpfdb-apart".into())
            .spawn(move || match self.load() {
                Ok(()) => tracing::info!("all programs are loaded"),
                Err(error) => tracing::error!(
                    %error,
                    "cannot load the program of some commands: the daemon answers them"
                ),
            })
            .map_err(system("start a thread that loads a program"))?;
        Ok(Loading {
            thread: Some(thread),
        })
    }

    /// Loads the program, and puts it into its place, which keeps it.
    fn load(self) -> Result<()> {
        let Self {
            object,
            name,
            place,
        } = self;
        let object = object.load().map_err(bpf(format!("load {name}")))?;
        let program = bpfdb::find_program(&object, &name)?;
        let fd = program.as_fd().as_raw_fd();
        place
            .update(&0u32.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
            .map_err(bpf(format!("put {name} into its place")))
    }
}

impl Loading {
    /// Waits until the program is there, or cannot be loaded.
    pub(crate) fn wait(&mut self) {
        if let Some(thread) = self.thread.take() {
            // It has said so itself if it panicked.
            let _ = thread.join();
        }
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        self.wait();
    }
}
