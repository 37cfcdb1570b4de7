//! `bpfdb stats`.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use bpfdb::{Observer, Stats, Status, abi};
use serde_json::{Map, Value, json};

use crate::{pins, size};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Port of the server whose engine to look at
    #[arg(long, short, default_value_t = 6379)]
    port: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const OPERATIONS: [(&str, u32); abi::BPFDB_OP_COUNT as usize] = [
    ("begin", abi::BPFDB_OP_BEGIN),
    ("begin_read_only", abi::BPFDB_OP_BEGIN_READ_ONLY),
    ("get", abi::BPFDB_OP_GET),
    ("set", abi::BPFDB_OP_SET),
    ("delete", abi::BPFDB_OP_DELETE),
    ("commit", abi::BPFDB_OP_COMMIT),
    ("rollback", abi::BPFDB_OP_ROLLBACK),
    ("get_for_update", abi::BPFDB_OP_GET_FOR_UPDATE),
];

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let folder = pins::folder_of(arguments.port)?;
    let observer = Observer::open(&folder)
        .with_context(|| format!("no engine of a server on port {}", arguments.port))?;
    let value = describe(&observer.stats()?);
    let mut out = io::stdout().lock();

    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&value)?)?;
    } else {
        print_section(&mut out, "", &value)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Everything there is, as nested objects of numbers.
fn describe(stats: &Stats) -> Value {
    json!({
        "data": {
            "records": stats.records,
            "history_versions": stats.history_versions,
            "slots_used": stats.slots_used(),
        },
        "memory": {
            "limit_bytes": stats.segments_max * bpfdb::SEGMENT_SIZE,
            "added_bytes": stats.memory_added(),
            "used_bytes": stats.memory_used(),
            "segments": stats.segments,
            "pages_taken": stats.pages_taken,
            "pages_free": stats.pages_free,
            "index_pages": stats.index_pages,
            "size_classes": classes(stats),
        },
        "sessions": {
            "open": stats.sessions,
            "in_transaction": stats.transactions,
            "snapshots": stats.snapshots,
            "locks": stats.locks,
            "clock": stats.clock,
        },
        "operations": operations(&stats.counters),
        "errors": errors(&stats.counters),
        "events": events(&stats.counters),
    })
}

fn classes(stats: &Stats) -> Value {
    let used = stats.classes.iter().filter(|class| class.pages > 0);
    Value::Object(
        used.map(|class| {
            let figures = json!({
                "pages": class.pages, "slots": class.slots, "used": class.used,
            });
            (class.size.to_string(), figures)
        })
        .collect(),
    )
}

fn operations(counters: &abi::bpfdb_counters) -> Value {
    OPERATIONS
        .iter()
        .map(|&(name, number)| {
            let count = counters.operations[number as usize];
            (name.to_owned(), Value::from(count))
        })
        .collect::<Map<_, _>>()
        .into()
}

fn errors(counters: &abi::bpfdb_counters) -> Value {
    Status::ALL
        .iter()
        .filter(|status| status.is_error())
        .map(|status| {
            let count = counters.statuses[status.code() as usize];
            (status.name().to_ascii_lowercase(), Value::from(count))
        })
        .collect::<Map<_, _>>()
        .into()
}

fn events(c: &abi::bpfdb_counters) -> Value {
    json!({
        "latch_retries": c.latch_retries,
        "read_retries": c.read_retries,
        "autocommit_retries": c.autocommit_retries,
        "commits_helped": c.commits_helped,
        "page_splits": c.page_splits,
        "page_merges": c.page_merges,
        "pages_reclaimed": c.pages_reclaimed,
        "versions_pruned": c.versions_pruned,
        "records_swept": c.records_swept,
        "sessions_reaped": c.sessions_reaped,
        "requests_fast": c.requests_fast,
        "connections_passed": c.connections_passed,
        "bytes_passed": c.bytes_passed,
    })
}

fn print_section(out: &mut impl Write, indent: &str, value: &Value) -> io::Result<()> {
    let Value::Object(entries) = value else {
        return Ok(());
    };
    for (name, value) in entries {
        match value.as_u64() {
            Some(bytes) if name.ends_with("_bytes") => {
                let name = name.trim_end_matches("_bytes");
                writeln!(out, "{indent}{name:<20} {:>16}", size::format(bytes))?;
            }
            Some(number) => writeln!(out, "{indent}{name:<20} {number:>16}")?,
            None => {
                writeln!(out, "{indent}{name}")?;
                print_section(out, &format!("{indent}  "), value)?;
            }
        }
    }
    Ok(())
}
