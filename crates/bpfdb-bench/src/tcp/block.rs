//! A client of our own for what redis-benchmark cannot do: several commands as one
//! request, MULTI … EXEC; and many connections, for which it takes more processor time
//! than for their requests. It also sends what others make: see [`Batches`].

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use hdrhistogram::Histogram;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

use super::load::{Answer, Load};
use super::server::Server;
use crate::machine;
use crate::random::Random;

/// Events that are taken at a time.
const EVENTS: usize = 256;
/// After so long without any reply the server hangs.
const PATIENCE_MILLIS: u16 = 10_000;
const BUFFER: usize = 64 << 10;

/// What a thread sends: each batch to one connection, which waits for all replies.
pub(crate) trait Batches: Send {
    type Replies: Replies;

    fn next(&mut self) -> &[u8];

    /// To a batch, as [`Replies`] counts them: of all batches the same number.
    fn replies(&self) -> usize;

    /// For a connection.
    fn reader(&self) -> Self::Replies;
}

/// Takes in what a server sends on one connection.
pub(crate) trait Replies: Send {
    /// Bytes that the server sends by itself in the beginning.
    const GREETING: usize = 0;

    /// How many replies end in these bytes. An error in the place of a reply is an error.
    fn count(&mut self, bytes: &[u8]) -> Result<usize>;
}

/// Counts the lines of Redis's protocol.
#[derive(Default)]
pub(crate) struct Lines;

impl Replies for Lines {
    fn count(&mut self, bytes: &[u8]) -> Result<usize> {
        let error = bytes.starts_with(b"-") || bytes.windows(2).any(|two| two == b"\n-");
        ensure!(!error, "a reply: {}", String::from_utf8_lossy(bytes));
        Ok(bytes.iter().filter(|&&byte| byte == b'\n').count())
    }
}

/// Connections and threads of a client, and requests in a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clients {
    pub(crate) connections: u32,
    pub(crate) threads: u32,
    pub(crate) pipeline: u32,
    /// That all of them choose.
    pub(crate) database: u32,
}

/// Commands, separated by `;`: one request.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    commands: &'a str,
    keys: u32,
    /// They are sent between MULTI and EXEC.
    transaction: bool,
}

impl<'a> Block<'a> {
    pub(super) fn transaction(commands: &'a str, keys: u32) -> Self {
        Self {
            transaction: true,
            ..Self::command(commands, keys)
        }
    }

    pub(super) fn command(commands: &'a str, keys: u32) -> Self {
        Self {
            commands,
            keys,
            transaction: false,
        }
    }

    fn commands(self) -> impl Iterator<Item = &'a str> {
        self.commands.split(';').map(str::trim)
    }

    /// Lines of the reply: what each command says, and of a transaction +OK, +QUEUED
    /// for each and *n; GET finds its key.
    fn reply_lines(self) -> usize {
        let said = |command: &str| 1 + usize::from(command.starts_with("GET "));
        let said = self.commands().map(said).sum::<usize>();
        if self.transaction {
            2 + self.commands().count() + said
        } else {
            said
        }
    }

    /// Adds it to what is sent, with other keys each time.
    fn write(self, random: &mut Random, to: &mut Vec<u8>) {
        if self.transaction {
            to.extend_from_slice(b"*1\r\n$5\r\nMULTI\r\n");
        }
        for command in self.commands() {
            let words: Vec<&str> = command.split(' ').collect();
            to.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
            for word in words {
                let key = random.below(self.keys.into());
                let word = word.replace("__rand_int__", &format!("{key:012}"));
                to.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
            }
        }
        if self.transaction {
            to.extend_from_slice(b"*1\r\n$4\r\nEXEC\r\n");
        }
    }
}

/// Sends `requests` blocks in pipelines, from as many threads as the load has.
pub(super) fn run(server: &Server, load: &Load, block: Block<'_>, requests: u32) -> Result<Answer> {
    let clients = Clients {
        connections: load.connections,
        threads: load.threads,
        pipeline: load.pipeline,
        database: 0,
    };
    send(server, clients, requests, |seed| {
        Prepared::new(block, load.pipeline, seed)
    })
}

/// Sends so many requests, in the batches that are made for each seed.
pub(crate) fn send<B: Batches>(
    server: &Server,
    clients: Clients,
    requests: u32,
    make: impl Fn(u64) -> B,
) -> Result<Answer> {
    let threads = clients.threads as usize;
    let batches = requests as usize / clients.pipeline as usize / threads;
    let connections = clients.connections as usize / threads;
    let worker = |seed| Worker::new(server, make(seed), connections, clients.database);
    let workers: Vec<Worker<B>> = (0..threads as u64).map(worker).collect::<Result<_>>()?;

    let busy = machine::busy_seconds();
    let start = Instant::now();
    let done: Vec<Result<Histogram<u64>>> = thread::scope(|scope| {
        let running: Vec<_> = workers
            .into_iter()
            .map(|worker| scope.spawn(move || worker.run(batches)))
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().map_err(|_| anyhow!("a thread failed"))?
        };
        running.into_iter().map(join).collect()
    });
    let (time, busy) = (start.elapsed(), machine::busy_seconds() - busy);

    let mut latencies = histogram();
    for part in done {
        latencies.add(part?).context("add latencies")?;
    }
    let sent = (batches * threads * clients.pipeline as usize) as f64;
    Ok(Answer {
        per_second: sent / time.as_secs_f64(),
        p50_micros: latencies.value_at_quantile(0.5) as f64 / 1e3,
        p99_micros: latencies.value_at_quantile(0.99) as f64 / 1e3,
        cpu_micros: busy * 1e6 / sent,
    })
}

/// Nanoseconds.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 100_000_000_000, 3).expect("constant bounds")
}

/// Batches of blocks, made in advance and sent in turn.
struct Prepared {
    batches: Vec<Vec<u8>>,
    next: usize,
    lines: usize,
}

/// Different batches of a thread.
const BATCHES: usize = 4096;

impl Prepared {
    fn new(block: Block<'_>, pipeline: u32, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let batch = |_| {
            let mut bytes = Vec::new();
            for _ in 0..pipeline {
                block.write(&mut random, &mut bytes);
            }
            bytes
        };
        Self {
            batches: (0..BATCHES).map(batch).collect(),
            next: 0,
            lines: block.reply_lines() * pipeline as usize,
        }
    }
}

impl Batches for Prepared {
    type Replies = Lines;

    fn next(&mut self) -> &[u8] {
        let batch = &self.batches[self.next % BATCHES];
        self.next += 1;
        batch
    }

    fn replies(&self) -> usize {
        self.lines
    }

    fn reader(&self) -> Lines {
        Lines
    }
}

/// One thread and its connections.
/// SELECT, which each server says OK to.
fn choose(stream: &mut TcpStream, database: u32) -> Result<()> {
    const OK: &[u8] = b"+OK\r\n";
    stream.write_all(format!("SELECT {database}\r\n").as_bytes())?;
    let mut reply = [0; OK.len()];
    stream.read_exact(&mut reply).context("choose a database")?;
    ensure!(reply == OK, "no database {database}");
    Ok(())
}

struct Worker<B: Batches> {
    poll: Epoll,
    connections: Vec<Connection<B::Replies>>,
    batches: B,
}

struct Connection<R> {
    stream: TcpStream,
    sent: Instant,
    replies: R,
    /// Replies that have not come yet.
    missing: usize,
}

impl<B: Batches> Worker<B> {
    fn new(server: &Server, batches: B, connections: usize, database: u32) -> Result<Self> {
        let mut worker = Self {
            poll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            connections: Vec::new(),
            batches,
        };
        for number in 0..connections {
            worker.open(server, number, database)?;
        }
        Ok(worker)
    }

    fn open(&mut self, server: &Server, number: usize, database: u32) -> Result<()> {
        let mut stream = server.connect()?;
        stream.set_nodelay(true)?;
        let mut greeting = vec![0; B::Replies::GREETING];
        stream.read_exact(&mut greeting).context("be greeted")?;
        if database > 0 {
            choose(&mut stream, database)?;
        }
        stream.set_nonblocking(true)?;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, number as u64);
        self.poll.add(&stream, event)?;
        self.connections.push(Connection {
            stream,
            sent: Instant::now(),
            replies: self.batches.reader(),
            missing: 0,
        });
        Ok(())
    }

    fn run(mut self, batches: usize) -> Result<Histogram<u64>> {
        let mut latencies = histogram();
        let mut sent = 0;
        for number in 0..self.connections.len().min(batches) {
            self.send(number)?;
            sent += 1;
        }
        let mut left = batches;
        let mut events = [EpollEvent::empty(); EVENTS];
        let mut buffer = vec![0; BUFFER];
        while left > 0 {
            let ready = self.poll.wait(&mut events, PATIENCE_MILLIS)?;
            ensure!(ready > 0, "no reply within {PATIENCE_MILLIS} ms");
            for event in &events[..ready] {
                let number = event.data() as usize;
                let Some(latency) = self.receive(number, &mut buffer)? else {
                    continue;
                };
                latencies.saturating_record(latency.as_nanos() as u64);
                left -= 1;
                if sent < batches {
                    self.send(number)?;
                    sent += 1;
                }
            }
        }
        Ok(latencies)
    }

    /// A batch is much less than fits the send buffer.
    fn send(&mut self, number: usize) -> Result<()> {
        let connection = &mut self.connections[number];
        connection.missing = self.batches.replies();
        let bytes = self.batches.next();
        connection.sent = Instant::now();
        connection.stream.write_all(bytes).context("send a batch")
    }

    /// Takes in what has come: the latency of the batch, if that is all.
    fn receive(&mut self, number: usize, buffer: &mut [u8]) -> Result<Option<Duration>> {
        let connection = &mut self.connections[number];
        let got = match connection.stream.read(buffer) {
            Ok(got) => got,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error).context("receive a reply"),
        };
        ensure!(got > 0, "the server has closed a connection");
        let replies = connection.replies.count(&buffer[..got])?;
        ensure!(replies <= connection.missing, "more replies than expected");
        connection.missing -= replies;
        Ok((connection.missing == 0).then(|| connection.sent.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_what_a_client_sends() {
        let block = Block::transaction("SET k:__rand_int__ v; GET x", 1);
        let mut bytes = Vec::new();
        block.write(&mut Random::new(1), &mut bytes);
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$14\r\nk:000000000000\r\n$1\r\nv\r\n\
             *2\r\n$3\r\nGET\r\n$1\r\nx\r\n*1\r\n$4\r\nEXEC\r\n"
        );
        // OK, QUEUED twice, *2, OK, and two for GET.
        assert_eq!(block.reply_lines(), 7);
    }
}
