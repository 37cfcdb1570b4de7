//! A client that behaves well, and how long it waits for its replies.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;

use crate::tcp::Server;

/// So often it asks, unless the last reply comes later.
pub(super) const RATE: u32 = 2_000;
/// After so long the server hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// Microseconds.
pub(crate) struct Waits {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) longest: f64,
    pub(crate) per_second: f64,
}

/// One connection, which asks these in turn and knows the replies.
pub(crate) struct Bystander {
    stream: TcpStream,
    questions: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Bystander {
    pub(crate) fn of_kernel(server: &Server) -> Result<Self> {
        let value = b"$16\r\n0123456789abcdef\r\n";
        Self::new(
            server,
            vec![
                (
                    [&b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n"[..], value].concat(),
                    b"+OK\r\n".to_vec(),
                ),
                (b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n".to_vec(), value.to_vec()),
            ],
        )
    }

    pub(crate) fn of_daemon(server: &Server) -> Result<Self> {
        let question = b"*3\r\n$6\r\nOBJECT\r\n$8\r\nENCODING\r\n$1\r\na\r\n";
        Self::new(
            server,
            vec![(question.to_vec(), b"$6\r\nembstr\r\n".to_vec())],
        )
    }

    /// Asks each once: what else the first time takes is no wait for others.
    fn new(server: &Server, questions: Vec<(Vec<u8>, Vec<u8>)>) -> Result<Self> {
        let stream = server.connect()?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut bystander = Self { stream, questions };
        for number in 0..bystander.questions.len() {
            bystander.wait(number)?;
        }
        Ok(bystander)
    }

    /// Asks at its rate, for so long.
    pub(crate) fn ask(&mut self, time: Duration) -> Result<Waits> {
        let mut waits = Histogram::<u64>::new_with_bounds(1, 100_000_000_000, 3)?;
        let start = Instant::now();
        let mut next = start;
        while start.elapsed() < time {
            thread::sleep(next.saturating_duration_since(Instant::now()));
            let number = waits.len() as usize % self.questions.len();
            let wait = self.wait(number).context("a bystander")?;
            waits.saturating_record(wait.as_nanos() as u64);
            // What it could not ask in time it does not ask later.
            next = (next + Duration::from_secs(1) / RATE).max(Instant::now());
        }
        let time = start.elapsed();
        Ok(Waits {
            p50: waits.value_at_quantile(0.5) as f64 / 1e3,
            p99: waits.value_at_quantile(0.99) as f64 / 1e3,
            longest: waits.max() as f64 / 1e3,
            per_second: waits.len() as f64 / time.as_secs_f64(),
        })
    }

    fn wait(&mut self, number: usize) -> Result<Duration> {
        let (question, expected) = &self.questions[number];
        let mut reply = vec![0; expected.len()];
        let start = Instant::now();
        self.stream.write_all(question)?;
        // An error is shorter, and then there is no more.
        self.stream.read_exact(&mut reply[..1])?;
        ensure!(reply[0] == expected[0], "an error instead of a reply");
        self.stream.read_exact(&mut reply[1..])?;
        let wait = start.elapsed();
        ensure!(
            reply == *expected,
            "a wrong reply: {}",
            String::from_utf8_lossy(&reply)
        );
        Ok(wait)
    }
}
