//! Drivers of other languages as they are, by the kernel and by the process: their pools, prepared statements, transactions, copies, errors,
//! requests to cancel and notifications. Each does the same without the proxy first. Some come in by SCRAM-SHA-256.

use std::path::Path;

use bpfdb_proxy::settings::{AuthType, PoolMode};
use bpfdb_tests::install::{self, Source, run};

use crate::postgres::{self, PASSWORD, SECRETIVE, USER};
use crate::proxy::{TestProxy, WAYS, Way};

const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");
/// Fewer than the clients have connections.
const SERVERS: usize = 3;
/// As many as they have together.
const SERVERS_OF_SESSIONS: usize = 20;

type Served = (Way, PoolMode);

/// What the drivers meet in `make test`: programs in the kernel, and none.
const SHORT: [Served; 3] = [
    (Way::Kernel, PoolMode::Transaction),
    (Way::Kernel, PoolMode::Session),
    (Way::Plain, PoolMode::Transaction),
];

fn all() -> Vec<Served> {
    let modes = [PoolMode::Transaction, PoolMode::Session];
    let of_way = |way| modes.map(|mode| (way, mode));
    WAYS.into_iter().flat_map(of_way).collect()
}

/// Runs a program without the proxy, then as each of SHORT says. It gets a port, a user and a name for its
/// tables, and says of each driver that all went as it should.
fn serves(run: impl Fn(&[&str]) -> String, names: &[&str]) {
    serves_as(&SHORT, USER, None, run, names);
}

/// The same as a user with a password, which the program gets behind the other arguments.
fn serves_by_scram(run: impl Fn(&[&str]) -> String, names: &[&str]) {
    serves_as(&SHORT, SECRETIVE, Some(PASSWORD), run, names);
}

fn serves_as(
    served: &[Served],
    user: &str,
    password: Option<&str>,
    run: impl Fn(&[&str]) -> String,
    names: &[&str],
) {
    let runs = |port: u16, name: &str| {
        let port = port.to_string();
        let mut arguments = vec![port.as_str(), user, name];
        arguments.extend(password);
        let told = run(&arguments);
        for driver in names {
            let line = format!("{driver} ok");
            let is_there = told.lines().any(|told| told == line);
            assert!(is_there, "{name}: {told}");
        }
    };
    runs(postgres::shared().port, "direct");
    for &(way, mode) in served {
        let proxy = TestProxy::with(way, |settings| {
            settings.pool_mode = mode;
            if let Some(password) = password {
                settings.auth_type = AuthType::Scram;
                settings.users.insert(user.into(), password.into());
            }
            settings.default_pool_size = match mode {
                PoolMode::Session => SERVERS_OF_SESSIONS,
                _ => SERVERS,
            };
        });
        eprintln!("{way:?}, {mode}");
        runs(proxy.port, &mode.to_string());
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

/// A script of Python, with the packages of `drivers_python`.
fn python(script: &str) -> impl Fn(&[&str]) -> String {
    let source = Source::of(PACKAGE, "drivers_python", &["requirements.txt"]);
    let folder = source.installed(install::python);
    let program = folder.join("venv/bin/python");
    let script = source.file(script);
    move |arguments| {
        run(
            text(&program),
            &[&[text(&script)], arguments].concat(),
            &folder,
        )
    }
}

#[test]
fn drivers_of_python_work() {
    serves(python("run.py"), &["psycopg", "asyncpg", "sqlalchemy"]);
}

#[test]
fn psycopg2_works() {
    serves_by_scram(python("run_psycopg2.py"), &["psycopg2"]);
}

#[test]
fn django_works() {
    serves(python("run_django.py"), &["django"]);
}

/// A script of Node, with the packages of `drivers_node`.
fn node(script: &'static str) -> impl Fn(&[&str]) -> String {
    let files = &[
        "package.json",
        "package-lock.json",
        "run.mjs",
        "run_postgres.mjs",
    ];
    let folder = Source::of(PACKAGE, "drivers_node", files).installed(install::npm);
    move |arguments| run("node", &[&[script], arguments].concat(), &folder)
}

#[test]
fn node_postgres_works() {
    serves(node("run.mjs"), &["pg"]);
}

#[test]
fn postgres_js_works() {
    serves(node("run_postgres.mjs"), &["postgres"]);
}

/// A driver of Go, of those of `drivers_go`.
fn go(driver: &'static str) -> impl Fn(&[&str]) -> String {
    let files = &["go.mod", "go.sum", "main.go", "pgx.go", "pq.go"];
    let folder = Source::of(PACKAGE, "drivers_go", files).installed(install::go);
    let program = folder.join("run");
    move |arguments| run(text(&program), &[&[driver], arguments].concat(), &folder)
}

#[test]
fn pgx_works() {
    serves(go("pgx"), &["pgx"]);
}

#[test]
fn pq_works() {
    serves_by_scram(go("pq"), &["pq"]);
}

#[test]
#[ignore = "long: make soak"]
fn soak_drivers_work_on_all_ways() {
    let all = all();
    let open = |run: &dyn Fn(&[&str]) -> String, names: &[&str]| {
        serves_as(&all, USER, None, run, names);
    };
    open(&python("run.py"), &["psycopg", "asyncpg", "sqlalchemy"]);
    open(&python("run_django.py"), &["django"]);
    open(&node("run.mjs"), &["pg"]);
    open(&node("run_postgres.mjs"), &["postgres"]);
    open(&go("pgx"), &["pgx"]);
    let closed = |run: &dyn Fn(&[&str]) -> String, name| {
        serves_as(&all, SECRETIVE, Some(PASSWORD), run, &[name]);
    };
    closed(&python("run_psycopg2.py"), "psycopg2");
    closed(&go("pq"), "pq");
}

#[test]
#[ignore = "make applications: installs for a minute, and needs Maven"]
fn jdbc_works() {
    let files = &[
        "pom.xml",
        "Main.java",
        "Check.java",
        "OfHikari.java",
        "OfJdbc.java",
    ];
    let source = Source::of(PACKAGE, "drivers_java", files);
    let folder = source.installed(install::maven);
    serves(
        |arguments| install::java(&folder, arguments),
        &["jdbc", "hikari"],
    );
}

#[test]
#[ignore = "make applications: needs Ruby with ActiveRecord"]
fn active_record_works() {
    let script = Source::of(PACKAGE, "active_record", &["run.rb"]).file("run.rb");
    let folder = script.parent().expect("its folder");
    serves(
        |arguments| run("ruby", &[&[text(&script)], arguments].concat(), folder),
        &["active_record"],
    );
}
