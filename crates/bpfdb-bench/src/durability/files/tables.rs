//! The table.

use super::NAME;
use super::figures::{Figures, What};
use super::targets::Target;
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;

use Shown::{Beyond, Is, OverRedis, Rate, RateBeyond, Ratio, ReadOverDisk};

/// What was measured with values of one size.
pub(super) struct Figure<'a> {
    pub(super) size: u32,
    pub(super) records: u32,
    databases: usize,
    of: &'a Figures,
}

/// What a line shows of each database.
#[derive(Clone, Copy)]
pub(super) enum Shown {
    Is(What),
    /// Thousands of records per second, of something that took so many seconds.
    Rate(What),
    /// Seconds beyond those of a start without data, and the rate of that.
    Beyond(What),
    RateBeyond(What),
    /// The first over the second.
    Ratio(What, What),
    /// Bytes of the checkpoint per second beyond a start without data, over the disk's rate.
    ReadOverDisk,
    /// The first database's over the best of the others.
    OverRedis(What),
}

/// One line: a name, what is shown, digits behind the point, what is promised of it.
struct Line(&'static str, Shown, usize, Option<Target>);

/// No line has a target but those that are promised one.
const fn line(name: &'static str, shown: Shown, digits: usize) -> Line {
    Line(name, shown, digits, None)
}

const fn aimed(name: &'static str, shown: Shown, digits: usize, target: Target) -> Line {
    Line(name, shown, digits, Some(target))
}

const RATE: &str = "the same, thousands of records per second";
const SPEED: &str = "the same, MB/s";
const BEYOND: &str = "the same beyond a start without data, s";
const OVER_DISK: &str = "the same, of the disk by itself";
const OVER_REDIS: &str = "start over that of the better Redis";

const LINES: [Line; 26] = [
    line("the disk by itself, writes, MB/s", Is(What::DiskWrites), 0),
    line("the disk by itself, reads, MB/s", Is(What::DiskReads), 0),
    line("checkpoint / BGSAVE beside writers, s", Is(What::Busy), 2),
    line(SPEED, Is(What::BusySpeed), 0),
    line("without writers, s", Is(What::Idle), 2),
    line(SPEED, Is(What::IdleSpeed), 0),
    aimed(
        OVER_DISK,
        Ratio(What::IdleSpeed, What::DiskWrites),
        2,
        Target::Written,
    ),
    line("processor time of a record, ns", Is(What::Processor), 0),
    line("p99 of writers before, µs", Is(What::Before), 0),
    line("p99 of writers during, µs", Is(What::During), 0),
    aimed(
        "during over before",
        Ratio(What::During, What::Before),
        2,
        Target::Writers,
    ),
    line("writes refused, of a million", Is(What::Refused), 0),
    line("start without data, s", Is(What::EmptyStart), 2),
    line(
        "start from checkpoint / RDB file, s",
        Is(What::SavedStart),
        2,
    ),
    line(RATE, Rate(What::SavedStart), 0),
    aimed(BEYOND, Beyond(What::SavedStart), 2, Target::Short),
    aimed(OVER_DISK, ReadOverDisk, 2, Target::Read),
    aimed(OVER_REDIS, OverRedis(What::SavedStart), 2, Target::Redis),
    line(
        "start from log / append-only file, s",
        Is(What::LogStart),
        2,
    ),
    line(RATE, Rate(What::LogStart), 0),
    aimed(
        "beyond a start without data, thousands per second",
        RateBeyond(What::LogStart),
        0,
        Target::Log,
    ),
    aimed(OVER_REDIS, OverRedis(What::LogStart), 2, Target::Redis),
    aimed(
        "start after kill -9, s beyond one without data",
        Is(What::GoesOn),
        2,
        Target::GoesOn,
    ),
    line(
        "log / append-only file, bytes a write",
        Is(What::LogBytes),
        0,
    ),
    line("of the log: records, bytes a write", Is(What::Logged), 0),
    line(
        "checkpoint / RDB file, bytes a record",
        Is(What::SaveBytes),
        0,
    ),
];

impl Figure<'_> {
    fn get(&self, what: What, which: usize) -> Sample {
        self.of.sample(what, self.size, which)
    }

    /// `which`: the number of the database. Empty if it has no such figure.
    pub(super) fn shown(&self, shown: Shown, which: usize) -> Sample {
        let records = f64::from(self.records);
        let rate = |seconds: f64| records / seconds / 1e3;
        match shown {
            Is(what) => self.get(what, which),
            Rate(what) => self.get(what, which).map(rate),
            Beyond(what) => self.beyond(what, which),
            RateBeyond(what) => self.beyond(what, which).map(rate),
            Ratio(what, other) => self.get(what, which).over(&self.get(other, which)),
            ReadOverDisk => {
                let megabytes = self
                    .get(What::SaveBytes, which)
                    .map(|each| each * records / 1e6);
                let speed = megabytes.over(&self.beyond(What::SavedStart, which));
                speed.over(&self.get(What::DiskReads, which))
            }
            OverRedis(what) if which == 0 => (1..self.databases)
                .map(|other| self.get(what, 0).over(&self.get(what, other)))
                .max_by(|a, b| a.median().total_cmp(&b.median()))
                .unwrap_or_default(),
            OverRedis(_) => Sample::default(),
        }
    }

    fn beyond(&self, what: What, which: usize) -> Sample {
        let empty = self.get(What::EmptyStart, which);
        self.get(what, which).with(&empty, |all, empty| all - empty)
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
            databases,
            of: figures,
        };
        for Line(name, shown, digits, target) in LINES {
            let mut cells = vec![name.into(), size.into()];
            cells.extend((0..databases).map(|which| Cell::figure(&of.shown(shown, which), digits)));
            cells.push(target.map_or("".into(), |target| target.cell(&of, shown)));
            table.row(cells);
        }
    }
    for note in NOTES {
        table.note(note);
    }
    table
}

const NOTES: [&str; 4] = [
    "bpfdb: everysec, no checkpoints but these; Redis: BGSAVE without a log, and appendonly \
     everysec without rewrites",
    "writers: two connections, each waits for its replies; processor time: of the server and \
     its child, without writers",
    "the disk by itself: a file of as many bytes as the checkpoint, 16 MiB to 1 GiB, written and \
     flushed, and read when it is not in the page cache; before each database's turn",
    "starts: until PING is answered, with files that are not in the page cache; bytes: on \
     the disk, those of the log with its spare and half-filled segments of 64 MiB; values do not \
     compress",
];
