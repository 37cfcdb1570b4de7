//! The rounds of all requests, server by server.

use anyhow::Result;

use super::requests::Row;
use super::{CONNECTIONS, THREADS};
use crate::plan::Plan;
use crate::sample::Sample;
use crate::tcp::{Answer, Clients, Sent, Server, Values, send};

/// Of a row, by server.
#[derive(Default)]
pub(super) struct Figures {
    pub(super) rates: Vec<Sample>,
    pub(super) p50: Vec<Sample>,
    pub(super) p99: Vec<Sample>,
    pub(super) cpu: Vec<Sample>,
}

impl Figures {
    fn new(servers: usize) -> Self {
        let none = || vec![Sample::default(); servers];
        Self {
            rates: none(),
            p50: none(),
            p99: none(),
            cpu: none(),
        }
    }

    fn add(&mut self, which: usize, answer: Answer) {
        self.rates[which].push(answer.per_second);
        self.p50[which].push(answer.p50_micros);
        self.p99[which].push(answer.p99_micros);
        self.cpu[which].push(answer.cpu_micros);
    }
}

/// Of each row the figures, and what has failed.
pub(super) fn measure(
    plan: &Plan,
    servers: &[Server],
    name: &str,
    rows: &[Row],
) -> Result<(Vec<Figures>, Vec<String>)> {
    let mut figures: Vec<_> = rows.iter().map(|_| Figures::new(servers.len())).collect();
    let mut failures = Vec::new();
    for round in 0..plan.rounds {
        eprintln!("{name}: round {} of {}", round + 1, plan.rounds);
        for (row, figures) in rows.iter().zip(&mut figures) {
            for (which, server) in servers.iter().enumerate() {
                match run(plan, server, row, round) {
                    Ok(answer) => figures.add(which, answer),
                    Err(error) => {
                        let what = format!("{} -P {}", row.ask.name, row.pipeline);
                        let error = error.context(format!("{what} of {}", server.name));
                        // Of a quick run all must work. Else the other figures are worth having.
                        if plan.quick {
                            return Err(error);
                        }
                        let failure = format!("FAILED: round {}: {error:#}", round + 1);
                        eprintln!("{failure}");
                        failures.push(failure);
                    }
                }
            }
        }
    }
    Ok((figures, failures))
}

/// Every server gets the same requests; those of each round are others.
fn run(plan: &Plan, server: &Server, row: &Row, round: usize) -> Result<Answer> {
    let clients = Clients {
        connections: CONNECTIONS,
        threads: THREADS,
        pipeline: row.pipeline,
        database: row.ask.database,
    };
    let first = round as u64 * u64::from(THREADS);
    send(server, clients, row.requests(plan), |thread| {
        let write = row.ask.writer(plan, 1 + first + thread);
        Sent::new(write, row.pipeline, 1, Values::default)
    })
}
