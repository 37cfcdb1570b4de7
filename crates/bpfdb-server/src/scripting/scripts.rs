//! The scripts that clients have sent, and the states of Lua that run them.
//!
//! A state runs one call at a time, so there are as many as there are calls on their way; some
//! are kept for the next ones.

use std::mem;
use std::rc::Rc;

use bpfdb_lua::{Answer, Call, Flags, Limits, Random, Sha1, Step, Vm};
use rustc_hash::FxHashMap;

/// Bytes of all scripts together, with what is kept beside each. Then all are forgotten, as after
/// SCRIPT FLUSH: clients get NOSCRIPT, and send theirs again.
const TEXTS_MAX: usize = 256 << 20;
/// Bytes of a script, or a library. A script is compiled at once, while no other client is served: in up to
/// 50 ms, and one that takes more than 250 ms is refused.
pub(crate) const TEXT_MAX: usize = 1 << 20;
/// Calls that may be on their way. Each may take the memory of [`Limits::memory`].
const CALLS_MAX: usize = 64;
/// States that are kept for calls to come, and the most bytes that such a state may have.
const IDLE_MAX: usize = 8;
const IDLE_BYTES_MAX: usize = 8 << 20;
/// Functions of libraries that such a state may have loaded, old versions included. It has room for some
/// 7,900, and the next call may load as many as there are: [`FUNCTIONS_MAX`](super::functions::FUNCTIONS_MAX).
const IDLE_FUNCTIONS_MAX: usize = 3800;

#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: Sha1,
    pub(crate) text: Vec<u8>,
    pub(crate) flags: Flags,
}

#[derive(Debug, Default)]
pub(crate) struct Scripts {
    /// By names that clients cannot choose to collide.
    by_name: FxHashMap<Sha1, Rc<Script>>,
    bytes: usize,
    idle: Vec<Vm>,
    /// Of all states: as in Redis, scripts draw one after the other, whichever runs them.
    random: Rc<Random>,
    /// See [`Scripts::take_forgotten`].
    has_forgotten: bool,
    /// Of each call on its way another owner, by kinds; then of each library that is being loaded.
    calls: [Rc<()>; 3],
    kills: [u64; 2],
    /// Of each call that has not ended, with a state or waiting for one, another owner, by kinds.
    under_way: [Rc<()>; 2],
}

/// See [`Scripts::under_way`].
pub(crate) type UnderWay = Rc<()>;

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Script,
    Function,
}

/// Behind the kinds of calls.
const LOADS: usize = 2;

/// A state of Lua for one call.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) vm: Vm,
    _counted: Rc<()>,
}

impl Scripts {
    /// The script of this name, which a client has sent before.
    pub(crate) fn find(&self, name: Sha1) -> Option<Rc<Script>> {
        self.by_name.get(&name).cloned()
    }

    /// Keeps a script. The same one is kept once.
    ///
    /// # Errors
    /// What is wrong with it, as Redis words it.
    pub(crate) fn load(&mut self, text: &[u8]) -> Result<Rc<Script>, String> {
        // Before its sum is computed: of half a gigabyte that takes a second.
        if text.len() > TEXT_MAX {
            return Err(format!("ERR a script may have {} MiB", TEXT_MAX >> 20));
        }
        let name = Sha1::of(text);
        if let Some(known) = self.find(name) {
            return Ok(known);
        }
        let flags = bpfdb_lua::flags(text).map_err(|problem| format!("ERR {problem}"))?;
        self.compile(name, text)?;
        if self.bytes() + text.len() > TEXTS_MAX {
            self.flush();
            self.has_forgotten = true;
        }
        self.bytes += text.len();
        let script = Rc::new(Script {
            name,
            text: text.to_vec(),
            flags,
        });
        self.by_name.insert(name, Rc::clone(&script));
        Ok(script)
    }

    fn compile(&mut self, name: Sha1, text: &[u8]) -> Result<(), String> {
        let Some(mut machine) = self.machine(Kind::Script) else {
            return Err("ERR too many scripts are running".into());
        };
        let outcome = machine.vm.compile(name, text);
        self.give_back(machine);
        outcome.map_err(|problem| format!("ERR Error compiling script (new function): {problem}"))
    }

    /// A state of Lua; `None` while as many calls are on their way as may be, or without memory.
    pub(crate) fn machine(&mut self, kind: Kind) -> Option<Machine> {
        self.take_machine(kind as usize)
    }

    /// The same to load a library. No command kills that: it ends by itself.
    pub(crate) fn machine_to_load(&mut self) -> Option<Machine> {
        self.take_machine(LOADS)
    }

    fn take_machine(&mut self, kind: usize) -> Option<Machine> {
        let all: usize = self
            .calls
            .iter()
            .map(|calls| Rc::strong_count(calls) - 1)
            .sum();
        if all >= CALLS_MAX {
            return None;
        }
        let vm = match self.idle.pop() {
            Some(vm) => vm,
            None => Vm::sharing(Limits::default(), &self.random).ok()?,
        };
        Some(Machine {
            vm,
            _counted: Rc::clone(&self.calls[kind]),
        })
    }

    /// Its call has ended.
    pub(crate) fn give_back(&mut self, machine: Machine) {
        let vm = machine.vm;
        if !vm.is_running() && may_be_kept(&vm) && self.idle.len() < IDLE_MAX {
            self.idle.push(vm);
        }
    }

    /// SCRIPT FLUSH: none is known any more. Calls on their way go on.
    pub(crate) fn flush(&mut self) {
        self.by_name = FxHashMap::default();
        self.idle = Vec::new();
        self.bytes = 0;
    }

    /// Were all scripts forgotten to make room for one, since this was asked last? Then the kernel
    /// must not know them either.
    pub(crate) fn take_forgotten(&mut self) -> bool {
        std::mem::take(&mut self.has_forgotten)
    }

    /// SCRIPT KILL, FUNCTION KILL: all calls of this kind that have not ended are to end. False if there
    /// are none.
    pub(crate) fn kill(&mut self, kind: Kind) -> bool {
        self.kills[kind as usize] += 1;
        Rc::strong_count(&self.under_way[kind as usize]) > 1
    }

    /// For as long as a call has not ended.
    pub(crate) fn under_way(&self, kind: Kind) -> UnderWay {
        Rc::clone(&self.under_way[kind as usize])
    }

    /// Another number after each such command.
    pub(crate) fn kills(&self, kind: Kind) -> u64 {
        self.kills[kind as usize]
    }

    /// Scripts that are kept.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Bytes of their texts, and what is kept beside each.
    pub(crate) fn bytes(&self) -> usize {
        // Two allocations, their counters, and a place in a table that is half full.
        const EACH: usize = mem::size_of::<Script>() + 128;
        self.bytes + self.len() * EACH
    }

    /// Bytes of the states of Lua that wait for calls.
    pub(crate) fn idle_bytes(&self) -> usize {
        self.idle.iter().map(Vm::memory).sum()
    }
}

/// Is there room for other calls in a state whose call has ended?
pub(crate) fn may_be_kept(vm: &Vm) -> bool {
    vm.registered() <= IDLE_FUNCTIONS_MAX && vm.memory_collected(IDLE_BYTES_MAX) <= IDLE_BYTES_MAX
}

/// A call goes on; what it has logged is written.
pub(crate) fn resume(call: &mut Call, answer: Answer) -> Step {
    let step = call.resume(answer);
    write_log(call);
    step
}

fn write_log(call: &Call) {
    for (level, text) in call.take_log() {
        let text = String::from_utf8_lossy(&text);
        match level {
            0 => tracing::debug!(%text, "a script says"),
            1 | 2 => tracing::info!(%text, "a script says"),
            _ => tracing::warn!(%text, "a script says"),
        }
    }
}
