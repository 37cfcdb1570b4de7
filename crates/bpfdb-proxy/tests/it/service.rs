//! The proxy as a service: what the manager of services is told, and the rights that are enough.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{self, Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_tests::process::dies_with_us;
use bpfdb_tests::server::cgroup;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::metrics::fetched;
use crate::postgres;
use crate::wire::Wire;

const BINARY: &str = env!("CARGO_BIN_EXE_bpfdb-proxy");
/// A user that no account has.
const USER: u32 = 54_321;
const PATIENCE: Duration = Duration::from_secs(20);

/// A proxy that is killed when it is dropped.
struct Service {
    child: Child,
    log: BufReader<std::process::ChildStderr>,
}

impl Service {
    fn start(command: &mut Command) -> Self {
        let database = format!("*=host=127.0.0.1 port={}", postgres::shared().port);
        command.args(["--listen", "127.0.0.1:0", "--database", &database]);
        command.args(["--metrics-listen", "127.0.0.1:0"]);
        Self::spawn(command)
    }

    fn spawn(command: &mut Command) -> Self {
        command.stderr(Stdio::piped());
        let mut child = dies_with_us(command).spawn().expect("it starts");
        let log = BufReader::new(child.stderr.take().expect("its log"));
        Self { child, log }
    }

    /// The port in the next line of the log that has this in it.
    fn port(&mut self, part: &str) -> u16 {
        loop {
            let mut line = String::new();
            let read = self.log.read_line(&mut line).expect("its log");
            assert!(read > 0, "it ended before it said {part}");
            if line.contains(part) {
                let (_, port) = line.trim().rsplit_once(':').expect("an address");
                return port.parse().expect("a port");
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("sent");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_manager_of_services_is_told() {
    // A name of the abstract namespace; the server is told of a path.
    let name = format!("bpfdb-proxy-notify-{}", process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let manager = UnixDatagram::bind_addr(&address).expect("bound");
    manager.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let told = || {
        let mut bytes = [0; 4096];
        let length = manager.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    let mut service = Service::start(Command::new(BINARY).env("NOTIFY_SOCKET", format!("@{name}")));
    assert!(told().starts_with("READY=1\n"));
    // It accepts clients by now, and goes on doing so when its settings are read again.
    service.port("metrics are served");
    let port = service.port("ready address=");
    service.signal(Signal::SIGHUP);
    assert_eq!(
        Wire::connect(port, postgres::USER, &[]).value("select 1"),
        "1"
    );
    service.signal(Signal::SIGTERM);
    assert!(told().starts_with("STOPPING=1\n"));
    assert!(service.child.wait().expect("its end").success());
}

/// Those of the unit file are enough for the kernel's part.
#[test]
fn a_user_with_three_capabilities_serves_in_the_kernel() {
    let _alone = bpfdb_tests::serial::lock("ends");
    // Before the proxy: it is to be in the cgroup of the tests.
    postgres::shared();
    let home = tempfile::tempdir().expect("a folder");
    fs::set_permissions(home.path(), Permissions::from_mode(0o755)).expect("set");
    // The folder of this one may be closed to others.
    let program = home.path().join("bpfdb-proxy");
    fs::copy(BINARY, &program).expect("copied");
    let id = USER.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
    for set in ["--inh-caps", "--ambient-caps", "--bounding-set"] {
        command.args([set, "-all,+bpf,+perfmon,+net_admin"]);
    }
    command.args(["--no-new-privs", "--pdeathsig", "KILL", "--"]);
    command.arg(&program).arg("--cgroup").arg(cgroup::own());
    let mut service = Service::start(&mut command);
    let metrics = service.port("metrics are served");
    let port = service.port("ready address=");
    let mut client = Wire::connect(port, postgres::USER, &[]);
    let begun = Instant::now();
    loop {
        assert_eq!(client.value("select 1"), "1");
        let page = fetched(([127, 0, 0, 1], metrics).into(), "/metrics");
        let name = "bpfdb_proxy_kernel_requests_total";
        let line = page.lines().find(|line| line.starts_with(name));
        let (_, value) = line.expect(name).rsplit_once(' ').expect("a value");
        if value.parse::<f64>().expect("a number") > 0.0 {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "the kernel has served nothing");
        thread::sleep(Duration::from_millis(20));
    }
}

/// As programs move it that keep the logs of some days.
#[test]
fn a_log_that_was_moved_is_begun_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let [file, log, moved] = ["pgbouncer.ini", "log", "log.1"].map(|name| folder.path().join(name));
    let text = format!(
        "[pgbouncer]\nunix_socket_dir =\nlogfile = {}\n",
        log.display()
    );
    fs::write(&file, text).expect("written");
    let mut command = Command::new(BINARY);
    command.arg(&file).args(["--listen", "127.0.0.1:0"]);
    let service = Service::spawn(&mut command);
    let await_line = |line: &str| {
        let begun = Instant::now();
        while !fs::read_to_string(&log).is_ok_and(|text| text.contains(line)) {
            assert!(begun.elapsed() < PATIENCE, "the log does not say {line}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    await_line("ready");
    fs::rename(&log, &moved).expect("moved");
    service.signal(Signal::SIGHUP);
    await_line("the settings were read again");
    let before = fs::read_to_string(&moved).expect("the former one");
    assert!(before.contains("ready") && !before.contains("read again"));
}
