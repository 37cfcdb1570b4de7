//! PostgreSQL's own regression tests, through the proxy with session pooling: they end as without it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bpfdb_tests::install::{Source, try_run};

use crate::postgres::{self, Postgres, USER, as_user, programs};
use crate::proxy::{TestProxy, Way};

/// As many as the schedule has tests at the same time.
const SERVERS: usize = 40;
/// There are about two hundred.
const TESTS_MIN: usize = 150;

/// Tests that see that another session has had the connection before: plpgsql is loaded, a schema of temporary tables is
/// there, and the database has counted fewer sessions than clients.
const SEE_SESSIONS: [&str; 3] = ["guc", "temp", "stats"];

/// Of the distribution's package of the server.
fn program() -> PathBuf {
    programs().join("../lib/pgxs/src/test/regress/pg_regress")
}

/// Runs all tests at a port: those whose output is not the expected one.
fn failed(port: u16, installed: &Path) -> BTreeSet<String> {
    let folder = postgres::folder();
    let copied = Command::new("cp")
        .arg("-r")
        .args(["regress", "lib"].map(|name| installed.join(name)))
        .arg(folder.path())
        .status();
    assert!(copied.expect("cp runs").success());
    let owner = postgres::user();
    let given = Command::new("chown")
        .arg("-R")
        .arg(format!("{}:{}", owner.uid, owner.gid))
        .arg(folder.path())
        .status();
    assert!(given.expect("chown runs").success());
    let tests = folder.path().join("regress");
    let mut command = as_user(&program());
    bpfdb_tests::server::cgroup::keep(&mut command);
    for (name, path) in [
        ("inputdir", &*tests),
        ("outputdir", folder.path()),
        ("bindir", &*programs()),
        ("dlpath", &*folder.path().join("lib")),
        ("schedule", &*tests.join("parallel_schedule")),
    ] {
        command.arg(format!("--{name}={}", path.display()));
    }
    command.args(["--host=127.0.0.1", "--user", USER, "--max-connections=20"]);
    command.arg(format!("--port={port}"));
    let output = command.output().expect("pg_regress runs");
    let results = fs::read_dir(folder.path().join("results"));
    let count = results.map_or(0, Iterator::count);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(count >= TESTS_MIN, "{count} tests were run: {told}");
    let differences = fs::read(folder.path().join("regression.diffs")).unwrap_or_default();
    let differences = String::from_utf8_lossy(&differences);
    eprintln!("{differences}");
    let heads = differences.lines().filter(|line| line.starts_with("diff "));
    let name = |head: &str| {
        let (_, name) = head.rsplit_once('/')?;
        Some(name.trim_end_matches(".out").to_owned())
    };
    heads.filter_map(name).collect()
}

/// A database of which the sessions begin with what pg_regress asks for at their start: RESET gives a client of the
/// proxy what the database has, and not what the client has asked for.
fn server() -> Postgres {
    let server = postgres::of_its_own();
    server.direct(&format!(
        "alter role {USER} set datestyle to 'Postgres, MDY'; alter role {USER} set timezone to 'America/Los_Angeles'"
    ));
    server
}

#[test]
#[ignore = "make applications: minutes, and gets the tests of PostgreSQL"]
fn tests_of_postgres_end_as_without_the_proxy() {
    let source = Source::of(env!("CARGO_MANIFEST_DIR"), "postgres_regress", &["get.sh"]);
    let installed = source.installed(|folder| try_run("sh", &["get.sh"], folder).map(drop));
    let direct = failed(server().port, &installed);
    eprintln!("without the proxy: {direct:?}");
    for way in [Way::Kernel, Way::Plain] {
        let server = server();
        let proxy = TestProxy::of_sessions(way, server.port, SERVERS);
        let through = failed(proxy.port, &installed);
        let is_known = |name: &&String| SEE_SESSIONS.contains(&name.as_str());
        let more = through.difference(&direct);
        let more: Vec<_> = more.filter(|name| !is_known(name)).collect();
        assert!(more.is_empty(), "{way:?}: {more:?}");
    }
}
