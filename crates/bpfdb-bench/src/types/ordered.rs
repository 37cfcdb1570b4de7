//! Rows of an ordered table: what its index costs beside a record in no table, and scans from user
//! space and in the kernel.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bpfdb::{Engine, Options, OrderedTable, Program, Session};
use libbpf_rs::Object;

use crate::kernel::find;
use crate::plan::Plan;
use crate::sample::Sample;

const VALUE: [u8; 100] = [b'v'; 100];
/// A prime: its multiples modulo another one are all numbers, in an order that looks like none.
const STEP: u64 = 48_271;
/// Memory of the engine for a row, with the record in no table beside it.
const BYTES_PER_ROW: u64 = 2_048;
/// Scans of a step in user space.
const SCANS: u64 = 500;

/// What is done with each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Plain,
    New,
    Update,
    /// So many rows, in a transaction of the scan's own.
    Scan(u64),
    Keys,
    Values,
    Delete,
}

impl Step {
    /// In the order in which they are measured: each finds what the one before has left.
    pub(super) const ALL: [Self; 8] = [
        Self::Plain,
        Self::New,
        Self::Update,
        Self::Scan(100),
        Self::Scan(1_000),
        Self::Keys,
        Self::Values,
        Self::Delete,
    ];

    pub(super) fn name(self) -> String {
        match self {
            Self::Plain => "SET of a new key in no table".into(),
            Self::New => "a new row".into(),
            Self::Update => "another value of a row".into(),
            Self::Scan(rows) => format!("scan of {rows} with values, each row"),
            Self::Keys => "scan of all keys by a program in the kernel, each row".into(),
            Self::Values => "the same with GET of each value".into(),
            Self::Delete => "a row that goes".into(),
        }
    }
}

/// Nanoseconds of each step, and how many rows there are.
pub(super) struct Rows {
    pub(super) nanos: BTreeMap<Step, Sample>,
    pub(super) rows: u64,
}

pub(super) fn measure(plan: &Plan) -> Result<Rows> {
    let subject = Subject::new(u64::from(plan.ordered_rows))?;
    let mut nanos: BTreeMap<Step, Sample> = BTreeMap::new();
    plan.repeat("types-ordered", |_, warm_up| {
        let mut session = subject.engine.session()?;
        for step in Step::ALL {
            let each = subject.time(&mut session, step)?;
            if !warm_up {
                nanos.entry(step).or_default().push(each);
            }
        }
        subject.clear(&mut session)
    })?;
    let rows = subject.rows;
    Ok(Rows { nanos, rows })
}

struct Subject {
    table: OrderedTable,
    keys: Program,
    values: Program,
    rows: u64,
    _object: Object,
    engine: Engine,
}

impl Subject {
    /// `rows`: a number up to which, from 0 on, `key` has each number once.
    fn new(rows: u64) -> Result<Self> {
        let memory = (rows * BYTES_PER_ROW).max(64 << 20);
        let engine = Engine::create(&Options {
            memory_limit: memory,
            memory_ahead: memory,
            ordered_tables: 1,
            ..Options::default()
        })?;
        let mut object = bpfdb::open_object(crate::objects::BENCH, "bench")?;
        engine.adopt(&mut object)?;
        let object = object.load().context("load the benchmark programs")?;
        Ok(Self {
            table: engine.ordered_table(0)?,
            keys: find(&object, "ordered_keys")?,
            values: find(&object, "ordered_values")?,
            rows,
            _object: object,
            engine,
        })
    }

    fn key(&self, prefix: &str, number: u64) -> Vec<u8> {
        let number = (number + 1) * STEP % (self.rows + 1);
        format!("{prefix}{number:012}").into_bytes()
    }

    /// Does the step once; nanoseconds for each row.
    fn time(&self, session: &mut Session, step: Step) -> Result<f64> {
        let start = Instant::now();
        let rows = match step {
            Step::Plain => {
                for number in 0..self.rows {
                    session.set(&self.key("plain:", number), &VALUE)?;
                }
                self.rows
            }
            Step::New | Step::Update => {
                for number in 0..self.rows {
                    self.table.set(session, &self.key("", number), &VALUE)?;
                }
                self.rows
            }
            Step::Delete => {
                for number in 0..self.rows {
                    let found = self.table.delete(session, &self.key("", number))?;
                    ensure!(found, "a row was lost");
                }
                self.rows
            }
            Step::Scan(limit) => self.scan(session, limit)?,
            Step::Keys => self.run(session, &self.keys)?,
            Step::Values => self.run(session, &self.values)?,
        };
        Ok(start.elapsed().as_nanos() as f64 / rows as f64)
    }

    /// Rows that were found.
    fn scan(&self, session: &mut Session, limit: u64) -> Result<u64> {
        let mut rows = 0;
        for number in 0..SCANS {
            let start = self.key("", number);
            let found = self.table.scan(session, start.., limit as usize)?;
            ensure!(!found.rows.is_empty(), "a scan from a row found none");
            rows += found.rows.len() as u64;
        }
        Ok(rows)
    }

    fn run(&self, session: &Session, program: &Program) -> Result<u64> {
        let rows = program.run(&[u64::from(session.index()), 0, 0, 0, 0])?;
        ensure!(
            u64::from(rows) == self.rows,
            "a scan in the kernel found {rows} of {} rows",
            self.rows
        );
        Ok(self.rows)
    }

    /// Leaves the engine as it was before the round.
    fn clear(&self, session: &mut Session) -> Result<()> {
        for number in 0..self.rows {
            session.delete(&self.key("plain:", number))?;
        }
        Ok(())
    }
}
