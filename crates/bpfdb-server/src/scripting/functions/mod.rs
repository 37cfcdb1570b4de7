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
//!  1. The engine's value counts; what is here is a copy of what was committed. A user of it
//!     has compared the token of the key in the transaction that uses it, so nothing here can be
//!     of what was rolled back, or miss what was committed: not after COMMIT in the kernel
//!     either, or when another process has restored a copy.
//!  2. A transaction that has written the key itself reads it instead: its token says so.
//!  3. `known` says what a text registers, and nothing about whether there is such a library. A
//!     text is run for it once, in slices when a client sends it. Those that this process has
//!     never seen, because they were there before it, are run at once, at its start: what a
//!     text needed before it was kept is bounded by [`LOAD_MAX`].
//!  4. Every text of the value stays in it until a client deletes it. One that cannot be understood,
//!     or whose functions another library has, has no functions.
//!  5. What could not be understood is tried again, for want of memory or time may have been the
//!     reason; so often and so late that no client waits long for it ([`TRIES`]).

mod header;
pub(crate) mod libraries;

use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bpfdb::{FUNCTIONS_KEY, Reads, Session, Status, WatchToken};
use bpfdb_lua::{Answer, Failure, Limits, Registered, Sha1, Source, Step, Vm};
use rustc_hash::FxHashMap;

use self::libraries::{Libraries, Library};
use crate::scripting::scripts;
use crate::stats::statistics::Statistics;
use crate::values::functions_dump::{self, LIBRARIES_MAX};

/// How long the text of a library may run when it is loaded. As in Redis.
pub(crate) const LOAD_MAX: Duration = Duration::from_millis(500);
/// The same for one that was loaded before this process began, and by the clock: the machine may have
/// much else to do.
const LOAD_AGAIN_MAX: Duration = Duration::from_secs(5);
/// Pauses after which a text that could not be understood is tried again.
const TRIES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(10),
    Duration::from_secs(100),
];
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
    /// Texts that could not be understood.
    failed: FxHashMap<Sha1, Failed>,
    running: Vec<Weak<RunningCall>>,
}

/// A text that could not be understood.
#[derive(Debug)]
struct Failed {
    times: usize,
    /// When it is tried again; `None`: not by itself.
    due: Option<Instant>,
}

impl Failed {
    fn is_due(&self) -> bool {
        self.due.is_some_and(|due| due <= Instant::now())
    }
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
            failed: FxHashMap::default(),
            running: Vec::new(),
        }
    }

    /// What was read last. Whether it is still so says [`holds`](Self::holds).
    pub(crate) fn current(&self) -> &Rc<Libraries> {
        &self.current
    }

    /// How often they were read: whenever it was found that they had been written.
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
        if !held? || self.failed.values().any(Failed::is_due) {
            self.read(session)?;
        }
        Ok(Rc::clone(&self.current))
    }

    /// Reads what is committed. Not in a transaction.
    pub(crate) fn read(&mut self, session: &mut Session) -> Result<(), Problem> {
        let token = session.watch(FUNCTIONS_KEY)?;
        let value = self.get(session)?;
        self.current = Rc::new(self.decode(value.as_deref())?);
        self.forget_failures();
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
        let (mut vm, begun) = (None, Instant::now());
        for text in texts {
            let source = Source::new(&text);
            let library = match self.known(source.sha1()) {
                None => self.understand(&source, LOAD_AGAIN_MAX, &mut vm),
                // Others that are slow, too, wait for the next time.
                Some(library)
                    if !library.is_understood
                        && self.is_due(source.sha1())
                        && begun.elapsed() < LOAD_MAX =>
                {
                    self.understand(&source, LOAD_MAX, &mut vm)
                }
                Some(library) => library,
            };
            // Others have its name or its functions: another program has written it, or they were
            // loaded while it was not understood.
            if let Err(problem) = libraries.add(&library, false) {
                tracing::warn!(problem, "a library has no functions for now");
                libraries.add_without_functions(&library);
            }
        }
        Ok(libraries)
    }

    /// Is a text to be run that is not understood?
    fn is_due(&self, text: Sha1) -> bool {
        self.failed.get(&text).is_none_or(Failed::is_due)
    }

    /// What could not be understood is tried once more by the next [`decode`](Self::decode). For
    /// for a library that is added: it must have no function that one of those has.
    pub(crate) fn try_again(&mut self) {
        for failed in self.failed.values_mut() {
            failed.due = Some(Instant::now());
        }
    }

    /// Of texts that are not there any more.
    fn forget_failures(&mut self) {
        if !self.failed.is_empty() {
            let there: Vec<Sha1> = self.current.all().map(|one| one.source.sha1()).collect();
            self.failed.retain(|text, _| there.contains(text));
        }
    }

    // ---- What texts register ----------------------------------------------------------

    pub(crate) fn known(&self, text: Sha1) -> Option<Rc<Library>> {
        self.known.get(&text).cloned()
    }

    /// Takes note of what a text has registered.
    pub(crate) fn learn(&mut self, library: Rc<Library>) {
        if library.is_understood {
            self.failed.remove(&library.source.sha1());
        } else {
            self.note_failure(library.source.sha1());
        }
        let bytes = library.bytes();
        self.known_bytes += bytes;
        if self.known_bytes > KNOWN_BYTES_MAX || self.known.len() >= KNOWN_MAX {
            self.known.clear();
            let current = Rc::clone(&self.current);
            self.known_bytes = current.bytes() + bytes;
            let there = current.all();
            (self.known).extend(there.map(|one| (one.source.sha1(), Rc::clone(one))));
        }
        if let Some(old) = self.known.insert(library.source.sha1(), library) {
            self.known_bytes -= old.bytes();
        }
    }

    /// Runs a text that this process does not know, at once, for so long at most.
    fn understand(&mut self, source: &Source, most: Duration, vm: &mut Option<Vm>) -> Rc<Library> {
        let name = header::name(&source.text);
        let functions = name.clone().and_then(|_| run_at_once(source, most, vm));
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

    fn note_failure(&mut self, text: Sha1) {
        let failed = (self.failed.entry(text)).or_insert(Failed {
            times: 0,
            due: None,
        });
        let pause = TRIES.get(failed.times);
        failed.due = pause.map(|&pause| Instant::now() + pause);
        failed.times += 1;
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

fn run_at_once(
    source: &Source,
    most: Duration,
    vm: &mut Option<Vm>,
) -> Result<Vec<Registered>, String> {
    let no_memory = "ERR there is no memory for the library";
    // Each may take as much as when a client loaded it.
    if vm.as_ref().is_none_or(|vm| !scripts::may_be_kept(vm)) {
        *vm = Vm::new(Limits::default()).ok();
    }
    let vm = vm.as_mut().ok_or(no_memory)?;
    let mut call = vm.load_library(source.clone()).ok_or(no_memory)?;
    let begun = Instant::now();
    loop {
        match scripts::resume(&mut call, Answer::GoOn) {
            Step::Done(_) => break,
            Step::Failed(failure) => return Err(load_error(failure)),
            Step::Command { .. } | Step::SliceOver => {
                if begun.elapsed() > most {
                    call.stop();
                }
            }
        }
    }
    drop(call);
    loaded(vm, source)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions() -> Functions {
        Functions::new(&Arc::new(Statistics::new([])))
    }

    fn text(library: &str, function: &str) -> Vec<u8> {
        format!("#!lua name={library}\nredis.register_function('{function}', function() end)")
            .into_bytes()
    }

    fn value(texts: &[Vec<u8>]) -> Vec<u8> {
        functions_dump::encode(texts.iter().map(Vec::as_slice))
    }

    /// The pause has passed, if there is one.
    fn let_pass(functions: &mut Functions, text: &[u8]) {
        let failed = functions.failed.get_mut(&Source::new(text).sha1());
        let failed = failed.expect("it has failed");
        failed.due = failed.due.map(|_| Instant::now());
    }

    /// As after a moment without memory.
    fn not_understood(functions: &mut Functions, text: &[u8]) {
        functions.learn(Rc::new(Library {
            name: b"a".to_vec(),
            source: Source::new(text),
            functions: Vec::new(),
            is_understood: false,
        }));
    }

    #[test]
    fn what_was_not_understood_is_tried_again() {
        let mut functions = functions();
        let text = text("a", "f");
        let value = value(std::slice::from_ref(&text));
        not_understood(&mut functions, &text);
        let found = functions.decode(Some(&value)).expect("libraries");
        assert!(found.has(b"a") && found.function(b"f").is_none());
        let_pass(&mut functions, &text);
        let found = functions.decode(Some(&value)).expect("libraries");
        assert!(found.function(b"f").is_some() && functions.failed.is_empty());
    }

    #[test]
    fn what_is_never_understood_is_tried_so_often_only() {
        let mut functions = functions();
        let text = b"#!lua name=a\nerror('never')".to_vec();
        let value = value(std::slice::from_ref(&text));
        for round in 0..10 {
            let found = functions.decode(Some(&value)).expect("libraries");
            assert!(found.has(b"a"));
            let times = functions.failed.values().map(|failed| failed.times);
            assert_eq!(times.collect::<Vec<_>>(), [TRIES.len().min(round) + 1]);
            let_pass(&mut functions, &text);
        }
        functions.try_again();
        functions.decode(Some(&value)).expect("libraries");
        let times = functions.failed.values().map(|failed| failed.times);
        assert_eq!(times.collect::<Vec<_>>(), [TRIES.len() + 2]);
        // Of a text that is gone.
        functions.forget_failures();
        assert!(functions.failed.is_empty());
    }

    /// By a client, for one: nothing is due any more.
    #[test]
    fn what_is_understood_elsewhere_is_not_tried_again() {
        let mut functions = functions();
        let text = text("a", "f");
        not_understood(&mut functions, &text);
        let source = Source::new(&text);
        functions.learn(Rc::new(Library {
            name: b"a".to_vec(),
            functions: run_at_once(&source, LOAD_MAX, &mut None).expect("a function"),
            source,
            is_understood: true,
        }));
        assert!(functions.failed.is_empty());
    }

    /// What is written back is what was there, whatever of it has functions.
    #[test]
    fn no_text_is_lost() {
        let mut functions = functions();
        let texts = [
            text("a", "f"),
            // Its function is another's, and its name.
            text("b", "f"),
            text("a", "g"),
            text("c", "h"),
            b"no library".to_vec(),
        ];
        let found = functions.decode(Some(&value(&texts))).expect("libraries");
        assert_eq!((found.len(), found.functions()), (5, 2));
        let mut kept = functions_dump::decode(&found.encode()).expect("texts");
        kept.sort();
        let mut texts = texts.to_vec();
        texts.sort();
        assert_eq!(kept, texts);
        // The other one is gone.
        let rest = value(&[self::text("b", "f")]);
        let found = functions.decode(Some(&rest)).expect("libraries");
        assert!(found.function(b"f").is_some());
    }
}
