//! Transactions on collections, by commands.
//!
//! ```text
//! kept.rs        the elements of a history in a collection of each type
//! clients.rs     clients that execute the transactions of a history on such collections
//! conserved.rs   tokens that move between sets, points in hashes and sorted sets: all stay there
//! queue.rs       jobs in a list: each is taken once
//! ```

mod clients;
mod conserved;
mod kept;
mod queue;

use bpfdb_tests::server::Reply;
use bpfdb_tests::stress::{self, Histories, WholeClient};

use self::clients::{OfCollections, Way};
use self::kept::Kept;
use crate::isolation::paths::{Path, Served};
use crate::isolation::{SHORT, alone, seed, volume};

/// Of each client, on each kind of collection.
const TRANSACTIONS: usize = 60;

const ALL: [Kept; 7] = [
    Kept::List,
    Kept::Numbered,
    Kept::Ranked,
    Kept::Members,
    Kept::Newest,
    Kept::Field,
    Kept::Score,
];

/// Has a command, or a block, met others that were in the way? Nothing of it is done then.
fn is_refused(reply: &Reply) -> bool {
    let told = String::from_utf8_lossy(&reply.text);
    reply.is_error() && (told.contains("CONFLICT") || told.contains("every version of this key"))
}

fn histories(path: Path, scale: usize) {
    let served = Served::shared(path);
    let _alone = alone();
    for kept in ALL {
        for keys in [2, 8] {
            let ways = [Way::Plain, Way::Block, Way::Block, Way::Steps, Way::Steps];
            let mut clients: Vec<Box<dyn WholeClient>> = ways
                .map(|way| Box::new(OfCollections::new(served.client(), kept, way)) as _)
                .into();
            let plan = Histories {
                seed: seed(scale),
                workload: kept.workload(),
                clients: clients.len(),
                keys,
                transactions: volume(TRANSACTIONS * scale),
            };
            let mut last = OfCollections::new(served.client(), kept, Way::Plain);
            let tallies = stress::record_whole(plan, &mut clients, &mut last);
            let tallies = tallies.unwrap_or_else(|error| {
                panic!(
                    "{path:?}, {kept:?}, {plan:?}, BPFDB_SEED={}: {error}",
                    plan.seed
                )
            });
            println!("{path:?}, {kept:?}, {keys} keys: {tallies:?}");
            for tally in &tallies {
                assert!(tally.committed > 0 && tally.snapshots > 0, "{tallies:?}");
            }
        }
    }
    served.check_nothing_held();
}

#[test]
fn histories_of_collections_over_tcp() {
    histories(Path::Tcp, SHORT);
}

#[test]
fn histories_of_collections_by_the_daemon() {
    histories(Path::Daemon, SHORT);
}

/// A test of the test.
#[test]
fn histories_of_collections_in_pieces_are_noticed() {
    let served = Served::shared(Path::Tcp);
    let _alone = alone();
    for kept in ALL {
        let found = (0..20).find_map(|seed| {
            let client = |way| OfCollections::new(served.client(), kept, way);
            let mut clients: Vec<Box<dyn WholeClient>> =
                (0..4).map(|_| Box::new(client(Way::Pieces)) as _).collect();
            let plan = Histories {
                seed,
                workload: kept.workload(),
                clients: clients.len(),
                keys: 2,
                transactions: volume(4 * TRANSACTIONS),
            };
            stress::record_whole(plan, &mut clients, &mut client(Way::Plain)).err()
        });
        let violation = found.unwrap_or_else(|| panic!("{kept:?}: nothing is found"));
        println!("{kept:?}: {violation:.100}");
        let anomalies = ["Internal", "G1b", "G1c", "G2"];
        let is_anomaly = anomalies.iter().any(|name| violation.starts_with(name));
        assert!(is_anomaly, "{violation}");
    }
}

#[test]
#[ignore = "takes minutes"]
fn soak_histories_of_collections() {
    for path in [Path::Tcp, Path::Send, Path::Daemon] {
        histories(path, 40);
    }
}
