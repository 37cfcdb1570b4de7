//! The programs that the kernel lacks at first: that of the commands which have one of their own
//! (`bpf/redis/apart.bpf.h` is the other side), and that of large collections (`bpf/redis/large.bpf.h`). Each is
//! loaded when the first of its commands has come, on a thread of its own. Until it is there, the
//! daemon answers them. Programs that have cold values read ([`super::prefetch`]) are loaded by such a thread, too.
//!
//! ```text
//!  Open ──ask()──► Loading ──wait()──► Over ◄── new(), if a server before has loaded it
//!   └────────────────────end()───────────┘
//! ```

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use bpfdb::{LaterProgram, abi};
use libbpf_rs::{MapCore, MapFlags, MapHandle, OpenObject};

use super::programs::{FrontEnd, Programs};
use super::redis;
use crate::error::{Result, bpf};

/// Of the map with the programs.
const MAP: &str = "apart";

/// One of the programs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Role {
    /// Its name, without that of the front end.
    program: &'static str,
    /// Its place in the map.
    place: u32,
    /// The commands that it answers.
    commands: &'static str,
}

/// Commands on collections, and others that are used less.
pub(crate) const COMMANDS: Role = Role {
    program: redis::APART,
    place: abi::BPFDB_APART_COMMANDS,
    commands: "commands on collections",
};

/// Commands on one element of a large collection.
pub(crate) const LARGE: Role = Role {
    program: redis::LARGE,
    place: abi::BPFDB_APART_LARGE,
    commands: "commands on an element of a large collection",
};

/// The program, not loaded yet. It has descriptors of its maps already: clients that come before it is
/// loaded do not take them.
#[derive(Debug)]
struct Apart {
    program: LaterProgram,
    role: Role,
    map: MapHandle,
}

/// Loads programs that the kernel lacks at first, once. Clones load the same.
#[derive(Clone, Debug)]
pub struct ProgramLoader {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    asked: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Open(Load),
    Loading(JoinHandle<()>),
    /// The programs are in their places, or cannot be loaded; or the server has ended.
    Over,
}

/// Loads the programs, and says in the log what has become of it.
struct Load(Box<dyn FnOnce() + Send>);

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Load").finish_non_exhaustive()
    }
}

impl ProgramLoader {
    /// `load` loads the programs, and says in the log what has become of it.
    pub(super) fn of(load: impl FnOnce() + Send + 'static) -> Self {
        Self {
            shared: Arc::new(Shared {
                asked: AtomicBool::new(false),
                state: Mutex::new(State::Open(Load(Box::new(load)))),
            }),
        }
    }

    /// Of programs that a server before has loaded.
    pub(super) fn over() -> Self {
        Self {
            shared: Arc::new(Shared {
                asked: AtomicBool::new(true),
                state: Mutex::new(State::Over),
            }),
        }
    }

    /// Of the program with this role, with the maps of the programs that are there. A server that had these
    /// programs before may have had this one loaded, too.
    ///
    /// # Errors
    /// There is no descriptor.
    pub(crate) fn new(programs: &Programs, role: Role) -> Result<Self> {
        let front_end = redis::front_end();
        let maps = programs.shared_maps()?;
        let apart = Apart {
            program: LaterProgram::new(front_end.program(role.program), move || {
                open_sharing(front_end, &maps)
            }),
            role,
            map: programs.map(MAP)?,
        };
        match apart.is_in_place()? {
            true => Ok(Self::over()),
            false => Ok(Self::of(move || apart.load_or_tell())),
        }
    }

    /// Were the programs asked for? One load of a word.
    pub fn is_asked(&self) -> bool {
        self.shared.asked.load(Ordering::Relaxed)
    }

    /// Has the programs loaded on a thread of their own, at the first call, and does not wait. If they cannot
    /// be loaded, this is logged, and the daemon goes on to do what they would.
    pub fn ask(&self) {
        if self.is_asked() {
            return;
        }
        let mut state = self.state();
        // Under the lock: a caller that sees it and waits must find the thread.
        self.shared.asked.store(true, Ordering::Relaxed);
        if !matches!(*state, State::Open(_)) {
            return;
        }
        if let State::Open(Load(load)) = std::mem::replace(&mut *state, State::Over) {
            let thread = thread::Builder::new().name("bpfdb-apart".into());
            match thread.spawn(load) {
                Ok(thread) => *state = State::Loading(thread),
                Err(error) => tracing::error!(%error, "cannot start a thread that loads a program"),
            }
        }
    }

    /// The same, and waits until the programs are in their places, or cannot be loaded.
    pub fn wait(&self) {
        self.ask();
        self.finish();
    }

    /// Nothing is loaded from now on, and what is being loaded has its end: the programs have the maps of
    /// the server.
    pub(crate) fn end(&self) {
        self.shared.asked.store(true, Ordering::Relaxed);
        self.finish();
    }

    /// Others that come meanwhile wait, too.
    fn finish(&self) {
        let mut state = self.state();
        if let State::Loading(thread) = std::mem::replace(&mut *state, State::Over) {
            // It has said so itself if it panicked.
            let _ = thread.join();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Apart {
    fn load_or_tell(&self) {
        let commands = self.role.commands;
        match self.load() {
            Ok(()) => tracing::info!("the kernel answers {commands} from now on"),
            Err(error) => tracing::error!(
                %error,
                "the daemon answers {commands}: the kernel lacks their program"
            ),
        }
    }

    fn is_in_place(&self) -> Result<bool> {
        let found = self
            .map
            .lookup(&self.role.place.to_ne_bytes(), MapFlags::ANY);
        let found = found.map_err(bpf("look for a program in its place"))?;
        Ok(found.is_some())
    }

    /// Loads the program, and puts it into its place, which keeps it.
    fn load(&self) -> Result<()> {
        let program = self.program.get()?;
        let fd = program.as_fd().as_raw_fd();
        self.map
            .update(
                &self.role.place.to_ne_bytes(),
                &fd.to_ne_bytes(),
                MapFlags::ANY,
            )
            .map_err(bpf(format!("put {} into its place", program.name())))
    }
}

/// The front end's object with these maps, which are all that it has.
pub(super) fn open_sharing(
    front_end: FrontEnd,
    maps: &[(String, OwnedFd)],
) -> bpfdb::Result<OpenObject> {
    let mut object = bpfdb::open_object(front_end.object, front_end.name)?;
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let Some((_, fd)) = maps.iter().find(|(known, _)| *known == name) else {
            return Err(bpfdb::Error::Missing { kind: "map", name });
        };
        map.reuse_fd(fd.as_fd())
            .map_err(|source| bpfdb::Error::Bpf {
                action: format!("share map {name}"),
                source,
            })?;
    }
    Ok(object)
}
