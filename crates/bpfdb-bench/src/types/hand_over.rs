//! BLPOP: from a push until the client that waits for it has the element.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use bpfdb_apps::client::{Client, Reply};
use hdrhistogram::Histogram;

use super::client;
use crate::plan::Plan;
use crate::sample::Sample;
use crate::tcp::{Server, histogram};

const KEY: &str = "handed";
/// Until the server has the request of the client that waits.
const PAUSE: Duration = Duration::from_millis(1);

/// Of one server, microseconds.
#[derive(Default)]
pub(super) struct HandOvers {
    pub(super) p50: Sample,
    pub(super) p99: Sample,
}

pub(super) fn measure(plan: &Plan, servers: &[Server]) -> Result<Vec<HandOvers>> {
    let mut all: Vec<HandOvers> = servers.iter().map(|_| HandOvers::default()).collect();
    for round in 0..plan.rounds {
        eprintln!("types-blocking: round {} of {}", round + 1, plan.rounds);
        for (server, figures) in servers.iter().zip(&mut all) {
            let waits = hand_over(server, plan.hand_overs);
            let waits = waits.with_context(|| format!("BLPOP of {}", server.name))?;
            figures.p50.push(waits.value_at_quantile(0.5) as f64 / 1e3);
            figures.p99.push(waits.value_at_quantile(0.99) as f64 / 1e3);
        }
    }
    Ok(all)
}

/// Nanoseconds of each.
fn hand_over(server: &Server, times: u32) -> Result<Histogram<u64>> {
    let (mut pushing, mut waiting) = (client(server)?, client(server)?);
    let (begin, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    let mut waits = histogram();
    thread::scope(|scope| {
        let waiter = scope.spawn(move || wait(&mut waiting, times, &begin, &end));
        let pushed = push(&mut pushing, &begun, &ended, &mut waits);
        // Without an element it ends with its time of BLPOP.
        let waited = waiter.join().map_err(|_| anyhow!("a thread failed"))?;
        pushed.and(waited)
    })?;
    ensure!(
        waits.len() == u64::from(times),
        "an element was not handed over"
    );
    Ok(waits)
}

/// Asks for an element again and again, and says when each has come.
fn wait(client: &mut Client, times: u32, begin: &Sender<()>, end: &Sender<Instant>) -> Result<()> {
    for _ in 0..times {
        client.send(b"*3\r\n$5\r\nBLPOP\r\n$6\r\nhanded\r\n$2\r\n10\r\n")?;
        begin.send(())?;
        let reply = client.reply()?;
        end.send(Instant::now())?;
        let expected = [KEY, "element"].map(|word| Reply::Text(word.into()));
        ensure!(reply.array()? == expected, "{reply:?} was handed over");
    }
    Ok(())
}

/// Pushes an element for each that is asked for.
fn push(
    client: &mut Client,
    begun: &Receiver<()>,
    ended: &Receiver<Instant>,
    waits: &mut Histogram<u64>,
) -> Result<()> {
    while begun.recv().is_ok() {
        thread::sleep(PAUSE);
        let start = Instant::now();
        client.ask(&["LPUSH", KEY, "element"])?;
        let Ok(end) = ended.recv() else {
            break;
        };
        let wait = end.saturating_duration_since(start);
        waits.saturating_record(wait.as_nanos() as u64);
    }
    Ok(())
}
