//! Memory: bytes per record, how full the size classes are, and the longest
//! pause of a SET while the engine grows.

mod growth;

use anyhow::{Result, ensure};
use bpfdb::{Engine, Options, Stats};

use crate::plan::Plan;
use crate::records::{KEY_LEN, load};
use crate::report::{Cell, Table};

const VALUES: [usize; 2] = [16, 1024];
const MEMORY: u64 = 3 << 30;

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Table>> {
    let mut tables = bytes(plan)?;
    tables.push(growth::measure(plan)?);
    Ok(tables)
}

fn bytes(plan: &Plan) -> Result<Vec<Table>> {
    let mut records = Table::new(
        "memory",
        format!("bytes per record, {} records", plan.memory_records),
        &["key", "value", "bytes per record", "over key and value"],
    );
    let mut classes = Table::new(
        "memory-fill",
        "how full the memory of those records is",
        &[
            "value",
            "what",
            "pages of 64 KiB",
            "in use",
            "room",
            "fill %",
        ],
    );
    for value in VALUES {
        eprintln!("memory: {} records of {value} B", plan.memory_records);
        let engine = Engine::create(&Options {
            memory_limit: MEMORY,
            ..Options::default()
        })?;
        load(&engine, plan.memory_records, value)?;
        let stats = engine.stats()?;
        ensure!(
            stats.records == u64::from(plan.memory_records),
            "records were lost"
        );
        let each = stats.memory_held() as f64 / stats.records as f64;
        records.row([
            KEY_LEN.into(),
            value.into(),
            format!("{each:.1}").into(),
            format!("{:.2}", each / (KEY_LEN + value) as f64).into(),
        ]);
        fill(&mut classes, value, &stats);
    }
    Ok(vec![records, classes])
}

fn fill(table: &mut Table, value: usize, stats: &Stats) {
    let mut row = |what: String, pages: u64, used: u64, room: u64| {
        table.row([
            value.into(),
            what.into(),
            pages.into(),
            used.into(),
            room.into(),
            Cell::from(format!("{:.1}", used as f64 * 100.0 / room as f64)),
        ]);
    };
    let cells = stats.index_pages * u64::from(bpfdb::abi::BPFDB_CELLS_PER_PAGE);
    row("index".into(), stats.index_pages, stats.records, cells);
    for class in stats.classes.iter().filter(|class| class.pages > 0) {
        row(
            format!("slots of {} B", class.size),
            class.pages,
            class.used,
            class.slots,
        );
    }
}
