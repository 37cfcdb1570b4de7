//! `bpfdb serve` and `bpfdb stats` as a user runs them, in namespaces of each
//! test's own: ports are free, and nothing is left of a test that was killed.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_tests::process::dies_with_us;
use nix::sys::signal::Signal;

use crate::common;

use bpfdb_tests::settings::is_emulated;
use common::{BINARY, Connection, PATIENCE, Served, alone, folder as folder_of, text, wait_until};

/// Transactions that wait so long are rolled back.
const IDLE: Duration = Duration::from_secs(2);

/// A start takes longer than any of these: they share a server, and each leaves it as the next needs it.
#[test]
fn one_server_from_its_configuration_to_its_stop() {
    let folder = alone().folder;
    let file = folder.join("bpfdb.toml");
    let log = folder.join("log");
    let settings = format!(
        "maxclients = 7\nlogfile = {:?}\nlog-format = \"json\"\n",
        text(&log)
    );
    std::fs::write(&file, settings).expect("written");
    let timeout = IDLE.as_secs().to_string();
    let more = ["--bind", "localhost", "--transaction-timeout", &timeout];
    let server = Served::start(0, &[&["--config", text(&file)][..], &more].concat());
    let port = server.port;
    a_file_configures_and_flags_win(&server, &log);
    connections_wait_for_descriptors(&server, &log);
    what_is_done_is_counted(&server);
    a_port_in_use_is_told_in_one_line(&server);
    an_idle_transaction_is_rolled_back_in_the_kernel(&server);
    who_does_not_read_replies_is_closed_and_logged(&server, &log);
    sighup_opens_the_log_anew(server, &log);
    assert!(!folder_of(port).exists(), "a clean stop leaves nothing");
}

/// A name is an address, too: it is bound to one.
fn a_file_configures_and_flags_win(server: &Served, log: &Path) {
    assert_eq!(server.ask(&["PING"]), "+PONG");
    // `start` gives --maxclients 32: it wins.
    assert_eq!(server.figure("clients", "maxclients"), 32);
    let written = std::fs::read_to_string(log).expect("a log");
    let events = events(&written);
    assert!(
        events.iter().any(|event| event["message"] == "listening"),
        "{written}"
    );
    assert!(events.iter().all(|event| event["level"].is_string()));
}

/// The lines of a log that is JSON.
fn events(log: &str) -> Vec<serde_json::Value> {
    log.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// Without a descriptor for it a connection waits: the server tries again from time to time, and does not
/// ask without end.
fn connections_wait_for_descriptors(server: &Served, log: &Path) {
    let pid = server.child.id().to_string();
    let limit = |most: &str| {
        let limited = Command::new("prlimit")
            .args(["--pid", &pid, &format!("--nofile={most}:")])
            .status();
        assert!(limited.is_ok_and(|status| status.success()));
    };
    let failed = || {
        let log = std::fs::read_to_string(log).unwrap_or_default();
        log.matches("cannot accept a connection").count()
    };
    // Fewer than it has.
    limit("5");
    let mut waiting = Connection::open(server.port);
    wait_until("it cannot be accepted", || failed() > 0);
    let (before, begun) = (failed(), Instant::now());
    wait_until("it is tried again", || failed() > before + 3);
    let tries = (failed() - before) as u128;
    assert!(tries <= 2 + begun.elapsed().as_millis() / 50, "{tries}");
    limit("1000");
    assert_eq!(waiting.ask(&["DBSIZE"]), ":0");
}

fn what_is_done_is_counted(server: &Served) {
    assert_eq!(server.ask(&["SET", "a", "1"]), "+OK");
    assert_eq!(server.ask(&["INCR", "a"]), ":2");
    assert!(folder_of(server.port).exists());
    let stats = server.stats();
    assert_eq!(stats["data"]["records"], 1);
    assert!(stats["operations"]["set"].as_u64() >= Some(1));
}

fn a_port_in_use_is_told_in_one_line(server: &Served) {
    let port = server.port.to_string();
    let message = refused(&["serve", "--appendonly", "no", "--port", &port]);
    assert!(message.contains("cannot listen"), "{message}");
    // It did not touch the other's data.
    assert_eq!(server.ask(&["GET", "a"]), "2");
    assert!(folder_of(server.port).exists());
}

fn an_idle_transaction_is_rolled_back_in_the_kernel(server: &Served) {
    let mut idle = Connection::open(server.port);
    assert_eq!(idle.ask(&["BEGIN"]), "+OK");
    let active = Instant::now();
    idle.ask(&["SET", "k", "1"]);
    while !server.ask(&["SET", "k", "2"]).starts_with("+OK") {
        assert!(active.elapsed() < PATIENCE, "the lock stays");
        thread::sleep(Duration::from_millis(50));
    }
    // The engine goes by the ticks of its timer.
    assert!(active.elapsed() >= IDLE / 2);
    assert!(idle.ask(&["GET", "k"]).starts_with('-'));
    assert!(idle.ask(&["COMMIT"]).starts_with('-'));
    assert_eq!(idle.ask(&["GET", "k"]), "2");
}

/// A client that asks and does not read is closed at its limit, and the log says why.
fn who_does_not_read_replies_is_closed_and_logged(server: &Served, log: &Path) {
    let limit = "normal 1048576 0 0";
    let set = ["CONFIG", "SET", "client-output-buffer-limit", limit];
    assert_eq!(server.ask(&set), "+OK");
    assert_eq!(server.ask(&["SET", "long", &"l".repeat(1 << 20)]), "+OK");
    let warned = || {
        let log = std::fs::read_to_string(log).unwrap_or_default();
        let mut lines = log
            .lines()
            .filter(|line| line.contains("does not read its replies"));
        let line = lines.next().map(str::to_owned);
        assert!(lines.next().is_none(), "twice: {log}");
        line
    };
    assert_eq!(warned(), None);
    let mut slow = Connection::open(server.port);
    // More than the buffers of two sockets take.
    let requests = common::request(&["GET", "long"]).repeat(50);
    slow.try_send_text(&requests).expect("sent");
    wait_until("it is closed", || warned().is_some());
    assert!(warned().is_some_and(|line| line.contains("WARN")));
    let closed = server.figure("stats", "client_output_buffer_limit_disconnections");
    assert_eq!(closed, 1);
}

/// Who rotates the log moves it away and sends SIGHUP: what comes then is in a new file.
fn sighup_opens_the_log_anew(server: Served, log: &Path) {
    let old = log.with_extension("1");
    std::fs::rename(log, &old).expect("moved away");
    server.signal(Signal::SIGHUP);
    wait_until("a new log", || log.exists());
    let before = std::fs::read_to_string(&old).expect("the old log");
    assert!(before.contains("listening"), "{before}");
    server.stop();
    let after = std::fs::read_to_string(log).expect("the new log");
    assert!(
        after.contains("stop") && !after.contains("listening"),
        "{after}"
    );
    let unchanged = std::fs::read_to_string(&old).expect("the old log");
    assert_eq!(unchanged, before);
}

#[test]
fn a_setting_that_is_none_is_told_with_its_line() {
    let file = alone().folder.join("bpfdb.toml");
    std::fs::write(&file, "maxclinets = 7\n").expect("written");
    let message = refused(&["serve", "--config", text(&file)]);
    assert!(
        message.contains("line 1: there is no setting maxclinets; did you mean maxclients?"),
        "{message}"
    );
}

/// Data in the kernel outlives servers: one that is killed, and two that are told to keep it. Each server shows what
/// the one before it has left.
#[test]
fn data_stays_from_server_to_server_until_one_drops_it() {
    alone();
    let server = Served::start(0, &["--keep-data"]);
    let port = server.port;
    a_living_server_shares_its_data_with_nobody(&server);
    let mut open = Connection::open(port);
    assert_eq!(open.ask(&["BEGIN"]), "+OK");
    assert_eq!(open.ask(&["SET", "a", "2"]), "+OK");
    server.crash();

    // A crash loses no commit, and no lock stays.
    let server = Served::start(port, &[]);
    assert_eq!(server.ask(&["GET", "b"]), "1");
    assert_eq!(server.ask(&["GET", "a"]), "1");
    assert_eq!(server.ask(&["SET", "a", "3"]), "+OK");
    assert_eq!(server.stats()["sessions"]["locks"], 0);
    // A client can stop the server and say what becomes of the data.
    server.shut_down(&["SHUTDOWN", "SAVE"]);
    assert!(folder_of(port).exists());

    // It is kept on request.
    let server = Served::start(port, &["--keep-data"]);
    assert_eq!(server.ask(&["GET", "a"]), "3");
    server.stop();
    assert!(folder_of(port).exists());

    let server = settings_that_kept_data_overrules_are_told(port);
    assert_eq!(server.ask(&["GET", "a"]), "3");
    server.shut_down(&["SHUTDOWN", "NOSAVE"]);
    assert!(!folder_of(port).exists());
}

/// The sockets do not meet, but the data would.
fn a_living_server_shares_its_data_with_nobody(server: &Served) {
    let port = server.port.to_string();
    let mut open = Connection::open(server.port);
    assert_eq!(open.ask(&["BEGIN"]), "+OK");
    assert_eq!(open.ask(&["SET", "a", "1"]), "+OK");
    let other = ["serve", "--bind", "127.0.0.2", "--port", &port];
    for more in [&[][..], &["--fresh"]] {
        let message = refused(&[&other[..], more].concat());
        assert!(message.contains("another server"), "{message}");
        assert!(message.contains("--port"), "{message}");
    }
    assert_eq!(open.ask(&["SET", "b", "1"]), "+OK");
    assert_eq!(open.ask(&["COMMIT"]), "+OK");
    assert_eq!(server.ask(&["GET", "a"]), "1");
}

/// A server that goes on with the data of one with other settings.
fn settings_that_kept_data_overrules_are_told(port: u16) -> Served {
    let mut command = Command::new(BINARY);
    command
        .args(["serve", "--appendonly", "no", "--keep-data"])
        .args(["--maxmemory", "128M", "--versions", "8"])
        .args(["--maxclients", "32", "--port", &port.to_string()])
        .stdout(Stdio::piped());
    let mut child = dies_with_us(&mut command).spawn().expect("bpfdb starts");
    let mut greeting = BufReader::new(child.stdout.take().expect("piped")).lines();
    let told = greeting
        .by_ref()
        .map_while(Result::ok)
        .find(|line| line.contains("as it was made"));
    let server = Served { child, port };
    assert_eq!(
        told.as_deref(),
        Some(
            "  as it was made: versions 4 (not 8); \
             --fresh drops the data and goes by the new settings"
        )
    );
    // The memory limit is what is asked for now.
    let said = server.ask(&["INFO", "memory"]);
    assert!(said.contains("maxmemory:134217728\r\n"), "{said}");
    server
}

/// The log opens files while it is written. Clients that take all descriptors must not end it.
#[test]
fn clients_leave_descriptors_for_the_log() {
    const LIMIT: u64 = 300;
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut limited = Command::new("prlimit");
    limited.args([&format!("--nofile={LIMIT}:{LIMIT}"), BINARY]);
    let arguments = ["--appendonly", "yes", "--dir", data.to_str().expect("text")];
    let more = ["--maxclients", "1000", "--maxmemory", "256M"];
    let server = Served::launch(limited, 0, &[&arguments[..], &more].concat());
    let most = server.figure("clients", "maxclients");
    assert!(most > 20 && most < LIMIT, "{most}");
    let mut first = Connection::open(server.port);
    let others = (0..2 * LIMIT).filter_map(|_| {
        let mut other = Connection::try_open(server.port)?;
        (other.try_ask(&["PING"])? == "+PONG").then_some(other)
    });
    let others: Vec<Connection> = others.collect();
    assert!(
        others.len() as u64 >= most - 2,
        "{} of {most}",
        others.len()
    );
    // More than a segment.
    let value = "v".repeat(30_000);
    for n in 0..5000 {
        // A slow machine may let it wait for room for too long.
        wait_until("written", || {
            first.ask(&["SET", &format!("k{}", n % 100), &value]) == "+OK"
        });
    }
    drop(others);
    let state = || server.field("persistence", "log_state");
    wait_until("writing", || state() == "writing");
    server.stop();
}

/// Neither in the kernel's data nor in that of the files.
#[test]
fn after_a_crash_with_a_log_nobody_has_a_lock_or_a_session() {
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut server = Served::start_in(&data, 0, &[]);
    let port = server.port;
    let sessions = |server: &Served| {
        let told = server.stats()["sessions"].clone();
        ["open", "in_transaction", "locks"].map(|name| told[name].as_u64().expect("a number"))
    };
    for how in [&[][..], &["--fresh"]] {
        assert_eq!(server.ask(&["SET", "a", "1"]), "+OK");
        let [without, 0, 0] = sessions(&server) else {
            panic!("{}", server.stats());
        };
        let mut open = Connection::open(port);
        assert_eq!(open.ask(&["WAITAOF", "1", "0", "0"]), "*2");
        let mut open: Vec<_> = (0..5).map(|_| Connection::open(port)).collect();
        for (n, open) in open.iter_mut().enumerate() {
            assert_eq!(open.ask(&["BEGIN"]), "+OK");
            let key = if n == 0 {
                "a".to_owned()
            } else {
                format!("b{n}")
            };
            assert_eq!(open.ask(&["SET", &key, "2"]), "+OK");
        }
        let [with, 5, locks] = sessions(&server) else {
            panic!("{}", server.stats());
        };
        assert!(with > without && locks >= 5, "{}", server.stats());
        server.crash();

        server = Served::start_in(&data, port, how);
        assert_eq!(server.ask(&["GET", "a"]), "1", "{how:?}");
        assert_eq!(server.ask(&["EXISTS", "b1", "b2", "b3", "b4"]), ":0");
        assert_eq!(server.ask(&["SET", "a", "3"]), "+OK");
        let [_, transactions, locks] = sessions(&server);
        assert_eq!((transactions, locks), (0, 0), "{how:?}");
        wait_until("its sessions go", || sessions(&server)[0] <= without);
    }
    server.stop();
}

#[test]
fn stats_of_nothing_is_told_in_one_line() {
    alone();
    let output = Command::new(BINARY)
        .args(["stats", "--port", "1"])
        .output()
        .expect("bpfdb");
    assert!(!output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1);
}

#[test]
fn settings_are_written_back_to_their_file() {
    let file = alone().folder.join("bpfdb.toml");
    let ours = "# ours\ntimeout = 5 # seconds\ndir = \"/of/another/day\"\n";
    std::fs::write(&file, ours).expect("written");
    let server = Served::start(0, &["--config", file.to_str().expect("a path")]);
    assert_eq!(
        server.ask(&["CONFIG", "SET", "timeout", "9", "requirepass", "secret"]),
        "+OK"
    );
    let mut connection = Connection::open(server.port);
    assert!(connection.ask(&["PING"]).starts_with("-NOAUTH"));
    assert_eq!(connection.ask(&["AUTH", "secret"]), "+OK");
    assert_eq!(connection.ask(&["CONFIG", "REWRITE"]), "+OK");
    // With this no server would start.
    let too_little = ["CONFIG", "SET", "maxmemory", "1"];
    assert_eq!(connection.ask(&too_little), "+OK");
    let refused = connection.ask(&["CONFIG", "REWRITE"]);
    assert!(refused.starts_with("-ERR Rewriting"), "{refused}");
    server.stop();
    let text = std::fs::read_to_string(&file).expect("there");
    // There is no log, so the directory is not used; and it does not matter.
    let kept = "# ours\ntimeout = 9 # seconds\ndir = \"/of/another/day\"\n";
    assert!(text.starts_with(kept), "{text}");
    assert!(text.contains("requirepass = \"secret\""), "{text}");

    // It is what the next start goes by.
    let server = Served::start(0, &["--config", file.to_str().expect("a path")]);
    let mut connection = Connection::open(server.port);
    assert!(connection.ask(&["GET", "a"]).starts_with("-NOAUTH"));
    assert_eq!(connection.ask(&["AUTH", "secret"]), "+OK");
    assert_eq!(connection.ask(&["CONFIG", "GET", "timeout"]), "*2");
    server.stop();
}

/// One line on standard error, and no success: what it says.
fn refused(arguments: &[&str]) -> String {
    let output = Command::new(BINARY)
        .args(arguments)
        .output()
        .expect("bpfdb");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

/// A standard output without a reader.
fn nobody() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

#[test]
fn that_nobody_reads_is_no_error() {
    alone();
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = free.local_addr().expect("bound").port();
    drop(free);
    let mut command = Command::new(BINARY);
    command
        .args([
            "serve",
            "--appendonly",
            "no",
            "--maxmemory",
            "64M",
            "--memory-ahead",
            "16M",
        ])
        .args(["--maxclients", "32", "--port", &port.to_string()])
        .stdout(nobody())
        .stderr(nobody());
    let child = dies_with_us(&mut command).spawn().expect("bpfdb starts");
    let server = Served { child, port };
    // An emulated machine verifies the programs for a minute if other tests run beside this one.
    let patience = PATIENCE * if is_emulated() { 4 } else { 1 };
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(start.elapsed() < patience, "no server");
        thread::sleep(Duration::from_millis(20));
    }
    let mut connection = Connection::open(port);
    // It is logged, and so is the end.
    assert_eq!(connection.ask(&["CONFIG", "SET", "timeout", "9"]), "+OK");
    let port_text = port.to_string();
    for arguments in [
        &["stats", "--port", &port_text][..],
        &["stats", "--json", "--port", &port_text],
        &["docs", "errors"],
        &["doctor"],
        &["doctor", "--json"],
    ] {
        let output = Command::new(BINARY)
            .args(arguments)
            .stdout(nobody())
            .stderr(Stdio::piped())
            .output()
            .expect("bpfdb");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        assert!(output.stderr.is_empty(), "{arguments:?}: {output:?}");
    }
    server.stop();
    assert!(!folder_of(port).exists());
}

#[test]
fn values_that_cannot_be_are_told_with_what_can() {
    alone();
    let message = refused(&["serve", "--appendonly", "no", "--maxmemory", "1"]);
    assert!(message.contains("at least 32.0 MiB"), "{message}");
    let message = refused(&["serve", "--port", "70000"]);
    assert!(message.contains("between 0 and 65535"), "{message}");
}
