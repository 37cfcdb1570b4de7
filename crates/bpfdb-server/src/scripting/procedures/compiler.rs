//! Compiles procedures on a thread of its own, at low priority: the verifier takes some hundred
//! milliseconds for each, in which the server serves.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use bpfdb::Engine;
use bpfdb_lua::Sha1;
use bpfdb_procedures::inside::{self, Library};
use bpfdb_procedures::load::Template;
use bpfdb_procedures::{Error, Unit};

use crate::error::{Result, system};
use crate::io::bell::Bell;

/// Of the thread.
const NICE: i32 = 10;

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Script,
    Library,
}

/// For whom a text is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// The programs that see the connections.
    Network,
    /// The daemon, by a system call.
    Daemon,
}

/// A text to be compiled.
type Order = (Caller, Kind, Sha1, Vec<u8>);

/// What has become of an order.
#[derive(Debug)]
pub(super) enum Done {
    /// With the text.
    Compiled(Kind, Sha1, Vec<u8>, std::result::Result<Box<Unit>, String>),
    /// The same for calls of the daemon.
    Direct(Kind, Sha1, std::result::Result<Box<Library>, String>),
    /// Nothing: the library was gone before.
    Forgotten,
    /// All calls have ended that were running when it was ordered with this number.
    Grace(u64),
}

/// Libraries whose programs are not wanted any more, of those that are ordered.
type Forgotten = Arc<Mutex<HashSet<Sha1>>>;

/// Its threads end when this is dropped, after what they are at. A thread that waits for calls to end does
/// not wait for what is being compiled.
#[derive(Debug)]
pub(super) struct Compiler {
    orders: Sender<Order>,
    graces: Sender<u64>,
    done: Receiver<Done>,
    forgotten: Forgotten,
}

/// The table of clients that wait for keys: a push by a procedure looks there, too.
const WAITING: &str = ".data.waiting";

/// A map of the network programs that the template shares.
pub(crate) type SharedMap = (String, OwnedFd);

impl Compiler {
    pub(super) fn start(engine: &Engine, maps: Vec<SharedMap>, bell: &Bell) -> Result<Self> {
        let (orders, inbox) = mpsc::channel();
        let (graces, numbers) = mpsc::channel();
        let (outbox, done) = mpsc::channel();
        let forgotten = Forgotten::default();
        let waiter = Waiter {
            engine: engine.clone(),
            outbox: outbox.clone(),
            bell: bell.clone(),
        };
        let worker = Worker {
            engine: engine.clone(),
            maps,
            template: None,
            direct: None,
            forgotten: Arc::clone(&forgotten),
            outbox,
            bell: bell.clone(),
        };
        spawn("procedures", move || worker.run(&inbox))?;
        spawn("grace", move || waiter.run(&numbers))?;
        Ok(Self {
            orders,
            graces,
            done,
            forgotten,
        })
    }

    /// False: that was ordered, and forgotten since, and is wanted again. There is one outcome for each
    /// order.
    pub(super) fn compile(&self, caller: Caller, kind: Kind, name: Sha1, text: &[u8]) -> bool {
        if is_library_of_network(caller, kind) && lock(&self.forgotten).remove(&name) {
            return false;
        }
        // It fails only if the thread has panicked, which it has said.
        let _ = self.orders.send((caller, kind, name, text.to_vec()));
        true
    }

    /// A library that was ordered for the network, and has no outcome yet, is not compiled, unless that
    /// has begun.
    pub(super) fn forget(&self, library: Sha1) {
        lock(&self.forgotten).insert(library);
    }

    /// It was compiled before it was forgotten, if it was: nothing is left to be said.
    pub(super) fn has_compiled(&self, text: Sha1) {
        lock(&self.forgotten).remove(&text);
    }

    /// Waits until all calls have ended that are running now.
    pub(super) fn grace(&self, number: u64) {
        let _ = self.graces.send(number);
    }

    pub(super) fn next_done(&self) -> Option<Done> {
        self.done.try_recv().ok()
    }
}

fn is_library_of_network(caller: Caller, kind: Kind) -> bool {
    (caller, kind) == (Caller::Network, Kind::Library)
}

fn lock(forgotten: &Forgotten) -> std::sync::MutexGuard<'_, HashSet<Sha1>> {
    forgotten.lock().unwrap_or_else(PoisonError::into_inner)
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    thread::Builder::new()
        .name(name.into())
        .spawn(work)
        .map(drop)
        .map_err(system("start a thread for procedures"))
}

/// After a wait for the end of calls that failed.
const GRACE_PAUSE: Duration = Duration::from_millis(100);

struct Waiter {
    engine: Engine,
    outbox: Sender<Done>,
    bell: Bell,
}

impl Waiter {
    fn run(self, inbox: &Receiver<u64>) {
        while let Ok(number) = inbox.recv() {
            // Nothing may be used again while calls run that use it.
            while let Err(error) = self.engine.wait_for_readers() {
                tracing::error!(%error, "cannot wait for calls to end: trying again");
                thread::sleep(GRACE_PAUSE);
            }
            if self.outbox.send(Done::Grace(number)).is_err() {
                return;
            }
            self.bell.ring();
        }
    }
}

struct Worker {
    engine: Engine,
    maps: Vec<SharedMap>,
    /// Loaded when it is needed first.
    template: Option<Template>,
    /// Of programs for the daemon; likewise.
    direct: Option<inside::Compiler>,
    forgotten: Forgotten,
    outbox: Sender<Done>,
    bell: Bell,
}

impl Worker {
    fn run(mut self, inbox: &Receiver<Order>) {
        // SAFETY: plain system call; 0 is this thread. It needs no right to lower a priority.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
        while let Ok((caller, kind, name, text)) = inbox.recv() {
            let is_gone =
                is_library_of_network(caller, kind) && lock(&self.forgotten).remove(&name);
            let done = match caller {
                Caller::Network if is_gone => Done::Forgotten,
                Caller::Network => {
                    let unit = self.compile(kind, &text).map(Box::new);
                    Done::Compiled(kind, name, text, unit.map_err(|error| error.to_string()))
                }
                Caller::Daemon => {
                    let library = self.compile_direct(kind, &text).map(Box::new);
                    Done::Direct(kind, name, library.map_err(|error| error.to_string()))
                }
            };
            if self.outbox.send(done).is_err() {
                return;
            }
            self.bell.ring();
        }
    }

    fn compile(&mut self, kind: Kind, text: &[u8]) -> std::result::Result<Unit, Error> {
        let template = match self.template.take() {
            Some(template) => template,
            None => self.load_template()?,
        };
        let template = self.template.insert(template);
        match kind {
            Kind::Script => Unit::script(template, text),
            Kind::Library => Unit::library(template, text),
        }
    }

    fn compile_direct(&mut self, kind: Kind, text: &[u8]) -> std::result::Result<Library, Error> {
        let compiler = match self.direct.take() {
            Some(compiler) => compiler,
            None => {
                let waiting = self.maps.iter().find(|(name, _)| name == WAITING);
                let waiting = waiting.map(|(_, fd)| fd.as_fd());
                inside::Compiler::with_waiting(&self.engine, waiting)?
            }
        };
        let compiler = self.direct.insert(compiler);
        match kind {
            Kind::Script => compiler.script(text),
            Kind::Library => compiler.library(text),
        }
    }

    fn load_template(&self) -> std::result::Result<Template, Error> {
        let mut object = bpfdb::open_object(bpfdb::objects::PROCEDURE, "procedure")?;
        self.engine.adopt(&mut object)?;
        for mut map in object.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if let Some((_, fd)) = self.maps.iter().find(|(known, _)| *known == name) {
                map.reuse_fd(fd.as_fd()).map_err(|error| Error::Bpf {
                    what: "share a map with the template",
                    error,
                })?;
            }
        }
        let object = object.load().map_err(|error| Error::Bpf {
            what: "load the template of procedures",
            error,
        })?;
        Template::new(object, "redis_procedure")
    }
}
