//! Sums over ranges: the kernel keeps the entries, the process gets one number.

use std::time::Instant;

use anyhow::{Result, ensure};
use bpfdb_table::{Aggregate, Bounds, ChainOptions, Chains, Field, Reader, Type};

use super::made::{entries, key, make};
use crate::durability::Place;
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;

const DEPTH: u32 = 6;
const DEPTH_QUICK: u32 = 4;
/// Entries of a range; the last one is the whole table.
const LENGTHS: [u64; 4] = [10, 1000, 10_000, u64::MAX];

const FIELD: Field = Field {
    offset: 0,
    kind: Type::U64,
};

pub(super) fn measure(plan: &Plan, place: &Place) -> Result<Table> {
    let depth = if plan.quick { DEPTH_QUICK } else { DEPTH };
    let file = make(&place.disk("table"), depth)?;
    let all = entries(depth);
    let lengths = LENGTHS.map(|length| length.min(all));
    let mut samples = lengths.map(|_| [Sample::default(), Sample::default()]);
    plan.repeat("sums of ranges", |round, warms_up| {
        let options = ChainOptions {
            pool: 0,
            ..ChainOptions::default()
        };
        let mut chains = Chains::start(&file, &options)?;
        let mut reader = Reader::new(&file);
        for (length, samples) in lengths.iter().zip(&mut samples) {
            // Few for long ranges.
            let times = (20_000 / length).clamp(1, 200);
            let begins = |time: u64| (round as u64 * 7919 + time * 104_729) % (all - length + 1);
            let rates = [
                rate(times, begins, *length, &mut |bounds| {
                    Ok(chains.aggregate(bounds, Some(FIELD))?)
                })?,
                rate(times, begins, *length, &mut |bounds| {
                    Ok(reader.aggregate(bounds, Some(FIELD))?)
                })?,
            ];
            for (sample, rate) in samples.iter_mut().zip(rates).filter(|_| !warms_up) {
                sample.push(rate);
            }
        }
        ensure!(chains.figures().by_process == 0, "the process has read");
        Ok(())
    })?;
    let columns = [
        "entries",
        "chain in the kernel, µs",
        "pread, µs",
        "pread by chain",
    ];
    let title = "the sum of a range, O_DIRECT, blocks of 512 B, up to 64 KiB at once: microseconds";
    let mut table = Table::new("tables-ranges", title, &columns);
    for (length, [chain, pread]) in lengths.iter().zip(&samples) {
        table.row([
            length.into(),
            Cell::figure(chain, 0),
            Cell::figure(pread, 0),
            Cell::figure(&pread.over(chain), 2),
        ]);
    }
    table.note(format!("the file is on {}", place.device()));
    Ok(table)
}

/// Microseconds for one range.
fn rate(
    times: u64,
    begins: impl Fn(u64) -> u64,
    length: u64,
    sum: &mut dyn FnMut(&Bounds<'_>) -> Result<Aggregate>,
) -> Result<f64> {
    let begun = Instant::now();
    for time in 0..times {
        let first = begins(time);
        let (from, to) = (key(first), key(first + length));
        let bounds = Bounds {
            from: &from,
            to: Some(&to),
        };
        let found = sum(&bounds)?;
        let expected = i128::from(length) * i128::from(2 * first + length - 1) / 2;
        ensure!(found.sum == expected, "a wrong sum from {first}: {found:?}");
    }
    Ok(begun.elapsed().as_secs_f64() * 1e6 / times as f64)
}
