//! `bpfdb dump` and `bpfdb restore` as a user runs them, beside a running server, in
//! namespaces of each test's own.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bpfdb_tests::namespace;
use bpfdb_tests::process::dies_with_us;
use nix::sys::signal::{Signal, kill};

const BINARY: &str = env!("CARGO_BIN_EXE_bpfdb");
const PATIENCE: Duration = Duration::from_secs(60);
const FORMS: [&str; 3] = ["jsonl", "binary", "rdb"];

/// A folder that is gone with this thread.
pub(crate) fn alone() -> PathBuf {
    namespace::network();
    namespace::files().folder
}

/// A server, killed at the end.
pub(crate) struct Served {
    child: Child,
    pub(crate) port: String,
}

impl Served {
    pub(crate) fn start() -> Self {
        let mut command = Command::new(BINARY);
        command
            .args([
                "serve",
                "--appendonly",
                "no",
                "--maxmemory",
                "256M",
                "--memory-ahead",
                "16M",
            ])
            .args(["--maxclients", "32", "--port", "0"])
            .stdout(Stdio::piped());
        let mut child = dies_with_us(&mut command).spawn().expect("bpfdb starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("a greeting");
        thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let port = line.trim().rsplit(':').next().expect("a port").to_owned();
        Self { child, port }
    }

    pub(crate) fn client(&self) -> Client {
        let port = self.port.parse().expect("a port");
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("connect");
        stream.set_read_timeout(Some(PATIENCE)).expect("time-out");
        Client(BufReader::new(stream))
    }

    fn run(&self, arguments: &[&str]) -> Output {
        run(&[arguments, &["--port", &self.port]].concat())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(arguments: &[&str]) -> Output {
    let output = Command::new(BINARY).args(arguments).output();
    output.expect("bpfdb runs")
}

fn right(output: Output) -> Vec<u8> {
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// The one line of the error.
fn wrong(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    fn ask(&mut self, words: &[&[u8]]) -> Vec<u8> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.0.get_mut().write_all(&request).expect("sent");
        self.reply()
    }

    pub(crate) fn say(&mut self, command: &str) -> Vec<u8> {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        self.ask(&words)
    }

    /// The bytes of a bulk, else the line; of an array its first line.
    fn reply(&mut self) -> Vec<u8> {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a reply");
        let line = line.trim_end();
        let Some(len) = line
            .strip_prefix('$')
            .and_then(|len| len.parse::<usize>().ok())
        else {
            return line.into();
        };
        let mut bulk = vec![0; len + 2];
        self.0.read_exact(&mut bulk).expect("a bulk");
        bulk.truncate(len);
        bulk
    }
}

const BINARY_KEY: &[u8] = b"\xff\x00\r\n key";

fn fill(client: &mut Client) {
    client.ask(&[b"SET", BINARY_KEY, b"\xfe\x01"]);
    client.ask(&[b"SET", b"empty", b""]);
    client.ask(&[b"SET", b"large", &b"0123456789".repeat(300_000)]);
    client.say("SET number 12345");
    client.say("SET later soon PXAT 4000000000000");
}

fn compare(client: &mut Client) {
    assert_eq!(client.say("DBSIZE"), b":5");
    assert_eq!(client.ask(&[b"GET", BINARY_KEY]), b"\xfe\x01");
    assert_eq!(client.say("GET empty"), b"");
    assert!(client.say("GET large") == b"0123456789".repeat(300_000));
    assert_eq!(client.say("GET number"), b"12345");
    assert_eq!(client.say("PEXPIRETIME later"), b":4000000000000");
    assert_eq!(client.say("PEXPIRETIME number"), b":-1");
}

/// A start takes longer than any of these: they share a server.
#[test]
fn files_that_are_right_bad_and_not_for_this_server() {
    let folder = alone();
    let server = Served::start();
    let mut client = server.client();
    keys_of_redis_that_are_too_long(&server, &folder);
    assert_eq!(client.say("FLUSHALL"), b"+OK");
    a_database_with_keys_is_not_touched_unasked(&server, &folder);
    assert_eq!(client.say("FLUSHALL"), b"+OK");
    fill(&mut client);
    a_bad_file_is_told_with_its_place(&server, &folder);
    a_copy_moves_the_data_to_another_server(&server, &folder);
    a_file_is_checked_without_a_server(server, &folder);
}

fn a_copy_moves_the_data_to_another_server(from: &Served, folder: &Path) {
    let to = Served::start();
    for form in FORMS {
        let file = folder.join(form);
        let path = file.to_str().expect("a path");
        right(from.run(&["dump", "--format", form, "--output", path]));
        let mode = fs::metadata(&file).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let told = right(to.run(&["restore", "--flush", path]));
        assert_eq!(told, b"5 keys were written\n");
        compare(&mut to.client());
    }
    // The same to standard output.
    let bytes = right(from.run(&["dump", "--format", FORMS[1]]));
    let piped = folder.join("piped");
    fs::write(&piped, bytes).expect("written");
    right(to.run(&["restore", "--flush", piped.to_str().expect("a path")]));
    compare(&mut to.client());
}

fn a_database_with_keys_is_not_touched_unasked(server: &Served, folder: &Path) {
    let mut client = server.client();
    client.say("SET a new");
    let file = folder.join("copy");
    let path = file.to_str().expect("a path");
    right(server.run(&["dump", "--output", path]));
    client.say("SET a old");
    client.say("SET b old");

    let message = wrong(&server.run(&["restore", path]));
    assert!(message.contains("the database has keys"), "{message}");
    assert_eq!(client.say("GET a"), b"old");
    right(server.run(&["restore", "--replace", path]));
    assert_eq!(
        (client.say("GET a"), client.say("GET b")),
        (b"new".into(), b"old".into())
    );
    right(server.run(&["restore", "--flush", path]));
    assert_eq!(
        (client.say("GET a"), client.say("DBSIZE")),
        (b"new".into(), b":1".into())
    );
}

/// The server has what `fill` writes, and keeps it.
fn a_bad_file_is_told_with_its_place(server: &Served, folder: &Path) {
    let mut client = server.client();
    for form in FORMS {
        let bytes = right(server.run(&["dump", "--format", form]));
        let file = folder.join("bad");
        let path = file.to_str().expect("a path");
        fs::write(&file, &bytes[..bytes.len() - 1]).expect("written");
        let message = wrong(&server.run(&["restore", "--flush", path]));
        assert!(message.contains("is cut: it ends at byte "), "{message}");
        let mut damaged = bytes;
        damaged[100] ^= 1;
        fs::write(&file, &damaged).expect("written");
        let message = wrong(&server.run(&["restore", "--flush", path]));
        assert!(message.contains(" byte "), "{message}");
        compare(&mut client);
    }
    let message = wrong(&server.run(&["restore", "--flush", "/dev/null"]));
    assert!(
        message.contains("only a file can be read twice"),
        "{message}"
    );
    let message = wrong(&server.run(&["restore", "--flush", "/proc/self/exe"]));
    assert!(message.contains("not a copy"), "{message}");
    compare(&mut client);
}

/// Of a server that has what `fill` writes.
fn a_file_is_checked_without_a_server(server: Served, folder: &Path) {
    let file = folder.join("copy");
    let path = file.to_str().expect("a path");
    right(server.run(&["dump", "--format", "binary", "--output", path]));
    drop(server);
    let text = String::from_utf8(right(run(&["restore", "--check", path]))).expect("text");
    assert!(
        text.contains("binary, 5 keys (1 expire), 3000011 bytes of values"),
        "{text}"
    );
    let message = wrong(&run(&["restore", "--port", "1", path]));
    assert!(
        message.contains("no engine of a server on port 1"),
        "{message}"
    );
    let message = wrong(&run(&["dump", "--port", "1"]));
    assert!(
        message.contains("no engine of a server on port 1"),
        "{message}"
    );
}

/// A file of Redis with a key that there is no room for is refused, unless the user lets go of such keys.
fn keys_of_redis_that_are_too_long(server: &Served, folder: &Path) {
    let mut bytes = b"REDIS0010\0\x01a\x01b\0\0\x05empty".to_vec();
    let long = |name: u8| [&b"\0\x42\x01"[..], &[name; 513], b"\x01v"].concat();
    bytes.extend((0..7).flat_map(long));
    bytes.extend(b"\xff\0\0\0\0\0\0\0\0");
    let file = folder.join("dump.rdb");
    fs::write(&file, bytes).expect("written");
    let path = file.to_str().expect("a path");
    let mut client = server.client();
    let shown = |name: u8| {
        format!(
            "\"{}…\", 513 bytes, in database 0",
            format!("\\x0{name}").repeat(64)
        )
    };
    for check in [&[][..], &["--check"]] {
        let message = wrong(&server.run(&[&["restore", path], check].concat()));
        let first = format!("7 keys that are too long (the first is {})", shown(0));
        assert!(message.contains(&first), "{message}");
        assert!(
            message.contains("--skip-long-keys leaves them out"),
            "{message}"
        );
    }
    assert_eq!(client.say("DBSIZE"), b":0");
    let told = right(server.run(&["restore", "--skip-long-keys", path]));
    let named: String = (0..5).map(|name| format!("  {}\n", shown(name))).collect();
    let wanted = format!(
        "2 keys were written\nleft out: 7 keys that are too long\n{named}  and 2 more\n\
         the file has no checksum: damage need not have been found\n"
    );
    assert_eq!(String::from_utf8(told).expect("text"), wanted);
    assert_eq!(client.say("DBSIZE"), b":2");
    assert_eq!(
        (client.say("GET a"), client.ask(&[b"GET", b""])),
        (b"b".into(), b"empty".into())
    );
}

/// Money moves between keys by commands that the kernel executes; a copy has all of it.
#[test]
fn a_copy_is_of_one_moment() {
    copies_are_of_one_moment(FORMS.len());
}

#[test]
#[ignore = "takes minutes"]
fn soak_a_copy_is_of_one_moment() {
    copies_are_of_one_moment(100);
}

fn copies_are_of_one_moment(copies: usize) {
    const ACCOUNTS: usize = 500;
    let folder = alone();
    let server = Served::start();
    let mut client = server.client();
    for number in 0..ACCOUNTS {
        client.say(&format!("SET {number} 1000"));
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = AtEnd(&over);
        for seed in 1..=2 {
            let (mut client, over) = (server.client(), &over);
            scope.spawn(move || {
                for round in (0..).take_while(|_| !over.load(Ordering::Relaxed)) {
                    let (from, to) = (round * seed % ACCOUNTS, (round * 7 + seed) % ACCOUNTS);
                    client.say("MULTI");
                    client.say(&format!("DECRBY {from} {seed}"));
                    client.say(&format!("INCRBY {to} {seed}"));
                    if client.say("EXEC") == b"*2" {
                        client.reply();
                        client.reply();
                    }
                }
            });
        }
        for form in FORMS.iter().cycle().take(copies) {
            let file = folder.join("copy.rdb");
            let path = file.to_str().expect("a path");
            right(server.run(&["dump", "--format", form, "--output", path]));
            assert_eq!(sum(path), (ACCOUNTS, 1000 * ACCOUNTS as i64), "{form}");
        }
    });
}

struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Keys, and what they have together.
fn sum(path: &str) -> (usize, i64) {
    #[derive(Default)]
    struct Sum(Vec<Vec<u8>>);
    impl bpfdb_copies::Sink for Sum {
        fn key(&mut self, _: &bpfdb_copies::Key<'_>) -> bpfdb_copies::Result<()> {
            self.0.push(Vec::new());
            Ok(())
        }
        fn part(&mut self, bytes: &[u8]) -> bpfdb_copies::Result<()> {
            self.0.last_mut().expect("a key").extend_from_slice(bytes);
            Ok(())
        }
    }
    let mut values = Sum::default();
    let file = fs::File::open(path).expect("a copy");
    bpfdb_copies::read(file, bpfdb_copies::Choice::default(), &mut values).expect("right");
    let number = |value: &Vec<u8>| {
        String::from_utf8_lossy(value)
            .parse::<i64>()
            .expect("a number")
    };
    (values.0.len(), values.0.iter().map(number).sum())
}

/// Some that are interrupted at their beginning, and in their middle, and some that end.
#[test]
fn an_interrupted_dump_leaves_nothing_or_all() {
    leaves_nothing_or_all(&[
        (Signal::SIGINT, 0),
        (Signal::SIGTERM, 300),
        (Signal::SIGINT, 600),
        (Signal::SIGTERM, 1300),
    ]);
}

#[test]
#[ignore = "long: make soak"]
fn soak_an_interrupted_dump_leaves_nothing_or_all() {
    let delays = (0..30).map(|n| n * 50);
    let both = delays.flat_map(|delay| [(Signal::SIGINT, delay), (Signal::SIGTERM, delay)]);
    leaves_nothing_or_all(&both.collect::<Vec<_>>());
}

/// Signals, and after how many milliseconds they are sent.
fn leaves_nothing_or_all(signals: &[(Signal, u64)]) {
    let folder = alone();
    let server = Served::start();
    let mut client = server.client();
    for number in 0..60 {
        client.ask(&[b"SET", format!("{number}").as_bytes(), &vec![b'x'; 1 << 20]]);
    }
    let copies = folder.join("copies");
    fs::create_dir(&copies).expect("a folder");
    for &(signal, delay) in signals {
        let file = copies.join("copy");
        let mut command = Command::new(BINARY);
        command
            .args(["dump", "--port", &server.port, "--output"])
            .arg(&file)
            .stderr(Stdio::null());
        let mut child = dies_with_us(&mut command).spawn().expect("bpfdb starts");
        thread::sleep(Duration::from_millis(delay));
        let id = nix::unistd::Pid::from_raw(child.id() as i32);
        let _ = kill(id, signal);
        let done = child.wait().expect("it ends").success();
        let names: Vec<_> = names(&copies);
        assert_eq!(names, if done { vec!["copy"] } else { vec![] });
        if done {
            right(run(&["restore", "--check", file.to_str().expect("a path")]));
            fs::remove_file(&file).expect("removed");
        }
    }
}

fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).expect("a folder");
    files
        .map(|file| {
            file.expect("a file")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect()
}
