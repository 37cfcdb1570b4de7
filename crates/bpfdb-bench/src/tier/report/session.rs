//! `tier-report`: sessions of user space that write, beside one that reports.

use anyhow::{Context, Result, ensure};
use bpfdb::{Engine, Operation, Options, Session};

use super::{FIELD, PERIOD, Reports, Seen, table};
use crate::plan::Plan;
use crate::random::{Distribution, Random, sequence};
use crate::records::{Key, key_of};
use crate::report::Table;
use crate::run::{DRAWS, SEED, loaded_engine};
use crate::tier::beside::{VALUE, every, write_beside};

/// GETs in a system call: some 40 µs, which nothing else on its processor interrupts.
const BATCH: usize = 128;

pub(crate) fn measure(plan: &Plan) -> Result<Table> {
    let draws = sequence(Distribution::Uniform, plan.beside_records, DRAWS, SEED);
    let engine = loaded_engine(plan.beside_records, VALUE, Options::default())?;
    let mut seen = Seen::default();
    plan.repeat("reports by sessions", |round, warms_up| {
        let time = plan.beside_time;
        let (alone, ()) = write_beside(&engine, &draws, time, |_| Ok(()))?;
        let (beside, reports) = write_beside(&engine, &draws, time, |over| {
            let mut reporter = Reporter::new(&engine, plan, round as u64)?;
            let mut reports = Reports::new()?;
            every(PERIOD, over, || reports.make(|| reporter.report()))?;
            Ok(reports)
        })?;
        engine.sweep()?;
        if !warms_up {
            seen.alone.push(alone);
            seen.beside.push(beside);
            seen.push(&reports);
        }
        Ok(())
    })?;
    let writers = format!("two sessions that SET, one by one, records of {VALUE} B");
    let mut table = table("tier-report", &writers, plan);
    seen.rows(&mut table, "sessions of user space", true);
    table.note(format!(
        "a report: BEGIN of a read-only transaction, GETs in batches of {BATCH}, COMMIT"
    ));
    Ok(table)
}

struct Reporter {
    session: Session,
    random: Random,
    records: u32,
    /// Of all records.
    all: u32,
}

impl Reporter {
    fn new(engine: &Engine, plan: &Plan, seed: u64) -> Result<Self> {
        Ok(Self {
            session: engine.session()?,
            random: Random::new(seed),
            records: plan.report_records,
            all: plan.beside_records,
        })
    }

    /// Sums up the field of some records. Writers put the same number there that was there, so the
    /// sum is known.
    fn report(&mut self) -> Result<u64> {
        let first = self.random.below((self.all - self.records).into()) as u32;
        let keys: Vec<Key> = (first..first + self.records).map(key_of).collect();
        self.session.begin_read_only()?;
        let mut sum = 0u64;
        for keys in keys.chunks(BATCH) {
            sum = sum.wrapping_add(sum_of(&mut self.session, keys)?);
        }
        self.session.commit()?;
        let expected = keys.iter().map(|key| field(key));
        let expected = expected.fold(0, u64::wrapping_add);
        ensure!(sum == expected, "a report has another sum");
        Ok(sum)
    }
}

fn sum_of(session: &mut Session, keys: &[Key]) -> Result<u64> {
    let operations: Vec<Operation> = keys.iter().map(|key| Operation::Get(key)).collect();
    let batch = session.prepare(&operations, VALUE)?;
    session.run(&batch)?;
    let mut sum = 0u64;
    for i in 0..batch.len() {
        let value = session.value_in(&batch, i)?.context("a record is gone")?;
        sum = sum.wrapping_add(field(value));
    }
    Ok(sum)
}

fn field(value: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&value[FIELD..FIELD + 8]);
    u64::from_ne_bytes(bytes)
}
