//! Functions of the committed libraries: published together, withdrawn before they change.

use std::rc::Rc;
use std::time::{Duration, Instant};

use bpfdb::Session;
use bpfdb_lua::Sha1;
use bpfdb_procedures::Ready;
use rustc_hash::FxHashSet;

use super::compiler::{Caller, Kind};
use super::loaded::gives_up_most;
use super::{Procedures, State};
use crate::kernel::procedures::{Entry, Name};
use crate::scripting::functions::libraries::{FunctionOf, Libraries, Library};
use crate::scripting::functions::{Functions, Problem};

/// A change of the functions has so long from their withdrawal to its lock, before they are
/// published again.
const PAUSE: Duration = Duration::from_millis(100);
/// How often is looked whether another process has written the libraries, while functions are
/// published.
const LOOK_PERIOD: Duration = Duration::from_millis(50);
/// So often looking may fail: then it is not known whether they are what is published.
const VAIN_LOOKS_MAX: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FunctionsState {
    /// To be published, not before this time.
    Due(Instant),
    /// As they are committed.
    Published {
        /// [`Functions::reads`] when they were.
        reads: u64,
        /// When to look whether another process has written them.
        look: Instant,
    },
    /// Taken back; by this time they have been changed.
    Withdrawn(Instant),
}

impl Procedures {
    /// The interpreter runs a function.
    pub(crate) fn note_function(&mut self, name: &[u8]) {
        if self.enabled {
            self.interpreted.note_function(name);
        }
    }

    /// For a client that is about to change the libraries: true if no function runs in the kernel, nor
    /// will before this thread has served others; else it is to be asked again, soon.
    pub(crate) fn withdraw_functions(&mut self) -> bool {
        self.take_results();
        if matches!(self.functions, FunctionsState::Published { .. }) {
            self.take_functions_back();
        }
        self.functions = FunctionsState::Withdrawn(Instant::now() + PAUSE);
        self.were_changed = true;
        // What is removed from now on is not waited for.
        self.is_quiet() || self.removals.are_over(self.withdrawn)
    }

    pub(super) fn take_functions_back(&mut self) {
        for state in self.libraries.values_mut() {
            if let State::Loaded(loaded) = state {
                for name in loaded.published.drain(..) {
                    self.kernel.withdraw(&name);
                    self.removals.note();
                }
            }
        }
        self.withdrawn = self.removals.count();
    }

    pub(super) fn are_published(&self) -> bool {
        self.libraries
            .values()
            .any(|state| matches!(state, State::Loaded(loaded) if !loaded.published.is_empty()))
    }

    fn published(&self, functions: &Functions) -> FunctionsState {
        FunctionsState::Published {
            reads: functions.reads(),
            look: Instant::now() + LOOK_PERIOD,
        }
    }

    /// Takes back what was published, if the libraries are others by now: those of a copy that
    /// another process restores. Of what this process writes they are taken back before.
    pub(super) fn look_for_others(&mut self, functions: &mut Functions) {
        let FunctionsState::Published { reads, look } = self.functions else {
            return;
        };
        let is_due = Instant::now() >= look && self.are_published();
        if is_due && !self.has_looked(functions) {
            self.functions_are_others();
            return;
        }
        if functions.reads() != reads {
            self.functions_are_others();
        } else if is_due {
            self.functions = self.published(functions);
        }
    }

    /// Reads the libraries. False: they cannot be read, or could not for so long that they may be
    /// others.
    fn has_looked(&mut self, functions: &mut Functions) -> bool {
        let read = self.engine.session().ok().map(|mut session| {
            session.never_wait();
            functions.committed(&mut session)
        });
        self.vain_looks = match read {
            Some(Err(Problem::Damaged)) => return false,
            Some(Ok(_)) => 0,
            // No session is free, or a lock was in the way.
            Some(Err(_)) | None => self.vain_looks + 1,
        };
        self.vain_looks < VAIN_LOOKS_MAX
    }

    fn functions_are_others(&mut self) {
        self.vain_looks = 0;
        self.publish_anew();
        self.were_changed = true;
    }

    /// Also what was not there when the others were published.
    pub(super) fn publish_anew(&mut self) {
        self.take_functions_back();
        self.functions = FunctionsState::Due(Instant::now());
    }

    /// The program of a library is there.
    pub(super) fn note_library(&mut self) {
        if matches!(self.functions, FunctionsState::Published { .. }) {
            self.publish_anew();
        }
    }

    /// What was in the way of publishing them is over.
    pub(super) fn publish_soon(&mut self) {
        if let FunctionsState::Due(at) = &mut self.functions {
            *at = Instant::now();
        }
    }

    pub(super) fn publish_functions(&mut self, functions: &mut Functions) {
        if functions.current().len() == 0 && !self.were_changed {
            self.functions = self.published(functions);
            return;
        }
        let later = FunctionsState::Due(Instant::now() + PAUSE);
        if !self.is_quiet() {
            self.functions = later;
            return;
        }
        // Only while it is needed: sessions are for clients.
        let Ok(mut session) = self.engine.session() else {
            self.functions = later;
            return;
        };
        session.never_wait();
        let Ok(libraries) = functions.committed(&mut session) else {
            self.functions = later;
            return;
        };
        // Those that are there do not wait for the others.
        self.ask_for(&libraries);
        self.functions = match self.publish_if_committed(&mut session, functions, &libraries) {
            Ok(true) => self.published(functions),
            // They are being changed, or were.
            Ok(false) => later,
            Err(_) => {
                self.take_functions_back();
                later
            }
        };
        self.forget_libraries(&libraries);
    }

    /// Has what is missing compiled, as far as there is room for programs.
    pub(super) fn ask_for(&mut self, libraries: &Libraries) {
        let (mut room, mut some_wait) = (self.room_for_libraries(), false);
        for library in libraries.all() {
            let name = library.source.sha1();
            if let Some(state) = self.libraries.get(&name) {
                some_wait |= matches!(state, State::Waiting);
                continue;
            }
            let state = match room.checked_sub(1) {
                Some(less) => {
                    room = less;
                    let text = &library.source.text;
                    let is_new =
                        (self.compiler).compile(Caller::Network, Kind::Library, name, text);
                    self.queued += usize::from(is_new);
                    State::Compiling
                }
                None => {
                    some_wait = true;
                    State::Waiting
                }
            };
            self.libraries.insert(name, state);
        }
        self.some_wait |= some_wait;
        if room == 0 && some_wait {
            self.make_room();
        }
    }

    fn publish_if_committed(
        &mut self,
        session: &mut Session,
        functions: &Functions,
        libraries: &Libraries,
    ) -> std::result::Result<bool, bpfdb::Status> {
        session.begin()?;
        // From here on they are not written by others.
        let holds = functions.holds(session);
        if matches!(holds, Ok(true)) {
            for library in libraries.all() {
                self.publish_library(library, libraries);
            }
        }
        session.rollback()?;
        holds
    }

    fn publish_library(&mut self, library: &Rc<Library>, libraries: &Libraries) {
        let Some(State::Loaded(loaded)) = self.libraries.get_mut(&library.source.sha1()) else {
            return;
        };
        let Some(slot) = loaded.slot else { return };
        let entries: Vec<(Name, Entry)> = loaded
            .unit
            .ready
            .iter()
            .zip(&loaded.numbers)
            .enumerate()
            .filter_map(|(place, (ready, &number))| {
                let function = libraries.function(&ready.name)?;
                let was_left = gives_up_most(&loaded.counters(place, &self.kernel));
                (!was_left && may_be_published(ready, function, library)).then(|| {
                    let read_only_forms = function.registered().flags.of_call().no_writes;
                    let entry = Entry {
                        slot,
                        function: ready.number,
                        reads: ready.reads,
                        read_only_forms,
                        number,
                    };
                    (Name::Function(ready.name.clone()), entry)
                })
            })
            .collect();
        for (name, entry) in entries {
            loaded.publish(&self.kernel, name, entry);
        }
    }

    /// A library may have been deleted while it was compiled.
    pub(super) fn forget_what_is_gone(&mut self, functions: &Functions) {
        let are_known = matches!(self.functions, FunctionsState::Published { reads, .. }
            if reads == functions.reads());
        if self.some_may_be_gone && are_known {
            self.some_may_be_gone = false;
            self.forget_libraries(functions.current());
        }
    }

    /// What is not there any more.
    fn forget_libraries(&mut self, libraries: &Libraries) {
        self.interpreted
            .keep_functions(|name| libraries.function(name).is_some());
        let there: FxHashSet<Sha1> = libraries.all().map(|one| one.source.sha1()).collect();
        let known = self.libraries.keys().copied();
        let gone: Vec<Sha1> = known.filter(|name| !there.contains(name)).collect();
        for name in gone {
            match self.libraries.remove(&name) {
                Some(State::Loaded(loaded)) => self.unload(*loaded),
                Some(State::Compiling) => self.compiler.forget(name),
                _ => {}
            }
        }
    }
}

/// Is what the text registers what Lua has registered? It may also be another library's.
fn may_be_published(ready: &Ready, function: &FunctionOf, library: &Rc<Library>) -> bool {
    let registered = function.registered();
    registered.name == ready.name
        && function.library.source.sha1() == library.source.sha1()
        // It would end in an error.
        && (ready.reads || !registered.flags.of_call().no_writes)
}
