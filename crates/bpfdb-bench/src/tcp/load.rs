//! One run of a client.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::block::{self, Block};
use super::server::Server;
use crate::machine;

/// One run of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Load {
    /// Connections and threads of the client.
    pub(crate) connections: u32,
    pub(crate) threads: u32,
    /// Bytes of a value.
    pub(crate) size: u32,
    pub(crate) pipeline: u32,
    pub(crate) test: Test,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Test {
    pub(crate) name: &'static str,
    pub(crate) asks: Asks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asks {
    /// Of redis-benchmark: `-t` and one of its tests, or a command.
    Benchmark(&'static str),
    /// Of our own client: commands for one MULTI … EXEC, separated by `;`.
    Block(&'static str),
    /// Of our own client: one command.
    Command(&'static str),
}

/// What it said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) per_second: f64,
    pub(crate) p50_micros: f64,
    pub(crate) p99_micros: f64,
    /// Of all processors, client included.
    pub(crate) cpu_micros: f64,
}

impl Load {
    /// Of redis-benchmark, the address excepted.
    fn arguments(&self, what: &str, keys: u32, requests: u32) -> Vec<String> {
        let Self {
            connections,
            threads,
            pipeline,
            size,
            ..
        } = self;
        let general = format!("-c {connections} -r {keys} -n {requests} -P {pipeline} -d {size}");
        // One thread means none besides the main one.
        let threads = match threads {
            1 => String::new(),
            n => format!("--threads {n} "),
        };
        format!("{threads}{general} {what}")
            .split(' ')
            .map(String::from)
            .collect()
    }

    pub(crate) fn run(&self, server: &Server, keys: u32, requests: u32) -> Result<Answer> {
        let block = match self.test.asks {
            Asks::Benchmark(what) => return self.redis_benchmark(what, server, keys, requests),
            Asks::Block(commands) => Block::transaction(commands, keys),
            Asks::Command(command) => Block::command(command, keys),
        };
        block::run(server, self, block, requests)
            .with_context(|| format!("{} of {}", self.test.name, server.name))
    }

    fn redis_benchmark(
        &self,
        what: &str,
        server: &Server,
        keys: u32,
        requests: u32,
    ) -> Result<Answer> {
        let mut command = Command::new("redis-benchmark");
        command
            .args(["-h", &server.address.ip().to_string()])
            .args(["-p", &server.address.port().to_string()])
            .args(self.arguments(what, keys, requests));
        server.client_namespace.of_command(&mut command);
        let busy = machine::busy_seconds();
        let output = command.output().context("run redis-benchmark")?;
        let busy = machine::busy_seconds() - busy;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success(),
            "redis-benchmark against {}: {}",
            server.name,
            String::from_utf8_lossy(&output.stderr)
        );
        let [per_second, p50, p99] = parse(&text)
            .with_context(|| format!("redis-benchmark against {} said: {text}", server.name))?;
        Ok(Answer {
            per_second,
            p50_micros: p50 * 1e3,
            p99_micros: p99 * 1e3,
            cpu_micros: busy * 1e6 / f64::from(requests),
        })
    }
}

/// Requests per second, and milliseconds at p50 and p99.
///
/// With --threads the program notices only every 250 ms that it is done, and
/// the rate of its summary counts that time. What it prints on the way, `rps=…
/// (overall: …)`, does not: the last of them counts, if it is not the first,
/// which comes when hardly anything was sent.
fn parse(text: &str) -> Option<[f64; 3]> {
    let running = text.split("rps=").skip(2).filter_map(|tick| {
        let overall = tick.split("(overall: ").nth(1)?;
        overall.split(')').next()?.parse().ok()
    });
    let summary = number_before(text, " requests per second")?;
    let per_second = running
        .filter(|&rate: &f64| rate > 0.0)
        .last()
        .unwrap_or(summary);
    let mut latencies = text.lines().skip_while(|line| !line.contains("p50"));
    let names = latencies.next()?.split_whitespace();
    let figures: Vec<f64> = latencies
        .next()?
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    let at = |wanted: &str| {
        let column = names.clone().position(|name| name == wanted)?;
        figures.get(column).copied()
    };
    Some([per_second, at("p50")?, at("p99")?])
}

fn number_before(text: &str, what: &str) -> Option<f64> {
    text.split(what)
        .next()?
        .split_whitespace()
        .last()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMARY: &str = "====== SET ======\n  1000 requests completed in 0.25 seconds\n\
        Summary:\n  throughput summary: 3984.06 requests per second\n\
        \x20 latency summary (msec):\n\
        \x20         avg       min       p50       p95       p99       max\n\
        \x20       0.311     0.104     0.295     0.463     0.623     3.167\n";

    #[test]
    fn the_summary_of_redis_benchmark_is_understood() {
        assert_eq!(parse(SUMMARY), Some([3984.06, 0.295, 0.623]));
        assert_eq!(parse("nothing of the kind"), None);
    }

    #[test]
    fn the_rate_is_the_last_one_while_it_ran() {
        let text = format!(
            "SET: rps=0.0 (overall: 0.0) avg_msec=-nan (overall: -nan)\r      \r\
             SET: rps=43616.6 (overall: 42279.7) avg_msec=1.2 (overall: 1.2)\r\
             SET: rps=61568.0 (overall: 51716.2) avg_msec=0.8 (overall: 1.0)\r{SUMMARY}"
        );
        assert_eq!(parse(&text), Some([51716.2, 0.295, 0.623]));
        let short = format!("SET: rps=37000.0 (overall: 37000.0) avg_msec=1.2\r{SUMMARY}");
        assert_eq!(parse(&short), Some([3984.06, 0.295, 0.623]));
    }
}
