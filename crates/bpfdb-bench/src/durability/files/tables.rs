//! The table.

use super::NAME;
use super::figures::{Figures, What};
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;

use Shown::{Is, Rate, Ratio};

/// Times that writers may take during a checkpoint, in those before.
const TARGET_WRITERS: f64 = 1.3;
/// Seconds to go on with the data in the kernel.
const TARGET_GOES_ON: f64 = 1.0;

struct Figure<'a> {
    size: u32,
    records: u32,
    of: &'a Figures,
}

/// What a line shows of each database.
#[derive(Clone, Copy)]
enum Shown {
    Is(What),
    /// Thousands of records per second, of something that took so many seconds.
    Rate(What),
    /// The first over the second.
    Ratio(What, What),
}

/// One line: a name, what is shown, digits behind the point.
type Line = (&'static str, Shown, usize);

const LINES: [Line; 18] = [
    ("checkpoint / BGSAVE beside writers, s", Is(What::Busy), 2),
    ("the same, MB/s", Is(What::BusySpeed), 0),
    ("without writers, s", Is(What::Idle), 2),
    ("the same, MB/s", Is(What::IdleSpeed), 0),
    ("processor time of a record, ns", Is(What::Processor), 0),
    ("p99 of writers before, µs", Is(What::Before), 0),
    ("p99 of writers during, µs", Is(What::During), 0),
    (WRITERS, Ratio(What::During, What::Before), 2),
    ("writes refused, of a million", Is(What::Refused), 0),
    ("start without data, s", Is(What::EmptyStart), 2),
    (
        "start from checkpoint / RDB file, s",
        Is(What::SavedStart),
        2,
    ),
    (
        "the same, thousands of records per second",
        Rate(What::SavedStart),
        0,
    ),
    (
        "start from log / append-only file, s",
        Is(What::LogStart),
        2,
    ),
    (
        "the same, thousands of records per second",
        Rate(What::LogStart),
        0,
    ),
    (GOES_ON, Is(What::GoesOn), 2),
    (
        "log / append-only file, bytes a write",
        Is(What::LogBytes),
        0,
    ),
    ("of the log: records, bytes a write", Is(What::Logged), 0),
    (
        "checkpoint / RDB file, bytes a record",
        Is(What::SaveBytes),
        0,
    ),
];
const WRITERS: &str = "during over before";
const GOES_ON: &str = "start after kill -9, s beyond one without data";

impl Figure<'_> {
    fn get(&self, what: What, which: usize) -> Sample {
        self.of.sample(what, self.size, which)
    }

    fn shown(&self, shown: Shown, which: usize) -> Sample {
        let records = f64::from(self.records);
        match shown {
            Is(what) => self.get(what, which),
            Rate(what) => self.get(what, which).map(|seconds| records / seconds / 1e3),
            Ratio(what, other) => self.get(what, which).over(&self.get(other, which)),
        }
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
        for (name, shown, digits) in LINES {
            let mut cells = vec![name.into(), size.into()];
            cells.extend((0..databases).map(|which| Cell::figure(&of.shown(shown, which), digits)));
            cells.push(target(name, &of.shown(shown, 0)));
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
