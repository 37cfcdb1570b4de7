//! Clients of a server, as YCSB has them: each has a connection and a thread, and sends the next request when it has
//! the reply to the one before.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use bpfdb_apps::client::{Address, Client, Reply};
use hdrhistogram::Histogram;

use super::workload::{Records, Request, Requests, Workload};
use crate::random::{Draw, Random};
use crate::tcp::{NO_ROOM, Server, histogram};

pub(super) const CLIENTS: u64 = 16;
/// Until an insertion that was refused is tried again.
const PAUSE: Duration = Duration::from_millis(1);
/// How long one is tried: a server that refuses all that time is broken.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a run has seen.
pub(super) struct Seen {
    pub(super) per_second: f64,
    pub(super) p99_micros: f64,
    /// Of the records that were asked for, those that were not there.
    pub(super) missing_percent: f64,
    /// Writes that the log had no room for.
    pub(super) refused: u64,
}

/// Of one client.
struct Counts {
    nanos: Histogram<u64>,
    asked: u64,
    missing: u64,
    refused: u64,
}

impl Counts {
    fn new() -> Self {
        Self {
            nanos: histogram(),
            asked: 0,
            missing: 0,
            refused: 0,
        }
    }

    fn add(&mut self, other: &Self) -> Result<()> {
        self.nanos.add(&other.nanos).context("add latencies")?;
        self.asked += other.asked;
        self.missing += other.missing;
        self.refused += other.refused;
        Ok(())
    }
}

/// What clients ask for, and of whom.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) server: &'a Server,
    pub(super) workload: Workload,
    pub(super) records: &'a Records,
    pub(super) draw: &'a Draw,
    /// Bytes of a record.
    pub(super) size: u32,
    pub(super) time: Duration,
}

impl Run<'_> {
    pub(super) fn measure(self) -> Result<Seen> {
        let begun = Instant::now();
        let all = thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|seed| scope.spawn(move || self.client(seed)))
                .collect();
            let mut all = Counts::new();
            for client in clients {
                all.add(&client.join().map_err(|_| anyhow!("a client failed"))??)?;
            }
            anyhow::Ok(all)
        });
        let took = begun.elapsed();
        let all = all.with_context(|| format!("{} of {}", self.workload.name, self.server.name))?;
        Ok(Seen {
            per_second: all.nanos.len() as f64 / took.as_secs_f64(),
            p99_micros: all.nanos.value_at_quantile(0.99) as f64 / 1e3,
            missing_percent: all.missing as f64 * 100.0 / all.asked.max(1) as f64,
            refused: all.refused,
        })
    }

    fn client(self, seed: u64) -> Result<Counts> {
        let mut random = Random::new(seed);
        let value = random.text(self.size);
        let mut requests = Requests {
            workload: self.workload,
            records: self.records,
            draw: self.draw,
            random,
        };
        let mut connection = Client::connect(&Address::Tcp(self.server.address))?;
        let mut counts = Counts::new();
        let begun = Instant::now();
        while begun.elapsed() < self.time {
            let request = requests.next();
            let sent = Instant::now();
            ask(&mut connection, request, &value, &mut counts)?;
            let nanos = sent.elapsed().as_nanos() as u64;
            counts.nanos.saturating_record(nanos);
            if let Request::Insert(number) = request {
                self.records.inserted(number);
            }
        }
        Ok(counts)
    }
}

/// That of redis-benchmark, by which the store was filled.
fn key(number: u32) -> String {
    format!("key:{number:012}")
}

fn ask(client: &mut Client, request: Request, value: &str, counts: &mut Counts) -> Result<()> {
    match request {
        Request::Read(number) => read(client, &[number], counts),
        Request::Scan { first, count } => {
            let numbers: Vec<u32> = (first..first + count).collect();
            read(client, &numbers, counts)
        }
        Request::Update(number) => write(client, number, value, counts),
        Request::Insert(number) => insert(client, number, value, counts),
        Request::ReadModifyWrite(number) => {
            read(client, &[number], counts)?;
            write(client, number, value, counts)
        }
    }
}

/// Until it is there: a record without a value would be missing for those who read the latest ones.
fn insert(client: &mut Client, number: u32, value: &str, counts: &mut Counts) -> Result<()> {
    let begun = Instant::now();
    loop {
        let refused = counts.refused;
        write(client, number, value, counts)?;
        if counts.refused == refused {
            return Ok(());
        }
        let took = begun.elapsed();
        ensure!(took < PATIENCE, "an insertion was refused for {took:?}");
        thread::sleep(PAUSE);
    }
}

fn read(client: &mut Client, numbers: &[u32], counts: &mut Counts) -> Result<()> {
    let keys: Vec<String> = numbers.iter().map(|&number| key(number)).collect();
    let name = if keys.len() == 1 { "GET" } else { "MGET" };
    let words = [name].into_iter().chain(keys.iter().map(String::as_str));
    let reply = client.ask(&words.collect::<Vec<_>>())?;
    let missing = match &reply {
        Reply::Nil => 1,
        Reply::Array(values) => values.iter().filter(|value| value.is_nil()).count() as u64,
        _ => 0,
    };
    counts.asked += numbers.len() as u64;
    counts.missing += missing;
    Ok(())
}

fn write(client: &mut Client, number: u32, value: &str, counts: &mut Counts) -> Result<()> {
    match client.ask(&["SET", &key(number), value]) {
        Ok(reply) => ensure!(reply.text()? == "OK", "SET: {reply:?}"),
        Err(error) if format!("{error:#}").contains(&NO_ROOM[1..]) => counts.refused += 1,
        Err(error) => return Err(error),
    }
    Ok(())
}
