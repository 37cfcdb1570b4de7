//! Texts with a program in the kernel: its slot, its counters, its names.

use std::time::Instant;

use bpfdb_procedures::Unit;

use super::direct::Direct;
use super::{NO_ROOM, Procedures, State};
use crate::kernel::procedures::{Counters, Entry, KernelProcedures, Name};

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
    /// What the counters said when somebody looked last, and when that was more than before.
    seen: u64,
    used: Instant,
}

impl Procedures {
    /// Gives a unit a slot and counters. `None`: there is no slot, and a script makes room: it is to
    /// be compiled again.
    pub(super) fn load(&mut self, mut unit: Unit, text: Vec<u8>) -> Option<State> {
        let numbers: Vec<u32> = (0..unit.ready.len())
            .map_while(|_| self.kernel.take_number())
            .collect();
        unit.leave_from(numbers.len(), NO_ROOM);
        if unit.ready.is_empty() {
            // Nobody would call it, and it takes a descriptor and the kernel's memory.
            unit.program = None;
        }
        let slot = self.slot_of(&unit);
        if !matches!(slot, Ok(Some(_))) {
            for &number in &numbers {
                self.kernel.give_number_back(number);
            }
            self.removals.note();
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
            direct: Direct::default(),
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
            // Somebody asks again when there is room.
            Ok(None) if self.evict() => Ok(None),
            Ok(None) => Err(NO_ROOM.into()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The script that was called least lately makes room. False: there is none.
    fn evict(&mut self) -> bool {
        if self.is_evicting {
            return true;
        }
        let oldest = self
            .scripts
            .iter()
            .filter_map(|(&name, state)| match state {
                State::Loaded(loaded) if loaded.slot.is_some() => Some((loaded.used, name)),
                _ => None,
            })
            .min();
        let Some((_, name)) = oldest else {
            return false;
        };
        if let Some(State::Loaded(loaded)) = self.scripts.remove(&name) {
            tracing::debug!(%name, "a script's program makes room for another one");
            self.unload(*loaded);
        }
        self.is_evicting = true;
        true
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
                let counters = loaded.counters(place, &self.kernel);
                calls += counters.calls + counters.given_up();
                if gives_up_most(&counters) {
                    loaded.leave(place, &self.kernel);
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

    /// What was counted of the function at this place, whoever had the kernel run it.
    pub(super) fn counters(&self, place: usize, kernel: &KernelProcedures) -> Counters {
        let mut counters = kernel.counters(self.numbers[place]);
        if let Some(direct) = self.direct.counters(place) {
            counters.add_all(direct);
        }
        counters
    }

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
