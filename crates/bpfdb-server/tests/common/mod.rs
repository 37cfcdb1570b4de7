//! Servers, clients and processes for the tests of this crate.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod cgroup;
pub mod netns;
pub mod process;
mod reply;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bpfdb::Engine;
use bpfdb_server::settings::Settings;
use bpfdb_server::{Options, Server, Stopper};
pub use reply::Reply;

pub const PATIENCE: Duration = Duration::from_secs(20);

/// A server on an engine of its own, in a thread.
pub struct TestServer {
    pub address: SocketAddr,
    pub engine: Engine,
    stopper: Stopper,
    thread: Option<JoinHandle<bpfdb_server::Result<()>>>,
}

impl TestServer {
    pub fn start(options: &bpfdb::Options) -> Self {
        Self::start_with(options, Settings::default())
    }

    /// The same with other settings; address and port are chosen here.
    pub fn start_with(options: &bpfdb::Options, settings: Settings) -> Self {
        let local_clients = cgroup::chosen();
        Self::start_as_told(
            options,
            Settings {
                local_clients,
                ..settings
            },
        )
    }

    /// The same, with exactly these settings but the port.
    pub fn start_as_told(options: &bpfdb::Options, settings: Settings) -> Self {
        let engine = Engine::create(options).expect("an engine");
        let options = at_any_port(settings);
        let (sender, receiver) = mpsc::channel();
        let of_thread = engine.clone();
        let thread = thread::spawn(move || {
            let server = Server::start(&of_thread, &options)?;
            sender
                .send((server.address(), server.stopper()))
                .expect("the test waits");
            server.run()
        });
        let Ok((address, stopper)) = receiver.recv() else {
            panic!("{:?}", thread.join().expect("no panic"));
        };
        Self {
            address,
            engine,
            stopper,
            thread: Some(thread),
        }
    }

    /// The server that tests of one file share while they run: loading the
    /// programs takes seconds.
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<TestServer>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = shared.upgrade() {
            return server;
        }
        let server = Arc::new(Self::start(&bpfdb::Options {
            max_sessions: 2048,
            ..bpfdb::Options::default()
        }));
        *shared = Arc::downgrade(&server);
        server
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    pub fn stop(mut self) {
        self.stop_now();
    }

    fn stop_now(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.stopper.stop();
            thread.join().expect("no panic").expect("a clean stop");
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop_now();
    }
}

pub fn at_any_port(settings: Settings) -> Options {
    Options {
        settings: Settings {
            port: 0,
            ..settings
        },
        ..Options::default()
    }
}

/// The real thing, to compare with.
pub struct Redis {
    pub address: SocketAddr,
    process: Child,
    _folder: tempfile::TempDir,
}

impl Redis {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_port();
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string()])
            .args(["--bind", "127.0.0.1", "--databases", "1"])
            .args(["--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed by scripts/setup.sh");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        wait_until("redis-server listens", || {
            TcpStream::connect(address).is_ok()
        });
        Self {
            address,
            process,
            _folder: folder,
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("bound").port()
}

/// Raises a flag at the end, also if that is a panic: else a test would wait for
/// ever for a thread that looks at the flag.
pub struct AtEnd<'a>(&'a AtomicBool);

impl<'a> AtEnd<'a> {
    pub fn of(flag: &'a AtomicBool) -> Self {
        Self(flag)
    }
}

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waiting until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A connection; it speaks RESP2 until it says HELLO 3.
pub struct Client {
    pub stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        stream
            .set_write_timeout(Some(PATIENCE))
            .expect("a time-out");
        stream.set_nodelay(true).expect("no delay");
        Self::from_stream(stream)
    }

    pub fn from_stream(stream: TcpStream) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("sent");
    }

    /// Sends a command; its reply as it came.
    pub fn ask(&mut self, words: &[&[u8]]) -> Vec<u8> {
        self.send(&request(words));
        self.reply()
    }

    /// The same for a command given as text.
    pub fn say(&mut self, command: &str) -> String {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        String::from_utf8(self.ask(&words)).expect("text")
    }

    /// One whole reply, with all its markers.
    pub fn reply(&mut self) -> Vec<u8> {
        loop {
            if let Some(len) = reply_len(&self.buffer) {
                let rest = self.buffer.split_off(len);
                return std::mem::replace(&mut self.buffer, rest);
            }
            assert!(self.fill(), "closed after {:?}", show(&self.buffer));
        }
    }

    /// The replies that are here already.
    pub fn replies_at_hand(&mut self) -> Vec<Vec<u8>> {
        self.stream.set_nonblocking(true).expect("set");
        let mut chunk = [0; 65536];
        if let Ok(got) = self.stream.read(&mut chunk) {
            self.buffer.extend_from_slice(&chunk[..got]);
        }
        self.stream.set_nonblocking(false).expect("set");
        let mut replies = Vec::new();
        while let Some(len) = reply_len(&self.buffer) {
            let rest = self.buffer.split_off(len);
            replies.push(std::mem::replace(&mut self.buffer, rest));
        }
        replies
    }

    /// False at the end of the stream.
    fn fill(&mut self) -> bool {
        let mut chunk = [0; 65536];
        let start = Instant::now();
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return false,
                Ok(got) => {
                    self.buffer.extend_from_slice(&chunk[..got]);
                    return true;
                }
                // A socket in a map of sockets says this when it was woken up
                // for anything but data, too: bpf/net/local.bpf.h, 6.
                Err(error)
                    if error.kind() == ErrorKind::WouldBlock && start.elapsed() < PATIENCE => {}
                Err(error) => panic!("{error} after {:?}", show(&self.buffer)),
            }
        }
    }

    /// Everything that comes until the server closes.
    pub fn until_closed(&mut self) -> Vec<u8> {
        while self.fill() {}
        std::mem::take(&mut self.buffer)
    }

    /// The same, if the server may also reset the connection, or wait for more.
    pub fn try_until_closed(&mut self) -> Vec<u8> {
        let mut chunk = [0; 65536];
        while let Ok(got @ 1..) = self.stream.read(&mut chunk) {
            self.buffer.extend_from_slice(&chunk[..got]);
        }
        std::mem::take(&mut self.buffer)
    }

    /// Has the server closed the connection? (It may also reset it.)
    pub fn is_closed(&mut self) -> bool {
        let mut chunk = [0; 65536];
        let start = Instant::now();
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return true,
                Ok(_) => {}
                // See fill().
                Err(error)
                    if error.kind() == ErrorKind::WouldBlock && start.elapsed() < PATIENCE => {}
                Err(error) => return error.kind() == ErrorKind::ConnectionReset,
            }
        }
    }
}

/// The bytes of a request.
pub fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Length of the reply at the beginning of `bytes`, if all of it is there.
pub fn reply_len(bytes: &[u8]) -> Option<usize> {
    Reply::parse(bytes).map(|(_, len)| len)
}

/// For messages: as text, shortened.
pub fn show(bytes: &[u8]) -> String {
    let end = bytes.len().min(300);
    let more = if end < bytes.len() { "…" } else { "" };
    format!(
        "{}{more} ({} bytes)",
        bytes[..end].escape_ascii(),
        bytes.len()
    )
}
