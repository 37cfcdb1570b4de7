//! The table.

use super::NAME;
use super::figures::{Figures, What};
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;

/// Times that writers may take during a checkpoint, in those before.
const TARGET_WRITERS: f64 = 1.3;
/// Seconds to go on with the data in the kernel.
const TARGET_GOES_ON: f64 = 1.0;

struct Figure<'a> {
    size: u32,
    records: u32,
    of: &'a Figures,
}

/// One line: a name, the figure of a database, digits behind the point.
type Line = (&'static str, fn(&Figure<'_>, usize) -> Sample, usize);

const LINES: [Line; 18] = [
    (
        "checkpoint / BGSAVE beside writers, s",
        |f, n| f.get(What::Busy, n),
        2,
    ),
    ("the same, MB/s", |f, n| f.get(What::BusySpeed, n), 0),
    ("without writers, s", |f, n| f.get(What::Idle, n), 2),
    ("the same, MB/s", |f, n| f.get(What::IdleSpeed, n), 0),
    (
        "processor time of a record, ns",
        |f, n| f.get(What::Processor, n),
        0,
    ),
    (
        "p99 of writers before, µs",
        |f, n| f.get(What::Before, n),
        0,
    ),
    (
        "p99 of writers during, µs",
        |f, n| f.get(What::During, n),
        0,
    ),
    (
        WRITERS,
        |f, n| f.get(What::During, n).over(&f.get(What::Before, n)),
        2,
    ),
    (
        "writes refused, of a million",
        |f, n| f.get(What::Refused, n),
        0,
    ),
    (
        "start without data, s",
        |f, n| f.get(What::EmptyStart, n),
        2,
    ),
    (
        "start from checkpoint / RDB file, s",
        |f, n| f.get(What::SavedStart, n),
        2,
    ),
    (
        "the same, thousands of records per second",
        |f, n| f.rate(What::SavedStart, n),
        0,
    ),
    (
        "start from log / append-only file, s",
        |f, n| f.get(What::LogStart, n),
        2,
    ),
    (
        "the same, thousands of records per second",
        |f, n| f.rate(What::LogStart, n),
        0,
    ),
    (GOES_ON, |f, n| f.get(What::GoesOn, n), 2),
    (
        "log / append-only file, bytes a write",
        |f, n| f.get(What::LogBytes, n),
        0,
    ),
    (
        "of the log: records, bytes a write",
        |f, n| f.get(What::Logged, n),
        0,
    ),
    (
        "checkpoint / RDB file, bytes a record",
        |f, n| f.get(What::SaveBytes, n),
        0,
    ),
];
const WRITERS: &str = "during over before";
const GOES_ON: &str = "start after kill -9, s beyond one without data";

impl Figure<'_> {
    fn get(&self, what: What, which: usize) -> Sample {
        self.of.sample(what, self.size, which)
    }

    /// Thousands of records per second.
    fn rate(&self, what: What, which: usize) -> Sample {
        let records = f64::from(self.records);
        self.get(what, which).map(|seconds| records / seconds / 1e3)
    }
}

pub(super) fn table(plan: &Plan, names: Vec<String>, figures: &Figures) -> Table {
    let sizes: Vec<String> = (plan.files.iter())
        .map(|(size, records)| format!("{records} of {size} B"))
        .collect();
    let title = format!("checkpoints and recovery, records: {}", sizes.join(", "));
    let databases = names.len();
    let mut columns = vec!["what".to_owned(), "-d".to_owned()];
    columns.extend(names);
    columns.push("target".into());
    let mut table = Table::new(NAME, title, &columns);
    for &(size, records) in &plan.files {
        let of = Figure {
            size,
            records,
            of: figures,
        };
        for (name, figure, digits) in LINES {
            let mut cells = vec![name.into(), size.into()];
            cells.extend((0..databases).map(|which| Cell::figure(&figure(&of, which), digits)));
            cells.push(target(name, &figure(&of, 0)));
            table.row(cells);
        }
    }
    for note in [
        "bpfdb: everysec, no checkpoints but these; Redis: BGSAVE without a log, and appendonly \
         everysec without rewrites",
        "writers: two connections, each waits for its replies; processor time: of the server and \
         its child, without writers",
        "starts: until PING is answered, with files that are not in the page cache; bytes: on \
         the disk, those of the log with its spare and half-filled segments of 64 MiB; values do not \
         compress",
    ] {
        table.note(note);
    }
    table
}

fn target(name: &str, ours: &Sample) -> Cell {
    match name {
        WRITERS => Cell::at_most(ours, TARGET_WRITERS),
        GOES_ON => Cell::at_most_of(ours, TARGET_GOES_ON, "s"),
        _ => "".into(),
    }
}
