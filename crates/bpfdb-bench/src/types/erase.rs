//! DEL of a large hash: how long it takes, and how long others wait meanwhile.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use bpfdb_apps::client::Reply;

use super::client;
use super::stock::Stock;
use crate::hostile::{Bystander, Waits};
use crate::plan::Plan;
use crate::sample::Sample;
use crate::tcp::Server;

/// Each of them is filled anew: more rounds would take minutes.
const ROUNDS_MAX: usize = 3;
const KEY: &str = "large:gone";

/// Of one server. Milliseconds of DEL, and microseconds.
#[derive(Default)]
pub(super) struct Erased {
    pub(super) took: Sample,
    pub(super) p99: Sample,
    pub(super) longest: Sample,
}

pub(super) fn measure(plan: &Plan, servers: &[Server]) -> Result<Vec<Erased>> {
    let mut all: Vec<Erased> = servers.iter().map(|_| Erased::default()).collect();
    for round in 0..plan.rounds.min(ROUNDS_MAX) {
        eprintln!("types-delete: round {}", round + 1);
        for (server, erased) in servers.iter().zip(&mut all) {
            Stock::large_hash(KEY, plan).fill(&mut client(server)?)?;
            let (took, waits) = erase(plan, server)?;
            erased.took.push(took.as_secs_f64() * 1e3);
            erased.p99.push(waits.p99);
            erased.longest.push(waits.longest);
        }
    }
    Ok(all)
}

/// Deletes it while another client asks, which goes on for a while.
fn erase(plan: &Plan, server: &Server) -> Result<(Duration, Waits)> {
    let mut client = client(server)?;
    let mut bystander = Bystander::of_kernel(server)?;
    thread::scope(|scope| {
        let waiting = scope.spawn(|| bystander.ask(plan.erase_time));
        thread::sleep(plan.erase_time / 10);
        let start = Instant::now();
        let reply = client.ask(&["DEL", KEY])?;
        let took = start.elapsed();
        ensure!(reply == Reply::Integer(1), "{reply:?} in place of 1");
        let waits = waiting.join().map_err(|_| anyhow!("a thread failed"))??;
        Ok((took, waits))
    })
}
