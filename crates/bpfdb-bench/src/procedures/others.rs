//! GET and SET of all other clients: the same server without functions, and with those of the
//! examples in the kernel.

use anyhow::Result;
use bpfdb_apps::client::{Address, Client};
use bpfdb_apps::procedures::wait_for_kernel;

use super::{CONNECTIONS, THREADS, calls};
use crate::plan::Plan;
use crate::report::{Cell, Table};
use crate::sample::Sample;
use crate::tcp::{GET, Load, NetworkNamespace, SET, Server, fill};

const NAME: &str = "procedures-others";
const SIZE: u32 = 16;
const PIPELINES: [u32; 2] = [1, 16];
/// What is measured may vary by so much: as many times the requests as without functions.
const TARGET: f64 = 0.98;

pub(super) fn measure(plan: &Plan) -> Result<Table> {
    let namespaces = [NetworkNamespace::here(), NetworkNamespace::here()];
    let server = Server::bpfdb("off", &namespaces, plan.quick)?;
    let mut client = Client::connect(&Address::Tcp(server.address))?;
    fill(&server, plan.tcp_keys, SIZE)?;
    let loads = loads();
    let mut rates = vec![[Sample::default(), Sample::default()]; loads.len()];
    for round in 0..plan.rounds {
        eprintln!("{NAME}: round {} of {}", round + 1, plan.rounds);
        for (load, rates) in loads.iter().zip(&mut rates) {
            for (functions, rates) in rates.iter_mut().enumerate() {
                client.ask(&["FUNCTION", "FLUSH"])?;
                if functions == 1 {
                    for library in calls::libraries() {
                        client.load_library(library)?;
                    }
                    wait_for_kernel(&mut client)?;
                }
                let answer = load.run(&server, plan.tcp_keys, load.requests(plan))?;
                rates.push(answer.per_second);
            }
        }
    }
    Ok(table(plan, &loads, &rates))
}

fn loads() -> Vec<Load> {
    let load = |test, pipeline| Load {
        connections: CONNECTIONS,
        threads: THREADS,
        size: SIZE,
        pipeline,
        test,
    };
    (PIPELINES.iter())
        .flat_map(|&pipeline| [SET, GET].map(|test| load(test, pipeline)))
        .collect()
}

fn table(plan: &Plan, loads: &[Load], rates: &[[Sample; 2]]) -> Table {
    let title = format!(
        "others beside functions, through TCP on loopback, thousands of requests per second: \
         redis-benchmark -c {CONNECTIONS} -r {}",
        plan.tcp_keys
    );
    let columns = [
        "request",
        "-P",
        "without functions",
        "with functions",
        "with over without",
        "target",
    ];
    let mut table = Table::new(NAME, title, &columns);
    for (load, [without, with]) in loads.iter().zip(rates) {
        let ratio = with.over(without);
        table.row([
            load.test.name.into(),
            load.pipeline.into(),
            Cell::thousands(without),
            Cell::thousands(with),
            Cell::figure(&ratio, 2),
            Cell::at_least(&ratio, TARGET),
        ]);
    }
    table
}
