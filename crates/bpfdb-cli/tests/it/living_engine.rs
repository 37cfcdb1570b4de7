//! What a server says of an engine that was there before it, or that is being taken away.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use bpfdb_tests::process::dies_with_us;

use crate::common::{BINARY, Connection, Served, alone, fails, folder, text, wait_until, with_log};

/// The value that CONFIG GET shows.
fn setting(server: &Served, name: &str) -> String {
    let mut connection = Connection::open(server.port);
    assert_eq!(connection.ask(&["CONFIG", "GET", name]), "*2");
    connection.try_reply().expect("the name");
    connection.try_reply().expect("the value")
}

#[test]
fn config_get_says_what_the_engine_was_made_with() {
    alone();
    let made = ["--versions", "2", "--transaction-timeout", "7"];
    let server = Served::start(0, &made);
    let port = server.port;
    server.crash();
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("bpfdb.toml");
    let asked = "versions = 3\ntransaction-timeout = 90\n";
    fs::write(&file, asked).expect("written");
    let server = Served::start(port, &["--config", text(&file), "--maxclients", "500"]);
    let in_force = ["versions", "transaction-timeout", "maxclients"];
    let told = in_force.map(|name| setting(&server, name));
    assert_eq!(told, ["2", "7", "32"]);
    // The next engine is to have what the file says.
    assert_eq!(server.ask(&["CONFIG", "REWRITE"]), "+OK");
    let rewritten = fs::read_to_string(&file).expect("there");
    assert!(rewritten.starts_with(asked), "{rewritten}");
    server.stop();
}

#[test]
fn pins_that_are_removed_are_noticed() {
    alone();
    let home = tempfile::tempdir().expect("a folder");
    let log = home.path().join("log");
    let server = Served::start(0, &["--logfile", text(&log)]);
    let told = || fs::read_to_string(&log).unwrap_or_default();
    let pin = folder(server.port).join("segments");
    fs::remove_file(&pin).expect("removed");
    wait_until("it is logged", || told().contains("a pin of the data"));
    assert!(told().contains(text(&pin)), "{}", told());
    assert_eq!(server.ask(&["SET", "a", "1"]), "+OK");
    server.shut_down(&["SHUTDOWN", "SAVE"]);
    assert!(
        told().contains("the data does not stay in the kernel"),
        "{}",
        told()
    );
}

/// Neither a word nor data is what a user gets who forgot that there is a log.
#[test]
fn a_directory_that_is_not_read_is_told_of() {
    alone();
    let home = tempfile::tempdir().expect("a folder");
    let data = home.path().join("data");
    let server = Served::start_in(&data, 0, &[]);
    let port = server.port.to_string();
    assert_eq!(server.ask(&["SET", "a", "1"]), "+OK");
    server.stop();
    let started = |dir: &str| {
        let mut command = Command::new(BINARY);
        let unread = [
            "serve",
            "--appendonly",
            "no",
            "--maxmemory",
            "64M",
            "--maxclients",
            "32",
        ];
        command.args(unread).args(["--port", &port, "--dir", dir]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = dies_with_us(&mut command).spawn().expect("started");
        let number = port.parse().expect("a port");
        wait_until("it serves", || Connection::try_open(number).is_some());
        let mut open = Connection::open(number);
        open.send(&["SHUTDOWN", "NOSAVE"]);
        let mut told = String::new();
        let mut errors = child.stderr.take().expect("piped");
        errors.read_to_string(&mut told).expect("text");
        assert!(child.wait().expect("wait").success(), "{told}");
        told
    };
    let told = started(text(&data));
    assert!(
        told.contains("data that this server does not read"),
        "{told}"
    );
    let told = started(text(&home.path().join("empty")));
    assert!(!told.contains("does not read"), "{told}");
    // Nothing was changed.
    let server = Served::start(0, &with_log(&data));
    assert_eq!(server.ask(&["GET", "a"]), "1");
    server.stop();
}

/// A container's own BPF file system, or another mount namespace: the data is in the kernel, and a start
/// does not see it.
#[test]
fn an_engine_that_a_start_cannot_see_is_not_given_up_without_a_word() {
    let files = alone();
    let data = files.folder.join("data");
    let server = Served::start_in(&data, 0, &[]);
    let port = server.port;
    assert_eq!(server.ask(&["SET", "a", "1"]), "+OK");
    server.crash();
    // Hides what is pinned, and the folder of the directory, which is reached by another way.
    let elsewhere = tempfile::tempdir().expect("a folder");
    let bind = |from: &std::path::Path, to: &std::path::Path, flags| {
        let none: Option<&str> = None;
        nix::mount::mount(Some(from), to, none, flags, none).expect("mounted");
    };
    bind(
        &files.folder,
        elsewhere.path(),
        nix::mount::MsFlags::MS_BIND,
    );
    let moved = elsewhere.path().join("data");
    let hidden = Some("bpf");
    let none: Option<&str> = None;
    nix::mount::mount(
        none,
        &files.pins,
        hidden,
        nix::mount::MsFlags::empty(),
        none,
    )
    .expect("hidden");
    let number = port.to_string();
    let start = [&["serve", "--port", &number][..], &with_log(&moved)].concat();
    // Again: a start that was refused changes nothing.
    for _ in 0..2 {
        let told = fails(&start);
        assert!(told.contains("still there, pinned in"), "{told}");
    }
    nix::mount::umount(&files.pins).expect("seen again");
    let server = Served::start_in(&moved, port, &[]);
    assert_eq!(server.ask(&["GET", "a"]), "1");
    server.stop();
    // In order: any other port may have it.
    let server = Served::start_in(&moved, 0, &[]);
    assert_eq!(server.ask(&["GET", "a"]), "1");
    server.stop();
    nix::mount::umount(elsewhere.path()).expect("unmounted");
}
