//! The libraries of functions, which the engine has as the value of one key
//! ([`bpfdb::FUNCTIONS_KEY`]) in the form of FUNCTION DUMP: here they are kept understood.
//!
//! ```text
//! FUNCTION LOAD ──► analyse the text (known) ──► one transaction: read, change, write the key
//! FCALL ──► transaction: lock the key (shared), compare its token ──┬─► as it was: `current`
//!                                                                  └─► written: read it again
//! ```
//!
//! Invariants
//!  1. The engine's value counts; what is here is a copy of what was committed. Whoever uses it
//!     has compared the token of the key in the transaction that uses it, so nothing here can be
//!     of what was rolled back, or miss what was committed: not after COMMIT in the kernel
//!     either, or when another process has restored a copy.
//!  2. A transaction that has written the key itself reads it instead: its token says so.
//!  3. `known` says what a text registers, and nothing about whether there is such a library. A
//!     text is run for it once, in slices when a client sends it. Those that this process has
//!     never seen, because they were there before it, are run at once, at its start: what a
//!     text needed before it was kept is bounded by [`LOAD_MAX`].
//!  4. A library that cannot be understood any more has no functions, and stays in the value.

mod header;
pub(crate) mod libraries;

use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bpfdb::{FUNCTIONS_KEY, Reads, Session, Status, WatchToken};
use bpfdb_lua::{Answer, Failure, Limits, Registered, Sha1, Source, Step, Vm};
use rustc_hash::FxHashMap;

use self::libraries::{Libraries, Library};
use crate::instance::scripts;
use crate::stats::statistics::Statistics;
use crate::values::functions_dump::{self, LIBRARIES_MAX};

/// How long the text of a library may run when it is loaded. As in Redis.
pub(crate) const LOAD_MAX: Duration = Duration::from_millis(500);
/// The same for one that was loaded before, and by the clock: the machine may have much else to do.
const LOAD_AGAIN_MAX: Duration = Duration::from_secs(5);
/// Libraries, and functions of all of them: so many are looked through at once.
pub(crate) const COUNT_MAX: usize = 1024;
pub(crate) const FUNCTIONS_MAX: usize = 4096;
/// Bytes of texts, and texts, that are known beside those that there are.
const KNOWN_BYTES_MAX: usize = 4 * LIBRARIES_MAX;
const KNOWN_MAX: usize = 4096;

/// A call of a function that others may see.
#[derive(Debug)]
pub(crate) struct RunningCall {
    pub(crate) name: Vec<u8>,
    /// The request.
    pub(crate) words: Vec<Vec<u8>>,
    pub(crate) begun: Instant,
}

#[derive(Debug)]
pub(crate) struct Functions {
    statistics: Arc<Statistics>,
    current: Rc<Libraries>,
    /// Taken before `current` was read; `None`: it never was.
    token: Option<WatchToken>,
    /// How often `current` was read.
    reads: u64,
    known: FxHashMap<Sha1, Rc<Library>>,
    known_bytes: usize,
    running: Vec<Weak<RunningCall>>,
}

impl Functions {
    pub(crate) fn new(statistics: &Arc<Statistics>) -> Self {
        Self {
            statistics: Arc::clone(statistics),
            current: Rc::default(),
            token: None,
            reads: 0,
            known: FxHashMap::default(),
            known_bytes: 0,
            running: Vec::new(),
        }
    }

    /// What was read last. Whether it is still so says [`holds`](Self::holds).
    pub(crate) fn current(&self) -> &Rc<Libraries> {
        &self.current
    }

    /// How often they were read: whenever somebody found that they had been written.
    pub(crate) fn reads(&self) -> u64 {
        self.reads
    }

    /// Are the libraries that the transaction of `session` sees those that were read last? In a
    /// transaction that writes they stay so: it has a shared lock from now on.
    pub(crate) fn holds(&self, session: &mut Session) -> Result<bool, Status> {
        let length = session.value_len(FUNCTIONS_KEY)?;
        self.uncount(length.is_some());
        let now = session.watch(FUNCTIONS_KEY)?;
        Ok(self.token.is_some_and(|token| token.still_holds(&now)))
    }

    /// Those that the open transaction of `session` sees.
    pub(crate) fn seen_by(&mut self, session: &mut Session) -> Result<Rc<Libraries>, Problem> {
        if self.holds(session)? {
            return Ok(Rc::clone(&self.current));
        }
        let value = self.get(session)?;
        Ok(Rc::new(self.decode(value.as_deref())?))
    }

    /// Those that are committed. Not in a transaction.
    pub(crate) fn committed(&mut self, session: &mut Session) -> Result<Rc<Libraries>, Problem> {
        session.begin_read_only_deferred()?;
        let held = self.holds(session);
        session.rollback()?;
        if !held? {
            self.read(session)?;
        }
        Ok(Rc::clone(&self.current))
    }

    /// Reads what is committed. Not in a transaction.
    pub(crate) fn read(&mut self, session: &mut Session) -> Result<(), Problem> {
        let token = session.watch(FUNCTIONS_KEY)?;
        let value = self.get(session)?;
        self.current = Rc::new(self.decode(value.as_deref())?);
        self.token = Some(token);
        self.reads += 1;
        Ok(())
    }

    fn get(&self, session: &mut Session) -> Result<Option<Vec<u8>>, Status> {
        let value = session.get(FUNCTIONS_KEY)?;
        self.uncount(value.is_some());
        Ok(value)
    }

    /// Of hits and misses clients count theirs.
    fn uncount(&self, found: bool) {
        let (found, missed) = (found.into(), (!found).into());
        self.statistics.subtract(Reads { found, missed });
    }

    /// The libraries in the value of the key.
    pub(crate) fn decode(&mut self, value: Option<&[u8]>) -> Result<Libraries, Problem> {
        let Some(value) = value else {
            return Ok(Libraries::default());
        };
        let texts = functions_dump::decode(value).map_err(|_| Problem::Damaged)?;
        let mut libraries = Libraries::default();
        let mut vm = None;
        for text in texts {
            let source = Source::new(&text);
            let library = match self.known(source.sha1()) {
                Some(library) => library,
                None => self.understand(&source, &mut vm),
            };
            // One whose functions another one has by now, as only another program can write it.
            if let Err(problem) = libraries.add(&library, false) {
                tracing::warn!(problem, "a library of functions is left out");
            }
        }
        Ok(libraries)
    }

    // ---- What texts register ----------------------------------------------------------

    pub(crate) fn known(&self, text: Sha1) -> Option<Rc<Library>> {
        self.known.get(&text).cloned()
    }

    /// Takes note of what a text has registered.
    pub(crate) fn learn(&mut self, library: Rc<Library>) {
        self.known_bytes += library.source.text.len();
        if self.known_bytes > KNOWN_BYTES_MAX || self.known.len() >= KNOWN_MAX {
            self.known.clear();
            let current = Rc::clone(&self.current);
            self.known_bytes = current.bytes() + library.source.text.len();
            let there = current.all();
            (self.known).extend(there.map(|one| (one.source.sha1(), Rc::clone(one))));
        }
        self.known.insert(library.source.sha1(), library);
    }

    /// Runs a text that this process does not know, at once.
    fn understand(&mut self, source: &Source, vm: &mut Option<Vm>) -> Rc<Library> {
        let name = header::name(&source.text);
        let functions = name.clone().and_then(|_| run_at_once(source, vm));
        if let Err(problem) = &functions {
            let name = name
                .as_deref()
                .unwrap_or_default()
                .escape_ascii()
                .to_string();
            tracing::warn!(name, problem, "a library of functions cannot be loaded");
        }
        let library = Rc::new(Library {
            name: name.unwrap_or_else(|_| source.sha1().to_string().into_bytes()),
            source: source.clone(),
            is_understood: functions.is_ok(),
            functions: functions.unwrap_or_default(),
        });
        self.learn(Rc::clone(&library));
        library
    }

    // ---- Calls -------------------------------------------------------------------------

    /// A call that goes on after its first slice.
    pub(crate) fn note_running(&mut self, call: &Rc<RunningCall>) {
        self.running.retain(|known| known.strong_count() > 0);
        self.running.push(Rc::downgrade(call));
    }

    /// The one that was begun first.
    pub(crate) fn running(&self) -> Option<Rc<RunningCall>> {
        self.running.iter().find_map(Weak::upgrade)
    }

    /// Bytes that are kept for functions, and not by the engine.
    pub(crate) fn bytes(&self) -> usize {
        self.known_bytes
    }
}

/// Why there are no libraries to be had.
#[derive(Debug)]
pub(crate) enum Problem {
    Engine(Status),
    /// The value is none of ours.
    Damaged,
}

impl From<Status> for Problem {
    fn from(status: Status) -> Self {
        Self::Engine(status)
    }
}

/// The name that a text gives its library.
///
/// # Errors
/// What is wrong, as Redis words it.
pub(crate) fn library_name(text: &[u8]) -> Result<Vec<u8>, String> {
    header::name(text)
}

/// What has become of loading a library, as Redis words it.
pub(crate) fn loaded(vm: &Vm, source: &Source) -> Result<Vec<Registered>, String> {
    match vm.functions(source.sha1()) {
        Some(functions) if !functions.is_empty() => Ok(functions),
        _ => Err("ERR No functions registered".into()),
    }
}

pub(crate) fn load_error(failure: Failure) -> String {
    match failure {
        Failure::Raised(text) => String::from_utf8_lossy(&text).into_owned(),
        Failure::Stopped => "ERR Error registering functions: ERR FUNCTION LOAD timeout".into(),
        Failure::Memory => "ERR Error registering functions: not enough memory".into(),
    }
}

fn run_at_once(source: &Source, vm: &mut Option<Vm>) -> Result<Vec<Registered>, String> {
    let no_memory = "ERR there is no memory for the library";
    // Each may take as much as when a client loaded it.
    if vm.as_ref().is_none_or(|vm| !scripts::may_be_kept(vm)) {
        *vm = Vm::new(Limits::default()).ok();
    }
    let vm = vm.as_mut().ok_or(no_memory)?;
    let mut call = vm.load_library(source.clone()).ok_or(no_memory)?;
    let begun = Instant::now();
    loop {
        match call.resume(Answer::GoOn) {
            Step::Done(_) => break,
            Step::Failed(failure) => return Err(load_error(failure)),
            Step::Command { .. } | Step::SliceOver => {
                if begun.elapsed() > LOAD_AGAIN_MAX {
                    call.stop();
                }
            }
        }
    }
    drop(call);
    loaded(vm, source)
}
