//! Random transactions on few keys. The checker judges all replies to their clients.

use bpfdb::Engine;
use bpfdb_model::history::Workload;
use bpfdb_procedures::inside::{Compiler, Library};
use bpfdb_tests::kernel::KernelClient;
use bpfdb_tests::settings;
use bpfdb_tests::stress::{self, Histories, Stepwise, Tally, WholeClient};

use crate::isolation::clients::{Block, Caller, InPieces, Inside, Interactive, Plain};
use crate::isolation::paths::{Path, Served};
use crate::isolation::{SHORT, alone, seed, volume};

pub(crate) const LIBRARY: &str = include_str!("histories.lua");
/// Of each client.
const TRANSACTIONS: usize = 100;
const PIPELINE: usize = 8;

type Clients<'a> = Vec<Box<dyn WholeClient + 'a>>;

/// Both workloads on very few keys and on some. What all clients of each place came to.
fn record_all<'a>(
    name: &str,
    scale: usize,
    engine: &Engine,
    clients: impl Fn() -> Clients<'a>,
) -> Vec<Tally> {
    let mut sums: Vec<Tally> = Vec::new();
    for workload in [Workload::Lists, Workload::Registers] {
        for keys in [2, 8] {
            let mut clients = clients();
            let plan = Histories {
                seed: seed(scale),
                workload,
                clients: clients.len(),
                keys,
                transactions: volume(TRANSACTIONS * scale),
            };
            let mut last = KernelClient::of(engine).expect("a session");
            let tallies = stress::record_whole(plan, &mut clients, &mut last);
            let tallies = tallies.unwrap_or_else(|error| {
                panic!("{name}, {plan:?}, BPFDB_SEED={}: {error}", plan.seed)
            });
            println!("{name}, {workload:?}, {keys} keys: {tallies:?}");
            sums.resize_with(tallies.len(), Tally::default);
            for (sum, tally) in sums.iter_mut().zip(tallies) {
                sum.add(tally);
            }
        }
    }
    for sum in &sums {
        assert!(sum.committed > 0 && sum.snapshots > 0, "{name}: {sums:?}");
    }
    sums
}

fn library(engine: &Engine) -> Library {
    let compiler = Compiler::new(engine).expect("a template");
    let library = compiler.library(LIBRARY.as_bytes());
    library.unwrap_or_else(|error| panic!("{error}"))
}

/// Calls that these clients have made.
fn calls(tallies: &[Tally]) -> u64 {
    let calls = |one: &Tally| one.committed + one.given_up + one.conflicts;
    tallies.iter().map(calls).sum()
}

/// Each of these clients had calls that were given up; of the few that an emulated machine makes,
/// at least one of them had.
fn check_given_up(tallies: &[Tally]) {
    let count = tallies.iter().filter(|one| one.given_up > 0).count();
    let least = if settings::is_emulated() {
        1
    } else {
        tallies.len()
    };
    assert!(count >= least, "{tallies:?}");
}

/// Procedures, blocks and commands: no client keeps a lock between two messages, and no client
/// ever gets CONFLICT.
fn by_calls(path: Path, scale: usize) {
    let served = Served::shared(path);
    let _alone = alone();
    let before = served.figures();
    let name = format!("{path:?}");
    let sums = record_all(&name, scale, served.engine(), || {
        let caller = |together| Caller {
            client: served.client(),
            together,
        };
        vec![
            Box::new(caller(1)),
            Box::new(caller(1)),
            Box::new(caller(PIPELINE)),
            Box::new(Block(served.client())),
            Box::new(Plain(served.client())),
        ]
    });
    let callers = &sums[..3];
    served.check_path(&before, calls(callers));
    served.check_nothing_held();
    check_given_up(callers);
    assert!(sums.iter().all(|one| one.conflicts == 0), "{sums:?}");
}

/// From inside, one by one and in batches. There is no interpreter: what is given up is rolled
/// back.
fn inside(scale: usize) {
    let _alone = alone();
    let engine = Engine::create(&bpfdb::Options::default()).expect("the engine starts");
    let library = library(&engine);
    let sums = record_all("inside", scale, &engine, || {
        let caller = |together| {
            let session = engine.session().expect("a session");
            Box::new(Inside::new(&library, session, together)) as Box<dyn WholeClient>
        };
        [1, 1, PIPELINE, 64].map(caller).into()
    });
    // Who is interrupted with a lock may keep it for longer than others try. On an emulated machine,
    // where a processor often stands still, this is no exception.
    for sum in &sums {
        let are_few = sum.conflicts * 100 <= sum.committed;
        assert!(are_few || settings::is_emulated(), "{sums:?}");
    }
    check_given_up(&sums);
    let stats = engine.stats().expect("figures");
    assert_eq!((stats.locks, stats.transactions), (0, 0));
}

/// Procedures on all paths beside transactions, blocks, and commands of servers' clients and of
/// sessions.
fn mixed(path: Path, scale: usize) {
    let served = Served::shared(path);
    let _alone = alone();
    let engine = served.engine();
    let library = library(engine);
    let before = served.figures();
    let name = format!("mixed, {path:?}");
    let sums = record_all(&name, scale, engine, || {
        let caller = |together| Caller {
            client: served.client(),
            together,
        };
        let inside = |together| {
            let session = engine.session().expect("a session");
            Inside::new(&library, session, together)
        };
        vec![
            Box::new(caller(1)),
            Box::new(caller(PIPELINE)),
            Box::new(Caller {
                client: served.daemon_client(),
                together: PIPELINE,
            }),
            Box::new(inside(1)),
            Box::new(inside(PIPELINE)),
            Box::new(Block(served.client())),
            Box::new(Interactive(served.client())),
            Box::new(Plain(served.client())),
            Box::new(Stepwise::new(KernelClient::of(engine).expect("a session"))),
        ]
    });
    served.check_path(&before, calls(&sums[..2]));
    served.check_daemon(&before);
    served.check_nothing_held();
}

#[test]
fn histories_of_procedures_over_tcp() {
    by_calls(Path::Tcp, SHORT);
}

#[test]
fn histories_of_procedures_in_their_clients_send() {
    by_calls(Path::Send, SHORT);
}

#[test]
fn histories_of_procedures_by_the_daemon() {
    by_calls(Path::Daemon, SHORT);
}

#[test]
fn histories_of_procedures_from_inside() {
    inside(SHORT);
}

#[test]
fn histories_beside_all_other_clients_over_tcp() {
    mixed(Path::Tcp, SHORT);
}

#[test]
fn histories_beside_all_other_clients_in_send() {
    mixed(Path::Send, SHORT);
}

/// A test of the test: transactions whose steps are calls of their own do not get through.
#[test]
fn histories_of_transactions_in_pieces_are_noticed() {
    let served = Served::shared(Path::Tcp);
    let _alone = alone();
    for workload in [Workload::Lists, Workload::Registers] {
        let found = (0..10).find_map(|seed| {
            let mut clients: Clients<'_> = (0..4)
                .map(|_| Box::new(InPieces(served.client())) as Box<dyn WholeClient>)
                .collect();
            let plan = Histories {
                seed,
                workload,
                clients: clients.len(),
                keys: 2,
                transactions: volume(4 * TRANSACTIONS),
            };
            let mut last = KernelClient::of(served.engine()).expect("a session");
            stress::record_whole(plan, &mut clients, &mut last).err()
        });
        let violation = found.unwrap_or_else(|| panic!("{workload:?}: nothing is found"));
        println!("{workload:?}: {violation:.100}");
        let anomalies = ["Internal", "G1b", "G1c", "G2"];
        let is_anomaly = anomalies.iter().any(|name| violation.starts_with(name));
        assert!(is_anomaly, "{violation}");
    }
}

#[test]
#[ignore = "takes minutes"]
fn soak_histories_of_procedures() {
    for path in [Path::Tcp, Path::Send, Path::Daemon] {
        by_calls(path, 80);
    }
    for path in [Path::Tcp, Path::Send] {
        mixed(path, 80);
    }
    inside(80);
}
