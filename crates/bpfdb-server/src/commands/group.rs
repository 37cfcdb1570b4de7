//! Requests that stand behind each other in a pipeline are executed in one transaction,
//! if they can be: what they read comes in one call of the engine, and what they write
//! goes in another (docs/decisions/0010-groups.md).
//!
//! ```text
//!  requests ──► Group ──► fetch ──► run, run, run, … ──► commit ──► replies
//!                 │          │           │                  │
//!                 │          └───────────┴──── Error ───────┘
//!                 ▼                             ▼
//!           one by one                 rolled back; one by one
//! ```
//!
//! Invariants
//!  1. Members are executed in the order of their requests, and each sees what those
//!     before it have written.
//!  2. If anything ends in an Error of the engine, nothing has been done, replied or
//!     counted, and every member is executed alone: clients see the Errors that they
//!     would see without groups.
//!  3. A member that fails with a text has changed nothing; the others stay.

use std::ops::Range;
use std::time::{Duration, Instant};

use bpfdb::{Operation, Session};

use super::atomic::is_open;
use super::definition::{Flag, Grouped, Path};
use super::execute::{count, execute, observe};
use super::job::{Job, Progress, Running};
use super::table::{self, Call};
use super::{Context, Failure};
use crate::request::Request;
use crate::state::ReplyMode;

/// Requests of a group: more would make others wait for its locks, and gain little.
const MEMBERS_MAX: usize = 32;
/// Keys of one member.
const KEYS_MAX: usize = 16;
/// Bytes of a request: what is longer is not slow for the calls that it takes.
const LONG: usize = 4096;

#[derive(Debug)]
struct Member {
    call: Call,
    request: Request,
    /// Which of the group's reads are for it.
    reads: Range<usize>,
}

impl Member {
    fn keys(&self) -> impl Iterator<Item = (&[u8], bool)> {
        let words = &self.request.words;
        // Positions count the command's name as one word.
        let skipped = self.call.name_words;
        debug_assert!(skipped >= 1);
        let specifications = self.call.command.keys.iter();
        specifications.flat_map(move |keys| {
            let for_update = !keys.flags.contains(&"RO");
            let positions = keys.positions(words.len());
            positions.map(move |position| (&*words[position], for_update))
        })
    }

    fn writes(&self) -> bool {
        self.call.command.has(Flag::Write)
    }

    fn fetches(&self) -> bool {
        self.call.command.grouped == Grouped::Reads
    }

    fn arguments(&self) -> &[Vec<u8>] {
        &self.request.words[self.call.name_words..]
    }
}

/// Requests that are to be executed together.
#[derive(Debug)]
pub(crate) struct Group {
    members: Vec<Member>,
    reads: usize,
    writes: bool,
}

/// What a group did not do.
#[derive(Debug, Default)]
pub(crate) struct Remainder {
    pub(crate) running: Option<Running>,
    /// Behind it.
    pub(crate) requests: Vec<Request>,
}

/// What became of the members.
#[derive(Debug, Default)]
struct Executed {
    members: usize,
    /// Texts of those that failed.
    failures: Vec<(usize, Vec<u8>)>,
    /// What the last one has left to be done.
    job: Option<Box<dyn Job>>,
}

impl Group {
    /// With a request; which is given back if it must be executed alone.
    pub(crate) fn begin(context: &Context<'_>, request: Request) -> Result<Self, Request> {
        let connection = &*context.connection;
        let possible = connection.queue.is_none()
            && connection.replies == ReplyMode::On
            && !context.instance.pause.is_on()
            && !is_open(context.session)
            && context.instance.admits(connection);
        if !possible {
            return Err(request);
        }
        let mut group = Self {
            members: Vec::new(),
            reads: 0,
            writes: false,
        };
        group.join(request)?;
        Ok(group)
    }

    /// One more request; it is given back if it cannot be executed with the others.
    pub(crate) fn join(&mut self, request: Request) -> Result<(), Request> {
        let Some(call) = groupable(&request) else {
            return Err(request);
        };
        let mut member = Member {
            call,
            request,
            reads: 0..0,
        };
        let keys = member.keys().count();
        if keys > KEYS_MAX || self.reads_what_was_written(&member) {
            return Err(member.request);
        }
        let reads = if member.fetches() { keys } else { 0 };
        member.reads = self.reads..self.reads + reads;
        self.reads += reads;
        self.writes |= member.writes();
        self.members.push(member);
        Ok(())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.members.len() >= MEMBERS_MAX
    }

    /// The request, if there is but one.
    pub(crate) fn alone(mut self) -> Result<Self, Request> {
        match self.members.pop() {
            Some(member) if self.members.is_empty() => Err(member.request),
            last => {
                self.members.extend(last);
                Ok(self)
            }
        }
    }

    /// Does it read a key that one before it writes? What is read is counted as found
    /// or not when it is fetched, which would be too early.
    fn reads_what_was_written(&self, member: &Member) -> bool {
        let has = |key: &[u8]| {
            let keys = self.members.iter().flat_map(Member::keys);
            keys.into_iter()
                .any(|(other, writes)| writes && other == key)
        };
        self.writes && member.keys().any(|(key, writes)| !writes && has(key))
    }

    /// Executes it, and what it comes to one by one if that fails.
    pub(crate) fn execute(self, context: &mut Context<'_>) -> Remainder {
        let (start, begun) = (context.replies.len(), Instant::now());
        match self.attempt(context) {
            Ok(executed) => {
                let each = begun.elapsed() / executed.members.max(1) as u32;
                self.conclude(context, executed, each)
            }
            Err(_) => {
                let (counted, _) = context.session.counted_reads();
                context.instance.statistics.take_back(counted);
                context.replies.truncate(start);
                context.job = None;
                one_by_one(context, self.requests(0))
            }
        }
    }

    fn requests(self, from: usize) -> impl Iterator<Item = Request> {
        (self.members.into_iter().skip(from)).map(|member| member.request)
    }

    fn attempt(&self, context: &mut Context<'_>) -> Result<Executed, Failure> {
        let read = self.read_ahead(context.session).map_err(Failure::from);
        let outcome = read.and_then(|()| self.run(context));
        if !self.writes {
            context.session.forget_fetched();
            return outcome;
        }
        match outcome {
            Ok(executed) => {
                context.session.commit()?;
                Ok(executed)
            }
            Err(failure) => {
                context.session.rollback()?;
                Err(failure)
            }
        }
    }

    fn read_ahead(&self, session: &mut Session) -> Result<(), bpfdb::Status> {
        let mut reads = Vec::with_capacity(self.reads);
        for (key, for_update) in (self.members.iter())
            .filter(|member| member.fetches())
            .flat_map(Member::keys)
        {
            reads.push(if for_update {
                Operation::GetForUpdate(key)
            } else {
                Operation::Get(key)
            });
        }
        if self.writes {
            session.begin_fetching(&reads)
        } else {
            session.fetch(&reads)
        }
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Executed, Failure> {
        let mut executed = Executed::default();
        for (number, member) in self.members.iter().enumerate() {
            let command = member.call.command;
            context.connection.command = command.name;
            context.connection.slow = command.path == Path::UserSpace;
            context.session.offer(member.reads.clone());
            let start = context.replies.len();
            match member.run(context) {
                Ok(job) => executed.job = job,
                Err(Failure::Text(text)) => {
                    context.replies.truncate(start);
                    context.replies.error(text.clone());
                    executed.failures.push((number, text));
                }
                Err(failure) => return Err(failure),
            }
            executed.members += 1;
            if executed.job.is_some() {
                break;
            }
        }
        Ok(executed)
    }

    /// It has happened: counts it, each member as long as the others.
    fn conclude(
        mut self,
        context: &mut Context<'_>,
        executed: Executed,
        each: Duration,
    ) -> Remainder {
        let unfinished = usize::from(executed.job.is_some());
        let has_failed = |number| {
            let mut failures = executed.failures.iter();
            failures.any(|&(failed, _)| failed == number)
        };
        let finished = &self.members[..executed.members - unfinished];
        for (number, member) in finished.iter().enumerate() {
            let command = member.call.command;
            count(context, command, each, has_failed(number));
            observe(context, command, each, &member.request.words);
        }
        let (_, repeated) = context.session.counted_reads();
        context.instance.statistics.take_back(repeated);
        for (_, text) in &executed.failures {
            context.instance.count_error(text);
        }
        let left = self.members.split_off(executed.members);
        let running = executed.job.and_then(|job| {
            let last = self.members.pop()?;
            Some(Running::new(job, last.call, last.request, each))
        });
        Remainder {
            running,
            requests: left.into_iter().map(|member| member.request).collect(),
        }
    }
}

impl Member {
    /// Runs it; a short job to its end.
    fn run(&self, context: &mut Context<'_>) -> Result<Option<Box<dyn Job>>, Failure> {
        let arguments = self.arguments();
        let outcome = (self.call.command.run)(context, arguments);
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

/// The command of a request that may be a member.
fn groupable(request: &Request) -> Option<Call> {
    let call = table::resolve(&request.words).ok()?;
    let fits = call.command.grouped != Grouped::No && !request.cut && request.memory() <= LONG;
    fits.then_some(call)
}

fn one_by_one(context: &mut Context<'_>, mut requests: impl Iterator<Item = Request>) -> Remainder {
    while let Some(request) = requests.next() {
        let running = execute(context, request);
        if running.is_some() {
            return Remainder {
                running,
                requests: requests.collect(),
            };
        }
    }
    Remainder::default()
}
