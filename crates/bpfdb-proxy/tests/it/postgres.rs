//! A PostgreSQL of the tests' own: a cluster in a folder that goes with it, at a port of its own.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_tests::process::dies_with_us;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User};
use tempfile::TempDir;

use crate::certificates::Authority;

/// Who may do everything, without a password.
pub(crate) const USER: &str = "tests";
/// Who logs in with this password, by SCRAM-SHA-256.
pub(crate) const SECRETIVE: &str = "secretive";
pub(crate) const PASSWORD: &str = "a password";
/// Who may come by TLS only, without a password.
pub(crate) const TLS_ONLY: &str = "tls_only";
/// Another one with that password.
pub(crate) const LOOKED_UP: &str = "looked_up";
const START_TIME: Duration = Duration::from_secs(60);

const SETTINGS: &str = "listen_addresses = '127.0.0.1,::1'\nssl = on\nfsync = off\n\
                        max_connections = 100\nautovacuum = off\nshared_buffers = 32MB\n";

pub(crate) struct Postgres {
    pub(crate) port: u16,
    /// It has signed PostgreSQL's certificate.
    pub(crate) authority: Authority,
    child: Mutex<Child>,
    folder: TempDir,
}

static SHARED: OnceLock<Postgres> = OnceLock::new();

/// The one that all tests share. It ends with this process.
pub(crate) fn shared() -> &'static Postgres {
    SHARED.get_or_init(|| {
        // What it starts is in the same cgroup as the clients, which are threads of this process.
        bpfdb_tests::server::cgroup::own();
        // SAFETY: a function without preconditions.
        unsafe { libc::atexit(end) };
        start(&[])
    })
}

/// Ends it, and removes its files.
extern "C" fn end() {
    let Some(postgres) = SHARED.get() else { return };
    if let Ok(mut child) = postgres.child.lock() {
        let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGQUIT);
        let _ = child.wait();
    }
    let _ = fs::remove_dir_all(postgres.folder.path());
}

/// A second database of the one that all tests share.
pub(crate) const OTHER: &str = "other";

/// Makes it, once.
pub(crate) fn with_other() {
    static MADE: OnceLock<()> = OnceLock::new();
    MADE.get_or_init(|| drop(shared().direct(&format!("create database {OTHER}"))));
}

/// Where the programs of the newest version are.
pub(crate) fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL of the distribution");
    let folder =
        |version: std::io::Result<fs::DirEntry>| version.ok().map(|v| v.path().join("bin"));
    let newest = versions
        .filter_map(folder)
        .filter(|bin| bin.join("initdb").exists())
        .max();
    newest.expect("initdb")
}

/// A user without rights, as which PostgreSQL runs: it refuses root.
pub(crate) fn user() -> User {
    let named = |name: &&str| User::from_name(name).ok().flatten();
    let user = ["postgres", "nobody"].iter().find_map(named);
    user.expect("a user without rights")
}

/// By another program: what this process does before `exec()` it does as root.
pub(crate) fn as_user(program: &Path) -> Command {
    let user = user();
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={}", user.uid));
    command.arg(format!("--regid={}", user.gid));
    // Another user's process is not killed with us without that.
    command
        .arg("--pdeathsig=KILL")
        .arg("--clear-groups")
        .arg(program)
        .current_dir("/");
    command
}

/// A folder that belongs to PostgreSQL.
pub(crate) fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let user = user();
    let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
    chown(folder.path(), Some(uid), Some(gid)).expect("given away");
    folder
}

/// One that no other test has. It ends when it is dropped.
pub(crate) fn of_its_own() -> Postgres {
    of_its_own_with(&[])
}

/// The same with more arguments.
pub(crate) fn of_its_own_with(arguments: &[&str]) -> Postgres {
    bpfdb_tests::server::cgroup::own();
    start(arguments)
}

fn start(arguments: &[&str]) -> Postgres {
    let folder = folder();
    let user = user();
    let data = folder.path().join("data");
    let mut init = as_user(&programs().join("initdb"));
    init.args([
        "--auth",
        "trust",
        "--no-sync",
        "--locale",
        "C",
        "--encoding",
        "UTF8",
    ]);
    init.args(["--username", USER, "--pgdata"]).arg(&data);
    let output = init.output().expect("initdb runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let port = free_port();
    let authority = Authority::new(folder.path());
    let certificate = authority.sign("postgres", &["localhost"]);
    for (from, to) in [
        (&certificate.cert, "server.crt"),
        (&certificate.key, "server.key"),
    ] {
        let to = data.join(to);
        fs::copy(from, &to).expect("copied");
        chown(&to, Some(user.uid.as_raw()), Some(user.gid.as_raw())).expect("given away");
    }
    let sockets = folder.path().display();
    let settings = format!("{SETTINGS}port = {port}\nunix_socket_directories = '{sockets}'\n");
    fs::write(data.join("postgresql.auto.conf"), settings).expect("settings");
    let rules = format!(
        "host all {SECRETIVE},{LOOKED_UP} 127.0.0.1/32 scram-sha-256\n\
         hostnossl all {TLS_ONLY} 127.0.0.1/32 reject\n\
         host all all 127.0.0.1/32 trust\nhost all all ::1/128 trust\nlocal all all trust\n\
         host replication all 127.0.0.1/32 trust\n"
    );
    fs::write(data.join("pg_hba.conf"), rules).expect("rules");
    let postgres = serve(folder, authority, port, arguments);
    postgres.direct(&format!(
        "create role {SECRETIVE} login superuser password '{PASSWORD}'; create role {LOOKED_UP} login \
         password '{PASSWORD}'; create role {TLS_ONLY} login; create role root login"
    ));
    postgres
}

/// PostgreSQL with the data of a folder, when it lets clients in.
fn serve(folder: TempDir, authority: Authority, port: u16, arguments: &[&str]) -> Postgres {
    let mut serve = as_user(&programs().join("postgres"));
    serve.arg("-D").arg(folder.path().join("data"));
    serve.args(arguments);
    serve.stdout(Stdio::null()).stderr(Stdio::null());
    let child = this_thread_stays(move || dies_with_us(&mut serve).spawn().expect("it starts"));
    let postgres = Postgres {
        port,
        authority,
        child: Mutex::new(child),
        folder,
    };
    postgres.wait();
    postgres
}

/// What a thread starts is killed when the thread ends: so by one that ends with the process.
fn this_thread_stays<T: Send + 'static>(start: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    let _: thread::JoinHandle<()> = thread::spawn(move || {
        sender.send(start()).expect("it is awaited");
        loop {
            thread::park();
        }
    });
    receiver.recv().expect("started")
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}

impl Postgres {
    fn wait(&self) {
        let begun = Instant::now();
        while !psql(self.port, USER, &[])
            .arg("-c")
            .arg("")
            .output()
            .expect("psql")
            .status
            .success()
        {
            assert!(begun.elapsed() < START_TIME, "PostgreSQL does not start");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// A standby of this one.
    pub(crate) fn standby(&self) -> Self {
        let folder = folder();
        let mut copy = as_user(&programs().join("pg_basebackup"));
        let port = self.port.to_string();
        copy.args([
            "-h",
            "127.0.0.1",
            "-p",
            &port,
            "-U",
            USER,
            "-R",
            "-c",
            "fast",
        ]);
        copy.arg("--no-sync")
            .arg("-D")
            .arg(folder.path().join("data"));
        let output = copy.output().expect("pg_basebackup runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let port = free_port();
        let authority = Authority::new(folder.path());
        let (own, sockets) = (port.to_string(), folder.path().display().to_string());
        serve(folder, authority, port, &["-p", &own, "-k", &sockets])
    }

    /// Ends it at once, as a crash would.
    pub(crate) fn end_at_once(&self) {
        let mut child = self.child.lock().expect("nobody has failed with it");
        let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGQUIT);
        let _ = child.wait();
    }

    /// The folder of its Unix socket.
    pub(crate) fn sockets(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// What psql prints of a statement, without the proxy.
    pub(crate) fn direct(&self, statement: &str) -> String {
        printed(&mut psql(self.port, USER, &[]), statement)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.end_at_once();
    }
}

/// psql at a port; `environment`: for example a password.
pub(crate) fn psql(port: u16, user: &str, environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new("psql");
    let port = port.to_string();
    command.args([
        "-X",
        "-At",
        "-h",
        "127.0.0.1",
        "-p",
        &port,
        "-U",
        user,
        "-d",
        "postgres",
    ]);
    command
        .envs(environment.iter().copied())
        .stdin(Stdio::null());
    bpfdb_tests::server::cgroup::keep(&mut command);
    command
}

pub(crate) fn printed(psql: &mut Command, statement: &str) -> String {
    let output = psql.arg("-c").arg(statement).output().expect("psql runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{statement}: {errors}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
