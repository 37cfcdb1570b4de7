//! Texts with a program in the kernel: its slot, its counters, its names.

use std::rc::Rc;
use std::time::Instant;

use bpfdb_procedures::Unit;

use super::compiler::Kind;
use super::direct::Direct;
use super::functions::FunctionsState;
use super::{NO_ROOM, Procedures, State};
use crate::kernel::procedures::{Counters, Entry, KernelProcedures, Name};
use crate::scripting::functions::Functions;

/// A procedure that gives up so many of its calls is left to the interpreter: entering the
/// kernel's program in vain costs time.
const GIVEN_UP_MAX: f64 = 0.5;
const GIVEN_UP_FROM: u64 = 1000;

/// A text with a program in the kernel.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) unit: Unit,
    pub(super) text: Vec<u8>,
    /// Of its program; `None`: it has none.
    pub(super) slot: Option<u32>,
    /// Numbers of the counters of its functions.
    pub(super) numbers: Vec<u32>,
    pub(super) published: Vec<Name>,
    /// The same functions for calls of the daemon.
    pub(super) direct: Direct,
    /// What the counters said at the last look, and when that was more than before.
    seen: u64,
    used: Instant,
}

impl Procedures {
    /// Gives a unit a slot and counters.
    pub(super) fn load(&mut self, kind: Kind, mut unit: Unit, text: Vec<u8>) -> State {
        let numbers: Vec<u32> = (0..unit.ready.len())
            .map_while(|_| self.kernel.take_number())
            .collect();
        unit.leave_from(numbers.len(), NO_ROOM);
        if unit.ready.is_empty() {
            // No request would call it, and it takes a descriptor and the kernel's memory.
            unit.program = None;
        }
        let slot = self.slot_of(kind, &unit);
        if !matches!(slot, Ok(Some(_))) {
            for &number in &numbers {
                self.kernel.give_number_back(number);
            }
            self.removals.note();
        }
        let slot = match slot {
            Ok(Some(slot)) => slot,
            Ok(None) => {
                self.some_wait = true;
                return State::Waiting;
            }
            Err(problem) => return State::Failed(problem),
        };
        State::Loaded(Box::new(Loaded {
            unit,
            text,
            slot,
            numbers,
            published: Vec::new(),
            direct: Direct::default(),
            seen: 0,
            used: Instant::now(),
        }))
    }

    /// The slot that a unit's program gets; of a unit that needs none there is none. `None`:
    /// there is none left.
    fn slot_of(
        &mut self,
        kind: Kind,
        unit: &Unit,
    ) -> std::result::Result<Option<Option<u32>>, String> {
        let Some(program) = &unit.program else {
            return Ok(Some(None));
        };
        // Libraries that wait come first.
        if kind == Kind::Script && self.kernel.free_programs() <= self.expected_libraries() {
            self.make_room();
            return Ok(None);
        }
        let slot = self.kernel.add_program(program);
        let slot = slot.map_err(|error| error.to_string())?;
        if slot.is_none() {
            self.make_room();
        }
        Ok(slot.map(Some))
    }

    /// Libraries that may be compiled now: each may need a slot then.
    pub(super) fn room_for_libraries(&self) -> usize {
        let states = self.libraries.values();
        let compiling = states.filter(|state| matches!(state, State::Compiling));
        self.kernel
            .free_programs()
            .saturating_sub(compiling.count())
    }

    /// Libraries that may need a slot soon.
    fn expected_libraries(&self) -> usize {
        let states = self.libraries.values();
        states
            .filter(|state| matches!(state, State::Compiling | State::Waiting))
            .count()
    }

    /// The script that was called least lately makes room, unless some is about to be free.
    pub(super) fn make_room(&mut self) {
        if self.is_evicting || self.kernel.frees_programs() {
            return;
        }
        let loaded = self
            .scripts
            .iter()
            .filter_map(|(&name, state)| match state {
                State::Loaded(loaded) if loaded.slot.is_some() => Some((loaded.used, name)),
                _ => None,
            });
        if let Some((_, name)) = loaded.min()
            && let Some(State::Loaded(loaded)) = self.scripts.remove(&name)
        {
            tracing::debug!(%name, "a script's program makes room for another one");
            self.is_evicting = true;
            self.unload(*loaded);
        }
    }

    /// When there is room again, those that wait are compiled again: libraries at once, scripts
    /// when they are called some more.
    pub(super) fn give_room(&mut self, functions: &Functions) {
        // A thread that is about to change the functions waits for those that were withdrawn, and for no others.
        let is_changing = matches!(self.functions, FunctionsState::Withdrawn(_));
        if !self.some_wait || is_changing || !self.is_quiet() {
            return;
        }
        self.reuse();
        if self.room_for_libraries() == 0 {
            return;
        }
        let waits = |state: &State| matches!(state, State::Waiting);
        if self.libraries.values().any(waits) {
            self.libraries.retain(|_, state| !waits(state));
            // Those that are not the committed ones any more are forgotten soon.
            let libraries = Rc::clone(functions.current());
            self.ask_for(&libraries);
            return;
        }
        self.scripts.retain(|_, state| !waits(state));
        self.some_wait = false;
    }

    /// Once a second: which was called since? And which program is of no use?
    pub(crate) fn look_at_use(&mut self) {
        let now = Instant::now();
        let units = self.scripts.values_mut().chain(self.libraries.values_mut());
        for state in units {
            let State::Loaded(loaded) = state else {
                continue;
            };
            let mut calls = 0;
            for place in 0..loaded.numbers.len() {
                let counters = loaded.counters(place, &self.kernel);
                calls += counters.calls + counters.given_up();
                if gives_up_most(&counters) && loaded.leave(place, &self.kernel) {
                    self.removals.note();
                }
            }
            if calls != loaded.seen {
                loaded.seen = calls;
                loaded.used = now;
            }
        }
    }

    pub(super) fn unload(&mut self, loaded: Loaded) {
        self.removals.note();
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
}

pub(super) fn gives_up_most(counters: &Counters) -> bool {
    let given_up = counters.given_up();
    let all = counters.calls + given_up;
    given_up >= GIVEN_UP_FROM && given_up as f64 > GIVEN_UP_MAX * all as f64
}

impl Loaded {
    /// Requests with this name run it from now on.
    pub(super) fn publish(&mut self, kernel: &KernelProcedures, name: Name, entry: Entry) {
        match kernel.publish(&name, entry) {
            Ok(true) => self.published.push(name),
            Ok(false) => {}
            Err(error) => tracing::error!(%error, ?name, "cannot publish a procedure"),
        }
    }

    /// Do requests run this function in the kernel? A script's name is empty.
    pub(super) fn is_published(&self, function: &[u8]) -> bool {
        self.published.iter().any(|known| match known {
            Name::Function(known) => *known == function,
            Name::Script(_) => true,
        })
    }

    /// What was counted of the function at this place, on every way into the kernel.
    pub(super) fn counters(&self, place: usize, kernel: &KernelProcedures) -> Counters {
        let mut counters = kernel.counters(self.numbers[place]);
        if let Some(direct) = self.direct.counters(place) {
            counters.add_all(direct);
        }
        counters
    }

    /// The function at this place is left to the interpreter. False: it was before.
    fn leave(&mut self, place: usize, kernel: &KernelProcedures) -> bool {
        let name = match &self.unit.ready[place].name {
            name if name.is_empty() => self.published.first().cloned(),
            name => Some(Name::Function(name.clone())),
        };
        let Some(name) = name.filter(|name| self.published.contains(name)) else {
            return false;
        };
        tracing::info!(
            ?name,
            "most calls of a procedure are deoptimised: it is left to the interpreter"
        );
        kernel.withdraw(&name);
        self.published.retain(|known| *known != name);
        true
    }
}
