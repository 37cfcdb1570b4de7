//! Who is called, with what, and what came of it.

use anyhow::{Context, Result, ensure};
use bpfdb_apps::client::{Address, Client};
use bpfdb_apps::procedures::{procedures, wait_for_kernel};

use super::calls::{self, Work};
use super::{CONNECTIONS, Row, SHARE, THREADS};
use crate::plan::Plan;
use crate::sample::Sample;
use crate::tcp::{Answer, Clients, Server, send};

/// What is sent, and how often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calls {
    pub(super) work: Work,
    pub(super) pipeline: u32,
    pub(super) requests: u32,
}

impl Calls {
    pub(super) fn of(plan: &Plan, row: &Row) -> Self {
        Self {
            work: row.work,
            pipeline: row.pipeline,
            requests: plan.tcp_requests[usize::from(row.pipeline > 1)] / SHARE,
        }
    }

    pub(super) fn clients(self) -> Clients {
        Clients {
            connections: CONNECTIONS,
            threads: THREADS,
            pipeline: self.pipeline,
            database: 0,
        }
    }

    /// Of functions.
    fn count(self) -> u32 {
        let sent = self.requests / self.pipeline / THREADS * self.pipeline * THREADS;
        sent * self.work.functions()
    }
}

/// What was measured once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) answer: Answer,
    /// Of a thousand calls: attempts that were repeated, and calls of bpfdb's daemon.
    pub(super) repeated: Option<f64>,
    pub(super) by_the_daemon: Option<f64>,
}

impl From<Answer> for Measured {
    fn from(answer: Answer) -> Self {
        Self {
            answer,
            repeated: None,
            by_the_daemon: None,
        }
    }
}

/// A database with stored procedures.
pub(super) trait Contender {
    fn name(&self) -> &str;

    /// Empties and fills it, and calls. `None`: it cannot do that.
    fn measure(&mut self, plan: &Plan, calls: Calls) -> Result<Option<Measured>>;
}

/// All rounds of all rows: of each row the figures.
pub(super) fn run<C: Contender + ?Sized>(
    plan: &Plan,
    name: &str,
    rows: &[Row],
    contenders: &mut [Box<C>],
) -> Result<Vec<Figures>> {
    let mut figures: Vec<_> = rows
        .iter()
        .map(|_| Figures::new(contenders.len()))
        .collect();
    for round in 0..plan.rounds {
        eprintln!("{name}: round {} of {}", round + 1, plan.rounds);
        for (row, figures) in rows.iter().zip(&mut figures) {
            for (which, contender) in contenders.iter_mut().enumerate() {
                let measured = contender.measure(plan, Calls::of(plan, row));
                let context = || format!("{} of {}", row.work.name(), contender.name());
                figures.add(which, measured.with_context(context)?);
            }
        }
    }
    Ok(figures)
}

/// A server that is called by FCALL.
pub(super) struct Subject {
    /// For what is not measured.
    client: Client,
    pub(super) server: Server,
    is_bpfdb: bool,
}

impl Subject {
    /// Bpfdb, when the kernel has all functions.
    pub(super) fn in_the_kernel(server: Server) -> Result<Self> {
        let mut subject = Self::new(server)?;
        wait_for_kernel(&mut subject.client)?;
        subject.is_bpfdb = true;
        Ok(subject)
    }

    pub(super) fn new(server: Server) -> Result<Self> {
        let mut client = Client::connect(&Address::Tcp(server.address))?;
        for library in calls::libraries() {
            client.load_library(library)?;
        }
        Ok(Self {
            client,
            server,
            is_bpfdb: false,
        })
    }

    pub(super) fn fill(&mut self, plan: &Plan, work: Work) -> Result<()> {
        self.client.ask(&["FLUSHALL"])?;
        work.fill(plan, &mut self.client)
    }

    /// Calls, with the data that is there.
    pub(super) fn call(&mut self, plan: &Plan, calls: Calls) -> Result<Measured> {
        let before = self.counters()?;
        let answer = send(&self.server, calls.clients(), calls.requests, |seed| {
            calls.work.batches(plan, calls.pipeline, seed)
        })?;
        let after = self.counters()?;
        let of_calls = |count: f64| 1000.0 * count / f64::from(calls.count());
        let counters = before
            .zip(after)
            .map(|(before, after)| [0, 1].map(|counter| (after[counter] - before[counter]) as f64));
        Ok(Measured {
            answer,
            repeated: counters.map(|[_, repeated]| of_calls(repeated)),
            by_the_daemon: counters.map(|[answered, _]| 1000.0 - of_calls(answered)),
        })
    }

    /// Of bpfdb: calls that the kernel has answered, and attempts that were repeated.
    fn counters(&mut self) -> Result<Option<[u64; 2]>> {
        if !self.is_bpfdb {
            return Ok(None);
        }
        let mut sums = [0; 2];
        for one in procedures(&mut self.client)?.values() {
            sums[0] += one.calls;
            sums[1] += one.conflicts;
        }
        Ok(Some(sums))
    }
}

impl Contender for Subject {
    fn name(&self) -> &str {
        &self.server.name
    }

    fn measure(&mut self, plan: &Plan, calls: Calls) -> Result<Option<Measured>> {
        self.fill(plan, calls.work)?;
        let measured = self.call(plan, calls)?;
        let none = measured
            .by_the_daemon
            .is_some_and(|daemon| daemon >= 1000.0);
        ensure!(!none, "the kernel has answered no call");
        Ok(Some(measured))
    }
}

/// Of a row, by contender; empty if it cannot do that.
pub(super) struct Figures {
    pub(super) rates: Vec<Sample>,
    pub(super) p50: Vec<Sample>,
    pub(super) p99: Vec<Sample>,
    pub(super) cpu: Vec<Sample>,
    pub(super) repeated: Vec<Sample>,
    pub(super) by_the_daemon: Vec<Sample>,
}

impl Figures {
    pub(super) fn new(contenders: usize) -> Self {
        let none = || vec![Sample::default(); contenders];
        Self {
            rates: none(),
            p50: none(),
            p99: none(),
            cpu: none(),
            repeated: none(),
            by_the_daemon: none(),
        }
    }

    pub(super) fn add(&mut self, which: usize, measured: Option<Measured>) {
        let Some(measured) = measured else {
            return;
        };
        let answer = measured.answer;
        for (samples, figure) in [
            (&mut self.rates, Some(answer.per_second)),
            (&mut self.p50, Some(answer.p50_micros)),
            (&mut self.p99, Some(answer.p99_micros)),
            (&mut self.cpu, Some(answer.cpu_micros)),
            (&mut self.repeated, measured.repeated),
            (&mut self.by_the_daemon, measured.by_the_daemon),
        ] {
            figure
                .into_iter()
                .for_each(|figure| samples[which].push(figure));
        }
    }
}
