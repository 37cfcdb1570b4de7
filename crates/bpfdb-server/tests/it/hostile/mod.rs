//! Clients that want to harm: the memory of the server stays what it is, and
//! others are served as before.
#![allow(unreachable_pub, reason = "the modules of one test")]

mod broken;
mod bystander;
mod nested;
use bpfdb_tests::server as common;

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bystander::{Latencies, alone, while_working};
use common::process::{ServerProcess, kernel_memory};
use common::{Client, flood, request, show};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

const MIB: u64 = 1 << 20;

/// One attack at a time: memory of the kernel is that of the machine, and what a
/// bystander waits for is to be due to one of them.
fn alone_on_this_machine() -> MutexGuard<'static, ()> {
    static ATTACK: Mutex<()> = Mutex::new(());
    ATTACK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How much memory was taken since.
struct Memory {
    resident: u64,
    kernel: u64,
}

impl Memory {
    fn of(server: &ServerProcess) -> Self {
        Self {
            resident: server.resident(),
            kernel: kernel_memory(),
        }
    }

    /// Bytes that the daemon has taken since, and the kernel (others on this
    /// machine may have taken them, too).
    fn grown(&self, server: &ServerProcess) -> (u64, u64) {
        let now = Self::of(server);
        let grown = (
            now.resident.saturating_sub(self.resident),
            now.kernel.saturating_sub(self.kernel),
        );
        println!(
            "daemon {} MiB more, kernel {} MiB more",
            grown.0 / MIB,
            grown.1 / MIB
        );
        grown
    }

    /// When the clients that took it have gone.
    fn wait_until_back(&self, server: &ServerProcess) {
        common::wait_until("the daemon's memory came back", || {
            server.resident() < self.resident + 16 * MIB
        });
    }
}

// ---- Half-open requests ------------------------------------------------------------

/// In the long run.
const HALF_OPEN: u64 = 10_000;

/// What a client may say and then nothing more, what would complete it, and the
/// reply then.
fn halves() -> Vec<(Vec<u8>, Vec<u8>, &'static [u8])> {
    let half = |text: &str| text.as_bytes().to_vec();
    let ok = b"+OK\r\n";
    vec![
        (half("*"), half("1\r\n$4\r\nPING\r\n"), b"+PONG\r\n"),
        (
            half("*2\r\n$3\r\nGET\r\n$10\r\nabc"),
            half("defghij\r\n"),
            b"$-1\r\n",
        ),
        (
            half("*3\r\n$3\r\nSET\r\n$1\r\nh\r\n"),
            half("$1\r\nx\r\n"),
            ok,
        ),
        (
            [
                half("*3\r\n$3\r\nSET\r\n$1\r\nh\r\n$9000\r\n"),
                vec![b'x'; 2000],
            ]
            .concat(),
            [vec![b'x'; 7000], half("\r\n")].concat(),
            ok,
        ),
        (half("PIN"), half("G\r\n"), b"+PONG\r\n"),
        (
            half("*4\r\n$3\r\nSET\r\n$1\r\nh\r\n$1\r\nx\r\n$2\r"),
            half("\nXX\r\n"),
            ok,
        ),
        (half("*1\r\n$4\r\nPING\r"), half("\n"), b""),
        (half(""), half("*1\r\n$4\r\nPING\r\n"), b"+PONG\r\n"),
    ]
}

#[test]
fn half_open_requests() {
    half_open(1000);
}

#[test]
#[ignore = "long: make soak"]
fn soak_ten_thousand_half_open_requests() {
    half_open(HALF_OPEN);
}

fn half_open(most: u64) {
    let _alone = alone_on_this_machine();
    let count = most.min(raise_descriptor_limit() - 1000) as usize;
    let server = ServerProcess::start(count as u32 + 100);
    server.client().say("SET h x");
    let before = alone(server.address);
    let memory = Memory::of(&server);
    let halves = halves();

    let (mut streams, opening) = while_working(server.address, || {
        (0..count)
            .map(|i| open_half(server.address, i, &halves[i % halves.len()].0))
            .collect::<Vec<_>>()
    });
    Latencies::compare("while they connect", before, opening);
    check_idle(&server);
    Latencies::compare("while they are open", before, alone(server.address));
    let (daemon, kernel) = memory.grown(&server);
    println!("{count} requests are half open");
    let kept = (4 * MIB + count as u64 * 1600).min(16 * MIB);
    assert!(daemon < kept, "nothing of them is the daemon's: {daemon}");
    assert!(kernel < 512 * MIB, "50 KiB each, not {kernel}");

    // None of them was given up.
    let ((), finishing) = while_working(server.address, || {
        for (i, stream) in streams.iter_mut().enumerate() {
            let (_, rest, _) = &halves[i % halves.len()];
            stream.write_all(rest).expect("taken");
        }
        for (i, stream) in streams.into_iter().enumerate() {
            let (_, _, reply) = halves[i % halves.len()];
            if !reply.is_empty() {
                stream
                    .set_read_timeout(Some(common::PATIENCE))
                    .expect("a time-out");
                assert_eq!(Client::from_stream(stream).reply(), reply, "{i}");
            }
        }
    });
    Latencies::compare("while they end", before, finishing);
}

/// Nothing happens: so the server has nothing to do.
fn check_idle(server: &ServerProcess) {
    const PAUSE: Duration = Duration::from_secs(1);
    // It may still be at what happened before.
    common::wait_until("it is idle", || {
        let before = server.processor_time();
        std::thread::sleep(PAUSE);
        let busy = server.processor_time() - before;
        println!("busy for {busy:?} of {PAUSE:?} idle");
        busy < PAUSE / 4
    });
}

fn open_half(server: SocketAddr, number: usize, half: &[u8]) -> TcpStream {
    let mut stream =
        TcpStream::connect(server).unwrap_or_else(|error| panic!("connection {number}: {error}"));
    stream.set_nodelay(true).expect("no delay");
    stream.write_all(half).expect("taken");
    stream
}

/// How many descriptors this process may have, and each that it starts: one for
/// every connection.
fn raise_descriptor_limit() -> u64 {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    let wanted = hard.max(2 * HALF_OPEN);
    for limit in [wanted, hard] {
        if setrlimit(Resource::RLIMIT_NOFILE, limit, limit).is_ok() {
            return limit;
        }
    }
    soft
}

// ---- Slow readers --------------------------------------------------------------------

/// Clients that ask for more and more and read nothing.
#[test]
fn slow_readers() {
    read_slowly(16);
}

#[test]
#[ignore = "long: make soak"]
fn soak_slow_readers() {
    read_slowly(100);
}

fn read_slowly(readers: usize) {
    const LONG: usize = 20_000;
    // Replies of one client that may wait.
    const WAIT: u64 = 4 * MIB;
    let _alone = alone_on_this_machine();
    let server = ServerProcess::start(1000);
    let mut setup = server.client();
    let limit = format!("normal {WAIT} 0 0");
    let set: [&[u8]; 4] = [
        b"CONFIG",
        b"SET",
        b"client-output-buffer-limit",
        limit.as_bytes(),
    ];
    assert_eq!(setup.ask(&set), b"+OK\r\n");
    setup.ask(&[b"set", b"long", &[b'l'; LONG]]);
    let before = alone(server.address);
    let memory = Memory::of(&server);

    let requests = [
        request(&[b"get", b"long"]).repeat(100),
        request(&[b"ping"]).repeat(1000),
        request(&[b"mget", b"long", b"long", b"long"]).repeat(100),
        request(&[b"set", b"long", b"x", b"get", b"nx"]).repeat(100),
    ];
    let (streams, during) = while_working(server.address, || {
        let mut streams: Vec<TcpStream> = (0..readers)
            .map(|i| open_half(server.address, i, b""))
            .collect();
        for round in 0..3 {
            for (i, stream) in streams.iter_mut().enumerate() {
                let patience = Duration::from_millis(20);
                flood(stream, &requests[i % requests.len()], 4 << 20, patience);
            }
            println!("round {round}:");
            memory.grown(&server);
        }
        streams
    });
    Latencies::compare("beside slow readers", before, during);
    let (daemon, kernel) = memory.grown(&server);
    // The replies of a time slice come beyond the limit, and what is not sent yet of a connection
    // that is over it is given back.
    assert!(daemon < readers as u64 * (WAIT + 2 * MIB), "{daemon}");
    let stats = setup.say("INFO stats");
    let closed = stats
        .lines()
        .find_map(|line| line.strip_prefix("client_output_buffer_limit_disconnections:"))
        .and_then(|number| number.parse::<u64>().ok());
    assert!(
        closed.is_some_and(|closed| closed > 0),
        "{closed:?} of them were over the limit"
    );
    // A send buffer of 1 MiB, and as much as the client's side receives by itself.
    assert!(kernel < readers as u64 * 16 * MIB, "{kernel}");
    drop(streams);
    memory.wait_until_back(&server);
    assert_eq!(setup.say("strlen long"), format!(":{LONG}\r\n"));
}

// ---- Endless requests ------------------------------------------------------------------

/// What short words are kept up to is 192 MiB, and they need as much again.
const SHORT: u64 = 400 * MIB;

/// Sends `start`, then `part` again and again, and nothing is ever complete.
fn endless(start: &[u8], part: &[u8], most: usize, kept: u64) {
    let _alone = alone_on_this_machine();
    let server = ServerProcess::start(64);
    let before = alone(server.address);
    let memory = Memory::of(&server);
    let (reply, during) = while_working(server.address, || {
        let mut stream = TcpStream::connect(server.address).expect("a connection");
        stream.write_all(start).expect("taken");
        let part = part.repeat(64 * 1024 / part.len());
        let sent = flood(&mut stream, &part, most, Duration::from_secs(5));
        println!("{} MiB sent", sent as u64 / MIB);
        let (daemon, kernel) = memory.grown(&server);
        assert!(daemon < kept, "{daemon}");
        // What waits for the kernel's worker, and what that takes.
        assert!(kernel < 256 * MIB, "{kernel}");
        let _ = stream.shutdown(Shutdown::Write);
        stream
            .set_read_timeout(Some(common::PATIENCE))
            .expect("a time-out");
        let mut client = Client::from_stream(stream);
        (sent, client.try_until_closed())
    });
    println!("{} bytes, then {}", reply.0, show(&reply.1));
    memory.wait_until_back(&server);
    Latencies::compare("beside an endless request", before, during);
}

#[test]
fn an_endless_argument() {
    endless(
        b"*2\r\n$4\r\nECHO\r\n$536870912\r\n",
        &[b'x'; 4096],
        500 << 20,
        544 * MIB,
    );
}

#[test]
fn endless_arguments() {
    endless(
        b"*2147483647\r\n$4\r\nMGET\r\n",
        b"$1\r\nx\r\n",
        100 << 20,
        SHORT,
    );
}

#[test]
fn endless_empty_arguments() {
    endless(
        b"*2147483647\r\n$4\r\nMGET\r\n",
        b"$0\r\n\r\n",
        100 << 20,
        SHORT,
    );
}

#[test]
fn endless_long_arguments() {
    let long = [b"$60000\r\n", &[b'x'; 60_000][..], b"\r\n"].concat();
    endless(b"*2147483647\r\n$4\r\nMGET\r\n", &long, 300 << 20, SHORT);
}

#[test]
fn an_endless_line() {
    endless(b"GET ", b"x", 100 << 20, SHORT);
    endless(b"*1", b"1", 100 << 20, SHORT);
}

// ---- Comings and goings -----------------------------------------------------------------

/// Connections that end in the middle of whatever they began, by a reset.
#[test]
fn a_storm_of_connections() {
    storm(1500);
}

#[test]
#[ignore = "long: make soak"]
fn soak_a_storm_of_connections() {
    storm(5000);
}

fn storm(connections: usize) {
    let _alone = alone_on_this_machine();
    let server = ServerProcess::start(1000);
    let before = alone(server.address);
    let memory = Memory::of(&server);
    let halves = halves();
    let start = Instant::now();
    let ((), during) = while_working(server.address, || {
        for i in 0..connections {
            let stream = open_half(server.address, i, &halves[i % halves.len()].0);
            let linger = libc::linger {
                l_onoff: 1,
                l_linger: 0,
            };
            if i % 2 == 0 {
                nix::sys::socket::setsockopt(&stream, nix::sys::socket::sockopt::Linger, &linger)
                    .expect("a reset at the end");
            }
        }
    });
    println!("{connections} connections in {:?}", start.elapsed());
    Latencies::compare("in a storm of connections", before, during);
    let (daemon, kernel) = memory.grown(&server);
    assert!(daemon < 8 * MIB, "{daemon}");
    assert!(kernel < 256 * MIB, "{kernel}");
}
