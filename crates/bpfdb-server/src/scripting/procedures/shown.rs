//! Procedures as PROCEDURES and `bpfdb procedures` show them.

use bpfdb::{DEOPTIMISATIONS, abi};
use bpfdb_lua::Sha1;
use bpfdb_procedures::Ready;

use super::functions::FunctionsState;
use super::loaded::{Loaded, gives_up_most};
use super::{NO_ROOM, Procedures, State};
use crate::kernel::procedures::Counters;
use crate::stats::procedures::{AllProcedures, ProcedureFigures, Programs};

/// Which side runs the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    Kernel,
    Daemon,
    /// Its program is being made.
    Compiling,
}

impl Path {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Daemon => "daemon",
            Self::Compiling => "compiling",
        }
    }
}

/// A function or a script.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) kind: &'static str,
    /// Of a function; SHA-1 of a script, or of the library whose text could not be read.
    pub(crate) name: String,
    pub(crate) path: Path,
    pub(crate) counters: Counters,
    /// Of its calls those that the daemon had the kernel run.
    pub(crate) called: u64,
    /// Calls that the interpreter ran, whether the kernel had begun them or not.
    pub(crate) interpreted: u64,
    /// Of its program, which it may share with others of its library: instructions that the
    /// verifier processed, bytes of machine code, instructions of all bodies.
    pub(crate) verified: u32,
    pub(crate) machine_code: u32,
    pub(crate) generated: u32,
    /// From the text to the program, microseconds.
    pub(crate) compile_time: u64,
    /// Why the kernel does not run it, with lines if that is for its text.
    pub(crate) reasons: Vec<String>,
}

impl Shown {
    fn new(kind: &'static str, name: String, path: Path) -> Self {
        Self {
            kind,
            name,
            path,
            counters: Counters::default(),
            called: 0,
            interpreted: 0,
            verified: 0,
            machine_code: 0,
            generated: 0,
            compile_time: 0,
            reasons: Vec::new(),
        }
    }

    fn into_figures(self) -> ProcedureFigures {
        ProcedureFigures {
            name: self.name,
            kind: self.kind,
            kernel: self.counters.calls,
            daemon: self.interpreted,
            retries: self.counters.conflicts,
        }
    }

    /// Reasons why calls were given up, and how many.
    pub(crate) fn deoptimisations(&self) -> impl Iterator<Item = (&'static str, u64)> {
        by_reason(&self.counters).filter(|&(_, count)| count > 0)
    }
}

/// Calls that were given up, by every reason that there is.
fn by_reason(counters: &Counters) -> impl Iterator<Item = (&'static str, u64)> {
    DEOPTIMISATIONS
        .iter()
        .zip(&counters.deoptimisations)
        .map(|(one, &count)| (one.name, count))
}

/// All procedures together.
#[derive(Debug)]
pub(crate) struct Totals {
    pub(crate) programs: Programs,
    /// Since the server began, also of procedures that are gone.
    pub(crate) counters: Counters,
    pub(crate) interpreted: u64,
}

impl Totals {
    /// By every reason, among them the Errors of the engine.
    pub(crate) fn deoptimisations(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let errors = ("engine_error", self.counters.errors);
        by_reason(&self.counters).chain([errors])
    }
}

impl Procedures {
    /// All that are known, functions first.
    pub(crate) fn shown(&self) -> Vec<Shown> {
        let libraries = self
            .libraries
            .iter()
            .map(|(name, state)| (name, state, "function"));
        let scripts = self
            .scripts
            .iter()
            .map(|(name, state)| (name, state, "script"));
        let mut all: Vec<Shown> = libraries
            .chain(scripts)
            .flat_map(|(&name, state, kind)| self.shown_of(kind, name, state))
            .collect();
        all.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
        all
    }

    /// For the metrics: those with a program one by one.
    pub(crate) fn figures(&self) -> AllProcedures {
        let all = self.shown().into_iter();
        let each = all.filter(|one| one.verified > 0);
        let totals = self.totals();
        AllProcedures {
            each: each.map(Shown::into_figures).collect(),
            programs: totals.programs,
            deoptimisations: totals.deoptimisations().collect(),
        }
    }

    /// Programs and counters of all.
    pub(crate) fn totals(&self) -> Totals {
        let units = self.libraries.values().chain(self.scripts.values());
        let loaded = units.filter_map(|state| match state {
            State::Loaded(loaded) => Some(loaded),
            _ => None,
        });
        let sizes: Vec<u64> = loaded
            .flat_map(|loaded| {
                let own = loaded.slot.and(loaded.unit.program.as_ref());
                [own, loaded.direct.program()]
            })
            .flatten()
            .map(|program| program.machine_code.into())
            .collect();
        let mut counters = self.kernel.all_counters();
        counters.add_all(&self.called);
        Totals {
            programs: Programs {
                number: sizes.len() as u64,
                machine_code: sizes.iter().sum(),
            },
            counters,
            interpreted: self.interpreted.all(),
        }
    }

    fn shown_of(&self, kind: &'static str, sha1: Sha1, state: &State) -> Vec<Shown> {
        let whole = |path| Shown {
            interpreted: self.interpreted.script(sha1),
            ..Shown::new(kind, sha1.to_string(), path)
        };
        match state {
            // Not worth a line: it may never be called again.
            State::Counting(_) => Vec::new(),
            State::Compiling => vec![whole(Path::Compiling)],
            State::Waiting => vec![Shown {
                reasons: vec![NO_ROOM.to_owned()],
                ..whole(Path::Daemon)
            }],
            State::Failed(problem) => vec![Shown {
                reasons: vec![problem.clone()],
                ..whole(Path::Daemon)
            }],
            State::Loaded(loaded) => self.shown_unit(kind, sha1, loaded),
        }
    }

    fn shown_unit(&self, kind: &'static str, sha1: Sha1, loaded: &Loaded) -> Vec<Shown> {
        let shown = |name: &[u8], path| match name.is_empty() {
            true => Shown {
                interpreted: self.interpreted.script(sha1),
                ..Shown::new(kind, sha1.to_string(), path)
            },
            false => Shown {
                interpreted: self.interpreted.function(name),
                ..Shown::new(kind, String::from_utf8_lossy(name).into_owned(), path)
            },
        };
        let program = loaded.unit.program.as_ref();
        let ready = loaded.unit.ready.iter().take(loaded.numbers.len());
        let ready = ready.enumerate().map(|(place, ready)| {
            let path = if loaded.is_published(&ready.name) {
                Path::Kernel
            } else {
                Path::Daemon
            };
            let counters = loaded.counters(place, &self.kernel);
            let called = loaded.direct.counters(place);
            Shown {
                reasons: match path {
                    Path::Daemon => self.why_not_published(ready, &counters),
                    _ => Vec::new(),
                },
                counters,
                called: called.map_or(0, |called| called.calls),
                verified: program.map_or(0, |program| program.verified),
                machine_code: [program, loaded.direct.program()]
                    .iter()
                    .flatten()
                    .map(|program| program.machine_code)
                    .sum(),
                generated: program.map_or(0, |program| program.generated),
                compile_time: loaded.unit.time.as_micros() as u64,
                ..shown(&ready.name, path)
            }
        });
        let left = loaded.unit.left.iter().map(|left| Shown {
            reasons: left.reasons.iter().map(ToString::to_string).collect(),
            ..shown(&left.name, Path::Daemon)
        });
        ready.chain(left).collect()
    }

    /// What keeps a procedure out of the kernel that has a program; nothing is said of the
    /// moment in which functions are being changed.
    fn why_not_published(&self, ready: &Ready, counters: &Counters) -> Vec<String> {
        let name_max = abi::BPFDB_CALL_NAME_MAX as usize;
        let reason = if !self.enabled {
            "compile-procedures is off".into()
        } else if ready.name.len() > name_max {
            format!("its name is longer than {name_max} bytes")
        } else if gives_up_most(counters) {
            "most calls were deoptimised".into()
        } else if !ready.reads && matches!(self.functions, FunctionsState::Published { .. }) {
            "it writes, and has the flag no-writes".into()
        } else {
            return Vec::new();
        };
        vec![reason]
    }

    /// The operations of a procedure, and the program with its lines of Lua; `None`: it has
    /// none.
    pub(crate) fn listing(&self, name: &[u8]) -> Option<String> {
        let all = self.libraries.iter().chain(&self.scripts);
        for (sha1, state) in all {
            let State::Loaded(loaded) = state else {
                continue;
            };
            let is_script = sha1.to_string().as_bytes() == name;
            let found = loaded
                .unit
                .ready
                .iter()
                .find(|ready| ready.name == name || (is_script && ready.name.is_empty()));
            if let Some(ready) = found {
                let program = loaded.unit.listing(&loaded.text);
                return Some(format!("{}\n{program}", ready.form()));
            }
        }
        None
    }
}
