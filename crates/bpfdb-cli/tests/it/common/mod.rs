//! A server as a user runs it, and a client.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod clients;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_tests::namespace;
use bpfdb_tests::process::dies_with_us;
use nix::mount::{MsFlags, mount};
use nix::sys::signal::Signal;

pub const BINARY: &str = env!("CARGO_BIN_EXE_bpfdb");
/// Longer than a busy machine takes for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Before a test starts anything.
pub fn alone() -> namespace::Files {
    namespace::network();
    namespace::files()
}

/// What a word of `bpfdb` comes to.
pub fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    let command = command.args(arguments).stdin(Stdio::null());
    dies_with_us(command).output().expect("bpfdb runs")
}

/// What it prints, if it ends well.
pub fn succeeds(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// What it prints, if it fails.
pub fn fails(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8(text).expect("text")
}

/// `bpfdb recover`, up to a point in time, or to the end.
pub fn recover<'a>(from: &'a Path, to: &'a Path, until: Option<&'a str>) -> Vec<&'a str> {
    let mut arguments = vec!["recover", "--dir", text(from), "--to", text(to)];
    arguments.extend(until.into_iter().flat_map(|until| ["--until", until]));
    arguments
}

/// Arguments of a server with a log in this directory.
pub fn with_log(directory: &Path) -> [&str; 4] {
    ["--appendonly", "yes", "--dir", text(directory)]
}

/// Is it the reply to a write while the log is being written to the disk?
pub fn has_no_room(reply: &str) -> bool {
    reply.starts_with("-ERR the log has no room")
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// What `bpfdb check` says of a directory, whether it is right or not.
pub fn check(dir: &Path) -> serde_json::Value {
    let output = run(&["check", "--json", "--dir", text(dir)]);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A running server. Killed on drop, so that a failed test leaves nothing.
pub struct Served {
    pub child: Child,
    pub port: u16,
}

impl Served {
    pub fn start(port: u16, arguments: &[&str]) -> Self {
        Self::launch(Command::new(BINARY), port, arguments)
    }

    /// The same by a command that has no arguments yet.
    pub fn launch(command: Command, port: u16, arguments: &[&str]) -> Self {
        let mut child = Self::spawn(command, port, arguments);
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped");
        let mut lines = BufReader::new(stdout);
        lines.read_line(&mut line).expect("a greeting");
        // The rest of its output must not block it.
        thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let port = line.trim().rsplit(':').next().and_then(|p| p.parse().ok());
        Self {
            child,
            port: port.unwrap_or_else(|| panic!("no port in {line:?}")),
        }
    }

    /// A process that serves some time later.
    fn spawn(mut command: Command, port: u16, arguments: &[&str]) -> Child {
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
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        dies_with_us(&mut command).spawn().expect("bpfdb starts")
    }

    pub fn signal(&self, signal: Signal) {
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        nix::sys::signal::kill(pid, signal).expect("kill");
    }

    pub fn stop(self) {
        assert!(self.end().success());
    }

    pub fn end(mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.child.wait().expect("wait")
    }

    /// A command that ends the server without a reply.
    pub fn shut_down(mut self, arguments: &[&str]) {
        let mut connection = Connection::open(self.port);
        connection.send(arguments);
        let mut rest = Vec::new();
        connection.0.read_to_end(&mut rest).expect("closed");
        assert_eq!(rest, b"");
        assert!(self.child.wait().expect("wait").success());
    }

    pub fn crash(mut self) {
        self.kill();
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }

    /// The same with a log in this directory.
    pub fn start_in(directory: &Path, port: u16, arguments: &[&str]) -> Self {
        Self::start(port, &[&with_log(directory), arguments].concat())
    }

    /// A server with a log that is killed so long after its beginning, whether it serves by then or
    /// not.
    pub fn start_and_kill(directory: &Path, port: u16, arguments: &[&str], after: Duration) {
        let arguments = [&with_log(directory), arguments].concat();
        let mut child = Self::spawn(Command::new(BINARY), port, &arguments);
        thread::sleep(after);
        let ended = child.try_wait().expect("wait");
        assert_eq!(ended, None, "{arguments:?}: it ended by itself");
        child.kill().expect("kill");
        child.wait().expect("wait");
    }

    /// Sends inline-free RESP and returns the first reply line (or bulk).
    pub fn ask(&self, arguments: &[&str]) -> String {
        Connection::open(self.port).ask(arguments)
    }

    /// A field of a section of INFO.
    pub fn field(&self, section: &str, name: &str) -> String {
        let info = self.ask(&["INFO", section]);
        let mut fields = info.lines().filter_map(|line| line.split_once(':'));
        let found = fields.find(|(field, _)| *field == name);
        let (_, value) = found.unwrap_or_else(|| panic!("no {name} in {info}"));
        value.to_owned()
    }

    /// The same, a number.
    pub fn figure(&self, section: &str, name: &str) -> u64 {
        let value = self.field(section, name);
        value.parse().unwrap_or_else(|_| panic!("{name}: {value}"))
    }

    pub fn stats(&self) -> serde_json::Value {
        let output = Command::new(BINARY)
            .args(["stats", "--json", "--port", &self.port.to_string()])
            .output()
            .expect("bpfdb stats");
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A socket.
pub trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

pub struct Connection(pub BufReader<Box<dyn Stream>>);

impl Connection {
    pub fn open(port: u16) -> Self {
        Self::try_open(port).expect("a connection")
    }

    pub fn try_open(port: u16) -> Option<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).expect("time-out");
        Some(Self(BufReader::new(Box::new(stream))))
    }

    pub fn try_open_unix(path: &Path) -> Option<Self> {
        let stream = UnixStream::connect(path).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).expect("time-out");
        Some(Self(BufReader::new(Box::new(stream))))
    }

    pub fn send(&mut self, arguments: &[&str]) {
        self.try_send(arguments).expect("sent");
    }

    pub fn try_send(&mut self, arguments: &[&str]) -> Option<()> {
        self.try_send_text(&request(arguments))
    }

    /// Requests in one message.
    pub fn try_send_text(&mut self, requests: &str) -> Option<()> {
        self.0.get_mut().write_all(requests.as_bytes()).ok()
    }

    pub fn ask(&mut self, arguments: &[&str]) -> String {
        self.try_ask(arguments).expect("a reply")
    }

    /// The same, and again while the log has no room: the disk may be slower than the client.
    pub fn ask_until_logged(&mut self, arguments: &[&str]) -> String {
        self.ask_while(arguments, has_no_room)
    }

    /// The same, and again while a checkpoint, which the disk may hold up, keeps the memory of older values, too.
    pub fn ask_beside_checkpoints(&mut self, arguments: &[&str]) -> String {
        self.ask_while(arguments, |reply| {
            has_no_room(reply) || reply.starts_with("-OOM ")
        })
    }

    fn ask_while(&mut self, arguments: &[&str], is_refused: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let reply = self.ask(arguments);
            if !is_refused(&reply) || begun.elapsed() > PATIENCE {
                return reply;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// `None`: the server was gone before it replied.
    pub fn try_ask(&mut self, arguments: &[&str]) -> Option<String> {
        self.try_send(arguments)?;
        self.try_reply()
    }

    /// A reply of one line, or a bulk string.
    pub fn try_reply(&mut self) -> Option<String> {
        let line = self.try_line()?;
        let Some(len) = line.strip_prefix('$').and_then(|n| n.parse::<usize>().ok()) else {
            return Some(line);
        };
        let mut bulk = vec![0; len + 2];
        self.0.read_exact(&mut bulk).ok()?;
        Some(String::from_utf8_lossy(&bulk[..len]).into_owned())
    }

    /// The next line of replies.
    pub fn try_line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).ok()?;
        (read > 0 && line.ends_with('\n')).then(|| line.trim_end().to_owned())
    }
}

/// As it is sent.
pub fn request<S: AsRef<str>>(arguments: &[S]) -> String {
    let mut request = format!("*{}\r\n", arguments.len());
    for argument in arguments {
        let argument = argument.as_ref();
        request += &format!("${}\r\n{argument}\r\n", argument.len());
    }
    request
}

/// A file system of so many MiB in the place of `path`, in the namespace of this test only.
pub fn small_disk(path: &Path, size: u32, flags: MsFlags) {
    let size = format!("size={size}m,mode=0700");
    mount(
        Some("none"),
        path,
        Some("tmpfs"),
        flags,
        Some(size.as_str()),
    )
    .expect("mounted");
}

pub fn folder(port: u16) -> std::path::PathBuf {
    let root = bpfdb::mounts::bpffs().expect("mount table");
    root.unwrap_or_else(|| "/sys/fs/bpf".into())
        .join("bpfdb")
        .join(port.to_string())
}
