//! `make bench` itself works: a tiny run gives every table. Nothing here looks
//! at how fast anything is.

use std::fs;
use std::process::Command;

use bpfdb_tests::namespace;
use bpfdb_tests::process::dies_with_us;
use serde_json::Value;

/// Runs the program with these arguments; its report.
fn report(arguments: &[&str]) -> Value {
    // Its servers meet no other, and nothing is left of them.
    namespace::network();
    let folder = namespace::files().folder;
    let results = folder.join("results");
    let mut command = Command::new(env!("CARGO_BIN_EXE_bpfdb-bench"));
    command
        .args(["--quick", "--output"])
        .arg(&results)
        .args(arguments)
        .env("TMPDIR", &folder);
    let output = dies_with_us(&mut command)
        .output()
        .expect("the program starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let file = results
        .read_dir()
        .expect("results")
        .next()
        .expect("one result")
        .expect("a file");
    serde_json::from_slice(&fs::read(file.path()).expect("readable")).expect("JSON")
}

fn names(report: &Value) -> Vec<&str> {
    let tables = report["tables"].as_array().expect("tables");
    tables
        .iter()
        .map(|table| table["name"].as_str().expect("a name"))
        .collect()
}

/// Those that measure in different ways.
const SOME: &str = "kernel,run,tcp,local";
/// Besides those that have a test of their own below.
const OTHERS: &str =
    "versions,memory,hostile,snapshots,remote,steered,other,transactions,daemon,connections,types";

#[test]
fn a_quick_run_gives_every_table() {
    let report = report(&["--only", SOME]);
    let expected = [
        "kernel",
        "kernel-transaction",
        "kernel-cores",
        "run-16",
        "run-1024",
        "tcp",
    ];
    // Costs over TCP are missing if the server is not built.
    assert_eq!(&names(&report)[..expected.len()], expected);
    assert_eq!(report["quick"], true);
    assert!(report["machine"]["processors"].as_u64() > Some(0));
    assert!(report["command"][1] == "--quick");

    let kernel = &report["tables"][0];
    assert_eq!(kernel["rows"].as_array().map(Vec::len), Some(8));
    let get = &kernel["rows"][0];
    assert!(get[2]["median"].as_f64() > Some(0.0), "{get}");
}

#[test]
#[ignore = "a minute: make soak"]
fn soak_the_other_scenarios_give_tables() {
    let report = report(&["--only", OTHERS]);
    let names = names(&report);
    assert!(names.contains(&"growth"), "{names:?}");
    // Tables over TCP are missing if the server is not built.
    for scenario in OTHERS.split(',').filter(|_| names.len() > 1) {
        let has = names.iter().any(|name| name.starts_with(scenario));
        assert!(has, "{scenario}: {names:?}");
    }
}

#[test]
#[ignore = "some seconds of two servers: make soak"]
fn soak_the_proxy_is_measured() {
    let report = report(&["--only", "proxy"]);
    let names = names(&report);
    // The proxy need not be built.
    if names.len() > 1 {
        let local = ["proxy", "proxy-latency", "proxy-processor", "proxy-own"];
        let remote = local.map(|name| name.replace("proxy", "proxy-remote"));
        assert_eq!(names[..4], local);
        assert_eq!(names[4..8], remote);
        assert_eq!(names[8..], ["proxy-mirror"]);
        for (table, column, rows) in [
            (0, "in the kernel", 2),
            (4, "direct TCP", 1),
            (4, "bpfdb-proxy", 1),
            (7, "bpfdb-proxy", 1),
            // The kernel's way, and the process alone.
            (8, "with it", 2),
        ] {
            let figures = medians(&report["tables"][table], column);
            assert_eq!(figures.len(), rows, "{column}");
            assert!(figures.iter().all(|figure| *figure > 0.0), "{figures:?}");
        }
        let lost = medians(&report["tables"][8], "lost, %");
        assert!(lost.iter().all(|percent| (0.0..=100.0).contains(percent)));
    }
}

/// The figures of a column that all rows have.
fn medians(table: &Value, column: &str) -> Vec<f64> {
    let columns = table["columns"].as_array().expect("columns");
    let place = columns.iter().position(|name| name == column);
    let place = place.unwrap_or_else(|| panic!("no column {column}"));
    let rows = table["rows"].as_array().expect("rows");
    let median = |row: &Value| row[place]["median"].as_f64().expect("a figure");
    rows.iter().map(median).collect()
}

#[test]
#[ignore = "half a minute: make soak"]
fn soak_what_durability_costs_is_measured() {
    let report = report(&["--only", "durability"]);
    let names = names(&report);
    assert_eq!(names[..2], ["durability-log", "durability-server"]);
    let log = &report["tables"][0];
    // Two sizes, two ways to draw keys, three operations, two logs.
    assert_eq!(log["rows"].as_array().map(Vec::len), Some(24));
    let notes = log["notes"].as_array().expect("notes");
    let flush = |note: &Value| {
        note.as_str()
            .is_some_and(|note| note.contains("a flush of 4 KiB"))
    };
    assert!(notes.iter().any(flush), "{notes:?}");
    // The server need not be built.
    if names.len() > 2 {
        let last = ["durability-async-processor", "durability-files"];
        assert_eq!(names[names.len() - 2..], last);
        let start = "start after kill -9, s beyond one without data";
        let rows = report["tables"][names.len() - 1]["rows"]
            .as_array()
            .expect("rows");
        assert!(rows.iter().any(|row| row[0] == start), "{rows:?}");
    }
}

#[test]
fn one_scenario_can_be_chosen() {
    let report = report(&["--only", "memory"]);
    assert_eq!(names(&report), ["memory", "memory-fill", "growth"]);
}

#[test]
fn tables_are_asked() {
    let report = report(&["--only", "tables"]);
    let expected = [
        "tables",
        "tables-many",
        "tables-ranges",
        "tables-pool",
        "tables-pool-rates",
    ];
    assert_eq!(names(&report), expected);
    for table in 0..2 {
        let rows = report["tables"][table]["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 6, "a depth each");
        let rates = rows
            .iter()
            .flat_map(|row| (1..4).map(|column| &row[column]["median"]));
        assert!(
            rates.clone().all(|rate| rate.as_f64() > Some(0.0)),
            "{rows:?}"
        );
    }
}

#[test]
fn values_in_files_are_measured() {
    let report = report(&["--only", "tier", "--parts", "values"]);
    let names = names(&report);
    // The server need not be built.
    if names.len() > 1 {
        assert_eq!(
            names,
            [
                "tier",
                "tier-latency",
                "tier-found",
                "tier-cold",
                "tier-compaction"
            ]
        );
        let rows = |table: usize| report["tables"][table]["rows"].as_array().expect("rows");
        assert_eq!(
            rows(0).len(),
            8,
            "GET and SET, two pipelines, hot keys and all"
        );
        let found = |row: usize| rows(2)[row][1].as_str().expect("text");
        assert_eq!((found(0), found(1)), ("100.0", "100.0"));
        assert_ne!(rows(2)[1][3], "0", "bytes of files");
        assert_eq!(rows(3).len(), 16, "two ways to the server, eight loads");
        assert_eq!(rows(4).len(), 4, "three ways, and the target");
    }
}

#[test]
fn workloads_of_ycsb_are_measured() {
    let report = report(&["--only", "tier", "--parts", "ycsb"]);
    let names = names(&report);
    // The server need not be built.
    if names.len() > 1 {
        assert_eq!(names, ["tier-ycsb", "tier-ycsb-latency"]);
        for table in 0..2 {
            let rows = report["tables"][table]["rows"].as_array().expect("rows");
            assert_eq!(rows.len(), 7, "A to F, and reads of any record");
            for row in rows {
                assert!(row[2]["median"].as_f64() > Some(0.0), "{row}");
            }
        }
    }
}

#[test]
fn snapshots_are_measured() {
    let report = report(&["--only", "tier", "--parts", "snapshots,report"]);
    let names = names(&report);
    let of_sessions = ["tier-snapshots", "tier-snapshots-many", "tier-report"];
    assert_eq!(names[..3], of_sessions);
    let rows = |table: usize| report["tables"][table]["rows"].as_array().expect("rows");
    assert_eq!(rows(0).len(), 2, "two sizes");
    for row in rows(0) {
        assert!(row[2]["median"].as_f64() > Some(0.0), "{row}");
    }
    assert_eq!(
        rows(1).len(),
        6,
        "two ways to draw keys, beside three things"
    );
    // The server need not be built.
    if names.len() > 4 {
        assert_eq!(names[3..], ["tier-checkpoint", "tier-report-server"]);
        for (table, name) in [(3, "during"), (4, "reports")] {
            let ours = &rows(table)[1];
            assert_eq!(ours[1], name);
            assert!(ours[2]["median"].as_f64() > Some(0.0), "{ours}");
        }
    }
}

#[test]
#[ignore = "a minute: make soak"]
fn soak_procedures_are_measured() {
    let report = report(&["--only", "procedures"]);
    let names = names(&report);
    // The server need not be built.
    if names.len() == 2 {
        assert_eq!(names, ["procedures-inside", "procedures"]);
        return;
    }
    let expected = [
        "procedures-inside",
        "procedures",
        "procedures-latency",
        "procedures-local",
        "procedures-local-latency",
        "procedures-others",
        "procedures-durable",
        "procedures-durable-latency",
        "procedures-peers",
        "procedures-peers-latency",
    ];
    assert_eq!(names, expected);
    for table in [1, 3] {
        let rows = report["tables"][table]["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 12);
        for row in rows {
            // The last figure: of a thousand calls, those of the daemon.
            let by_the_daemon = row.as_array().and_then(|row| row.last());
            let by_the_daemon = by_the_daemon.map(|cell| cell["median"].as_f64());
            assert!(by_the_daemon.flatten() < Some(200.0), "{row}");
        }
    }
    let table = |name: &str| {
        let place = expected.iter().position(|other| *other == name);
        &report["tables"][place.expect("it is one of them")]
    };
    let rows = |name| table(name)["rows"].as_array().expect("rows").len();
    assert_eq!(rows("procedures-durable"), 4);
    assert_eq!(rows("procedures-peers"), 8);
    peers_are_measured_or_missing(table("procedures-peers"));
}

/// Each peer has a column with a figure in its first row, or a note says why not.
fn peers_are_measured_or_missing(table: &Value) {
    let columns = table["columns"].as_array().expect("columns");
    let notes = table["notes"].as_array().expect("notes");
    for peer in ["Tarantool", "PostgreSQL"] {
        let begins = |text: &Value| text.as_str().is_some_and(|text| text.starts_with(peer));
        let column = columns.iter().position(begins);
        assert_ne!(column.is_some(), notes.iter().any(begins), "{table}");
        if let Some(column) = column {
            let rate = table["rows"][0][column]["median"].as_f64();
            assert!(rate > Some(0.0), "{peer}: {table}");
        }
    }
}
