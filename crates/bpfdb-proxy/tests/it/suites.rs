//! Drivers' own tests, through the proxy with session pooling: what passes without it does so with it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use bpfdb_proxy::settings::PoolMode;
use bpfdb_tests::install::{Source, run, try_run};

use crate::postgres::{self, USER};
use crate::proxy::{TestProxy, WAYS, Way};

/// More than any of them has clients.
const SERVERS: usize = 60;
/// The number that pg_terminate_backend() gets is the proxy's for the connection, and not that of a process.
const NUMBER: &str = "ends a server by the number of its process";
/// In pg_prepared_statements and for DEALLOCATE they are the proxy's.
const NAMES: &str = "finds prepared statements by their names at the database";

struct Suite {
    folder: PathBuf,
    /// Before the port and the user.
    arguments: &'static [&'static str],
    /// What precedes the name of a test that has passed.
    passed: &'static str,
    /// So many pass, at least, without the proxy.
    least: usize,
    /// Parts of names of tests that see that there is a proxy, with the reason.
    see_the_proxy: &'static [(&'static str, &'static str)],
}

impl Suite {
    /// Runs them at a port: the names of those that pass.
    fn passed(&self, port: u16) -> BTreeSet<String> {
        let port = port.to_string();
        let arguments = [&["run.sh"], self.arguments, &[&port, USER]].concat();
        let told = run("sh", &arguments, &self.folder);
        let name = |line: &str| {
            let rest = line.trim_start().strip_prefix(self.passed)?;
            rest.split_whitespace().next().map(str::to_owned)
        };
        let passed: BTreeSet<String> = told.lines().filter_map(name).collect();
        let lines = told.lines();
        let is_failure = |line: &&str| line.contains("FAIL") || line.starts_with("ERROR");
        lines
            .filter(is_failure)
            .for_each(|line| eprintln!("{line}"));
        eprintln!("{} passed", passed.len());
        passed
    }

    fn pass_through_the_proxy(&self) {
        let direct = self.passed(postgres::of_its_own().port);
        assert!(direct.len() >= self.least, "{} tests", direct.len());
        for way in [Way::Kernel, Way::Plain] {
            eprintln!("{way:?}");
            let server = postgres::of_its_own();
            let proxy = TestProxy::of_sessions(way, server.port, SERVERS);
            let through = self.passed(proxy.port);
            let is_known = |name: &&String| {
                let mut known = self.see_the_proxy.iter();
                known.any(|(part, _)| name.contains(part))
            };
            let fewer = direct.difference(&through);
            let fewer: Vec<_> = fewer.filter(|name| !is_known(name)).collect();
            assert!(fewer.is_empty(), "{way:?}: {fewer:#?}");
        }
    }
}

fn installed(name: &'static str, files: &'static [&'static str]) -> PathBuf {
    let source = Source::of(env!("CARGO_MANIFEST_DIR"), name, files);
    source.installed(|folder| try_run("sh", &["get.sh"], folder).map(drop))
}

fn of_python(
    arguments: &'static [&'static str],
    see_the_proxy: &'static [(&'static str, &'static str)],
) -> Suite {
    let files = &["get.sh", "run.sh", "requirements.txt", "sources.txt"];
    Suite {
        folder: installed("tests_python", files),
        arguments,
        passed: "PASSED ",
        least: 300,
        see_the_proxy,
    }
}

fn go_folder() -> PathBuf {
    installed("tests_go", &["get.sh", "run.sh", "go.mod", "go.sum"])
}

#[test]
#[ignore = "make applications: minutes, and gets the tests of asyncpg"]
fn tests_of_asyncpg_end_as_without_the_proxy() {
    let see_the_proxy = &[
        (
            "TestListeners::test_listen_",
            "a notification names its process",
        ),
        ("restored_after_idle_connection_loss", NUMBER),
        ("test_prepare_explicitly_named", NAMES),
        (
            "test_get_settings_01",
            "looks before its first request, by which the proxy hears how PostgreSQL writes a parameter",
        ),
        (
            "test_type_cache_invalidation_in_pool",
            "drops a database to which a server of the pool is connected",
        ),
        (
            "test_execute_script_interrupted_by_server",
            "the proxy says of a closed server what it is, behind the server's last error",
        ),
        (
            "test_executemany_server_failure_during_writes",
            "more than 4 MiB are under way when the error comes",
        ),
    ];
    of_python(&["asyncpg"], see_the_proxy).pass_through_the_proxy();
}

#[test]
#[ignore = "make applications: minutes, and gets the tests of SQLAlchemy"]
fn tests_of_sqlalchemy_end_as_without_the_proxy() {
    of_python(&["sqlalchemy"], &[]).pass_through_the_proxy();
}

#[test]
#[ignore = "make applications: minutes, and gets the tests of pgx"]
fn tests_of_pgx_end_as_without_the_proxy() {
    let suite = Suite {
        folder: go_folder(),
        arguments: &[],
        passed: "--- PASS: ",
        least: 1000,
        see_the_proxy: &[
            ("TestFatalTxError", NUMBER),
            ("TestFatalRxError", NUMBER),
            ("TestConnPing", NUMBER),
            ("TestConnCheckConn", NUMBER),
            ("TestCheckIdleConn", NUMBER),
            ("TestPoolAcquireChecksIdleConns", NUMBER),
            ("TestConnMultiplePrepareAndDeallocate", NAMES),
            ("TestDeallocateMissingPreparedStatement", NAMES),
            ("TestPrepareHandlesTimeoutBetween", NAMES),
        ],
    };
    suite.pass_through_the_proxy();
}

/// pgx has some for poolers of transactions.
#[test]
#[ignore = "make applications: gets the tests of pgx"]
fn tests_of_pgx_for_poolers_pass() {
    let folder = go_folder();
    for way in WAYS {
        let proxy = TestProxy::with(way, |settings| {
            settings.pool_mode = PoolMode::Transaction;
            settings.default_pool_size = 3;
        });
        let told = run(
            "sh",
            &["run.sh", &proxy.port.to_string(), USER, "pooled"],
            &folder,
        );
        let passed = told.matches("--- PASS: TestPgbouncer").count();
        assert_eq!(passed, 2, "{way:?}: {told}");
    }
}
