//! A call of a script or of a function, as one transaction, in slices.
//!
//! ```text
//!   begin ──► transaction, Lua ──► step: resume, command, resume, command … ──► commit, reply
//!     ▲                               │ slice over: suspend, others, resume
//!     └── conflict: roll back ◄───────┘ error, stopped: roll back, error reply
//! ```
//!
//! Within a transaction of the client (BEGIN, or EXEC) the script is a part of it, and neither
//! commits nor rolls back.

use std::mem;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bpfdb::Status;
use bpfdb_lua::{Answer, Call, Failure as LuaFailure, Reply, Step};

use super::super::atomic;
use super::super::attempts;
use super::super::conflict;
use super::super::keyspace_events;
use super::super::prelude::*;
use super::super::time_slice::TimeSlice;
use super::super::transaction::Attempts;
use super::direct::{self, Words};
use super::find::{self, Source, callable, count_keys, find_function, may_be_called, view};
use super::program::Program;
use super::redis_call::LongCommand;
use crate::protocol::reply::{self as replies, ConflictAction};
use crate::scripting::functions::RunningCall;
use crate::scripting::reply;
use crate::scripting::scripts::{self, Kind, Machine, UnderWay};

/// EVAL and its kin: script, number of keys, keys, arguments. `reads`: it may not write.
pub(super) fn begin(
    context: &mut Context<'_>,
    source: Source,
    arguments: &[Vec<u8>],
    reads: bool,
) -> Outcome {
    find::may_be_known(source, &arguments[0])?;
    let keys = count_keys(&arguments[1], arguments.len() - 2)?;
    let script = find::find(context, source, &arguments[0])?;
    find::may_be_run(script.flags, reads)?;
    let own = !atomic::is_open(context.session);
    let program = Program::Script(Rc::clone(&script));
    let words = Words {
        all: &arguments[2..],
        keys,
    };
    let by_text = source == Source::Text;
    if direct::answer(context, &program, &words, reads, by_text) {
        return Ok(());
    }
    context.instance.procedures.note_call(&script);
    let call = ScriptCall::new(program, arguments[2..].to_vec(), keys, reads, own);
    call.begin(context, arguments)
}

/// FCALL and FCALL_RO: function, number of keys, keys, arguments.
pub(super) fn begin_function(
    context: &mut Context<'_>,
    arguments: &[Vec<u8>],
    reads: bool,
) -> Outcome {
    let own = !atomic::is_open(context.session);
    let read = own.then(|| Rc::clone(context.instance.functions.current()));
    // Whether it is still so, the call finds out. Only what has come from the engine is refused:
    // else the client would be told of a library that is another one by now, or not durable.
    let found = match read.map(|libraries| callable(&libraries, arguments, reads)) {
        Some(Ok(found)) => Ok(found),
        _ => callable(&*view(context)?, arguments, reads),
    };
    let (function, keys) = found?;
    let program = Program::Function(function.clone());
    let words = Words {
        all: &arguments[2..],
        keys,
    };
    if direct::answer(context, &program, &words, reads, false) {
        return Ok(());
    }
    let name = &function.registered().name;
    context.instance.procedures.note_function(name);
    let call = ScriptCall::new(program, arguments[2..].to_vec(), keys, reads, own);
    call.begin(context, arguments)
}

/// How an attempt sees the data, if the transaction is the script's own.
///
/// ```text
///   Locks ──lists keys, and has not written──► ListsKeys ──writes──► LocksKeys
///     └───────── too many locks, and has not written ─────────────────────┴──► WithoutLocks
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum View {
    /// A transaction that may write.
    Locks,
    /// A snapshot: it lists keys, and perhaps writes nothing.
    ListsKeys,
    /// A transaction that may write, and keeps others from making keys come and go.
    LocksKeys,
    /// A snapshot: there are not as many locks as it needs. A write is refused with this.
    WithoutLocks(Status),
}

/// A script or a function on its way.
#[derive(Debug)]
pub(super) struct ScriptCall {
    pub(super) program: Program,
    /// Keys, and arguments behind them.
    words: Vec<Vec<u8>>,
    keys: usize,
    /// It may not write: the command or the script says so.
    pub(super) reads: bool,
    pub(super) view: View,
    /// That of the next attempt, if it is another one.
    pub(super) next_view: Option<View>,
    /// Is the transaction its own?
    pub(super) own: bool,
    pub(super) running: Option<Running>,
    attempts: Attempts,
    /// Time that this attempt has taken.
    spent: Duration,
    /// SCRIPT KILLs, or FUNCTION KILLs, before it.
    kills: u64,
    /// While it is there those commands find this call, be it that it waits.
    _under_way: Option<UnderWay>,
    /// It may not write: the command says so.
    reads_only: bool,
    begun: Instant,
    /// As FUNCTION STATS shows it, since others were served meanwhile.
    seen: Option<Rc<RunningCall>>,
}

/// An attempt on its way.
#[derive(Debug)]
pub(super) struct Running {
    // The call first: it ends before its state of Lua is given back.
    call: Call,
    machine: Machine,
    answer: Answer,
    /// What it waits for.
    pub(super) command: Option<LongCommand>,
    /// Has it executed a command?
    pub(super) has_begun: bool,
    /// Has it written?
    pub(super) has_written: bool,
    /// Number of the database that it has chosen.
    database: Option<usize>,
    /// Has it published?
    pub(super) has_announced: bool,
    why_stopped: Option<&'static str>,
}

/// What a part of an attempt has come to.
enum Turn {
    /// A command's reply; `None`: the command goes on in steps.
    Command(Option<Vec<u8>>),
    SliceOver,
    Done(Reply),
}

impl Job for ScriptCall {
    fn step(
        &mut self,
        context: &mut Context<'_>,
        arguments: &[Vec<u8>],
    ) -> Result<Progress, Failure> {
        let progress = self.go_on(context)?;
        if progress == Progress::More {
            self.show(context, arguments);
        }
        Ok(progress)
    }

    fn waits(&self) -> bool {
        let running = self.running.as_ref();
        let command = running.and_then(|running| running.command.as_ref());
        command.is_some_and(LongCommand::waits)
    }

    fn memory(&self) -> usize {
        let words: usize = self.words.iter().map(Vec::len).sum();
        words + self.running.as_ref().map_or(0, Running::memory)
    }
}

impl ScriptCall {
    fn new(
        program: Program,
        words: Vec<Vec<u8>>,
        keys: usize,
        reads_only: bool,
        own: bool,
    ) -> Self {
        Self {
            reads: reads_only || program.flags().no_writes,
            reads_only,
            program,
            words,
            keys,
            view: View::Locks,
            next_view: None,
            own,
            running: None,
            attempts: Attempts::default(),
            spent: Duration::ZERO,
            kills: 0,
            _under_way: None,
            begun: Instant::now(),
            seen: None,
        }
    }

    fn begin(mut self, context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
        self.kills = context.instance.scripts.kills(self.program.kind());
        if self.step(context, arguments)? == Progress::More {
            self._under_way = Some(context.instance.scripts.under_way(self.program.kind()));
            context.go_on_with(self);
        }
        Ok(())
    }

    /// Lets FUNCTION STATS see it.
    fn show(&mut self, context: &mut Context<'_>, arguments: &[Vec<u8>]) {
        if self.seen.is_some() || self.program.kind() != Kind::Function {
            return;
        }
        let command = if self.reads_only { "fcall_ro" } else { "fcall" };
        let words = [command.as_bytes().to_vec()];
        let call = Rc::new(RunningCall {
            name: self.program.name().into_bytes(),
            words: words.into_iter().chain(arguments.iter().cloned()).collect(),
            begun: self.begun,
        });
        context.instance.functions.note_running(&call);
        self.seen = Some(call);
    }

    fn go_on(&mut self, context: &mut Context<'_>) -> Result<Progress, Failure> {
        if self.running.is_none() {
            if self.is_killed(context) {
                return Err(self.killed().into());
            }
            if self.attempts.wait(context, !self.is_snapshot()) {
                return Ok(Progress::More);
            }
        }
        let start = attempts::StepStart::now();
        let advanced = self.advance(context);
        self.attempts.note_step(start);
        match advanced {
            Ok(progress) => Ok(progress),
            Err(failure) => self.begin_anew(context, failure),
        }
    }

    fn is_killed(&self, context: &Context<'_>) -> bool {
        context.instance.scripts.kills(self.program.kind()) != self.kills
    }

    fn killed(&self) -> &'static str {
        match self.program.kind() {
            Kind::Script => "ERR Error running script: killed by SCRIPT KILL",
            Kind::Function => "ERR Error running script: killed by FUNCTION KILL",
        }
    }

    fn is_snapshot(&self) -> bool {
        self.reads || matches!(self.view, View::ListsKeys | View::WithoutLocks(_))
    }

    /// Runs for as long as a step may take; at the end, or where an Error is, leaves nothing
    /// open that is its own.
    fn advance(&mut self, context: &mut Context<'_>) -> Result<Progress, Failure> {
        if self.running.is_none() {
            let Some(running) = self.start(context)? else {
                // Too many are running.
                return Ok(Progress::More);
            };
            self.running = Some(running);
        } else {
            // It has computed since its last command.
            context.session.touch();
            if self.own {
                context.session.resume();
            }
        }
        match self.run(context) {
            Ok(Some(reply)) => self.conclude(context, &reply),
            Ok(None) => Ok(Progress::More),
            Err(failure) => {
                if self.own {
                    context.session.rollback()?;
                }
                Err(failure)
            }
        }
    }

    /// Begins an attempt; `None` if it has to wait, or what it calls was replaced.
    fn start(&mut self, context: &mut Context<'_>) -> Result<Option<Running>, Failure> {
        let kind = self.program.kind();
        let Some(mut machine) = context.instance.scripts.machine(kind) else {
            context.rest(attempts::PAUSED);
            return Ok(None);
        };
        if self.own && self.is_snapshot() {
            context.session.begin_read_only_deferred()?;
        } else if self.own {
            context.session.begin_deferred()?;
        }
        let begun = self.begin_call(context, &mut machine);
        if self.own && !matches!(begun, Ok(Some(_))) {
            context.session.rollback()?;
        }
        self.spent = Duration::ZERO;
        let call = match begun {
            Ok(Some(call)) => call,
            other => {
                context.instance.scripts.give_back(machine);
                other?;
                self.find_again(context)?;
                return Ok(None);
            }
        };
        Ok(Some(Running {
            call,
            machine,
            answer: Answer::GoOn,
            command: None,
            has_begun: false,
            has_written: false,
            database: None,
            has_announced: false,
            why_stopped: None,
        }))
    }

    /// `None`: there are other functions by now than when this one was found.
    fn begin_call(
        &self,
        context: &mut Context<'_>,
        machine: &mut Machine,
    ) -> Result<Option<Call>, Failure> {
        if self.own
            && let Program::Function(function) = &self.program
        {
            let functions = &context.instance.functions;
            // Since the function was found others may have read them anew.
            if !functions.holds(context.session)? || !functions.current().has_still(function) {
                return Ok(None);
            }
        }
        let (keys, arguments) = self.words.split_at(self.keys);
        let call = self
            .program
            .call(machine, keys.to_vec(), arguments.to_vec());
        call.map(Some)
    }

    /// Finds the function again, in what is committed.
    fn find_again(&mut self, context: &mut Context<'_>) -> Outcome {
        let Program::Function(function) = &self.program else {
            return Ok(());
        };
        let name = function.registered().name.clone();
        let libraries = view(context)?;
        let function = find_function(&libraries, &name)?;
        may_be_called(&function, self.reads_only)?;
        self.program = Program::Function(function);
        self.reads = self.reads_only || self.program.flags().no_writes;
        Ok(())
    }

    /// What it returned; `None`: others have their turn first.
    fn run(&mut self, context: &mut Context<'_>) -> Result<Option<Reply>, Failure> {
        let slice = TimeSlice::begin();
        let limit = time_limit(context);
        loop {
            let begun = Instant::now();
            let spent = self.spent;
            let (is_killed, killed) = (self.is_killed(context), self.killed());
            let running = self.running.as_mut().expect("an attempt");
            if is_killed {
                running.stop(killed);
            } else if spent > limit {
                running.stop(
                    "ERR Error running script: it ran for longer than busy-reply-threshold allows",
                );
            }
            let step = match running.command.take() {
                Some(command) if running.why_stopped.is_none() => {
                    let step = |call: &mut Self, context: &mut Context<'_>| {
                        call.step_command(context, command)
                    };
                    self.in_own_database(context, step).map(Turn::Command)
                }
                _ => self.resume(context),
            };
            match step.inspect_err(|_| self.spent += begun.elapsed())? {
                Turn::Command(Some(reply)) => {
                    let running = self.running.as_mut().expect("an attempt");
                    running.answer = Answer::Reply(reply);
                }
                // Others do first what it waits for, and its time is not the script's.
                Turn::Command(None) if self.waits() => return self.pause(context).map(|()| None),
                Turn::Command(None) | Turn::SliceOver => {}
                Turn::Done(reply) => return Ok(Some(reply)),
            }
            self.spent += begun.elapsed();
            if slice.is_over() {
                return self.pause(context).map(|()| None);
            }
        }
    }

    /// Lua goes on, and what it asks for is executed.
    fn resume(&mut self, context: &mut Context<'_>) -> Result<Turn, Failure> {
        let running = self.running.as_mut().expect("an attempt");
        let answer = mem::replace(&mut running.answer, Answer::GoOn);
        match scripts::resume(&mut running.call, answer) {
            Step::Command { words, resp3 } => {
                let execute = |call: &mut Self, context: &mut Context<'_>| {
                    call.execute(context, words, resp3)
                };
                self.in_own_database(context, execute).map(Turn::Command)
            }
            Step::SliceOver => Ok(Turn::SliceOver),
            Step::Done(reply) => Ok(Turn::Done(reply)),
            Step::Failed(failure) => {
                context.instance.error_is_counted = running.call.passes_error_on();
                Err(self.explain(failure))
            }
        }
    }

    /// SELECT in a script is for that script alone.
    fn in_own_database<T>(
        &mut self,
        context: &mut Context<'_>,
        work: impl FnOnce(&mut Self, &mut Context<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let clients = context.connection.database;
        let own = self.running.as_ref().and_then(|running| running.database);
        if let Some(own) = own {
            context.select(own);
        }
        let outcome = work(self, context);
        let chosen = context.connection.database;
        context.select(clients);
        if let Some(running) = &mut self.running {
            running.database = Some(chosen).filter(|_| own.is_some() || chosen != clients);
        }
        outcome
    }

    /// Others have their turn.
    fn pause(&mut self, context: &mut Context<'_>) -> Outcome {
        if !self.own || context.at_once {
            return Ok(());
        }
        // A function keeps others from changing the libraries from its beginning on.
        let is_function = matches!(self.program, Program::Function(_));
        let has_begun = self
            .running
            .as_ref()
            .is_some_and(|running| running.has_begun || is_function);
        self.attempts
            .pause(context, has_begun && !self.is_snapshot())
    }

    fn explain(&self, failure: LuaFailure) -> Failure {
        let why_stopped = self
            .running
            .as_ref()
            .and_then(|running| running.why_stopped);
        match failure {
            LuaFailure::Raised(text) => Failure::Text(text),
            LuaFailure::Stopped => why_stopped.unwrap_or("ERR the script was stopped").into(),
            LuaFailure::Memory => {
                let name = self.program.name();
                format!("ERR not enough memory script: {name}").into()
            }
        }
    }

    fn conclude(&mut self, context: &mut Context<'_>, reply: &Reply) -> Result<Progress, Failure> {
        if self.own {
            context.session.commit()?;
            keyspace_events::apply_staged(context);
        }
        let is_counted =
            (self.running.as_ref()).is_some_and(|running| running.call.passes_error_on());
        self.end(context);
        if let Reply::Error(text) = reply
            && !is_counted
        {
            context.instance.count_error(text);
        }
        reply::write(context.replies, reply);
        Ok(Progress::Done)
    }

    /// The attempt is over: its state of Lua is for others.
    fn end(&mut self, context: &mut Context<'_>) {
        self.attempts.end();
        if let Some(Running { call, machine, .. }) = self.running.take() {
            drop(call);
            context.instance.scripts.give_back(machine);
        }
    }

    /// After an Error: attempts again, from the beginning, if that may help.
    fn begin_anew(
        &mut self,
        context: &mut Context<'_>,
        failure: Failure,
    ) -> Result<Progress, Failure> {
        let running = self.running.as_ref();
        let (has_written, has_announced) = running.map_or((false, false), |running| {
            (running.has_written, running.has_announced)
        });
        self.end(context);
        if !self.own {
            // It would be tried again from its beginning, in the same transaction.
            if has_written || has_announced {
                return Err(atomic::give_up(context.session, failure));
            }
            return Err(failure);
        }
        context.connection.mail.take_staged();
        if let Some(view) = self.next_view.take() {
            self.view = view;
            return Ok(Progress::More);
        }
        match failure {
            Failure::Engine(status @ Status::TooManyLocks)
                if !has_written && !self.is_snapshot() =>
            {
                self.view = View::WithoutLocks(status);
                Ok(Progress::More)
            }
            Failure::Engine(status) if self.attempts.again(context, status, self.spent) => {
                Ok(Progress::More)
            }
            Failure::Engine(Status::Conflict) => Err(Failure::Text(conflict::text_with(
                context,
                ConflictAction::RunAgain,
            ))),
            // In words, since an Error of the engine would be tried again, as that of a command is.
            Failure::Engine(status) => {
                let told = match context.instance.lacks_memory(status) {
                    true => Status::OutOfMemory,
                    false => self.attempts.told(context, status),
                };
                let refusal = context.refusal(status);
                let text = refusal.unwrap_or_else(|| replies::error_text(told, false));
                Err(Failure::Text(text))
            }
            Failure::TooLong | Failure::Text(_) | Failure::NotFetched => Err(failure),
        }
    }
}

impl Running {
    /// Bytes that it keeps.
    fn memory(&self) -> usize {
        let command = self.command.as_ref().map_or(0, LongCommand::memory);
        self.machine.vm.memory() + command
    }

    fn stop(&mut self, why: &'static str) {
        self.why_stopped.get_or_insert(why);
        self.call.stop();
    }
}

/// How long a script may run.
fn time_limit(context: &Context<'_>) -> Duration {
    let milliseconds = context.instance.parameters.number("busy-reply-threshold");
    match milliseconds {
        0 => Duration::MAX,
        some => Duration::from_millis(some),
    }
}
