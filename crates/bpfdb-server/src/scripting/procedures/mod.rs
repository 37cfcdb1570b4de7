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
//! ```text
//! scripts.rs    functions.rs   what is compiled, and when it is published and withdrawn
//! loaded.rs     the program of a text: its slot, its counters, whether it is of use
//! direct.rs     calls that the daemon has the kernel run
//! removals.rs   what was taken out of the kernel's tables
//! compiler.rs   the thread that compiles
//! ```
//!
//! Invariants
//!  1. *A call never runs a function that is not the committed one.* Functions are published
//!     in a transaction that has a shared lock on the libraries and has compared their token,
//!     and only this thread publishes. A thread that changes the libraries withdraws all functions
//!     first, and waits until every call that has begun is over; it takes the exclusive lock in
//!     the same step as it finds that out. So nothing is published in between. Only another
//!     process that writes the libraries (`bpfdb restore`) cannot do so: what it has replaced is
//!     withdrawn within a fifth of a second.
//!  2. *A call runs what it has found.* What is taken out of the kernel's tables leaves its place
//!     empty until all calls have ended that had begun by then (a grace period): nothing is
//!     published before.
//!  3. *What the kernel gives up, the interpreter runs*: a call is answered either way.
//!  4. A script is its text: its program can never be wrong, only useless.
//!  5. There are at most [`abi::BPFDB_PROCEDURE_SLOTS`] programs; scripts that were not called
//!     lately make room for others.

mod compiler;
mod direct;
mod functions;
mod interpreted;
mod loaded;
mod removals;
mod scripts;
mod shown;

use std::time::Instant;

use bpfdb::{Engine, abi};
use bpfdb_lua::Sha1;
use bpfdb_procedures::Unit;
use rustc_hash::FxHashMap;

use self::compiler::{Compiler, Done, Kind, SharedMap};
pub(crate) use self::direct::{DirectCall, DirectKind};
use self::functions::FunctionsState;
use self::interpreted::Interpreted;
use self::loaded::Loaded;
use self::removals::Removals;
pub(crate) use self::shown::{Shown, Totals};
use super::functions::Functions;
use crate::error::Result;
use crate::io::bell::Bell;
use crate::kernel::procedures::{Counters, KernelProcedures};

const NO_ROOM: &str = "the limit of procedures in the kernel is reached";

/// What has become of a text.
#[derive(Debug)]
enum State {
    /// Calls so far.
    Counting(u32),
    Compiling,
    Loaded(Box<Loaded>),
    /// There was no room for its program. It is compiled again when there is some.
    Waiting,
    /// Why there is no program.
    Failed(String),
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
    removals: Removals,
    /// How many there were when functions were taken back last.
    withdrawn: u64,
    /// Looks at the functions since one that found what they are.
    vain_looks: u32,
    /// The functions were changed since the server began.
    were_changed: bool,
    /// Some library was compiled since the last look at what is not there any more.
    some_may_be_gone: bool,
    /// Texts that are to be compiled.
    queued: usize,
    /// A program makes room, but its slot is not free yet.
    is_evicting: bool,
    /// Some texts are [`State::Waiting`].
    some_wait: bool,
    engine: Engine,
    interpreted: Interpreted,
    /// Of calls that the daemon had the kernel run, also of procedures that are gone.
    called: Counters,
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
            removals: Removals::default(),
            withdrawn: 0,
            vain_looks: 0,
            were_changed: false,
            some_may_be_gone: false,
            queued: 0,
            is_evicting: false,
            some_wait: false,
            engine: engine.clone(),
            interpreted: Interpreted::default(),
            called: Counters::none(),
            enabled,
        })
    }

    /// When [`Procedures::work`] has something to do without being rung for.
    pub(crate) fn due(&self) -> Option<Instant> {
        match self.functions {
            FunctionsState::Due(at) | FunctionsState::Withdrawn(at) if self.enabled => Some(at),
            FunctionsState::Published { look, .. } if self.are_published() => Some(look),
            _ => None,
        }
    }

    /// Takes in what was compiled, and publishes what is to be. Often.
    pub(crate) fn work(&mut self, functions: &mut Functions) {
        self.take_results();
        self.give_room(functions);
        self.look_for_others(functions);
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
        self.forget_what_is_gone(functions);
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
                    self.compiler.has_compiled(name);
                    self.take_unit(kind, name, text, unit);
                }
                Done::Direct(kind, name, library) => {
                    self.queued -= 1;
                    self.take_direct(kind, name, library);
                }
                Done::Forgotten => self.queued -= 1,
                Done::Grace(removals) => {
                    self.removals.end(removals);
                    if self.is_quiet() {
                        self.reuse();
                        self.publish_soon();
                        for name in std::mem::take(&mut self.waiting) {
                            self.publish_script(name);
                        }
                    }
                }
            }
        }
    }

    /// What was removed is free.
    fn reuse(&mut self) {
        self.kernel.reuse();
        self.is_evicting = false;
    }

    /// Have all calls ended that may have found what was removed?
    fn is_quiet(&mut self) -> bool {
        self.removals.all_are_over(&self.compiler)
    }

    /// It was forgotten meanwhile, or else was compiled before.
    fn is_wanted(&self, kind: Kind, name: &Sha1) -> bool {
        let units = match kind {
            Kind::Script => &self.scripts,
            Kind::Library => &self.libraries,
        };
        matches!(units.get(name), Some(State::Compiling))
    }

    fn take_unit(
        &mut self,
        kind: Kind,
        name: Sha1,
        text: Vec<u8>,
        unit: std::result::Result<Box<Unit>, String>,
    ) {
        if !self.is_wanted(kind, &name) {
            return;
        }
        let state = match unit {
            Ok(unit) => self.load(kind, *unit, text),
            Err(problem) => {
                tracing::warn!(%name, problem, "a procedure stays with the interpreter");
                State::Failed(problem)
            }
        };
        let units = match kind {
            Kind::Script => &mut self.scripts,
            Kind::Library => &mut self.libraries,
        };
        let has_program = matches!(&state, State::Loaded(loaded) if loaded.slot.is_some());
        units.insert(name, state);
        match kind {
            Kind::Script => self.publish_script(name),
            Kind::Library => {
                self.some_may_be_gone = true;
                if has_program {
                    self.note_library();
                }
            }
        }
    }
}

// What a slot is good for.
const _: () = assert!(abi::BPFDB_PROCEDURE_SLOTS > 1);
