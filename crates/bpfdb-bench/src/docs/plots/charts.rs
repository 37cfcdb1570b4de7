//! Contents of the plots: groups of bars, taken from tables.

use anyhow::{Context, Result, ensure};

use super::super::data::Data;
use super::super::overview::with_commas;
use crate::report::{Spread, Table};

/// A picture: one or two panels side by side, with one legend.
pub(super) struct Chart {
    /// Of its files.
    pub(super) name: &'static str,
    /// What the bars of a group are, from left to right.
    pub(super) series: Vec<String>,
    pub(super) panels: Vec<Panel>,
}

/// Groups of bars over one axis, which begins at 0.
pub(super) struct Panel {
    pub(super) title: &'static str,
    /// What the axis measures, with its unit.
    pub(super) axis: &'static str,
    /// What the groups are, if their labels do not say it.
    pub(super) groups_are: &'static str,
    pub(super) groups: Vec<Group>,
}

pub(super) struct Group {
    /// Its lines are separated by line feeds.
    pub(super) label: String,
    pub(super) bars: Vec<Spread>,
    /// Stands above the bars.
    pub(super) note: String,
}

pub(super) fn all(data: &Data) -> Result<Vec<Chart>> {
    let mut all = vec![
        throughput(data)?,
        latency(data)?,
        kernel(data)?,
        snapshots(data)?,
        versions(data)?,
        attacks(
            data,
            "attacks",
            "hostile",
            "a client that the kernel answers",
        )?,
        attacks(
            data,
            "attacks-daemon",
            "hostile-daemon",
            "a client that the daemon answers",
        )?,
    ];
    if data.find("proxy").is_some() {
        all.push(proxy(data)?);
    }
    Ok(all)
}

/// Ways of a request: their tables, and what a label calls them.
const WAYS: [(&str, &str); 3] = [("local", "send()"), ("tcp", "loopback"), ("remote", "veth")];

fn throughput(data: &Data) -> Result<Chart> {
    let panel = |title, pipeline| -> Result<Panel> {
        let mut groups = Vec::new();
        for (name, way) in WAYS {
            let table = data.table(name)?;
            for test in ["get", "set"] {
                let row = [test, "16", pipeline, "2"];
                let ratio = bars(table, &row, |column| column == "bpfdb over the better")?;
                groups.push(Group {
                    label: format!("{}\n{way}", test.to_uppercase()),
                    bars: bars(table, &row, is_server)?,
                    note: format!("{:.1}×", ratio[0].median),
                });
            }
        }
        Ok(Panel {
            title,
            axis: "thousand requests per second",
            groups_are: "",
            groups,
        })
    };
    Ok(Chart {
        name: "throughput",
        series: servers(data.table("tcp")?),
        panels: vec![
            panel("one request at a time", "1")?,
            panel("16 requests in a pipeline", "16")?,
        ],
    })
}

fn latency(data: &Data) -> Result<Chart> {
    let panel = |title, percentile: &str| -> Result<Panel> {
        let mut groups = Vec::new();
        for (name, way) in WAYS {
            let table = data.table(&format!("{name}-latency"))?;
            for test in ["get", "set"] {
                let row = [test, "16", "1", "2"];
                let is_it = |column: &str| column.starts_with(percentile);
                groups.push(Group {
                    label: format!("{}\n{way}", test.to_uppercase()),
                    bars: bars(table, &row, is_it)?,
                    note: String::new(),
                });
            }
        }
        Ok(Panel {
            title,
            axis: "microseconds",
            groups_are: "",
            groups,
        })
    };
    Ok(Chart {
        name: "latency",
        series: servers(data.table("tcp")?),
        panels: vec![panel("median", "p50 ")?, panel("99th percentile", "p99 ")?],
    })
}

fn kernel(data: &Data) -> Result<Chart> {
    let table = data.table("kernel")?;
    let panel = |title, keys| -> Result<Panel> {
        let mut groups = Vec::new();
        for operation in ["GET", "SET"] {
            let row = [keys, operation];
            let ratio = bars(table, &row, |column| column == "ratio")?;
            groups.push(Group {
                label: operation.into(),
                bars: bars(table, &row, |column| {
                    ["bpfdb", "plain map"].contains(&column)
                })?,
                note: format!("{:.2}×", ratio[0].median),
            });
        }
        Ok(Panel {
            title,
            axis: "nanoseconds per operation",
            groups_are: "",
            groups,
        })
    };
    Ok(Chart {
        name: "kernel",
        series: vec!["bpfdb".into(), "plain BPF hash map".into()],
        panels: vec![
            panel("uniform keys", "uniform")?,
            panel("Zipf-distributed keys", "Zipf 0.99")?,
        ],
    })
}

fn snapshots(data: &Data) -> Result<Chart> {
    let table = data.table("snapshots")?;
    let panel = |title, keys| -> Result<Panel> {
        let mut groups = Vec::new();
        let rows = (table.rows().iter()).filter(|row| row[0].show() == keys);
        for row in rows {
            let idle = row[1].show();
            let bars = bars(table, &[keys, &idle], |column| column == "SETs")?;
            let alone = groups.first().map_or(&bars, |group: &Group| &group.bars);
            let share = bars[0].median / alone[0].median;
            groups.push(Group {
                note: format!("{:.0} %", share * 100.0),
                label: with_commas(idle.parse()?),
                bars,
            });
        }
        ensure!(!groups.is_empty(), "the table snapshots has no row {keys}");
        Ok(Panel {
            title,
            axis: "thousand SETs per second",
            groups_are: "idle snapshots",
            groups,
        })
    };
    Ok(Chart {
        name: "snapshots",
        series: Vec::new(),
        panels: vec![
            panel("a writer of one key", "one")?,
            panel("a writer of 250,000 keys", "all, uniform")?,
        ],
    })
}

fn versions(data: &Data) -> Result<Chart> {
    let table = data.table("versions")?;
    let panel = |title, value: &str| -> Result<Panel> {
        let mut groups = Vec::new();
        for row in (table.rows().iter()).filter(|row| row[0].show() == value) {
            let versions = row[1].show();
            groups.push(Group {
                bars: bars(table, &[value, &versions], |column| {
                    ["alone", "with readers"].contains(&column)
                })?,
                label: versions,
                note: String::new(),
            });
        }
        ensure!(!groups.is_empty(), "the table versions has no row {value}");
        Ok(Panel {
            title,
            axis: "thousand operations per second",
            groups_are: "versions of a record that are kept",
            groups,
        })
    };
    Ok(Chart {
        name: "versions",
        series: vec!["writer alone".into(), "beside reading transactions".into()],
        panels: vec![
            panel("values of 16 bytes", "16")?,
            panel("values of 1 KiB", "1024")?,
        ],
    })
}

/// Loads that every way has figures of.
const PROXIED: [(&str, &str); 2] = [("select-only", "select"), ("ycsb-a", "YCSB A")];

fn proxy(data: &Data) -> Result<Chart> {
    let is_shown = |column: &str| {
        ["direct TCP", "in the kernel"].contains(&column) || column.starts_with("PgBouncer")
    };
    let panel = |title, table: &str, axis| -> Result<Panel> {
        let table = data.table(table)?;
        let mut groups = Vec::new();
        for (script, label) in PROXIED {
            for clients in ["1", "16", "64"] {
                groups.push(Group {
                    label: format!("{label}\n{clients}"),
                    bars: bars(table, &[script, "simple", clients], is_shown)?,
                    note: String::new(),
                });
            }
        }
        Ok(Panel {
            title,
            axis,
            groups_are: "load, clients",
            groups,
        })
    };
    let columns = data.table("proxy")?.columns();
    Ok(Chart {
        name: "proxy",
        series: columns
            .iter()
            .filter(|column| is_shown(column))
            .cloned()
            .collect(),
        panels: vec![
            panel("throughput", "proxy", "transactions per second")?,
            panel(
                "processor time",
                "proxy-processor",
                "microseconds a transaction, all in all",
            )?,
        ],
    })
}

fn attacks(data: &Data, name: &'static str, table: &str, title: &'static str) -> Result<Chart> {
    let table = data.table(table)?;
    let mut series: Vec<String> = Vec::new();
    let mut groups: Vec<Group> = Vec::new();
    let mut attack = String::new();
    for row in table.rows().iter().filter(|row| row[0].show() != "none") {
        let server = row[1].show();
        if !series.contains(&server) {
            series.push(server.clone());
        }
        if attack != row[0].show() {
            attack = row[0].show();
            groups.push(Group {
                label: wrapped(&attack),
                bars: Vec::new(),
                note: String::new(),
            });
        }
        let p99 = bars(table, &[&attack, &server], |column| column == "p99")?;
        if let Some(group) = groups.last_mut() {
            group.bars.extend(p99);
        }
    }
    Ok(Chart {
        name,
        series,
        panels: vec![Panel {
            title,
            axis: "99th percentile, microseconds",
            groups_are: "",
            groups,
        }],
    })
}

/// In lines of a few words.
fn wrapped(text: &str) -> String {
    const LINE: usize = 10;
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        if lines[last].is_empty() {
            lines[last].push_str(word);
        } else if lines[last].len() + 1 + word.len() <= LINE {
            lines[last] += " ";
            lines[last] += word;
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

fn is_server(column: &str) -> bool {
    column == "bpfdb" || column.starts_with("Redis ")
}

fn servers(table: &Table) -> Vec<String> {
    let names = table.columns().iter().filter(|column| is_server(column));
    names.cloned().collect()
}

/// The figures of a row in the columns that are wanted.
fn bars(table: &Table, row: &[&str], is_wanted: impl Fn(&str) -> bool) -> Result<Vec<Spread>> {
    let missing = || format!("{} has no figures {row:?}", table.name());
    let cells = table.find(row).with_context(missing)?;
    let wanted = table.columns().iter().zip(cells);
    let figures: Vec<Spread> = wanted
        .filter(|(column, _)| is_wanted(column))
        .filter_map(|(_, cell)| cell.spread())
        .collect();
    ensure!(!figures.is_empty(), missing());
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn long_labels_have_several_lines() {
        assert_eq!(wrapped("slow readers, 48 KiB"), "slow\nreaders,\n48 KiB");
        assert_eq!(wrapped("idle connections"), "idle\nconnections");
        assert_eq!(wrapped("GET"), "GET");
    }
}
