//! Histories of transactions that are handed over whole.
//!
//! A procedure, or a block between MULTI and EXEC, does not let its client look at one reply
//! before it sends the next operator, as [`record`](super::record) does. The client says
//! beforehand all that the transaction does, and gets afterwards all that it has seen:
//!
//! ```text
//!   Whole: read 3, append 17 to 2, read 2, commit
//!      │ execute
//!      ▼
//!   Ended::Committed: [11 12], [9 16], [9 16 17]
//! ```
//!
//! Clients of all kinds may share a history: [`Stepwise`] is one for every target.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use bpfdb_model::history::{Access, Element, Key, Transaction, Workload, encode};
use bpfdb_model::{Error, check};

use super::Tally;
use super::history::{Histories, Last, elements_of, name, read_everything};
use crate::random::Random;
use crate::target::Client;

/// What a transaction does, and how it is to end.
#[derive(Clone, Debug)]
pub struct Whole {
    pub steps: Vec<Step>,
    pub end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Read(Key),
    /// Reads the list and writes it back with one element more; locked for that from the start.
    Append(Key, Element),
    /// The same; the reader becomes the writer.
    Upgrade(Key, Element),
    /// Adds the element at the end, without a look at the list.
    Push(Key, Element),
    /// Writes the element, whatever was there.
    Store(Key, Element),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Commit,
    /// Commits, but does something before that not every engine of procedures can.
    Detour,
    /// Is rolled back.
    Fail,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// What each step saw that reads, in their order.
    Committed(Vec<Option<Vec<u8>>>),
    /// It has left nothing, as it had to, or might.
    RolledBack,
    /// It has met a conflict, and has left nothing.
    Refused,
}

/// Executes whole transactions. What is neither of [`Ended`] is a finding.
pub trait WholeClient: Send {
    /// How many it is given at a time.
    fn together(&self) -> usize {
        1
    }

    /// Makes one of it that this client can execute.
    fn fit(&self, whole: &mut Whole) {
        let _ = whole;
    }

    /// As many results.
    fn execute(&mut self, all: &[Whole]) -> Result<Vec<Ended>, String>;
}

impl Step {
    pub fn key(self) -> Key {
        self.write().map_or_else(
            || match self {
                Step::Read(key) => key,
                _ => unreachable!("a write"),
            },
            |(key, _)| key,
        )
    }

    pub fn name(self) -> Vec<u8> {
        name(self.key())
    }

    /// Does it read?
    pub fn reads(self) -> bool {
        matches!(self, Step::Read(_) | Step::Append(..) | Step::Upgrade(..))
    }

    pub fn write(self) -> Option<(Key, Element)> {
        match self {
            Step::Read(_) => None,
            Step::Append(key, element)
            | Step::Upgrade(key, element)
            | Step::Push(key, element)
            | Step::Store(key, element) => Some((key, element)),
        }
    }
}

impl Whole {
    pub fn is_snapshot(&self) -> bool {
        let only_reads = self.steps.iter().all(|step| step.write().is_none());
        only_reads && self.end == End::Commit
    }

    /// What it did and saw. Of a transaction that has left nothing the reads are unknown.
    fn accesses(&self, ended: &Ended) -> Result<Vec<Access>, String> {
        let seen = match ended {
            Ended::Committed(seen) => Some(seen),
            _ => None,
        };
        let mut values = seen.into_iter().flatten();
        let mut accesses = Vec::new();
        for step in &self.steps {
            if step.reads() && seen.is_some() {
                let value = values.next().ok_or(format!("too few reads: {self:?}"))?;
                accesses.push(Access::Read(step.key(), elements_of(value.clone())?));
            }
            if let Some((key, element)) = step.write() {
                accesses.push(Access::Write(key, element));
            }
        }
        match values.next() {
            None => Ok(accesses),
            Some(_) => Err(format!("too many reads: {self:?}")),
        }
    }
}

/// Runs all clients at a time, and checks the history. `last` reads and deletes everything at
/// the end. One tally for each client.
pub fn record_whole(
    plan: Histories,
    clients: &mut [Box<dyn WholeClient + '_>],
    last: &mut impl Last,
) -> Result<Vec<Tally>, String> {
    let (clock, elements, stop) = (Instant::now(), AtomicU32::new(1), AtomicBool::new(false));
    let results: Vec<Result<Worker<'_>, String>> = thread::scope(|scope| {
        let spawn = |(number, client)| {
            let worker = Worker::new(plan, number, &elements);
            let stop = &stop;
            scope.spawn(move || {
                let result = worker.run(client, clock, stop);
                stop.fetch_or(result.is_err(), Ordering::Relaxed);
                result
            })
        };
        let threads: Vec<_> = clients.iter_mut().enumerate().map(spawn).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().expect("no panic");
        threads.into_iter().map(join).collect()
    });
    let keys = plan.all_keys(elements.load(Ordering::Relaxed));
    let everything = read_everything(last, &keys, clock);
    // Whatever was found: another history may follow.
    for key in keys {
        let deleted = last.delete(&name(key));
        deleted.map_err(|error| format!("DELETE at the end: {error}"))?;
    }
    let (mut tallies, mut history) = (Vec::new(), Vec::new());
    for result in results {
        let worker = result?;
        tallies.push(worker.tally);
        history.extend(worker.done);
    }
    history.push(everything?);
    check(plan.workload, &history).map_err(|violation| violation.to_string())?;
    Ok(tallies)
}

struct Worker<'a> {
    plan: Histories,
    number: usize,
    random: Random,
    elements: &'a AtomicU32,
    done: Vec<Transaction>,
    tally: Tally,
}

impl<'a> Worker<'a> {
    fn new(plan: Histories, number: usize, elements: &'a AtomicU32) -> Self {
        Worker {
            plan,
            number,
            random: Random::new(plan.seed + number as u64),
            elements,
            done: Vec::new(),
            tally: Tally::default(),
        }
    }

    fn run(
        mut self,
        client: &mut Box<dyn WholeClient + '_>,
        clock: Instant,
        stop: &AtomicBool,
    ) -> Result<Self, String> {
        let now = || clock.elapsed().as_nanos() as u64;
        while self.done.len() < self.plan.transactions && !stop.load(Ordering::Relaxed) {
            let all: Vec<Whole> = (0..client.together())
                .map(|_| {
                    let mut whole = self.draw();
                    client.fit(&mut whole);
                    whole
                })
                .collect();
            let began = now();
            let ended = client.execute(&all)?;
            let time = (began, now());
            if ended.len() != all.len() {
                return Err(format!("{} results of {all:?}", ended.len()));
            }
            for (whole, ended) in all.iter().zip(&ended) {
                self.note(whole, ended, time)?;
            }
        }
        Ok(self)
    }

    fn note(&mut self, whole: &Whole, ended: &Ended, time: (u64, u64)) -> Result<(), String> {
        match ended {
            Ended::Committed(_) if whole.end == End::Fail => {
                return Err(format!("client {} has committed {whole:?}", self.number));
            }
            Ended::Committed(_) => self.tally.committed += 1,
            Ended::RolledBack if whole.end == End::Commit => {
                return Err(format!("client {} has rolled back {whole:?}", self.number));
            }
            Ended::RolledBack => self.tally.given_up += 1,
            Ended::Refused if whole.is_snapshot() => {
                return Err(format!(
                    "client {} was refused a snapshot: {whole:?}",
                    self.number
                ));
            }
            Ended::Refused => self.tally.conflicts += 1,
        }
        self.tally.snapshots += u64::from(whole.is_snapshot());
        self.done.push(Transaction {
            client: self.number,
            began: time.0,
            ended: time.1,
            committed: matches!(ended, Ended::Committed(_)),
            accesses: whole.accesses(ended)?,
        });
        Ok(())
    }

    fn draw(&mut self) -> Whole {
        let is_snapshot = self.random.one_in(4);
        let steps = (0..1 + self.random.below(4)).map(|_| match is_snapshot {
            true => Step::Read(self.key()),
            false => self.step(),
        });
        let steps = steps.collect();
        let end = match self.random.below(64) {
            _ if is_snapshot => End::Commit,
            0 => End::Fail,
            1 => End::Detour,
            _ => End::Commit,
        };
        Whole { steps, end }
    }

    fn step(&mut self) -> Step {
        let key = self.key();
        if self.random.one_in(2) {
            return Step::Read(key);
        }
        let element = self.elements.fetch_add(1, Ordering::Relaxed);
        match (self.plan.workload, self.random.below(3)) {
            (Workload::Registers, _) => Step::Store(key, element),
            (Workload::Lists, 0) => Step::Append(key, element),
            (Workload::Lists, 1) => Step::Upgrade(key, element),
            (Workload::Lists, _) => Step::Push(key, element),
        }
    }

    fn key(&mut self) -> Key {
        let now = self.elements.load(Ordering::Relaxed);
        self.plan.first_key(now) + self.random.below(self.plan.keys) as Key
    }
}

/// A client of a target, which executes whole transactions step by step.
pub struct Stepwise<C> {
    client: C,
    /// Without BEGIN and COMMIT: each step is a transaction of its own, which is wrong.
    in_pieces: bool,
}

impl<C: Client> Stepwise<C> {
    pub fn new(client: C) -> Self {
        Stepwise {
            client,
            in_pieces: false,
        }
    }

    /// What a history must show.
    pub fn in_pieces(client: C) -> Self {
        Stepwise {
            client,
            in_pieces: true,
        }
    }

    fn begin(&mut self, whole: &Whole) -> Result<(), Error> {
        match (self.in_pieces, whole.is_snapshot()) {
            (true, _) => Ok(()),
            (false, true) => self.client.begin_read_only(),
            (false, false) => self.client.begin(),
        }
    }

    fn steps(&mut self, whole: &Whole) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let mut seen = Vec::new();
        for step in &whole.steps {
            let name = step.name();
            let mut list = match step {
                Step::Store(..) => None,
                Step::Append(..) if !self.in_pieces => self.client.get_for_update(&name)?,
                _ => self.client.get(&name)?,
            };
            if step.reads() {
                seen.push(list.clone());
            }
            if let Some((_, element)) = step.write() {
                let mut list = list.take().unwrap_or_default();
                list.extend(encode(&[element]));
                self.client.set(&name, &list)?;
            }
        }
        Ok(seen)
    }

    fn end(&mut self, whole: &Whole) -> Result<(), Error> {
        match (self.in_pieces, whole.end) {
            (true, _) => Ok(()),
            (false, End::Fail) => self.client.rollback(),
            (false, _) => self.client.commit(),
        }
    }

    fn one(&mut self, whole: &Whole) -> Result<Ended, String> {
        let began = self.begin(whole);
        began.map_err(|error| format!("BEGIN: {error}"))?;
        let done = self.steps(whole);
        match done.and_then(|seen| self.end(whole).map(|()| seen)) {
            Ok(_) if whole.end == End::Fail => Ok(Ended::RolledBack),
            Ok(seen) => Ok(Ended::Committed(seen)),
            Err(error) => {
                if !self.in_pieces {
                    // A COMMIT that failed has left nothing to roll back.
                    let _ = self.client.rollback();
                }
                Tally::default().expect(error).map(|()| Ended::Refused)
            }
        }
    }
}

impl<C: Client + Send> WholeClient for Stepwise<C> {
    fn fit(&self, whole: &mut Whole) {
        // Nothing can be taken back.
        if self.in_pieces {
            whole.end = End::Commit;
        }
    }

    fn execute(&mut self, all: &[Whole]) -> Result<Vec<Ended>, String> {
        all.iter().map(|whole| self.one(whole)).collect()
    }
}
