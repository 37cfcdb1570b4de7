//! Procedures as PROCEDURES and `bpfdb procedures` show them.

use bpfdb::DEOPTIMISATIONS;

use super::{Loaded, Procedures, State};
use crate::kernel::procedures::{Counters, Name};

/// Who runs the calls.
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
    /// Of its program, which it may share with others of its library: instructions that the
    /// verifier processed, bytes of machine code, instructions of all bodies.
    pub(crate) verified: u32,
    pub(crate) machine_code: u32,
    pub(crate) generated: u32,
    /// From the text to the program, microseconds.
    pub(crate) compile_time: u64,
    /// Why it has no program, each with its line.
    pub(crate) reasons: Vec<String>,
}

impl Shown {
    fn new(kind: &'static str, name: String, path: Path) -> Self {
        Self {
            kind,
            name,
            path,
            counters: Counters::default(),
            verified: 0,
            machine_code: 0,
            generated: 0,
            compile_time: 0,
            reasons: Vec::new(),
        }
    }

    /// Names of reasons why calls were given up, and how many.
    pub(crate) fn deoptimisations(&self) -> impl Iterator<Item = (&'static str, u64)> {
        DEOPTIMISATIONS
            .iter()
            .zip(&self.counters.deoptimisations)
            .filter(|&(_, &count)| count > 0)
            .map(|(one, &count)| (one.name, count))
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
            .flat_map(|(name, state, kind)| self.shown_of(kind, &name.to_string(), state))
            .collect();
        all.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
        all
    }

    fn shown_of(&self, kind: &'static str, sha1: &str, state: &State) -> Vec<Shown> {
        match state {
            // Not worth a line: it may never be called again.
            State::Counting(_) => Vec::new(),
            State::Compiling => vec![Shown::new(kind, sha1.into(), Path::Compiling)],
            State::Failed(problem) => vec![Shown {
                reasons: vec![problem.clone()],
                ..Shown::new(kind, sha1.into(), Path::Daemon)
            }],
            State::Loaded(loaded) => self.shown_unit(kind, sha1, loaded),
        }
    }

    fn shown_unit(&self, kind: &'static str, sha1: &str, loaded: &Loaded) -> Vec<Shown> {
        let name = |bytes: &[u8]| match bytes.is_empty() {
            true => sha1.to_owned(),
            false => String::from_utf8_lossy(bytes).into_owned(),
        };
        let program = loaded.unit.program.as_ref();
        let ready = loaded.unit.ready.iter().zip(&loaded.numbers);
        let ready = ready.map(|(ready, &number)| {
            let is_published = loaded.published.iter().any(|known| match known {
                Name::Function(known) => *known == ready.name,
                Name::Script(_) => true,
            });
            let path = if is_published {
                Path::Kernel
            } else {
                Path::Daemon
            };
            Shown {
                counters: self.kernel.counters(number),
                verified: program.map_or(0, |program| program.verified),
                machine_code: program.map_or(0, |program| program.machine_code),
                generated: program.map_or(0, |program| program.generated),
                compile_time: loaded.unit.time.as_micros() as u64,
                ..Shown::new(kind, name(&ready.name), path)
            }
        });
        let left = loaded.unit.left.iter().map(|left| Shown {
            reasons: left.reasons.iter().map(ToString::to_string).collect(),
            ..Shown::new(kind, name(&left.name), Path::Daemon)
        });
        ready.chain(left).collect()
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
                return Some(format!("{}\n{program}", ready.function));
            }
        }
        None
    }
}
