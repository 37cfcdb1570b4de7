//! A client that behaves well, and how long it waits for its replies.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_tests::server::{AtEnd, Client, request};

/// Most that it may wait for. In ten runs on two processors with a busy loop on each, and
/// other work besides, the most was 8 ms; without, some 50 us.
const MEDIAN: Duration = Duration::from_millis(100);
/// 41 ms there, and 664 ms: the kernel's worker and the daemon are two of several that
/// want the processor, and the daemon's are the turns of other connections besides.
const P99_KERNEL: Duration = Duration::from_secs(1);
const P99_DAEMON: Duration = Duration::from_secs(4);

#[derive(Clone, Copy)]
pub struct Latency {
    median: Duration,
    p99: Duration,
    longest: Duration,
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            median,
            p99,
            longest,
        } = self;
        write!(f, "{median:.0?} (p99 {p99:.0?}, longest {longest:.0?})")
    }
}

impl Latency {
    fn of(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        let at = |part: f64| all[((all.len() - 1) as f64 * part) as usize];
        Self {
            median: at(0.5),
            p99: at(0.99),
            longest: at(1.0),
        }
    }
}

/// What it waited for: a request that the kernel answers, and one that the
/// daemon does.
#[derive(Clone, Copy)]
pub struct Latencies {
    pub kernel: Latency,
    pub daemon: Latency,
}

impl Latencies {
    /// Says so, and stops the test if others made it wait for long.
    pub fn compare(what: &str, before: Self, during: Self) {
        for (path, limit, before, during) in [
            ("kernel", P99_KERNEL, before.kernel, during.kernel),
            ("daemon", P99_DAEMON, before.daemon, during.daemon),
        ] {
            println!("{what}: {path} {before}, then {during}");
            assert!(
                during.median < MEDIAN && during.p99 < limit,
                "{what}: {path} {before}, then {during}"
            );
        }
    }
}

/// Asks for as long as `work` takes, and a few times more.
pub fn while_working<T>(server: SocketAddr, work: impl FnOnce() -> T) -> (T, Latencies) {
    const LEAST: usize = 200;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let bystander = scope.spawn(|| {
            let (mut fast, mut slow) = (Client::connect(server), Client::connect(server));
            fast.ask(&[b"set", b"bystander", b"here"]);
            let (mut kernel, mut daemon) = (Vec::new(), Vec::new());
            while !done.load(Ordering::Relaxed) || kernel.len() < LEAST {
                kernel.push(time(&mut fast, &[b"get", b"bystander"], b"$4\r\nhere\r\n"));
                daemon.push(time(
                    &mut slow,
                    &[b"object", b"encoding", b"bystander"],
                    b"$6\r\nembstr\r\n",
                ));
                thread::sleep(Duration::from_micros(500));
            }
            Latencies {
                kernel: Latency::of(kernel),
                daemon: Latency::of(daemon),
            }
        });
        let end = AtEnd::of(&done);
        let result = work();
        drop(end);
        (result, bystander.join().expect("it is served"))
    })
}

pub fn alone(server: SocketAddr) -> Latencies {
    while_working(server, || {}).1
}

fn time(client: &mut Client, words: &[&[u8]], expected: &[u8]) -> Duration {
    let start = Instant::now();
    client.send(&request(words));
    assert_eq!(client.reply(), expected);
    start.elapsed()
}
