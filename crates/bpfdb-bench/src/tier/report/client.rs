//! `tier-report-server`: clients that write, beside one that reports, of the server and of Redis.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use bpfdb_apps::client::{Address, Client, Reply, command};

use super::{FIELD, PERIOD, Reports, Seen, table};
use crate::durability::{Setup, Target, beside};
use crate::plan::Plan;
use crate::random::Random;
use crate::report::Table;
use crate::tcp::{NetworkNamespace, Server, fill};
use crate::tier::beside::{VALUE, every};

/// Requests that are sent before their replies are read.
const PIPELINE: usize = 100;

/// How a database reads many records at one moment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// In a read-only transaction, pipeline by pipeline.
    Snapshot,
    /// By MULTI … EXEC, which nothing interrupts.
    Block,
}

pub(crate) fn measure(plan: &Plan, setup: &Setup<'_>) -> Result<Table> {
    let here = NetworkNamespace::here;
    let mut servers = vec![(
        Server::bpfdb("off", &[here(), here()], plan.quick)?,
        Way::Snapshot,
    )];
    for program in &setup.redis {
        servers.push((Server::redis(program, &[here(), here()])?, Way::Block));
    }
    for (server, _) in &servers {
        fill(server, plan.beside_records, VALUE as u32)?;
    }
    let mut seen: Vec<Seen> = servers.iter().map(|_| Seen::default()).collect();
    plan.repeat("reports by clients", |round, warms_up| {
        for ((server, way), seen) in servers.iter().zip(&mut seen) {
            let target = Target {
                server,
                records: plan.beside_records,
                size: VALUE as u32,
            };
            let mut reporter = Reporter::new(server, *way, plan, round as u64)?;
            let report = || reporter.reports(plan);
            let (writers, reports) = beside(target, plan.beside_time, report)?;
            if !warms_up {
                seen.alone.push(writers.before);
                seen.beside.push(writers.during);
                seen.push(&reports);
            }
        }
        Ok(())
    })?;
    let writers = format!(
        "two clients that SET through TCP, each waiting for its replies, values of {VALUE} B"
    );
    let mut table = table("tier-report-server", &writers, plan);
    for ((server, way), seen) in servers.iter().zip(&seen) {
        seen.rows(&mut table, &server.name, *way == Way::Snapshot);
    }
    table.note(format!(
        "a report of bpfdb: BEGIN READ ONLY, GETRANGE in pipelines of {PIPELINE}, COMMIT; of Redis: MULTI, \
         all GETRANGE, EXEC"
    ));
    Ok(table)
}

struct Reporter {
    client: Client,
    way: Way,
    random: Random,
    records: u32,
    /// Of all records.
    all: u32,
}

impl Reporter {
    fn new(server: &Server, way: Way, plan: &Plan, seed: u64) -> Result<Self> {
        Ok(Self {
            client: Client::connect(&Address::Tcp(server.address))?,
            way,
            random: Random::new(seed),
            records: plan.report_records,
            all: plan.beside_records,
        })
    }

    /// One in each period.
    fn reports(&mut self, plan: &Plan) -> Result<Reports> {
        let mut reports = Reports::new()?;
        let (over, begun) = (AtomicBool::new(false), Instant::now());
        every(PERIOD, &over, || {
            reports.make(|| self.report())?;
            let is_over = begun.elapsed() >= plan.beside_time;
            over.store(is_over, Ordering::Relaxed);
            Ok(())
        })?;
        Ok(reports)
    }

    fn report(&mut self) -> Result<u64> {
        let first = self.random.below((self.all - self.records).into()) as u32;
        let requests: Vec<Vec<u8>> = (first..first + self.records).map(get_field).collect();
        let fields = match self.way {
            Way::Snapshot => self.by_snapshot(&requests)?,
            Way::Block => self.by_block(&requests)?,
        };
        ensure!(fields.len() == requests.len(), "a report misses records");
        let mut sum = 0u64;
        for field in &fields {
            sum = sum.wrapping_add(number(field)?);
        }
        Ok(sum)
    }

    fn by_snapshot(&mut self, requests: &[Vec<u8>]) -> Result<Vec<Reply>> {
        self.client.ask(&["BEGIN", "READ", "ONLY"])?;
        let mut fields = Vec::with_capacity(requests.len());
        for requests in requests.chunks(PIPELINE) {
            self.client.send(&requests.concat())?;
            for _ in requests {
                fields.push(self.client.reply()?);
            }
        }
        self.client.ask(&["COMMIT"])?;
        Ok(fields)
    }

    fn by_block(&mut self, requests: &[Vec<u8>]) -> Result<Vec<Reply>> {
        let mut all = Vec::new();
        command(&mut all, &["MULTI"]);
        all.extend(requests.concat());
        command(&mut all, &["EXEC"]);
        self.client.send(&all)?;
        // +OK, and +QUEUED for each.
        for _ in 0..=requests.len() {
            self.client.reply()?;
        }
        Ok(self.client.reply()?.array()?.to_vec())
    }
}

/// The bytes of the field of a key that [`fill`] has set.
fn get_field(key: u32) -> Vec<u8> {
    let mut request = Vec::new();
    let (key, from, to) = (
        format!("key:{key:012}"),
        FIELD.to_string(),
        (FIELD + 7).to_string(),
    );
    command(&mut request, &["GETRANGE", &key, &from, &to]);
    request
}

fn number(field: &Reply) -> Result<u64> {
    let bytes = field.text()?.as_bytes();
    // As all values are filled.
    ensure!(
        bytes.iter().all(u8::is_ascii_alphanumeric),
        "a field has {field:?}"
    );
    Ok(u64::from_ne_bytes(bytes.try_into()?))
}
