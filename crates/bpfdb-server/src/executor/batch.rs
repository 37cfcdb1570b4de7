//! Requests that stand behind each other in a pipeline are executed in one transaction,
//! if they can be: what they read comes in one call of the engine, and what they write
//! goes in another (docs/decisions/0010-groups.md).
//!
//! ```text
//!  requests ──► Batch ──► prefetch ──► run, run, run, … ──► commit ──► replies
//!                 │          │           │                  │
//!                 │          └───────────┴──── Error ───────┘
//!                 ▼                             ▼
//!           one by one                 rolled back; one by one
//! ```
//!
//! Invariants
//!  1. Members are executed in the order of their requests, and each sees what those
//!     before it have written. All of them write, or all only read: these take no locks.
//!  2. If anything ends in an Error of the engine, nothing has been done, replied or
//!     counted, and every entry is executed alone: clients see the Errors that they
//!     would see without batches.
//!  3. An entry that fails with a text has changed nothing; the others stay.
//!  4. An entry whose values were not fetched, because they are long or in a file, ends the batch: it
//!     would read at a later moment than those behind it, or hold the locks of those
//!     before it while it works. It is executed alone, and so are the rest.
//!
//! Look-ups in collections are in batches of their own: `batch/look_ups.rs`. So are changes of collections. These fetch
//! nothing before: which pages of a large collection they need its head says. What one of them has read
//! or written the session keeps for those behind it, and writes it once ([`Session::begin_keeping`]). While clients wait for keys
//! there are none: each push is served before the next one.

mod look_ups;

use std::ops::Range;
use std::time::{Duration, Instant};

use bpfdb::{Operation, Session, Status};

use super::request::{execute, note_path};
use super::running::Running;
use crate::commands::atomic::is_open;
use crate::commands::attempts;
use crate::commands::cold;
use crate::commands::context::{Context, Failure};
use crate::commands::definition::{Batching, Flag};
use crate::commands::invoke::{count, observe};
use crate::commands::job::{Job, Progress};
use crate::commands::table::{self, Call};
use crate::commands::time_slice::TimeSlice;
use crate::connection::info::ReplyMode;
use crate::protocol::request::Request;

/// Requests of a batch: more would make others wait for its locks, and gain little.
const ENTRIES_MAX: usize = 32;
/// Keys of one entry.
const KEYS_MAX: usize = 16;
/// Bytes of a request: what is longer is not slow for the calls that it takes.
const LONG: usize = 4096;

#[derive(Debug)]
struct BatchEntry {
    call: Call,
    request: Request,
    /// Which of the batch's reads are for it.
    reads: Range<usize>,
}

impl BatchEntry {
    /// With whether it writes to them.
    fn keys(&self) -> impl Iterator<Item = (&[u8], bool)> {
        let words = &self.request.words;
        let specifications = self.call.command.keys.iter();
        specifications.flat_map(move |keys| {
            let for_update = !keys.are_only_read();
            let positions = keys.positions(words);
            positions.map(move |position| (&*words[position], for_update))
        })
    }

    fn writes(&self) -> bool {
        self.call.command.has(Flag::Write)
    }

    fn fetches(&self) -> bool {
        self.call.command.batching == Batching::Reads
    }

    fn looks_up(&self) -> bool {
        self.call.command.batching == Batching::LooksUp
    }

    fn changes(&self) -> bool {
        self.call.command.batching == Batching::Changes
    }

    /// May it be executed with this one?
    fn goes_with(&self, other: &Self) -> bool {
        self.writes() == other.writes()
            && self.looks_up() == other.looks_up()
            && self.changes() == other.changes()
    }

    fn arguments(&self) -> &[Vec<u8>] {
        &self.request.words[self.call.name_words..]
    }

    /// Runs it; a short job to its end.
    fn run(&self, context: &mut Context<'_>) -> Result<Option<Box<dyn Job>>, Failure> {
        let (command, arguments) = (self.call.command, self.arguments());
        context.connection.command = command.name;
        note_path(context, command);
        let outcome = (command.run)(context, arguments);
        let job = context.job.take();
        outcome?;
        match job {
            Some(mut job) if job.is_short() => match job.step(context, arguments)? {
                Progress::Done => Ok(None),
                Progress::More => Ok(Some(job)),
            },
            job => Ok(job),
        }
    }
}

/// Requests that are to be executed together.
#[derive(Debug)]
pub(crate) struct Batch {
    entries: Vec<BatchEntry>,
}

/// What a batch did not do.
#[derive(Debug, Default)]
pub(crate) struct Unexecuted {
    pub(crate) running: Option<Running>,
    /// Behind it.
    pub(crate) requests: Vec<Request>,
}

/// What became of the entries.
#[derive(Debug, Default)]
struct Executed {
    /// How long each took.
    times: Vec<Duration>,
    /// Texts of those that failed.
    failures: Vec<(usize, Vec<u8>)>,
    /// What the last one has left to be done.
    job: Option<Box<dyn Job>>,
    /// The next one must be executed alone.
    stopped: bool,
}

impl Batch {
    /// With a request; which is given back if it must be executed alone.
    pub(crate) fn begin(context: &Context<'_>, request: Request) -> Result<Self, Request> {
        let connection = &*context.connection;
        let possible = !context.is_queuing()
            && connection.replies == ReplyMode::On
            && !context.instance.pause.is_on()
            && !context.instance.settings.keyspace_events.is_any()
            && !connection.subscribed.is_any()
            && !connection.is_monitor
            && !is_open(context.session)
            && context.instance.admits(connection)
            && !context.instance.refuses_writes();
        if !possible {
            return Err(request);
        }
        let mut batch = Self {
            entries: Vec::new(),
        };
        batch.join(request)?;
        if batch.changes() && context.instance.waiting.len() > 0 {
            return batch.alone();
        }
        Ok(batch)
    }

    /// One more request; it is given back if it cannot be executed with the others.
    pub(crate) fn join(&mut self, request: Request) -> Result<(), Request> {
        let Some(call) = batchable(&request) else {
            return Err(request);
        };
        let mut entry = BatchEntry {
            call,
            request,
            reads: 0..0,
        };
        let keys = entry.keys().count();
        let first = self.entries.first();
        let fits = first.is_none_or(|first| first.goes_with(&entry));
        if keys > KEYS_MAX || !fits {
            return Err(entry.request);
        }
        let start = self.reads();
        entry.reads = start..start + if entry.fetches() { keys } else { 0 };
        self.entries.push(entry);
        Ok(())
    }

    /// How many there are for all entries.
    fn reads(&self) -> usize {
        self.entries.last().map_or(0, |entry| entry.reads.end)
    }

    /// All do, or none does.
    fn writes(&self) -> bool {
        self.entries.first().is_some_and(BatchEntry::writes)
    }

    /// All do, or none does.
    fn looks_up(&self) -> bool {
        self.entries.first().is_some_and(BatchEntry::looks_up)
    }

    /// All do, or none does.
    fn changes(&self) -> bool {
        self.entries.first().is_some_and(BatchEntry::changes)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= ENTRIES_MAX
    }

    /// The request, if there is but one.
    pub(crate) fn alone(mut self) -> Result<Self, Request> {
        match self.entries.pop() {
            Some(entry) if self.entries.is_empty() => Err(entry.request),
            last => {
                self.entries.extend(last);
                Ok(self)
            }
        }
    }

    /// Executes it, and what it comes to one by one if that fails.
    pub(crate) fn execute(self, context: &mut Context<'_>, slice: TimeSlice) -> Unexecuted {
        let start = context.replies.len();
        match self.attempts(context, slice) {
            Ok(executed) => self.conclude(context, executed, slice),
            Err(_) => {
                context.replies.truncate(start);
                context.job = None;
                one_by_one(context, self.entries.into_iter(), slice)
            }
        }
    }

    /// A program of the kernel has a collection for a moment: what meets it is tried again at once, as a command is that
    /// is executed alone.
    fn attempts(&self, context: &mut Context<'_>, slice: TimeSlice) -> Result<Executed, Failure> {
        let most = if self.changes() {
            attempts::STATEMENT
        } else {
            1
        };
        let start = context.replies.len();
        let mut outcome = self.attempt(context, slice);
        for _ in 1..most {
            if !matches!(outcome, Err(Failure::Engine(Status::Conflict))) || slice.is_over() {
                break;
            }
            context.replies.truncate(start);
            context.job = None;
            outcome = self.attempt(context, slice);
        }
        outcome
    }

    fn attempt(&self, context: &mut Context<'_>, slice: TimeSlice) -> Result<Executed, Failure> {
        if self.looks_up() {
            return self.look_up(context, slice);
        }
        let begun = Instant::now();
        // They are read at the same time; then the requests come again, each alone.
        context.session.leave_cold(context.instance.tier.is_some());
        let read = self.read_ahead(context.session).map_err(Failure::from);
        context.session.wait_for_cold();
        let outcome = read.and_then(|()| self.run(context, slice));
        let (unused, all) = context.session.prefetched_reads();
        let outcome = self.end(context.session, outcome);
        let statistics = &context.instance.statistics;
        statistics.subtract(if outcome.is_ok() { unused } else { all });
        let mut executed = outcome?;
        executed.share(begun.elapsed());
        Ok(executed)
    }

    fn end(
        &self,
        session: &mut Session,
        outcome: Result<Executed, Failure>,
    ) -> Result<Executed, Failure> {
        match outcome {
            outcome if !self.writes() => {
                session.clear_read_cache();
                outcome
            }
            Ok(executed) => {
                session.commit()?;
                Ok(executed)
            }
            Err(failure) => {
                session.rollback()?;
                Err(failure)
            }
        }
    }

    fn read_ahead(&self, session: &mut Session) -> Result<(), bpfdb::Status> {
        let mut reads = Vec::with_capacity(self.reads());
        for (key, for_update) in (self.entries.iter())
            .filter(|entry| entry.fetches())
            .flat_map(BatchEntry::keys)
        {
            reads.push(if for_update {
                Operation::GetForUpdate(key)
            } else {
                Operation::Get(key)
            });
        }
        if self.changes() {
            session.begin_keeping()
        } else if self.writes() {
            session.begin_prefetching(&reads)
        } else {
            session.prefetch(&reads)
        }
    }

    fn run(&self, context: &mut Context<'_>, slice: TimeSlice) -> Result<Executed, Failure> {
        let mut executed = Executed::default();
        let mut begun = Instant::now();
        for (number, entry) in self.entries.iter().enumerate() {
            if !context.session.expose(entry.reads.clone()) {
                executed.stopped = true;
                break;
            }
            let (start, writes) = (context.replies.len(), context.session.writes());
            match entry.run(context) {
                Ok(job) => executed.job = job,
                // It has done a part of its work: a collection is damaged.
                Err(failure) if context.session.writes() != writes => return Err(failure),
                Err(Failure::Text(text)) => {
                    context.replies.truncate(start);
                    context.replies.error(&text);
                    executed.failures.push((number, text));
                }
                Err(failure) => return Err(failure),
            }
            let ended = Instant::now();
            executed.times.push(ended - begun);
            begun = ended;
            if executed.job.is_some() || !slice.has_room_at(ended, context.replies.len()) {
                break;
            }
        }
        Ok(executed)
    }

    /// It has happened: counts it.
    fn conclude(
        mut self,
        context: &mut Context<'_>,
        executed: Executed,
        slice: TimeSlice,
    ) -> Unexecuted {
        let unfinished = usize::from(executed.job.is_some());
        let rest = self.entries.split_off(executed.times.len());
        let finished = executed.times.len() - unfinished;
        for (number, (entry, &time)) in self.entries.iter().zip(&executed.times).enumerate() {
            if number < finished {
                let failed = executed.failures.iter().any(|&(other, _)| other == number);
                count(context, entry.call.command, time, failed);
                observe(context, entry.call.command, time, &entry.request.words);
            }
        }
        for (_, text) in &executed.failures {
            context.instance.count_error(text);
        }
        let running = executed.job.and_then(|job| {
            let last = self.entries.pop()?;
            let time = *executed.times.last()?;
            let leaves_cold = cold::may_leave(context, last.call.command);
            let running = Running::new(job, last.call, last.request, time);
            Some(running.leaving_cold(leaves_cold))
        });
        if executed.stopped {
            return one_by_one(context, rest.into_iter(), slice);
        }
        let requests = rest.into_iter().map(|entry| entry.request).collect();
        Unexecuted { running, requests }
    }
}

impl Executed {
    /// Each takes its part of the time that the calls took.
    fn share(&mut self, whole: Duration) {
        let own: Duration = self.times.iter().sum();
        let entries = self.times.len().max(1) as u32;
        let part = whole.saturating_sub(own) / entries;
        self.times.iter_mut().for_each(|time| *time += part);
    }
}

/// The command of a request that may be a entry.
fn batchable(request: &Request) -> Option<Call> {
    let call = table::resolve(&request.words).ok()?;
    let words = request.words.len();
    let kind_fits = match call.command.batching {
        Batching::No => false,
        Batching::Reads | Batching::LooksUp | Batching::Changes => true,
        // With options it might read.
        Batching::Writes => words == call.command.arity.unsigned_abs() as usize,
    };
    let fits = kind_fits && !request.cut && request.memory() <= LONG;
    fits.then_some(call)
}

/// As long as the time slice is not over; the first one in any case.
fn one_by_one(
    context: &mut Context<'_>,
    mut entries: impl Iterator<Item = BatchEntry>,
    slice: TimeSlice,
) -> Unexecuted {
    let mut running = None;
    while running.is_none() {
        let Some(entry) = entries.next() else {
            break;
        };
        running = execute(context, entry.request);
        if !slice.has_room(context.replies.len()) {
            break;
        }
    }
    Unexecuted {
        running,
        requests: entries.map(|entry| entry.request).collect(),
    }
}
