//! Drivers of other languages as they are, in both modes: their pools, prepared statements, transactions, copies, errors
//! and notifications.

use std::path::Path;

use bpfdb_proxy::settings::PoolMode;
use bpfdb_tests::install::{self, Source, run};

use crate::postgres::USER;
use crate::proxy::{TestProxy, WAYS};

const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");
/// Fewer than the clients have connections.
const SERVERS: usize = 3;
/// As many as they have together.
const SERVERS_OF_SESSIONS: usize = 20;

/// Runs a script on each way and in both modes; it says of each driver that all went as it should.
fn serves(program: &str, script: &str, folder: &Path, names: &[&str]) {
    for way in WAYS {
        for mode in [PoolMode::Transaction, PoolMode::Session] {
            let proxy = TestProxy::with(way, |settings| {
                settings.pool_mode = mode;
                settings.default_pool_size = match mode {
                    PoolMode::Session => SERVERS_OF_SESSIONS,
                    _ => SERVERS,
                };
            });
            let (port, mode) = (proxy.port.to_string(), mode.to_string());
            let told = run(program, &[script, &port, USER, &mode], folder);
            for name in names {
                let line = format!("{name} ok");
                let is_there = told.lines().any(|told| told == line);
                assert!(is_there, "{way:?} {mode}: {told}");
            }
        }
    }
}

#[test]
fn drivers_of_python_work() {
    let source = Source::of(PACKAGE, "drivers_python", &["requirements.txt"]);
    let folder = source.installed(install::python);
    let program = folder.join("venv/bin/python");
    let script = source.file("run.py");
    serves(
        program.to_str().expect("a path"),
        script.to_str().expect("a path"),
        &folder,
        &["psycopg", "asyncpg", "sqlalchemy"],
    );
}

#[test]
fn node_postgres_works() {
    let files = &["package.json", "package-lock.json", "run.mjs"];
    let source = Source::of(PACKAGE, "drivers_node", files);
    let folder = source.installed(install::npm);
    serves("node", "run.mjs", &folder, &["pg"]);
}
