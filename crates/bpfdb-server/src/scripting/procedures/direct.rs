//! Compiled procedures that the daemon has the kernel run, by a system call: for requests that
//! the programs at the connections do not see, or leave to the daemon whatever they are (EVAL,
//! Unix-domain sockets, clients that wait for the log).
//!
//! ```text
//! called ──8 times──► compiling ──► ready
//!                         └───────► failed: the interpreter's
//! ```
//!
//! Invariants
//!  1. Only what is published is called: a function is the committed one then, since it is
//!     withdrawn, on this thread, before that changes. The call is over before this thread
//!     does anything else.
//!  2. What has no reply has left nothing, and the interpreter runs it.

use std::time::Instant;

use bpfdb::{DEOPTIMISATIONS, Database, Session};
use bpfdb_lua::Sha1;
use bpfdb_procedures::inside::{CallError, Calls, Failure, Library, ReplyRef};
use bpfdb_procedures::load::Program;

use super::compiler::{Caller, Kind};
use super::loaded::Loaded;
use super::scripts::{CALLS_BEFORE, QUEUED_MAX};
use super::{Procedures, State};
use crate::kernel::procedures::Counters;

/// What has become of a text for the daemon.
#[derive(Debug)]
pub(super) enum Direct {
    /// Calls that it might have executed so far.
    Counting(u32),
    Compiling,
    Ready(Box<Callable>),
    Failed,
}

/// Functions that the daemon can call.
#[derive(Debug)]
pub(super) struct Callable {
    library: Library,
    /// One call; it keeps its memory.
    calls: Calls,
    /// Of the functions of the text, in the order of its unit.
    counters: Vec<Counters>,
}

/// A call, as the interpreter would be given it.
#[derive(Debug)]
pub(crate) struct DirectCall<'a> {
    pub(crate) kind: DirectKind,
    /// Of the script, or of the library.
    pub(crate) text: Sha1,
    /// Of a script it is empty.
    pub(crate) function: &'a [u8],
    /// It may not write.
    pub(crate) reads_only: bool,
    /// Its client is synchronous.
    pub(crate) is_sync: bool,
    pub(crate) keys: &'a [Vec<u8>],
    pub(crate) arguments: &'a [Vec<u8>],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirectKind {
    Script,
    Function,
}

impl Default for Direct {
    fn default() -> Self {
        Self::Counting(0)
    }
}

impl Direct {
    pub(super) fn counters(&self, place: usize) -> Option<&Counters> {
        match self {
            Self::Ready(callable) => callable.counters.get(place),
            _ => None,
        }
    }

    pub(super) fn program(&self) -> Option<&Program> {
        match self {
            Self::Ready(callable) => callable.library.unit().program.as_ref(),
            _ => None,
        }
    }
}

impl Procedures {
    /// Has the kernel run a call, as a transaction of its own, and waits for its end: its
    /// reply. `None`: it has left nothing, and the interpreter is to run it.
    pub(crate) fn call(
        &mut self,
        call: &DirectCall<'_>,
        session: &mut Session,
    ) -> Option<ReplyRef<'_>> {
        if session.database() != Database::default() {
            // Such a call has no field that names it.
            return None;
        }
        let units = match call.kind {
            DirectKind::Script => &mut self.scripts,
            DirectKind::Function => &mut self.libraries,
        };
        let Some(State::Loaded(loaded)) = units.get_mut(&call.text) else {
            return None;
        };
        let place = loaded.place_of(call)?;
        if let Direct::Counting(calls) = &mut loaded.direct {
            *calls += 1;
            if *calls >= CALLS_BEFORE && self.queued < QUEUED_MAX {
                loaded.direct = Direct::Compiling;
                self.queued += 1;
                let kind = match call.kind {
                    DirectKind::Script => Kind::Script,
                    DirectKind::Function => Kind::Library,
                };
                self.compiler
                    .compile(Caller::Daemon, kind, call.text, &loaded.text);
            }
        }
        let Direct::Ready(callable) = &mut loaded.direct else {
            return None;
        };
        callable.call(call, place, session, &mut self.called)
    }

    /// A program for the daemon is there, or why there is none.
    pub(super) fn take_direct(
        &mut self,
        kind: Kind,
        name: Sha1,
        library: Result<Box<Library>, String>,
    ) {
        let units = match kind {
            Kind::Script => &mut self.scripts,
            Kind::Library => &mut self.libraries,
        };
        // Else it was forgotten meanwhile.
        if let Some(State::Loaded(loaded)) = units.get_mut(&name)
            && matches!(loaded.direct, Direct::Compiling)
        {
            loaded.direct = match library {
                Ok(library) => Direct::Ready(Box::new(Callable {
                    calls: library.calls(),
                    counters: vec![Counters::none(); loaded.numbers.len()],
                    library: *library,
                })),
                Err(problem) => {
                    tracing::warn!(%name, problem, "the daemon cannot call a procedure");
                    Direct::Failed
                }
            };
        }
    }
}

impl Loaded {
    /// Which function of its unit this call is of. `None`: the interpreter runs it, as what is
    /// not published, or is not any more because most of its calls were given up. What only reads
    /// exposes the keys that it has read: the interpreter knows until when these have to be
    /// durable, of a call in the kernel it is known of all data together, for which a reader
    /// would wait in vain.
    fn place_of(&self, call: &DirectCall<'_>) -> Option<usize> {
        let mut ready = self.unit.ready.iter().take(self.numbers.len());
        let place = ready.position(|ready| ready.name == call.function)?;
        let reads = self.unit.ready[place].reads;
        let is_refused = (call.reads_only && !reads) || (call.is_sync && reads);
        (self.is_published(call.function) && !is_refused).then_some(place)
    }
}

impl Callable {
    fn call(
        &mut self,
        call: &DirectCall<'_>,
        place: usize,
        session: &mut Session,
        all: &mut Counters,
    ) -> Option<ReplyRef<'_>> {
        let begun = Instant::now();
        let function = str::from_utf8(call.function).ok()?;
        self.calls.clear();
        self.calls
            .add(function, &slices(call.keys), &slices(call.arguments))
            .ok()?;
        // Of an Error of the system with a reply the reply counts.
        let ran = self.calls.run(session).map(drop);
        let mut replies = self.calls.replies();
        let Some(reply) = replies.next() else {
            note_not_run(ran);
            return None;
        };
        let mut one = Counters::none();
        one.conflicts = replies.conflicts();
        match &reply {
            Ok(_) => {
                let time = begun.elapsed().as_nanos() as u64;
                (one.calls, one.measured) = (1, 1);
                (one.time, one.longest) = (time, time);
            }
            Err(Failure::GivenUp(reason)) => {
                let number = DEOPTIMISATIONS.iter().position(|one| one == reason);
                one.deoptimisations[number.unwrap_or(0)] = 1;
            }
            Err(Failure::Engine(_)) => one.errors = 1,
        }
        self.counters[place].add_all(&one);
        all.add_all(&one);
        reply.ok()
    }
}

fn slices(words: &[Vec<u8>]) -> Vec<&[u8]> {
    words.iter().map(Vec::as_slice).collect()
}

fn note_not_run(ran: Result<(), CallError>) {
    match ran {
        // Its client has a transaction open, or it could not be a call.
        Ok(()) | Err(CallError::InTransaction) => {}
        Err(error) => tracing::warn!(%error, "a procedure was not run in the kernel"),
    }
}
