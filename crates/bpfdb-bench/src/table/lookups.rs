//! Look-ups by key.

use std::time::Instant;

use anyhow::{Result, ensure};
use bpfdb_apps::random::Random;
use bpfdb_table::{ChainOptions, Chains, Reader, Table as File};

use super::made::{entries, key, make};
use super::uring::Uring;
use crate::durability::Place;
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;

const DEPTHS: std::ops::RangeInclusive<u32> = 1..=6;
const LOOKUPS: usize = 2000;
const LOOKUPS_QUICK: usize = 64;
/// Look-ups at the same time.
const MANY: usize = 16;
/// What chains in the kernel are to reach.
const OF_PREAD: f64 = 1.3;
const OF_URING: f64 = 0.95;

/// Look-ups per second.
#[derive(Default)]
struct Rates {
    chain: Sample,
    uring: Sample,
    pread: Sample,
}

pub(super) fn measure(plan: &Plan, place: &Place) -> Result<Vec<Table>> {
    let (mut one, mut many) = (table("tables", 1), table("tables-many", MANY));
    for depth in DEPTHS {
        let file = make(&place.disk("table"), depth)?;
        let (mut alone, mut together) = (Rates::default(), Rates::default());
        plan.repeat(&format!("tables of depth {depth}"), |round, warms_up| {
            let lookups = if plan.quick { LOOKUPS_QUICK } else { LOOKUPS };
            let keys = drawn(round as u64, lookups, depth);
            let rates = (run(&file, &keys, 1)?, run(&file, &keys, MANY)?);
            if !warms_up {
                alone.add(rates.0);
                together.add(rates.1);
            }
            Ok(())
        })?;
        one.row(alone.row(depth));
        many.row(together.row(depth));
    }
    for table in [&mut one, &mut many] {
        table.note(format!("the file is on {}", place.device()));
        table.note("spread: least and greatest of the rounds; ratios are taken round by round");
    }
    Ok(vec![one, many])
}

fn table(name: &str, many: usize) -> Table {
    let title = format!(
        "look-ups in a table, O_DIRECT, blocks of 512 B, fan-out 8, {many} at the same time: thousands a second"
    );
    let columns = [
        "depth",
        "chain in the kernel",
        "io_uring",
        "pread",
        "of io_uring",
        "target",
        "of pread",
        "target",
    ];
    Table::new(name, title, &columns)
}

impl Rates {
    fn add(&mut self, [chain, uring, pread]: [f64; 3]) {
        self.chain.push(chain);
        self.uring.push(uring);
        self.pread.push(pread);
    }

    fn row(&self, depth: u32) -> Vec<Cell> {
        let thousands = |rates: &Sample| Cell::figure(&rates.map(|rate| rate / 1e3), 1);
        let (of_uring, of_pread) = (self.chain.over(&self.uring), self.chain.over(&self.pread));
        vec![
            depth.into(),
            thousands(&self.chain),
            thousands(&self.uring),
            thousands(&self.pread),
            Cell::figure(&of_uring, 2),
            Cell::at_least(&of_uring, OF_URING),
            Cell::figure(&of_pread, 2),
            Cell::at_least(&of_pread, OF_PREAD),
        ]
    }
}

fn drawn(seed: u64, lookups: usize, depth: u32) -> Vec<u64> {
    let mut random = Random::new(seed);
    (0..lookups).map(|_| random.below(entries(depth))).collect()
}

/// Look-ups per second: chains, io_uring, pread.
fn run(file: &File, numbers: &[u64], many: usize) -> Result<[f64; 3]> {
    let keys: Vec<[u8; 8]> = numbers.iter().map(|number| key(*number)).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let options = ChainOptions {
        together: many,
        // Each block is a read.
        pool: 0,
        ..ChainOptions::default()
    };
    let mut chains = Chains::start(file, &options)?;
    let chain = timed(numbers, || Ok(chains.get_many(&keys)?))?;
    ensure!(chains.figures().by_process == 0, "the process has read");
    drop(chains);
    let mut ring = Uring::new(file, many)?;
    let uring = timed(numbers, || ring.get_many(&keys))?;
    let pread = timed(numbers, || pread(file, &keys, many))?;
    Ok([chain, uring, pread])
}

type Values = Vec<Option<Vec<u8>>>;

fn timed(numbers: &[u64], ask: impl FnOnce() -> Result<Values>) -> Result<f64> {
    let begun = Instant::now();
    let values = ask()?;
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(values.len() == numbers.len(), "an answer for each");
    for (number, value) in numbers.iter().zip(values) {
        let is_right = value.is_some_and(|value| value[..8] == number.to_le_bytes());
        ensure!(is_right, "a wrong answer for {number}");
    }
    Ok(numbers.len() as f64 / seconds)
}

/// Each of so many threads has its part of the keys.
fn pread(file: &File, keys: &[&[u8]], threads: usize) -> Result<Values> {
    std::thread::scope(|scope| {
        let part = |keys: &[&[u8]]| -> Result<Values> {
            let mut reader = Reader::new(file);
            keys.iter().map(|key| Ok(reader.get(key)?)).collect()
        };
        let parts: Vec<_> = keys
            .chunks(keys.len().div_ceil(threads))
            .map(|keys| scope.spawn(move || part(keys)))
            .collect();
        let mut values = Vec::with_capacity(keys.len());
        for part in parts {
            values.extend(part.join().expect("it does not panic")?);
        }
        Ok(values)
    })
}
