//! A server as a service: what the service manager gets, and the rights that are enough.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use bpfdb::mounts;
use bpfdb_tests::server::cgroup;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::common::{BINARY, PATIENCE, Served, alone, text, with_log};

/// A user that no account has.
const USER: u32 = 54_321;

/// The socket of a manager.
struct Manager(UnixDatagram);

impl Manager {
    fn at(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).expect("bound");
        socket.set_read_timeout(Some(PATIENCE)).expect("time-out");
        Self(socket)
    }

    fn message(&self) -> String {
        let mut bytes = [0; 4096];
        let len = self.0.recv(&mut bytes).expect("a message");
        String::from_utf8(bytes[..len].to_vec()).expect("text")
    }

    /// The messages before the one that has this line, and that one.
    fn until(&self, line: &str) -> (Vec<String>, String) {
        let mut before = Vec::new();
        loop {
            let message = self.message();
            if message.lines().any(|found| found == line) {
                return (before, message);
            }
            before.push(message);
        }
    }
}

#[test]
fn the_manager_of_services_is_told() {
    alone();
    let home = tempfile::tempdir().expect("a folder");
    let (socket, data) = (home.path().join("notify"), home.path().join("data"));
    let manager = Manager::at(&socket);
    let start = |port| {
        let mut command = Command::new(BINARY);
        command.env("NOTIFY_SOCKET", &socket);
        Served::launch(command, port, &with_log(&data))
    };
    let server = start(0);
    manager.until("READY=1");
    let port = server.port;
    assert_eq!(server.ask(&["SET", "a", "1"]), "+OK");
    server.stop();
    manager.until("STOPPING=1");
    // It recovers, for which it asks for time.
    let server = start(port);
    let (before, _) = manager.until("READY=1");
    let asks = |message: &String| {
        let status = message.contains("STATUS=recovering");
        status && message.contains("\nEXTEND_TIMEOUT_USEC=60000000")
    };
    assert!(before.iter().any(asks), "{before:?}");
    assert_eq!(server.ask(&["GET", "a"]), "1");
    server.stop();
}

/// A control group that belongs to the user, as `Delegate=yes` makes it.
fn delegated() -> PathBuf {
    let group = cgroup::own().join("delegated");
    fs::create_dir(&group).expect("made");
    for name in [
        "",
        "cgroup.procs",
        "cgroup.subtree_control",
        "cgroup.threads",
    ] {
        chown(group.join(name), Some(USER), Some(USER)).expect("given away");
    }
    group
}

/// For this thread, and what it starts, no file can be written but in these folders: as `ProtectSystem=strict`
/// has it, which leaves out what is no file system of files.
fn protect_all_but(writable: &[&Path]) {
    unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace");
    let none: Option<&str> = None;
    for path in writable {
        // A mount of its own.
        mount(Some(*path), *path, none, MsFlags::MS_BIND, none).expect("bound");
    }
    let apart = ["/dev", "/proc", "/sys"].map(Path::new);
    let stays = |point: &Path| {
        [writable, &apart]
            .concat()
            .iter()
            .any(|path| point.starts_with(path))
    };
    let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    for found in mounts::mounts().expect("a mount table") {
        if !stays(&found.point) {
            mount(none, &found.point, none, read_only, none).expect("read-only");
        }
    }
}

#[test]
fn systemd_takes_the_unit_files() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, program) in [
        ("bpfdb.service", "/usr/bin/bpfdb"),
        ("bpfdb-proxy.service", "/usr/bin/bpfdb-proxy"),
    ] {
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/systemd");
        let unit = fs::read_to_string(ours.join(name)).expect("the unit file");
        assert!(unit.contains(&format!("ExecStart={program} ")), "{name}");
        // It wants the program to be there.
        let path = folder.path().join(name);
        fs::write(
            &path,
            unit.replace(&format!("{program} "), &format!("{BINARY} ")),
        )
        .expect("written");
        let verified = Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(&path)
            .output();
        let output = match verified {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                println!("skipped: there is no systemd-analyze");
                return;
            }
            output => output.expect("it runs"),
        };
        let said = String::from_utf8_lossy(&output.stderr);
        // Of other units on this machine it may say something, too.
        assert!(
            output.status.success() && !said.contains(name),
            "{name}: {said}"
        );
    }
}

/// What `bpfdb doctor` lists is enough, as the unit file gives it: a folder of the user's own in the BPF
/// file system, which others may only pass through; and files that can be written in the data directory
/// only.
#[test]
fn a_user_with_three_capabilities_serves() {
    let files = alone();
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
    mode(&files.pins, 0o711).expect("set");
    let pins = files.pins.join("bpfdb");
    fs::create_dir(&pins).expect("made");
    chown(&pins, Some(USER), Some(USER)).expect("given away");
    mode(&pins, 0o700).expect("set");
    let home = tempfile::tempdir().expect("a folder");
    mode(home.path(), 0o755).expect("set");
    let state = home.path().join("state");
    fs::create_dir(&state).expect("made");
    chown(&state, Some(USER), Some(USER)).expect("given away");
    // The folder of this one may be closed to others.
    let program = home.path().join("bpfdb");
    fs::copy(BINARY, &program).expect("copied");
    let data = state.join("data");
    let group = delegated();
    let start = |port: u16| {
        let id = USER.to_string();
        let mut command = Command::new("sh");
        let enter = "echo 0 > \"$0/cgroup.procs\" && exec setpriv \"$@\"";
        command.args(["-c", enter, text(&group)]);
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
        let capabilities = "-all,+bpf,+perfmon,+net_admin";
        for set in ["--inh-caps", "--ambient-caps", "--bounding-set"] {
            command.args([set, capabilities]);
        }
        command
            .args(["--no-new-privs", "--pdeathsig", "KILL", "--"])
            .arg(&program);
        Served::launch(command, port, &with_log(&data))
    };
    let serve = || {
        protect_all_but(&[&state]);
        let other = std::env::temp_dir().join("no file of anybody");
        let refused = fs::write(&other, "").expect_err("read-only");
        assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
        let server = start(0);
        let port = server.port;
        assert_eq!(server.ask(&["SET", "a", "1"]), "+OK");
        server.crash();
        let server = start(port);
        assert_eq!(server.ask(&["GET", "a"]), "1");
        server.stop();
        let server = start(port);
        assert_eq!(server.ask(&["GET", "a"]), "1");
        server.stop();
    };
    // This thread removes what it has made.
    thread::scope(|scope| scope.spawn(serve).join()).expect("it serves");
    assert!(pins.exists(), "it is the administrator's");
    fs::remove_dir(&group).expect("the server has removed what it made there");
    assert!(data.join("owner").exists(), "{}", text(&data));
}
