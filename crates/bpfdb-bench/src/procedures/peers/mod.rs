//! `procedures-peers`: Voter, SmallBank and TATP beside the stored procedures of Tarantool and
//! PostgreSQL. Each has the tables and the procedures that a user of it would write.
//!
//! ```text
//! tarantool.rs   Tarantool;  iproto.rs: its protocol;  calls.rs: what is called
//! postgres.rs    PostgreSQL; scripts.rs: what its client executes
//! *.lua, *.sql   their tables and procedures
//! ```
//!
//! After every measurement the data of a peer is checked: it must be what the calls have made of
//! it.

mod calls;
mod iproto;
mod postgres;
mod scripts;
mod tarantool;

use anyhow::{Result, ensure};

use super::calls::Work;
use super::tables::Comparison;
use super::{Contender, Row, Subject, run};
use crate::plan::Plan;
use crate::report::Table;
use crate::tcp::{NetworkNamespace, Server};

const NAME: &str = "procedures-peers";
/// Ahead of all.
const TARGET: f64 = 1.0;
const WORKS: [Work; 4] = [Work::Voter, Work::HotVoter, Work::SmallBank, Work::Tatp];
const PIPELINES: [u32; 2] = [1, 16];

pub(super) fn measure(plan: &Plan) -> Result<Vec<Table>> {
    let namespaces = [NetworkNamespace::here(), NetworkNamespace::here()];
    let bpfdb = Subject::in_the_kernel(Server::bpfdb("off", &namespaces, plan.quick)?)?;
    let mut contenders: Vec<Box<dyn Contender>> = vec![Box::new(bpfdb)];
    let mut missing = Vec::new();
    match tarantool::Tarantool::start(plan) {
        Ok(tarantool) => contenders.push(Box::new(tarantool)),
        Err(error) => missing.push(format!("Tarantool: not measured: {error:#}")),
    }
    match postgres::start(plan) {
        Ok(isolated) => {
            let isolated = isolated.map(|one| Box::new(one) as Box<dyn Contender>);
            contenders.extend(isolated);
        }
        Err(error) => missing.push(format!("PostgreSQL: not measured: {error:#}")),
    }
    let rows = rows();
    let figures = run(plan, NAME, &rows, &mut contenders)?;
    let comparison = Comparison {
        name: NAME,
        heads: &["request", "-P"],
        servers: contenders.iter().map(|one| one.name().to_owned()).collect(),
        rows: &rows,
        figures: &figures,
    };
    let title = format!(
        "stored procedures, thousands of calls per second: {} connections, phones: {}, customers \
         and subscribers: {}",
        super::CONNECTIONS,
        plan.tcp_keys,
        Work::keys(plan)
    );
    let mut rates = comparison.rates(title);
    missing.into_iter().for_each(|note| rates.note(note));
    Ok(vec![rates, comparison.latencies()])
}

fn rows() -> Vec<Row> {
    let of = |work| PIPELINES.map(|pipeline| Row::new(work, pipeline, Some(TARGET)));
    WORKS.into_iter().flat_map(of).collect()
}

/// As its files and procedures are called.
fn application(work: Work) -> &'static str {
    match work {
        Work::SmallBank => "smallbank",
        Work::Tatp => "tatp",
        _ => "voter",
    }
}

/// Fails if one of these sums has not grown by so much.
fn expect_gain(before: &[i64], after: &[i64], gain: i64) -> Result<()> {
    let grown: Vec<i64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
    ensure!(
        !grown.is_empty() && grown.iter().all(|&grown| grown == gain),
        "sums have grown by {grown:?}, not by {gain}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sum_must_have_grown() {
        expect_gain(&[1, 2], &[6, 7], 5).expect("both have");
        expect_gain(&[1, 2], &[6, 6], 5).expect_err("one has not");
        expect_gain(&[], &[], 5).expect_err("no sums");
    }
}
