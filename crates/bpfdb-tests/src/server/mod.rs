//! Servers, clients and processes for the tests of this crate.

mod ahead;
pub mod cgroup;
mod client;
pub mod lent;
pub mod memory_group;
pub mod netns;
pub mod pool;
pub mod procedures;
pub mod process;
pub mod redis_py;
mod reply;

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::log::TestLog;
use crate::process::dies_with_us;
use bpfdb::Engine;
use bpfdb_log::Disk;
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_server::settings::{AppendFsync, Settings, Size};
use bpfdb_server::{Error, FrontEnd, Options, ProgramLoader, Server, Stopper};
use bpfdb_tier::Tier;
pub use client::Client;
pub use pool::Lent;
pub use reply::Reply;

/// Longer than a busy machine takes for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The same on this machine, which may be emulated.
pub fn patience() -> Duration {
    match crate::settings::is_emulated() {
        true => 5 * PATIENCE,
        false => PATIENCE,
    }
}

/// A server on an engine of its own, in a thread.
pub struct TestServer {
    pub address: SocketAddr,
    pub engine: Engine,
    /// Of its engine.
    pub log: Option<Arc<bpfdb_durability::Durability>>,
    /// Of the program that [`Client`] has loaded before it sends a command that needs it.
    pub loader: ProgramLoader,
    /// Of that which it leaves large collections to.
    pub large_loader: ProgramLoader,
    /// Of those that begin reads of cold values, if it has any.
    pub prefetch_loader: Option<ProgramLoader>,
    /// Of those that answer GETs of them.
    pub park_loader: Option<ProgramLoader>,
    /// Its cold values, if it has any.
    pub tier: Option<Arc<Tier>>,
    stopper: Stopper,
    thread: Option<JoinHandle<bpfdb_server::Result<FrontEnd>>>,
    test_log: Option<TestLog>,
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
        // Before the first server moves this process for a moment.
        cgroup::own();
        let is_tiered = crate::tier::is_wanted();
        let options = crate::tier::options(is_tiered, &crate::log::options(options));
        let engine = Engine::create(&options).expect("an engine");
        let log = TestLog::start(&engine);
        let settings = Settings {
            append_fsync: if crate::log::is_sync() {
                AppendFsync::Always
            } else {
                settings.append_fsync
            },
            ..settings
        };
        let durability = log.as_ref().map(|log| Arc::clone(&log.durability));
        let tier = crate::tier::start(is_tiered, &engine);
        let mut server = Self::start_on(engine, durability, tier, settings, None);
        server.test_log = log;
        server
    }

    /// The same on an engine with a log, which has what `disk` has. The interval between
    /// flushes is 20 ms. The engine takes writes however long the disk is held: a test does so for as long as
    /// its own requests take, which is no time that it could know.
    pub fn start_logged(disk: &SimulatedDisk, settings: Settings) -> Self {
        let local_clients = cgroup::chosen();
        let settings = Settings {
            local_clients,
            ..settings
        };
        Self::start_logged_as_told(disk, settings, PATIENCE)
    }

    /// The same, with exactly these settings but the port; it is read-only when the disk has not answered
    /// for `exposure`.
    pub fn start_logged_as_told(
        disk: &SimulatedDisk,
        settings: Settings,
        exposure: Duration,
    ) -> Self {
        cgroup::own();
        let engine = Engine::create(&bpfdb::Options {
            memory_limit: 256 << 20,
            log_ring: 1 << 20,
            ..bpfdb::Options::default()
        })
        .expect("an engine");
        let options = bpfdb_durability::Options {
            exposure,
            files: bpfdb_log::Options {
                segment_size: 4 << 20,
                batch_size: 1 << 20,
                spares: 1,
            },
            ..bpfdb_durability::Options::default()
        };
        let (log, _) =
            bpfdb_durability::Durability::start(&engine, disk.clone(), options).expect("a log");
        Self::start_on(engine, Some(Arc::new(log)), None, settings, None)
    }

    /// Another server on an engine that is there.
    pub fn start_again(engine: Engine) -> Self {
        cgroup::own();
        let local_clients = cgroup::chosen();
        let settings = Settings {
            local_clients,
            ..Settings::default()
        };
        Self::start_on(engine, None, None, settings, None)
    }

    /// Stops it, and starts another one on its engine, with the programs that are loaded already.
    pub fn start_next(self, settings: Settings) -> Self {
        let local_clients = cgroup::chosen();
        self.start_next_as_told(Settings {
            local_clients,
            ..settings
        })
    }

    /// The same, with exactly these settings but the port. The address, and the clients of this machine, are
    /// those of before.
    pub fn start_next_as_told(mut self, settings: Settings) -> Self {
        let programs = self.stop_now();
        let (engine, log, tier) = (self.engine.clone(), self.log.take(), self.tier.take());
        let test_log = self.test_log.take();
        let mut next = Self::start_on(engine, log, tier, settings, programs);
        next.test_log = test_log;
        next
    }

    /// The same on an engine whose values go to files of `disk`, each as soon as no transaction has it, and come
    /// back when they are read twice.
    pub fn start_tiered<D>(disk: D, settings: Settings) -> Self
    where
        D: Disk + Send + Sync + 'static,
        D::File: Send + Sync,
    {
        cgroup::own();
        let engine = Engine::create(&bpfdb::Options::default()).expect("an engine");
        let options = bpfdb_tier::Options {
            memory: 0,
            run_size: 1 << 20,
            rest: Duration::from_millis(20),
        };
        let tier = Tier::start(&engine, disk, options).expect("cold values");
        let tier = Some(Arc::new(tier));
        Self::start_on(engine, None, tier, tiered(settings), None)
    }

    /// `programs`: those of a server that this engine had before.
    fn start_on(
        engine: Engine,
        log: Option<Arc<bpfdb_durability::Durability>>,
        tier: Option<Arc<Tier>>,
        settings: Settings,
        programs: Option<FrontEnd>,
    ) -> Self {
        let options = Options {
            log: log.clone(),
            tier: tier.clone(),
            ..at_any_port(settings)
        };
        let (sender, receiver) = mpsc::channel();
        let of_thread = engine.clone();
        let thread = thread::spawn(move || {
            let again = programs.map(|programs| {
                Server::start_loaded(&of_thread, &options, programs, |_| Ok::<_, Error>(()))
            });
            let server = match again {
                Some(Ok(server)) => server,
                // A process may have taken the port meanwhile.
                Some(Err(Error::System { source, .. }))
                    if source.kind() == ErrorKind::AddrInUse =>
                {
                    Server::start(&of_thread, &options)?
                }
                Some(Err(error)) => return Err(error),
                None => Server::start(&of_thread, &options)?,
            };
            sender
                .send((
                    server.address(),
                    server.stopper(),
                    server.loader(),
                    server.large_loader(),
                    server.prefetch_loader(),
                    server.park_loader(),
                ))
                .expect("the test waits");
            server.run()
        });
        let Ok((address, stopper, loader, large_loader, prefetch_loader, park_loader)) =
            receiver.recv()
        else {
            panic!("{:?}", thread.join().expect("no panic").err());
        };
        for loader in [&prefetch_loader, &park_loader].into_iter().flatten() {
            if loader.is_asked() {
                loader.wait();
            }
        }
        ahead::register(address, loader.clone());
        Self {
            address,
            engine,
            log,
            loader,
            large_loader,
            prefetch_loader,
            park_loader,
            tier,
            stopper,
            thread: Some(thread),
            test_log: None,
        }
    }

    /// A server for tests that need nothing in particular; see [`pool`].
    pub fn shared() -> Lent {
        let options = bpfdb::Options {
            max_sessions: 2048,
            ..bpfdb::Options::default()
        };
        Self::lent(&options, Settings::default())
    }

    /// The same, with other options and settings.
    pub fn lent(options: &bpfdb::Options, settings: Settings) -> Lent {
        let local_clients = cgroup::chosen();
        Self::lent_as_told(
            options,
            Settings {
                local_clients,
                ..settings
            },
        )
    }

    /// The same, with exactly these settings but the port.
    pub fn lent_as_told(options: &bpfdb::Options, settings: Settings) -> Lent {
        pool::lend(options, pool::Home::Memory, settings)
    }

    /// A server whose values go to files as those of [`Self::start_tiered`], on a disk of which a test can hold the
    /// reads ([`pool::Pooled::disk`]). What is counted of cold values may have begun before.
    pub fn lent_tiered(settings: Settings) -> Lent {
        let disk = pool::Home::Simulated(SimulatedDisk::new(1));
        pool::lend(&bpfdb::Options::default(), disk, tiered(settings))
    }

    /// The same, for a test that counts what is read: a value at a place where another test has read one a moment
    /// before looks as if it were read twice.
    pub fn lent_tiered_first(settings: Settings) -> Lent {
        let disk = pool::Home::Simulated(SimulatedDisk::new(1));
        pool::lend_first(&bpfdb::Options::default(), disk, tiered(settings))
    }

    /// As [`Self::lent_tiered`], in files that the kernel can read.
    pub fn lent_tiered_in_files(settings: Settings) -> Lent {
        let files = pool::Home::files();
        pool::lend(&bpfdb::Options::default(), files, tiered(settings))
    }

    /// A server that has just started, and has counted nothing. Its engine has no data, and may have been
    /// another test's: not for tests that look at the engine's own figures, its clock, or the room that its
    /// index takes.
    pub fn lent_new(options: &bpfdb::Options, settings: Settings) -> Lent {
        let local_clients = cgroup::chosen();
        Self::lent_new_as_told(
            options,
            Settings {
                local_clients,
                ..settings
            },
        )
    }

    /// The same, with exactly these settings but the port.
    pub fn lent_new_as_told(options: &bpfdb::Options, settings: Settings) -> Lent {
        pool::lend_new(options, settings)
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    pub fn stop(mut self) {
        self.stop_now();
    }

    /// The programs, if it has not been stopped before.
    fn stop_now(&mut self) -> Option<FrontEnd> {
        let thread = self.thread.take()?;
        ahead::forget(self.address);
        self.stopper.stop();
        let programs = thread.join().expect("no panic").expect("a clean stop");
        self.tier.iter().for_each(|tier| crate::tier::count(tier));
        Some(programs)
    }
}

/// What was written must be recovered from the log, if there is one that tests do not care about.
impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop_now();
        if let Some(log) = self.test_log.take().filter(|_| !thread::panicking()) {
            self.log = None;
            log.compare(&self.engine);
        }
    }
}

/// Of servers whose values all go to files.
fn tiered(settings: Settings) -> Settings {
    Settings {
        local_clients: cgroup::chosen(),
        tier: true,
        // What CONFIG SET makes of it: all values go.
        tier_memory: Size(1),
        ..settings
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
}

impl Redis {
    pub fn start() -> Self {
        // Somebody else may take the port before redis-server does.
        const TRIES: usize = 20;
        (0..TRIES)
            .find_map(|_| Self::try_at(free_port()))
            .expect("redis-server starts")
    }

    fn try_at(port: u16) -> Option<Self> {
        let mut command = Command::new("redis-server");
        command
            .args(["--port", &port.to_string()])
            .args(["--bind", "127.0.0.1", "--databases", "16"])
            .args(["--save", "", "--appendonly", "no"])
            .stdout(Stdio::null());
        let mut redis = Self {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            process: dies_with_us(&mut command)
                .spawn()
                .expect("redis-server is installed by scripts/setup.sh"),
        };
        let mut ready = false;
        wait_until("redis-server listens, or has ended", || {
            ready = redis.is_itself();
            ready || redis.process.try_wait().expect("a child").is_some()
        });
        ready.then_some(redis)
    }

    /// Is it this process that answers at the port?
    fn is_itself(&self) -> bool {
        let id = format!("process_id:{}\r\n", self.process.id());
        TcpStream::connect(self.address).is_ok_and(|stream| {
            let mut client = Client::from_stream(stream);
            client
                .stream
                .write_all(&request(&[b"INFO", b"server"]))
                .is_ok()
                && client
                    .try_reply()
                    .is_ok_and(|reply| String::from_utf8_lossy(&reply).contains(&id))
        })
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub fn free_port() -> u16 {
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

/// Does a new connection get a reply? A server may also close it at once.
pub fn is_served(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_ok_and(|stream| {
        let mut client = Client::from_stream(stream);
        client
            .stream
            .set_read_timeout(Some(patience()))
            .expect("set");
        client.stream.write_all(&request(&[b"ping"])).is_ok()
            && client.try_reply().is_ok_and(|reply| reply == b"+PONG\r\n")
    })
}

/// Does nobody listen there? (TCP may connect a socket with itself.)
pub fn is_refused(address: SocketAddr) -> bool {
    TcpStream::connect(address).map_or(true, |stream| {
        stream.local_addr().is_ok_and(|own| own == address)
    })
}

/// Does the kernel answer requests? Not those of synchronous clients, which all are the daemon's.
pub fn kernel_answers() -> bool {
    !crate::log::is_sync()
}

pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < patience(), "waiting until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Writes until nothing more is taken, or `most` bytes are: how many. The other
/// side may close.
pub fn flood(stream: &mut TcpStream, bytes: &[u8], most: usize, patience: Duration) -> usize {
    stream
        .set_write_timeout(Some(patience))
        .expect("a time-out");
    let mut sent = 0;
    while sent < most {
        let at = sent % bytes.len();
        match stream.write(&bytes[at..]) {
            Ok(some) => sent += some,
            // The process was stopped meanwhile.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                let expected = [
                    ErrorKind::WouldBlock,
                    ErrorKind::ConnectionReset,
                    ErrorKind::BrokenPipe,
                ];
                assert!(expected.contains(&error.kind()), "{error}");
                break;
            }
        }
    }
    sent
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

/// The request of a command whose words are separated by blanks.
pub fn words(command: &str) -> Vec<u8> {
    let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    request(&words)
}

/// A field of the statistics of a command.
pub fn of_command(client: &mut Client, command: &str, field: &str) -> u64 {
    of_line(
        client,
        "commandstats",
        &format!("cmdstat_{command}:"),
        field,
    )
}

/// Of how many executions of a command the kernel gave the reply.
pub fn kernel_calls(client: &mut Client, command: &str) -> u64 {
    of_line(
        client,
        "kernelstats",
        &format!("kernelstat_{command}:"),
        "calls",
    )
}

fn of_line(client: &mut Client, section: &str, line: &str, field: &str) -> u64 {
    let info = client.say(&format!("INFO {section}"));
    let line = info.lines().find_map(|row| row.strip_prefix(line));
    let fields = line.into_iter().flat_map(|line| line.split(','));
    let mut pairs = fields.filter_map(|pair| pair.split_once('='));
    let value = pairs.find_map(|(name, value)| (name == field).then_some(value));
    value.map_or(0, |value| value.parse().expect("a number"))
}

/// A value as it is in a reply.
pub fn bulk(value: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

/// Is this what INCR says? It may also have met somebody who was interrupted in
/// the middle of the same: then it did nothing.
pub fn is_incremented(reply: &[u8]) -> bool {
    let conflict = reply.starts_with(b"-CONFLICT ");
    assert!(conflict || reply[0] == b':', "{}", show(reply));
    !conflict
}

/// Length of the reply at the beginning of `bytes`, if all of it is there.
pub fn reply_len(bytes: &[u8]) -> Option<usize> {
    reply::Frame::default().end(bytes)
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
