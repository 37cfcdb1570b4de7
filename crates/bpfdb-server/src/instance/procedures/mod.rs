//! Procedures that the kernel runs: functions when their library is there, scripts after some
//! calls.
//!
//! ```text
//! script:    called ──8 times──► compiling ──► published ──SCRIPT FLUSH, least used──► gone
//!                                   └────────► left to the interpreter, with reasons
//!
//! functions: committed ──► compiling ──► published ──FUNCTION LOAD …──► withdrawn ─┐
//!                ▲                                                                 │
//!                └────────────── the change is committed, or rolled back ──────────┘
//! ```
//!
//! Invariants
//!  1. *A call never runs a function that is not the committed one.* Functions are published
//!     in a transaction that has a shared lock on the libraries and has compared their token,
//!     and only this thread publishes. Whoever changes the libraries withdraws all functions
//!     first, and waits until every call that has begun is over; he takes the exclusive lock in
//!     the same step as he finds that out. So nothing is published in between.
//!  2. *A call runs what it has found.* What is taken out of the kernel's tables leaves its place
//!     empty until all calls have ended that had begun by then (a grace period): nothing is
//!     published before.
//!  3. *What the kernel gives up, the interpreter runs*: a call is answered either way.
//!  4. A script is its text: its program can never be wrong, only useless.
//!  5. There are at most [`abi::BPFDB_PROCEDURE_SLOTS`] programs; scripts that were not called
//!     lately make room for others.

mod compiler;
mod interpreted;
mod shown;

use std::rc::Rc;
use std::time::{Duration, Instant};

use bpfdb::{Engine, Session, abi};
use bpfdb_lua::Sha1;
use bpfdb_procedures::lua::TEXT_MAX;
use bpfdb_procedures::{Ready, Unit};
use rustc_hash::FxHashMap;

use self::compiler::SharedMap;
use self::compiler::{Compiler, Done, Kind};
use self::interpreted::Interpreted;
pub(crate) use self::shown::Shown;
use super::functions::Functions;
use super::functions::libraries::{FunctionOf, Libraries, Library};
use super::scripts::Script;
use crate::error::Result;
use crate::io::bell::Bell;
use crate::kernel::procedures::{Counters, Entry, KernelProcedures, Name};

/// A script is compiled when it is called so often.
const CALLS_BEFORE: u32 = 8;
/// Texts that wait to be compiled, from which on scripts have to wait for their turn.
const QUEUED_MAX: usize = 16;
/// Functions of one library that are compiled.
const EACH_MAX: usize = 128;
const NO_ROOM: &str = "there are as many procedures as may be";
/// Scripts whose calls are counted.
const COUNTED_MAX: usize = 4096;
/// Who changes the functions has so long from their withdrawal to his lock, before they are
/// published again.
const PAUSE: Duration = Duration::from_millis(100);
/// A procedure that gives up so many of its calls is left to the interpreter: entering the
/// kernel's program in vain costs time.
const GIVEN_UP_MAX: f64 = 0.5;
const GIVEN_UP_FROM: u64 = 1000;

/// A text with a program in the kernel.
#[derive(Debug)]
struct Loaded {
    unit: Unit,
    text: Vec<u8>,
    /// Of its program; `None`: it has none.
    slot: Option<u32>,
    /// Numbers of the counters of its functions.
    numbers: Vec<u32>,
    published: Vec<Name>,
    /// What the counters said when somebody looked last, and when that was more than before.
    seen: u64,
    used: Instant,
}

#[derive(Debug)]
enum State {
    /// Calls so far.
    Counting(u32),
    Compiling,
    Loaded(Box<Loaded>),
    /// Why there is no program.
    Failed(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FunctionsState {
    /// To be published, not before this time.
    Due(Instant),
    /// As they are committed.
    Published,
    /// Taken back; by this time somebody has changed them.
    Withdrawn(Instant),
}

#[derive(Debug)]
pub(crate) struct Procedures {
    kernel: KernelProcedures,
    compiler: Compiler,
    scripts: FxHashMap<Sha1, State>,
    libraries: FxHashMap<Sha1, State>,
    functions: FunctionsState,
    /// Scripts that are to be published when that is possible.
    waiting: Vec<Sha1>,
    /// How often something was removed; for how many of these somebody waits until calls have
    /// ended; and for how many they have.
    removals: u64,
    awaited: u64,
    over: u64,
    /// Of these, when functions were taken back last.
    withdrawn: u64,
    /// Somebody has changed the functions since the server began.
    were_changed: bool,
    /// Texts that are to be compiled.
    queued: usize,
    /// A program makes room, but its slot is not free yet.
    is_evicting: bool,
    engine: Engine,
    interpreted: Interpreted,
    enabled: bool,
}

impl Procedures {
    /// `maps`: those of the network programs.
    pub(crate) fn new(
        engine: &Engine,
        kernel: KernelProcedures,
        maps: Vec<SharedMap>,
        bell: &Bell,
        enabled: bool,
    ) -> Result<Self> {
        Ok(Self {
            kernel,
            compiler: Compiler::start(engine, maps, bell)?,
            scripts: FxHashMap::default(),
            libraries: FxHashMap::default(),
            functions: FunctionsState::Due(Instant::now()),
            waiting: Vec::new(),
            removals: 0,
            awaited: 0,
            over: 0,
            withdrawn: 0,
            were_changed: false,
            queued: 0,
            is_evicting: false,
            engine: engine.clone(),
            interpreted: Interpreted::default(),
            enabled,
        })
    }

    /// When [`Procedures::work`] has something to do without being rung for.
    pub(crate) fn due(&self) -> Option<Instant> {
        match self.functions {
            FunctionsState::Due(at) | FunctionsState::Withdrawn(at) if self.enabled => Some(at),
            _ => None,
        }
    }

    /// Takes in what was compiled, and publishes what is to be. Often.
    pub(crate) fn work(&mut self, functions: &mut Functions) {
        self.take_results();
        let now = Instant::now();
        if let FunctionsState::Withdrawn(until) = self.functions
            && now >= until
        {
            self.functions = FunctionsState::Due(now);
        }
        if let FunctionsState::Due(at) = self.functions
            && self.enabled
            && now >= at
        {
            self.publish_functions(functions);
        }
    }

    /// The setting compile-procedures.
    pub(crate) fn enable(&mut self, enabled: bool) {
        if enabled == self.enabled {
            return;
        }
        self.enabled = enabled;
        if !enabled {
            self.withdraw_functions();
            self.forget_scripts();
        }
    }

    fn take_results(&mut self) {
        while let Some(done) = self.compiler.next_done() {
            match done {
                Done::Compiled(kind, name, text, unit) => {
                    self.queued -= 1;
                    self.take_unit(kind, name, text, unit);
                }
                Done::Grace(removals) => {
                    self.over = removals;
                    if self.is_quiet() {
                        self.kernel.reuse();
                        self.is_evicting = false;
                        for name in std::mem::take(&mut self.waiting) {
                            self.publish_script(name);
                        }
                    }
                }
            }
        }
    }

    /// Something was taken out of the kernel's tables.
    fn note_removal(&mut self) {
        self.removals += 1;
    }

    /// Have all calls ended that may have found what was removed since? Else they are waited
    /// for.
    fn is_quiet(&mut self) -> bool {
        if self.over == self.removals {
            return true;
        }
        if self.awaited < self.removals {
            self.awaited = self.removals;
            self.compiler.grace(self.removals);
        }
        false
    }

    fn take_unit(
        &mut self,
        kind: Kind,
        name: Sha1,
        text: Vec<u8>,
        unit: std::result::Result<Box<Unit>, String>,
    ) {
        let state = match unit {
            Ok(unit) => self.load(*unit, text),
            Err(problem) => {
                tracing::warn!(%name, problem, "a procedure stays with the interpreter");
                Some(State::Failed(problem))
            }
        };
        let state = match (kind, state) {
            (Kind::Library, None) => Some(State::Failed(NO_ROOM.into())),
            (_, state) => state,
        };
        let units = match kind {
            Kind::Script => &mut self.scripts,
            Kind::Library => &mut self.libraries,
        };
        match (units.get_mut(&name), state) {
            (Some(place @ State::Compiling), Some(state)) => *place = state,
            // It is compiled again when there is room.
            (Some(State::Compiling), None) => drop(units.remove(&name)),
            // Forgotten meanwhile, or compiled twice.
            (_, Some(State::Loaded(loaded))) => self.unload(*loaded),
            _ => {}
        }
        if kind == Kind::Script {
            self.publish_script(name);
        }
    }

    /// Gives a unit a slot and counters. `None`: there is no slot, and a script makes room.
    fn load(&mut self, mut unit: Unit, text: Vec<u8>) -> Option<State> {
        let numbers: Vec<u32> = (0..unit.ready.len().min(EACH_MAX))
            .map_while(|_| self.kernel.take_number())
            .collect();
        unit.leave_from(numbers.len(), NO_ROOM);
        let slot = self.slot_of(&unit);
        if !matches!(slot, Ok(Some(_))) {
            for &number in &numbers {
                self.kernel.give_number_back(number);
            }
            self.note_removal();
        }
        let slot = match slot {
            Ok(slot) => slot?,
            Err(problem) => return Some(State::Failed(problem)),
        };
        Some(State::Loaded(Box::new(Loaded {
            unit,
            text,
            slot,
            numbers,
            published: Vec::new(),
            seen: 0,
            used: Instant::now(),
        })))
    }

    /// The slot that a unit's program gets; of a unit that needs none there is none. `None`:
    /// there is none left.
    fn slot_of(&mut self, unit: &Unit) -> std::result::Result<Option<Option<u32>>, String> {
        let program = unit.program.as_ref().filter(|_| !unit.ready.is_empty());
        let Some(program) = program else {
            return Ok(Some(None));
        };
        match self.kernel.add_program(program) {
            Ok(Some(slot)) => Ok(Some(Some(slot))),
            Ok(None) => {
                self.evict();
                Ok(None)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// The script that was called least lately makes room.
    fn evict(&mut self) {
        if std::mem::replace(&mut self.is_evicting, true) {
            return;
        }
        let oldest = self
            .scripts
            .iter()
            .filter_map(|(&name, state)| match state {
                State::Loaded(loaded) if loaded.slot.is_some() => Some((loaded.used, name)),
                _ => None,
            })
            .min();
        if let Some((_, name)) = oldest
            && let Some(State::Loaded(loaded)) = self.scripts.remove(&name)
        {
            tracing::debug!(%name, "a script's program makes room for another one");
            self.unload(*loaded);
        }
    }

    /// Once a second: who was called since? And whose program is of no use?
    pub(crate) fn look_at_use(&mut self) {
        let now = Instant::now();
        let units = self.scripts.values_mut().chain(self.libraries.values_mut());
        for state in units {
            let State::Loaded(loaded) = state else {
                continue;
            };
            let mut calls = 0;
            for place in 0..loaded.numbers.len() {
                let number = loaded.numbers[place];
                let counters = self.kernel.counters(number);
                calls += counters.calls + counters.given_up();
                if gives_up_most(&counters) {
                    loaded.leave(place, &self.kernel);
                    self.removals += 1;
                }
            }
            if calls != loaded.seen {
                loaded.seen = calls;
                loaded.used = now;
            }
        }
    }

    fn unload(&mut self, loaded: Loaded) {
        self.note_removal();
        for name in &loaded.published {
            self.kernel.withdraw(name);
        }
        if let Some(slot) = loaded.slot {
            self.kernel.remove_program(slot);
        }
        for number in loaded.numbers {
            self.kernel.give_number_back(number);
        }
    }

    // ---- Scripts -------------------------------------------------------------------

    /// The interpreter runs a script. Those that are called often are compiled.
    pub(crate) fn note_call(&mut self, script: &Script) {
        if !self.enabled {
            return;
        }
        self.interpreted.note_script(script.name);
        if self.scripts.len() >= COUNTED_MAX {
            self.scripts.retain(|_, state| match state {
                State::Loaded(loaded) => loaded.slot.is_some(),
                State::Compiling => true,
                State::Counting(_) | State::Failed(_) => false,
            });
            let scripts = &self.scripts;
            self.interpreted
                .keep_scripts(|name| scripts.contains_key(name));
        }
        let state = self
            .scripts
            .entry(script.name)
            .or_insert(State::Counting(0));
        if let State::Counting(calls) = state {
            *calls = calls.saturating_add(1);
            if *calls < CALLS_BEFORE || self.queued >= QUEUED_MAX {
                return;
            }
            if script.text.len() > TEXT_MAX {
                *state = State::Failed("its text is too long".into());
                return;
            }
            *state = State::Compiling;
            self.queued += 1;
            self.compiler
                .compile(Kind::Script, script.name, &script.text);
        }
    }

    fn publish_script(&mut self, name: Sha1) {
        if !self.is_quiet() {
            self.waiting.push(name);
            return;
        }
        let Some(State::Loaded(loaded)) = self.scripts.get_mut(&name) else {
            return;
        };
        if !loaded.published.is_empty() {
            return;
        }
        let (Some(slot), Some(ready), Some(&number)) = (
            loaded.slot,
            loaded.unit.ready.first(),
            loaded.numbers.first(),
        ) else {
            return;
        };
        let reads_only = bpfdb_lua::flags(&loaded.text).is_ok_and(|flags| flags.no_writes);
        if reads_only && !ready.reads {
            // It ends in an error.
            return;
        }
        let entry = Entry {
            slot,
            function: ready.number,
            reads: ready.reads,
            read_only_forms: ready.reads,
            number,
        };
        publish(&self.kernel, loaded, Name::Script(name.to_string()), entry);
    }

    /// SCRIPT FLUSH.
    pub(crate) fn forget_scripts(&mut self) {
        self.interpreted.keep_scripts(|_| false);
        for state in std::mem::take(&mut self.scripts).into_values() {
            if let State::Loaded(loaded) = state {
                self.unload(*loaded);
            }
        }
    }

    // ---- Functions -----------------------------------------------------------------

    /// The interpreter runs a function.
    pub(crate) fn note_function(&mut self, name: &[u8]) {
        if self.enabled {
            self.interpreted.note_function(name);
        }
    }

    /// For who is about to change the libraries: true if no function runs in the kernel, nor
    /// will before this thread has served others; else it is to be asked again, soon.
    pub(crate) fn withdraw_functions(&mut self) -> bool {
        self.take_results();
        if self.functions == FunctionsState::Published {
            self.take_functions_back();
            self.withdrawn = self.removals;
        }
        self.functions = FunctionsState::Withdrawn(Instant::now() + PAUSE);
        self.were_changed = true;
        // What is removed from now on is not waited for.
        self.is_quiet() || self.over >= self.withdrawn
    }

    fn take_functions_back(&mut self) {
        for state in self.libraries.values_mut() {
            if let State::Loaded(loaded) = state {
                for name in loaded.published.drain(..) {
                    self.kernel.withdraw(&name);
                    self.removals += 1;
                }
            }
        }
    }

    fn publish_functions(&mut self, functions: &mut Functions) {
        if functions.current().len() == 0 && !self.were_changed {
            self.functions = FunctionsState::Published;
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
        if self.ask_for(&libraries) {
            self.functions = later;
            return;
        }
        self.functions = match self.publish_if_committed(&mut session, functions, &libraries) {
            Ok(true) => FunctionsState::Published,
            // Somebody is changing them, or has.
            Ok(false) | Err(_) => later,
        };
        self.forget_libraries(&libraries);
    }

    /// Has what is missing compiled; true if there is something.
    fn ask_for(&mut self, libraries: &Libraries) -> bool {
        let mut missing = false;
        for library in libraries.all() {
            let name = library.source.sha1();
            let (compiler, queued) = (&self.compiler, &mut self.queued);
            let state = self.libraries.entry(name).or_insert_with(|| {
                *queued += 1;
                compiler.compile(Kind::Library, name, &library.source.text);
                State::Compiling
            });
            missing |= matches!(state, State::Compiling);
        }
        missing
    }

    fn publish_if_committed(
        &mut self,
        session: &mut Session,
        functions: &Functions,
        libraries: &Libraries,
    ) -> std::result::Result<bool, bpfdb::Status> {
        session.begin()?;
        // From here on nobody else writes them.
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
            .filter_map(|(ready, &number)| {
                let function = libraries.function(&ready.name)?;
                may_be_published(ready, function, library).then(|| {
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
            publish(&self.kernel, loaded, name, entry);
        }
    }

    /// What is not there any more.
    fn forget_libraries(&mut self, libraries: &Libraries) {
        self.interpreted
            .keep_functions(|name| libraries.function(name).is_some());
        let there: Vec<Sha1> = libraries.all().map(|one| one.source.sha1()).collect();
        let gone: Vec<Sha1> = self
            .libraries
            .iter()
            .filter(|(name, state)| !there.contains(name) && !matches!(state, State::Compiling))
            .map(|(&name, _)| name)
            .collect();
        for name in gone {
            if let Some(State::Loaded(loaded)) = self.libraries.remove(&name) {
                self.unload(*loaded);
            }
        }
    }
}

fn gives_up_most(counters: &Counters) -> bool {
    let given_up = counters.given_up();
    let all = counters.calls + given_up;
    given_up >= GIVEN_UP_FROM && given_up as f64 > GIVEN_UP_MAX * all as f64
}

impl Loaded {
    /// The function at this place is left to the interpreter.
    fn leave(&mut self, place: usize, kernel: &KernelProcedures) {
        let name = match &self.unit.ready[place].name {
            name if name.is_empty() => self.published.first().cloned(),
            name => Some(Name::Function(name.clone())),
        };
        let Some(name) = name.filter(|name| self.published.contains(name)) else {
            return;
        };
        tracing::info!(
            ?name,
            "a procedure gives up most calls: it is the interpreter's"
        );
        kernel.withdraw(&name);
        self.published.retain(|known| *known != name);
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

fn publish(kernel: &KernelProcedures, loaded: &mut Loaded, name: Name, entry: Entry) {
    match kernel.publish(&name, entry) {
        Ok(true) => loaded.published.push(name),
        Ok(false) => {}
        Err(error) => tracing::error!(%error, ?name, "cannot publish a procedure"),
    }
}

// What a slot is good for.
const _: () = assert!(abi::BPFDB_PROCEDURE_SLOTS > 1);
