//! How often the daemon tries something again. `include/bpfdb/attempts.h` has the numbers, in
//! one table with those of the engine and of the kernel's front end.

use std::time::{Duration, Instant};

use bpfdb::{Engine, Status, abi};

use super::context::Context;
use super::large;

/// Attempts of a statement in a transaction of its own, at once one after the other, as many
/// as the kernel makes.
pub(crate) const STATEMENT: u32 = abi::BPFDB_COMMAND_TRIES;
/// Attempts of a MULTI … EXEC from its beginning, with others served in between.
pub(super) const BLOCK: u32 = abi::BPFDB_BLOCK_TRIES;
/// How often it is looked whether another client has ended: by a MULTI … EXEC that is to be tried again
/// for CLIENT PAUSE, or for another one that holds locks; by a script for a state of Lua.
pub(crate) const PAUSED: Duration = Duration::from_millis(1);

/// A transaction is tried again from its beginning for what passes by itself, as long as the attempts that
/// ended so have not taken more time than this, all together. One that takes long may need more than
/// there is.
pub(super) const MOMENT: Duration = Duration::from_micros(abi::BPFDB_DAEMON_MOMENT as u64);

/// How long a command waits for the log to be written out, as long as one that makes attempts meanwhile.
const LOG_PATIENCE: Duration = Duration::from_micros(
    abi::BPFDB_DAEMON_MEMORY_TRIES as u64 * abi::BPFDB_DAEMON_MEMORY_PAUSE as u64,
);

/// Memory is being added, or the log is being written out, or opened again.
pub(super) fn passes(status: Status) -> bool {
    matches!(
        status,
        Status::MemoryPending | Status::LogFull | Status::LogClosed
    )
}

/// Did a write find no memory, where none is added, and nothing evicted?
fn is_refused(context: &Context<'_>, status: Status) -> bool {
    is_shortage(status)
        && context.engine.has_all_memory()
        && !context.instance.evictor.rules().evicts()
}

/// Does a write lack memory?
fn is_shortage(status: Status) -> bool {
    matches!(status, Status::MemoryPending | Status::OutOfMemory)
}

/// How often a command is tried again that ended in this Error, and what it waits before.
/// None of these attempts holds up others: they are served meanwhile.
fn again(status: Status) -> Option<(u32, Duration)> {
    let (attempts, microseconds) = match status {
        status if passes(status) => (
            abi::BPFDB_DAEMON_MEMORY_TRIES,
            abi::BPFDB_DAEMON_MEMORY_PAUSE,
        ),
        // Another processor holds a lock or the session, or reads a snapshot, for a moment.
        // If a client does, it may do so for long, and this one gets CONFLICT.
        Status::Conflict | Status::VersionsFull | Status::SessionBusy => {
            (abi::BPFDB_DAEMON_TRIES, abi::BPFDB_DAEMON_PAUSE)
        }
        _ => return None,
    };
    Some((attempts, Duration::from_micros(microseconds.into())))
}

/// The same for a command that has met a program of the kernel all these times, which ends its
/// transaction when its thread has a processor again.
const PROGRAM: (u32, Duration) = (
    abi::BPFDB_DAEMON_PROGRAM_TRIES,
    Duration::from_micros(abi::BPFDB_DAEMON_PROGRAM_PAUSE as u64),
);

/// Of these attempts one looks at what is in the way.
const LOOKS: u32 = 100;

/// A command for which the evictor has come by so often in vain needs whole pages.
const INSISTS: u32 = 4;

/// How often a command waits for garbage to be removed.
const ROUNDS: u32 = abi::BPFDB_DAEMON_MEMORY_TRIES;

/// How often a command waits until the log is written out that has logged outside of its transaction.
const DRAINS: u32 = abi::BPFDB_DAEMON_DRAIN_TRIES;

/// Counts the attempts of one command.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    attempts: u32,
    shortage: Option<Box<Shortage>>,
    logged: Logged,
}

/// What attempts have logged outside of their transactions, for collections that are written anew: in units that need
/// little room, as each connection has these.
#[derive(Debug, Default)]
struct Logged {
    by_this: u16,
    most: u16,
}

impl Logged {
    const UNIT: u64 = 64 * 1024;

    fn add(&mut self, bytes: u64) {
        let units = u16::try_from(bytes / Self::UNIT).unwrap_or(u16::MAX);
        self.by_this = self.by_this.saturating_add(units);
    }

    fn end_attempt(&mut self) {
        self.most = self.most.max(std::mem::take(&mut self.by_this));
    }
}

/// The last attempt has filled the log with what it has logged outside of its transaction. One that begins while
/// that is there fills what is left, and ends in the same way: so none begins before it is written out.
#[derive(Debug)]
struct Drain {
    /// What is to be durable.
    timestamp: u64,
    /// The log has not been written out by then: the disk does not answer.
    until: Instant,
    /// How often it has waited, this time included.
    times: u32,
}

impl Drain {
    fn is_over(&self, engine: &Engine) -> bool {
        self.is_written(engine) || Instant::now() >= self.until
    }

    fn is_written(&self, engine: &Engine) -> bool {
        engine.durable() >= self.timestamp
    }
}

/// Where a step of a command begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepStart(u64);

impl StepStart {
    pub(crate) fn now() -> Self {
        Self(large::logged_apart())
    }
}

/// What is done about memory, or room in the log, that a command has not found.
#[derive(Debug, Default)]
struct Shortage {
    drain: Option<Drain>,
    eviction: Option<Eviction>,
    garbage: Option<Waiting>,
    /// There is no more garbage that could make room for it.
    is_collected: bool,
}

/// A command waits for garbage to be removed: pages of large collections that are gone.
#[derive(Debug)]
struct Waiting {
    request: large::Request,
    /// How often it has waited, this time included.
    times: u32,
}

/// What a command has asked the evictor for.
#[derive(Debug)]
struct Eviction {
    /// The number of its first request.
    number: u64,
    /// How often the evictor had come by in all at its last attempt, and how often since its first one.
    passes: u64,
    in_vain: u32,
    /// Records that had been evicted at its last attempt.
    evicted: u64,
    /// Bytes that had been evicted at its first one.
    bytes_before: u64,
}

impl Backoff {
    /// A step of the command, or of the transaction, has ended that began then.
    pub(crate) fn note_step(&mut self, start: StepStart) {
        self.logged.add(large::logged_apart() - start.0);
    }

    /// An attempt has ended in an Error.
    pub(super) fn note_attempt(&mut self) {
        self.logged.end_attempt();
    }

    /// What the client is told of an Error after the last attempt. If one of them has logged more than a transaction
    /// may, and found the log full, others are likely to find it so for ever.
    pub(crate) fn told(&self, context: &Context<'_>, status: Status) -> Status {
        let share = u64::from(context.engine.config().log_ring / abi::BPFDB_LOG_SHARE);
        match status {
            Status::LogFull if u64::from(self.logged.most) * Logged::UNIT > share => {
                Status::TxnTooLarge
            }
            other => other,
        }
    }

    /// Has the command rest a moment after an Error, while others are served; false if
    /// another attempt would not help.
    pub(crate) fn wait(&mut self, context: &mut Context<'_>, status: Status) -> bool {
        self.note_attempt();
        self.waits_for_garbage(context, status)
            || self.waits(context, status)
            || is_shortage(status) && self.asks_collector(context)
    }

    /// Memory is full, and nothing is evicted: is the command to be tried again when garbage is removed?
    pub(super) fn waits_for_garbage(&mut self, context: &mut Context<'_>, status: Status) -> bool {
        is_refused(context, status) && self.asks_collector(context)
    }

    fn asks_collector(&mut self, context: &mut Context<'_>) -> bool {
        let shortage = self.shortage.get_or_insert_default();
        let times = match shortage.garbage.take() {
            None => 0,
            Some(waiting) if waiting.request.has_helped(waiting.times == 1) => waiting.times,
            Some(_) => ROUNDS,
        };
        if !shortage.is_collected && times < ROUNDS {
            shortage.garbage = large::ask().map(|request| {
                let times = times + 1;
                Waiting { request, times }
            });
        }
        shortage.is_collected = shortage.garbage.is_none();
        if !shortage.is_collected {
            context.rest(PAUSED);
        }
        !shortage.is_collected
    }

    /// Does it wait for garbage to be removed, or for the log to be written out? Before that another attempt
    /// makes no sense.
    pub(crate) fn is_waiting(&self, engine: &Engine) -> bool {
        self.shortage.as_ref().is_some_and(|shortage| {
            let garbage = shortage.garbage.as_ref();
            let drain = shortage.drain.as_ref();
            garbage.is_some_and(|waiting| !waiting.request.is_over())
                || drain.is_some_and(|drain| !drain.is_over(engine))
        })
    }

    /// The log is full, also of what this command has logged outside of its transaction: is it to be tried again
    /// when that is written out?
    fn waits_for_log(&mut self, context: &mut Context<'_>) -> bool {
        let shortage = self.shortage.get_or_insert_default();
        let times = match &shortage.drain {
            None => 0,
            Some(drain) if drain.is_written(context.engine) => drain.times,
            Some(_) => DRAINS,
        };
        if times >= DRAINS {
            return false;
        }
        shortage.drain = Some(Drain {
            timestamp: context.engine.now(),
            until: Instant::now() + LOG_PATIENCE,
            times: times + 1,
        });
        context.rest(PAUSED);
        true
    }

    /// The same for all but garbage.
    fn waits(&mut self, context: &mut Context<'_>, status: Status) -> bool {
        if status == Status::LogFull && self.logged.most > 0 {
            return self.waits_for_log(context);
        }
        let evicts = context.instance.evictor.rules().evicts();
        if evicts && is_shortage(status) && self.is_hopeless(context) {
            return false;
        }
        let again = match status {
            // While pages of the index come and go, one may be crowded for a moment.
            Status::OutOfMemory | Status::IndexCrowded if evicts => again(Status::MemoryPending),
            _ => again(status),
        };
        let Some((mut most, mut pause)) = again else {
            return false;
        };
        self.attempts += 1;
        if self.attempts > most
            && status == Status::Conflict
            && self.meets_program(context, self.attempts - most)
        {
            most += PROGRAM.0;
            pause = PROGRAM.1;
        }
        if self.attempts > most {
            return false;
        }
        if status == Status::MemoryPending {
            context.engine.ask_for_memory();
        }
        context.rest(pause);
        true
    }

    /// Asks for records to be evicted. True: there was none to evict since this command has asked first.
    /// Attempts do not count while others go, unless as much has gone as there is memory, and this one
    /// has found no room in it; nor before the evictor has come by, which may have no processor.
    fn is_hopeless(&mut self, context: &Context<'_>) -> bool {
        let evictor = &context.instance.evictor;
        let shortage = self.shortage.get_or_insert_default();
        let in_vain = (shortage.eviction.as_ref()).map_or(0, |eviction| eviction.in_vain);
        let number = evictor.ask(in_vain >= INSISTS);
        let (evicted, passes) = (evictor.evicted(), evictor.passes());
        let Some(eviction) = &mut shortage.eviction else {
            shortage.eviction = Some(Eviction {
                number,
                passes,
                in_vain: 0,
                evicted,
                bytes_before: evictor.evicted_bytes(),
            });
            return false;
        };
        if eviction.passes == passes {
            self.attempts = self.attempts.saturating_sub(1);
        } else {
            eviction.passes = passes;
            eviction.in_vain += 1;
        }
        let bytes = evictor.evicted_bytes() - eviction.bytes_before;
        if eviction.evicted != evicted && bytes < context.engine.memory_limit() {
            eviction.evicted = evicted;
            self.attempts = 0;
        }
        evictor.is_hopeless(eviction.number)
    }

    /// Has only a program of the kernel the key? `attempt`: from 1 on. To look takes a
    /// millisecond with ten thousands of sessions, and what is found is true for a while.
    fn meets_program(&self, context: &Context<'_>, attempt: u32) -> bool {
        attempt % LOOKS != 1 || !context.session.conflict_is_interactive()
    }
}
