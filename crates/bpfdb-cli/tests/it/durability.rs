//! A server with a data directory: whose that is, and what is there when a server starts again.
//! `crash_loop.rs` kills servers at any moment.

use crate::common;

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bpfdb_tests::process::dies_with_us;
use nix::mount::{MsFlags, mount};
use nix::sys::signal::{SigSet, Signal};

use common::{BINARY, Connection, Served, alone, request, small_disk, wait_until};

/// The output of a server that does not start.
fn refused(arguments: &[&str]) -> String {
    // One that starts all the same does not run for ever.
    let mut command = Command::new("timeout");
    let output = command
        .args(["120", BINARY, "serve"])
        .args(arguments)
        .output();
    let output = output.expect("bpfdb");
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).expect("text")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn a_server_has_a_directory_by_default_one_for_each_port() {
    alone();
    // In the namespace of this test only.
    let nothing = None::<&str>;
    mount(
        Some("none"),
        "/var/lib",
        Some("tmpfs"),
        MsFlags::empty(),
        nothing,
    )
    .expect("mounted");
    let start = |port| Served::start(port, &["--appendonly", "yes"]);
    let [one, two] = [start(6379), start(6380)];
    assert_eq!(one.ask(&["SET", "a", "1"]), "+OK");
    assert_eq!(two.ask(&["SET", "a", "2"]), "+OK");
    one.stop();
    two.stop();
    let server = start(6379);
    assert_eq!(server.ask(&["GET", "a"]), "1");
    assert_eq!(server.ask(&["CONFIG", "GET", "dir"]), "*2");
    server.stop();
    assert!(Path::new("/var/lib/bpfdb/6380/control").exists());
}

/// A start takes longer than any of these: they share a server.
#[test]
fn what_a_killed_server_left_is_neither_lost_nor_mixed() {
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut first = Served::start_in(&data, 0, &[]);
    assert_eq!(first.ask(&["SET", "key", "before"]), "+OK");
    let mut connection = Connection::open(first.port);
    // Until it is known how this client reads.
    for _ in 0..2 * bpfdb::abi::BPFDB_LOCAL_READS {
        assert_eq!(connection.ask(&["PING"]), "+PONG");
    }
    // The kernel answers, and the log is not written.
    first.signal(Signal::SIGSTOP);
    assert_eq!(connection.ask(&["SET", "key", "value"]), "+OK");
    first.kill();
    let port = first.port;
    a_server_on_another_port_does_not_go_on_with_less(&data, port);
    a_start_that_is_refused_drops_nothing(&data, port);
    the_data_of_another_log_is_refused_and_not_mixed(&directory.path().join("other"), port);
    let again = Served::start_in(&data, port, &["--keep-data"]);
    assert_eq!(again.ask(&["GET", "key"]), "value");
    again.stop();
    // The files have everything now.
    let mut elsewhere = Served::start_in(&data, 0, &[]);
    assert_eq!(elsewhere.ask(&["GET", "key"]), "value");
    elsewhere.kill();
    // Whoever gives it up has what the files have.
    let fresh = Served::start_in(&data, port, &["--fresh"]);
    assert_eq!(fresh.ask(&["GET", "key"]), "value");
    fresh.stop();
}

/// What a server that was killed has left in the kernel belongs to its port. A server on another
/// port does not go on without it.
fn a_server_on_another_port_does_not_go_on_with_less(data: &Path, port: u16) {
    let other = ["--appendonly", "yes", "--dir", text(data), "--port", "0"];
    let told = refused(&other);
    assert!(
        told.contains(&format!("start with --port {port} ")),
        "{told}"
    );
}

/// Whoever gives up what is in the kernel does so for a server that starts.
fn a_start_that_is_refused_drops_nothing(data: &Path, port: u16) {
    let port = port.to_string();
    let fresh = ["--fresh", "--port", &port, "--dir", text(data)];
    for wrong in [["--maxmemory", "16M"], ["--load-rdb", "/nowhere.rdb"]] {
        let told = refused(&[&fresh[..], &wrong].concat());
        assert!(told.contains("nothing was dropped"), "{told}");
    }
    set_mode(data, 0o755);
    let told = refused(&fresh);
    assert!(told.contains("nothing was dropped"), "{told}");
    set_mode(data, 0o700);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let metrics = ["--metrics-address", &address];
    let told = refused(&[&fresh[..], &metrics].concat());
    assert!(told.contains("nothing was dropped"), "{told}");
}

fn the_data_of_another_log_is_refused_and_not_mixed(other: &Path, port: u16) {
    let port = port.to_string();
    let told = refused(&["--port", &port, "--dir", text(other)]);
    assert!(told.contains("does not belong to the log here"), "{told}");
    let told = refused(&["--port", &port, "--appendonly", "no"]);
    assert!(told.contains("has a log"), "{told}");
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("changed");
}

/// Two starts for all of these: the first server writes what the second recovers.
#[test]
fn one_directory_from_its_first_server_to_its_second() {
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let server = Served::start_in(&data, 0, &[]);
    let port = server.port;
    another_user_cannot_read_the_files(directory.path(), &data);
    a_directory_has_one_owner(&server, &data);
    a_terminal_shows_how_far_a_checkpoint_is(&server);
    checkpoints_are_made_beside_a_client(&server);
    server.stop();
    a_server_is_stopped_while_it_recovers(&data, port);
    a_terminal_shows_how_far_recovery_is(&data, port, || {
        recovery_begins_with_the_last_checkpoint(port);
    });
}

fn a_directory_has_one_owner(server: &Served, data: &Path) {
    let told = refused(&["--port", "0", "--dir", text(data)]);
    let owner = format!("process {} owns this data directory", server.child.id());
    assert!(told.contains(&owner), "{told}");
}

/// What is in the last of them, and what came after it.
fn checkpoints_are_made_beside_a_client(server: &Served) {
    let port = server.port.to_string();
    let mut connection = Connection::open(server.port);
    let started: u64 = number(&connection.ask(&["LASTSAVE"]));
    for n in 0..2000 {
        assert_eq!(connection.ask(&["SET", &format!("k{n}"), "old"]), "+OK");
    }
    assert_eq!(connection.ask(&["DEL", "k0"]), ":1");
    let output = Command::new(BINARY)
        .args(["checkpoint", "--port", &port])
        .output();
    let output = output.expect("bpfdb");
    let told = String::from_utf8_lossy(&output.stdout);
    // What was written after the last group that was durable is in the log.
    assert!(told.starts_with("checkpoint of "), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    assert_eq!(connection.ask(&["SET", "k1", "new"]), "+OK");
    assert_eq!(connection.ask(&["SAVE"]), "+OK");
    assert_eq!(connection.ask(&["SET", "k2", "new"]), "+OK");
    assert!(
        connection
            .ask(&["BGSAVE"])
            .starts_with("+Background saving")
    );
    assert!(number(&connection.ask(&["LASTSAVE"])) >= started);
    assert!(
        connection
            .ask(&["INFO", "persistence"])
            .contains("rdb_last_bgsave_status:ok")
    );
}

fn recovery_begins_with_the_last_checkpoint(port: u16) {
    let mut connection = Connection::open(port);
    assert_eq!(connection.ask(&["DBSIZE"]), ":1999");
    for (key, value) in [("k0", "$-1"), ("k1", "new"), ("k2", "new"), ("k3", "old")] {
        assert_eq!(connection.ask(&["GET", key]), value, "{key}");
    }
}

#[test]
fn data_without_a_log_is_not_given_one() {
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let server = Served::start(0, &[]);
    let port = server.port.to_string();
    assert_eq!(server.ask(&["SET", "a", "1"]), "+OK");
    server.crash();
    let data = directory.path().join("data");
    let told = refused(&["--port", &port, "--dir", text(&data)]);
    assert!(told.contains("made without a log"), "{told}");
    let server = Served::start(port.parse().expect("a port"), &[]);
    assert_eq!(server.ask(&["GET", "a"]), "1");
    server.stop();
}

#[test]
fn a_clean_stop_keeps_every_commit() {
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let large = "v".repeat(200_000);
    for round in 0..3 {
        let server = Served::start_in(&data, 0, &[]);
        let mut connection = Connection::open(server.port);
        for n in 0..round * 100 {
            assert_eq!(connection.ask(&["GET", &format!("k{n}")]), n.to_string());
        }
        if round > 0 {
            assert_eq!(connection.ask(&["GET", "large"]), large);
            assert_eq!(connection.ask(&["GET", "gone"]), "$-1");
            let left: i64 = connection.ask(&["PTTL", "soon"])[1..]
                .parse()
                .expect("a time");
            assert!((1..=1_000_000).contains(&left), "{left}");
        }
        for n in round * 100..(round + 1) * 100 {
            let (key, value) = (format!("k{n}"), n.to_string());
            assert_eq!(connection.ask(&["SET", &key, &value]), "+OK");
        }
        assert_eq!(connection.ask(&["SET", "large", &large]), "+OK");
        assert_eq!(
            connection.ask(&["SET", "soon", "1", "PX", "1000000"]),
            "+OK"
        );
        connection.ask(&["SET", "gone", "1"]);
        assert_eq!(connection.ask(&["DEL", "gone"]), ":1");
        server.stop();
    }
}

/// Then the file may be deleted.
#[test]
fn what_restore_has_written_is_on_the_disk() {
    restore_and_kill(2);
}

#[test]
#[ignore = "takes minutes"]
fn soak_what_restore_has_written_is_on_the_disk() {
    restore_and_kill(50);
}

fn restore_and_kill(times: u32) {
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("copy");
    let bpfdb = |arguments: &[&str]| {
        let output = Command::new(BINARY).args(arguments).output();
        let output = output.expect("bpfdb");
        assert!(output.status.success(), "{output:?}");
    };
    let data = directory.path().join("data");
    let mut server = Served::start_in(&data, 0, &[]);
    let mut connection = Connection::open(server.port);
    for n in 0..2000 {
        assert_eq!(connection.ask(&["SET", &format!("k{n}"), "value"]), "+OK");
    }
    let (port, copy) = (server.port.to_string(), file.to_str().expect("text"));
    bpfdb(&["dump", "--output", copy, "--port", &port]);
    for _ in 0..times {
        assert_eq!(server.ask(&["FLUSHALL"]), "+OK");
        bpfdb(&["restore", copy, "--port", &port]);
        server.kill();
        server = Served::start_in(&data, server.port, &["--fresh"]);
        assert_eq!(server.ask(&["DBSIZE"]), ":2000");
    }
    server.stop();
}

/// Runs a line of the shell on a terminal, whose output is the command's.
fn on_a_terminal(line: &str) -> Command {
    // Of util-linux.
    let mut command = Command::new("script");
    command
        .args(["--quiet", "--return", "--command", line, "/dev/null"])
        .env("TERM", "xterm");
    command
}

/// A bar on a terminal, of which nothing is left in the last line.
fn a_terminal_shows_how_far_a_checkpoint_is(server: &Served) {
    assert_eq!(server.ask(&["MSET", "a", "1", "b", "2"]), "+OK");
    let line = format!("'{BINARY}' checkpoint --port {}", server.port);
    let output = on_a_terminal(&line).output().expect("it runs");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}");
    let bar = shown.find(" keys, 0s left").expect("a bar");
    let told = shown.find("checkpoint of ").expect("its end");
    assert!(bar < told, "{shown:?}");
    assert_eq!(server.ask(&["DEL", "a", "b"]), ":2");
}

/// While the server is there, `look` is called.
fn a_terminal_shows_how_far_recovery_is(data: &Path, port: u16, look: impl FnOnce()) {
    let data = text(data);
    let line = format!("exec '{BINARY}' serve --port {port} --maxmemory 64M --dir '{data}'");
    let mut command = on_a_terminal(&line);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let again = dies_with_us(&mut command).spawn().expect("it runs");
    wait_until("it listens", || Connection::try_open(port).is_some());
    look();
    Connection::open(port).send(&["SHUTDOWN"]);
    let output = again.wait_with_output().expect("its output");
    let shown = String::from_utf8_lossy(&output.stdout);
    let bar = shown.find("recovering ").expect("a bar");
    let told = shown.find(" listens on ").expect("a greeting");
    assert!(bar < told && shown.contains("B of "), "{shown:?}");
}

fn number(reply: &str) -> u64 {
    reply[1..].parse().expect("a number")
}

fn another_user_cannot_read_the_files(above: &Path, data: &Path) {
    const NOBODY: u32 = 65534;
    let mode = |path: &Path| path.metadata().expect("there").permissions().mode() & 0o7777;
    assert_eq!(mode(data), 0o700);
    assert_eq!(mode(&data.join("log")), 0o700);
    for name in ["owner", "control", "log/0000000000000001.log"] {
        assert_eq!(mode(&data.join(name)), 0o600, "{name}");
    }
    // What is above them keeps no user out.
    set_mode(above, 0o755);
    let read = |path: &Path| {
        let mut cat = Command::new("cat");
        let cat = cat.arg(path).uid(NOBODY).gid(NOBODY);
        cat.output().expect("it ends").status.success()
    };
    let plain = above.join("plain");
    std::fs::write(&plain, "x").expect("written");
    assert!(read(&plain), "who may read something else");
    assert!(!read(&data.join("control")));
}

/// A signal may come before the greeting. Of the data nothing is lost.
fn a_server_is_stopped_while_it_recovers(data: &Path, port: u16) {
    let mut command = Command::new(BINARY);
    command.args(["serve", "--port", &port.to_string(), "--maxmemory", "64M"]);
    command.arg("--dir").arg(data);
    let pending = || {
        let signal = SigSet::from(Signal::SIGTERM);
        signal.thread_block()?;
        // To the process, whose thread for signals would see it otherwise.
        nix::sys::signal::kill(nix::unistd::Pid::this(), Signal::SIGTERM)?;
        Ok(())
    };
    // SAFETY: both calls may be made between fork and exec. What is pending stays so.
    unsafe { command.pre_exec(pending) };
    let output = dies_with_us(&mut command).output().expect("bpfdb");
    // It did what it was asked for: a manager of services sees no failure.
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("stopped while it recovered"), "{told}");
    assert_eq!(output.stdout, b"", "no greeting");
}

#[test]
fn durability_of_a_pipeline_is_that_of_its_replies() {
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut server = Served::start_in(&data, 0, &["--appendfsync", "always"]);
    let port = server.port;
    let acknowledged = Mutex::new(0_u64);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = Connection::open(port);
            let mut sent = 0_u64;
            while !over.load(Ordering::Relaxed) {
                for n in 0..16 {
                    let key = format!("p{}", sent + n);
                    connection.send(&["SET", &key, "1"]);
                }
                for n in 0..16 {
                    match connection.try_line() {
                        Some(line) if line == "+OK" => {
                            *acknowledged.lock().expect("whole") = sent + n + 1;
                        }
                        _ => return,
                    }
                }
                sent += 16;
            }
        });
        thread::sleep(Duration::from_millis(300));
        server.kill();
        over.store(true, Ordering::Relaxed);
    });
    let acknowledged = acknowledged.into_inner().expect("whole");
    assert!(acknowledged > 16, "{acknowledged}");
    let server = Served::start_in(&data, port, &["--fresh"]);
    let mut connection = Connection::open(port);
    for n in 0..acknowledged {
        assert_eq!(connection.ask(&["EXISTS", &format!("p{n}")]), ":1", "{n}");
    }
    server.stop();
}

/// What was acknowledged is in the kernel only, if the disk is full: it is not dropped with the
/// server.
#[test]
fn a_stop_drops_nothing_that_is_not_on_the_disk() {
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    std::fs::create_dir(&data).expect("made");
    // Room for a segment and its spare.
    small_disk(&data, 130, MsFlags::empty());
    let server = Served::start_in(&data, 0, &["--maxmemory", "512M"]);
    let port = server.port;
    let mut connection = Connection::open(port);
    let value = "v".repeat(30_000);
    let written = (0_u64..)
        .find(|n| {
            connection.ask(&["SET", &format!("k{}", n % 100), &format!("{n}{value}")]) != "+OK"
        })
        .expect("the disk is full at some time");
    assert!(written > 1000, "{written}");
    let status = server.end();
    assert!(!status.success(), "not everything is on the disk");
    small_disk(&data, 400, MsFlags::MS_REMOUNT);
    let server = Served::start_in(&data, port, &[]);
    let mut connection = Connection::open(port);
    for n in written - 100..written {
        let found = connection.ask(&["GET", &format!("k{}", n % 100)]);
        assert!(found == format!("{n}{value}"), "{n} of {written}");
    }
    server.stop();
    let server = Served::start_in(&data, port, &[]);
    let found = server.ask(&["GET", &format!("k{}", (written - 1) % 100)]);
    assert!(
        found == format!("{}{value}", written - 1),
        "the log has it now"
    );
    server.stop();
}

/// Whoever asks twice does not want to wait. The next start goes on as after a crash.
#[test]
fn a_second_signal_ends_a_stop_and_loses_nothing() {
    stop_by_two_signals(2);
}

#[test]
#[ignore = "takes minutes"]
fn soak_a_second_signal_ends_a_stop_and_loses_nothing() {
    stop_by_two_signals(50);
}

fn stop_by_two_signals(times: u32) {
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut server = Served::start_in(&data, 0, &[]);
    for round in 0..times {
        let port = server.port;
        let mut connection = Connection::open(port);
        for n in 0..500 {
            let reply = connection.ask(&["SET", &format!("k{n}"), &format!("{round}")]);
            assert_eq!(reply, "+OK");
        }
        server.signal(Signal::SIGTERM);
        server.signal(Signal::SIGINT);
        let status = server.child.wait().expect("wait");
        assert!(matches!(status.code(), Some(0 | 130 | 143)), "{status}");
        server = Served::start_in(&data, port, &[]);
        let mut connection = Connection::open(port);
        for n in 0..500 {
            let found = connection.ask(&["GET", &format!("k{n}")]);
            assert_eq!(found, round.to_string(), "k{n}");
        }
    }
    server.stop();
}

/// As docs/durability.md says: with short values there is room for it in the log, with longer ones not.
#[test]
fn a_block_of_a_hundred_thousand_writes_and_the_log() {
    const COMMANDS: usize = 100_000;
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let server = Served::start_in(&directory.path().join("data"), 0, &["--maxmemory", "256M"]);
    let mut connection = Connection::open(server.port);
    let mut block = |value: &str| {
        let sets = (0..COMMANDS).map(|n| request(&["SET", &format!("key:{n}"), value]));
        let requests = [request(&["MULTI"]), sets.collect(), request(&["EXEC"])].concat();
        connection.try_send_text(&requests).expect("sent");
        assert_eq!(connection.try_line().as_deref(), Some("+OK"));
        for _ in 0..COMMANDS {
            assert_eq!(connection.try_line().as_deref(), Some("+QUEUED"));
        }
        let reply = connection.try_line().expect("a reply");
        if reply.starts_with('*') {
            for _ in 0..COMMANDS {
                assert_eq!(connection.try_line().as_deref(), Some("+OK"));
            }
        }
        reply
    };
    assert_eq!(
        block(&"v".repeat(100)),
        "-EXECABORT Transaction rolled back: the transaction writes more than its part of the log's \
         ring; use smaller transactions, or a larger ring"
    );
    assert_eq!(server.ask(&["EXISTS", "key:0", "key:99999"]), ":0");
    // The places of its keys go with its locks, in steps.
    wait_until("its locks are gone", || server.ask(&["DBSIZE"]) == ":0");
    assert_eq!(block("value"), format!("*{COMMANDS}"));
    assert_eq!(server.ask(&["DBSIZE"]), format!(":{COMMANDS}"));
    server.stop();
}
