//! A client that behaves well, and how long it waits for its replies.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{AtEnd, Client, request};

/// Most of what a machine that does something else may add to a usual reply, and
/// to one of those that it happened to stop in the middle of.
const PATIENT: Duration = Duration::from_secs(1);
const VERY_PATIENT: Duration = Duration::from_secs(20);

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
        for (path, before, during) in [
            ("kernel", before.kernel, during.kernel),
            ("daemon", before.daemon, during.daemon),
        ] {
            println!("{what}: {path} {before}, then {during}");
            assert!(
                during.median < PATIENT && during.p99 < VERY_PATIENT,
                "{what}: {before}, then {during}"
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
                    &[b"set", b"bystander", b"x", b"nx"],
                    b"$-1\r\n",
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
