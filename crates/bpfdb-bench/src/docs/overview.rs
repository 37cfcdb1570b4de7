//! Some figures of all tables side by side, as Markdown: what README.md and the page of the
//! benchmarks begin with.

use anyhow::{Context, Result};

use super::data::Data;
use crate::report::{Cell, Table};

/// One line: what it is, and the row of a table that has it.
struct Line {
    label: &'static str,
    table: &'static str,
    row: &'static [&'static str],
}

const fn line(label: &'static str, table: &'static str, row: &'static [&'static str]) -> Line {
    Line { label, table, row }
}

/// For README.md.
const HEADLINE: [Line; 6] = [
    line(
        "GET, client on the same machine",
        "local",
        &["get", "16", "1", "2"],
    ),
    line(
        "the same, 16 requests in a pipeline",
        "local",
        &["get", "16", "16", "2"],
    ),
    line("GET through TCP", "tcp", &["get", "16", "1", "2"]),
    line(
        "SET through TCP, 16 in a pipeline",
        "tcp",
        &["set", "16", "16", "2"],
    ),
    line(
        "SCAN, which only the daemon answers, 16 in a pipeline",
        "daemon",
        &["SCAN", "16", "16", "2"],
    ),
    line(
        "GET inside the kernel, 4 million records, one core",
        "kernel",
        &["uniform", "GET"],
    ),
];

/// For the page of the benchmarks.
const SUMMARY: [Line; 21] = [
    line("same machine: GET", "local", &["get", "16", "1", "2"]),
    line("same machine: SET", "local", &["set", "16", "1", "2"]),
    line(
        "same machine: GET, pipeline 16",
        "local",
        &["get", "16", "16", "2"],
    ),
    line(
        "same machine: SET, pipeline 16",
        "local",
        &["set", "16", "16", "2"],
    ),
    line(
        "same machine: GET, one client thread",
        "local",
        &["get", "16", "1", "1"],
    ),
    line("TCP on loopback: GET", "tcp", &["get", "16", "1", "2"]),
    line("TCP on loopback: SET", "tcp", &["set", "16", "1", "2"]),
    line(
        "TCP on loopback: GET, pipeline 16",
        "tcp",
        &["get", "16", "16", "2"],
    ),
    line(
        "TCP on loopback: SET, pipeline 16",
        "tcp",
        &["set", "16", "16", "2"],
    ),
    line(
        "TCP on loopback: SET with an expiry, pipeline 16",
        "tcp",
        &["SET EX", "16", "16", "2"],
    ),
    line(
        "TCP on loopback: MULTI SET SET GET EXEC, pipeline 16",
        "transactions",
        &["SET SET GET", "16", "16", "2"],
    ),
    line("TCP over veth: GET", "remote", &["get", "16", "1", "2"]),
    line(
        "TCP over veth: GET, one client thread",
        "remote",
        &["get", "16", "1", "1"],
    ),
    line(
        "TCP over veth: GET, pipeline 16",
        "remote",
        &["get", "16", "16", "2"],
    ),
    line(
        "10,000 connections: GET",
        "connections",
        &["GET", "10000", "1", "2"],
    ),
    line(
        "10,000 connections: GET, pipeline 16",
        "connections",
        &["GET", "10000", "16", "2"],
    ),
    line(
        "answered by the daemon: DUMP",
        "daemon",
        &["DUMP", "16", "1", "2"],
    ),
    line(
        "answered by the daemon: SCAN, pipeline 16",
        "daemon",
        &["SCAN", "16", "16", "2"],
    ),
    line(
        "answered by the daemon: GET of 48 KiB",
        "daemon",
        &["get", "49152", "1", "2"],
    ),
    line("inside the kernel: GET", "kernel", &["uniform", "GET"]),
    line("inside the kernel: SET", "kernel", &["uniform", "SET"]),
];

/// Tables with targets: the page of each, and what is aimed at.
const TARGETS: [(&str, &str, &str); 32] = [
    (
        "kernel",
        "kernel.md",
        "inside the kernel: at most half of the time of a plain map",
    ),
    (
        "growth",
        "memory.md",
        "growing online: no operation takes longer than 5 ms",
    ),
    (
        "snapshots",
        "versions.md",
        "1,000 idle snapshots: at least half of the rate without them",
    ),
    (
        "tier-snapshots",
        "tier.md",
        "a snapshot: 10,000 times as fast as fork(), and no slower with more records",
    ),
    (
        "tier-snapshots-many",
        "tier.md",
        "writers beside a thousand snapshots a second: at most 2 times their 99.9th percentile",
    ),
    (
        "tier-checkpoint",
        "tier.md",
        "writers beside a checkpoint: half of the 99.9th percentile and a tenth of the worst beside \
         the better Redis's BGSAVE",
    ),
    (
        "tier-report",
        "tier.md",
        "writers beside a report each 10 ms: at most 2 times their 99.9th percentile",
    ),
    ("tier-report-server", "tier.md", "the same through TCP"),
    (
        "tables",
        "tables.md",
        "look-ups in a table by the kernel: 1.3 times `pread`, 0.95 of io_uring",
    ),
    ("tables-many", "tables.md", "the same, 16 at a time"),
    (
        "tables-pool",
        "tables.md",
        "look-ups with memory for a quarter of a table: 3 times vmcache's throughput per core",
    ),
    (
        "local",
        "local.md",
        "in the client's send(): 2.5 times the better Redis, 2 times in pipelines",
    ),
    (
        "local-latency",
        "local.md",
        "the same: a lower 99th percentile than the better Redis",
    ),
    (
        "tcp",
        "tcp.md",
        "TCP on loopback: as fast as the better Redis, 1.5 times in pipelines",
    ),
    ("remote", "remote.md", "TCP over veth: the same"),
    (
        "transactions",
        "transactions.md",
        "MULTI … EXEC in one message: at least 0.8 of the better Redis",
    ),
    (
        "procedures",
        "procedures.md",
        "procedures through TCP: 1.15 to 3 times the better Redis",
    ),
    (
        "procedures-inside",
        "procedures.md",
        "Voter from inside: a million a second on one core, 1.25 times the time of C by hand",
    ),
    (
        "procedures-local",
        "procedures.md",
        "procedures in the client's send(): 2 to 4 times the better Redis",
    ),
    (
        "procedures-others",
        "procedures.md",
        "GET and SET beside procedures: at least 0.98 of what they are without",
    ),
    (
        "procedures-peers",
        "procedures.md",
        "procedures: ahead of Tarantool and of PostgreSQL",
    ),
    (
        "daemon",
        "daemon.md",
        "answered by the daemon: at least 0.8 of the better Redis",
    ),
    (
        "durability-log",
        "durability.md",
        "log inside the kernel: at most 20 ns a SET of 16 B, 110 ns of 1 KiB, 2 % of a GET",
    ),
    (
        "durability-server",
        "durability.md",
        "asynchronous log through TCP: at most 5 %; in memory 3 % at 16 B, 12 % at 1 KiB",
    ),
    (
        "durability-sync",
        "durability.md",
        "replies when it is on the disk: 1.2 to 3 times the better Redis",
    ),
    (
        "durability-async",
        "durability.md",
        "replies at once: a loss of power takes at most 100 ms (99th percentile)",
    ),
    (
        "durability-files",
        "durability.md",
        "writers beside a checkpoint: at most 1.3 times their 99th percentile; after kill -9: \
         at most 1 s",
    ),
    (
        "proxy",
        "proxy.md",
        "SELECTs through the proxy in the kernel: ahead of direct TCP, 2 times PgBouncer with 64 clients",
    ),
    (
        "proxy-own",
        "proxy.md",
        "the same: a tenth of the processor time of PgBouncer's process",
    ),
    (
        "proxy-remote",
        "proxy.md#clients-and-database-elsewhere",
        "the same with clients and database elsewhere, by the process: 1.1 times PgBouncer",
    ),
    (
        "proxy-remote-own",
        "proxy.md#clients-and-database-elsewhere",
        "the same: 0.75 of the processor time of PgBouncer's process",
    ),
    (
        "proxy-mirror",
        "proxy.md#with-a-mirror",
        "SELECTs with a mirror, in the kernel: 0.9 times those without",
    ),
];

/// Names of marks, and what is to stand there.
pub(super) fn blocks(data: &Data) -> Result<Vec<(String, String)>> {
    Ok(vec![
        ("headline".into(), compared(data, &HEADLINE, false)?),
        ("summary".into(), compared(data, &SUMMARY, true)?),
        ("targets".into(), targets(data)),
        ("proxy-plot".into(), proxy_plot(data)),
    ])
}

/// Lines as a table of Markdown: ours, the best of the others, and the ratio.
fn compared(data: &Data, lines: &[Line], spread: bool) -> Result<String> {
    let mut text = String::from("| | bpfdb | compared with | ratio |\n|---|---|---|---|\n");
    for line in lines {
        let comparison = Comparison::of(data, line)?;
        let ratio = if spread {
            comparison.ratio.show()
        } else {
            format!("{:.2}", comparison.ratio_median()?)
        };
        text += &format!(
            "| {} | {} | {}: {} | {ratio} |\n",
            line.label, comparison.ours, comparison.rival, comparison.theirs
        );
    }
    Ok(text.trim_end().to_owned())
}

struct Comparison {
    ours: String,
    rival: String,
    theirs: String,
    ratio: Cell,
}

impl Comparison {
    fn of(data: &Data, line: &Line) -> Result<Self> {
        let table = data.table(line.table)?;
        let missing = || format!("{} has no row {:?}", line.table, line.row);
        let row = table.find(line.row).with_context(missing)?;
        let rates = table
            .columns()
            .iter()
            .any(|name| name == "bpfdb over the better");
        let ratio = column(table, |name| {
            name == "ratio" || name == "bpfdb over the better"
        })?;
        let ours = column(table, |name| name == "bpfdb")?;
        let (rival, theirs) = (ours + 1..ratio)
            .filter_map(|number| Some((number, row[number].spread()?.median)))
            .max_by(|(_, one), (_, other)| one.total_cmp(other))
            .with_context(missing)?;
        let show = |figure: f64| {
            if rates {
                format!("{}/s", with_commas(figure * 1e3))
            } else {
                format!("{figure:.0} ns")
            }
        };
        Ok(Self {
            ours: show(row[ours].spread().with_context(missing)?.median),
            rival: table.columns()[rival].clone(),
            theirs: show(theirs),
            ratio: row[ratio].clone(),
        })
    }

    fn ratio_median(&self) -> Result<f64> {
        let ratio = self.ratio.spread().context("a ratio is a figure")?;
        Ok(ratio.median)
    }
}

fn column(table: &Table, is_it: impl Fn(&str) -> bool) -> Result<usize> {
    (table.columns().iter())
        .position(|name| is_it(name))
        .with_context(|| format!("a column of {} is missing", table.name()))
}

/// How many targets of each table are met.
fn targets(data: &Data) -> String {
    let mut text = String::from("| target | met |\n|---|---|\n");
    for (name, page, aim) in TARGETS {
        let Some(table) = data.find(name) else {
            text += &format!("| [{aim}](benchmarks/{page}) | not measured |\n");
            continue;
        };
        let verdicts: Vec<String> = (table.rows().iter().flatten().map(Cell::show))
            .filter(|text| text.ends_with(" met") || text.ends_with(" MISSED"))
            .collect();
        let met = verdicts
            .iter()
            .filter(|text| text.ends_with(" met"))
            .count();
        let all = verdicts.len();
        text += &format!("| [{aim}](benchmarks/{page}) | {met} of {all} |\n");
    }
    text.trim_end().to_owned()
}

/// The plot of the proxy, of which there is none before it is measured.
fn proxy_plot(data: &Data) -> String {
    const SOURCE: &str = "plots/proxy";
    if data.find("proxy").is_none() {
        return "Not measured yet.".into();
    }
    format!(
        "<picture>\n  <source media=\"(prefers-color-scheme: dark)\" srcset=\"{SOURCE}-dark.svg\">\n  \
         <img alt=\"Transactions per second and processor time of a transaction: direct TCP, PgBouncer, and the \
         proxy in the kernel, with 1, 16 and 64 clients\" src=\"{SOURCE}-light.svg\">\n</picture>"
    )
}

/// A whole number, its digits in threes.
pub(super) fn with_commas(figure: f64) -> String {
    let digits = format!("{figure:.0}");
    let mut text = String::new();
    for (number, digit) in digits.chars().enumerate() {
        if number > 0 && (digits.len() - number) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::with_commas;

    #[test]
    fn digits_stand_in_threes() {
        assert_eq!(with_commas(0.0), "0");
        assert_eq!(with_commas(999.0), "999");
        assert_eq!(with_commas(1000.0), "1,000");
        assert_eq!(with_commas(2_150_000.0), "2,150,000");
    }
}
