//! Tests of the tests: an engine with a fault does not get through.

use std::time::{Duration, Instant};

use bpfdb_model::history::Workload;
use bpfdb_model::{Fault, Rules};
use bpfdb_tests::files::scripts;
use bpfdb_tests::schedule::{self, schedules};
use bpfdb_tests::stress::{self, Stepwise, Tally, WholeClient};
use bpfdb_tests::target::{ModelTarget, Target};
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

fn faulty(versions: usize, fault: Option<Fault>) -> ModelTarget {
    ModelTarget::new(Rules {
        versions,
        fault,
        ..Rules::default()
    })
}

/// The shortest schedule found that shows the fault, as a script.
fn find_with_schedules(versions: usize, fault: Option<Fault>) -> Option<String> {
    let config = Config {
        cases: 400,
        max_shrink_iters: 20_000,
        failure_persistence: None,
        ..Config::default()
    };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let rules = Rules {
        versions,
        ..Rules::default()
    };
    let mut runner = TestRunner::new_with_rng(config, random);
    let result = runner.run(&schedules(30), |schedule| {
        schedule::run(&faulty(versions, fault), rules, &schedule, 2)
            .map_err(proptest::test_runner::TestCaseError::fail)
    });
    match result {
        Ok(()) => None,
        Err(TestError::Fail(reason, _)) => Some(reason.message().to_string()),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn schedules_find_every_fault() {
    for versions in [1, 2, 8] {
        assert_eq!(find_with_schedules(versions, None), None);
    }
    for fault in Fault::ALL {
        let script = find_with_schedules(2, Some(fault));
        let script = script.unwrap_or_else(|| panic!("{fault:?} is not found"));
        println!("{fault:?}\n{script}");
        assert!(
            script.lines().count() <= 12,
            "{fault:?} is not shrunk:\n{script}"
        );
    }
}

#[test]
fn scripts_find_every_fault() {
    let mut idle: Vec<String> = scripts().into_iter().map(|file| file.name).collect();
    for fault in Fault::ALL {
        let mut found_by = Vec::new();
        for file in scripts() {
            let target = faulty(file.script.versions, Some(fault));
            if file
                .script
                .run(&target)
                .is_ok_and(|actual| actual == file.text)
            {
                continue;
            }
            idle.retain(|name| *name != file.name);
            found_by.push(file.name);
        }
        println!("{fault:?}: {}", found_by.join(", "));
        assert!(!found_by.is_empty(), "{fault:?} is not found");
    }
    assert!(idle.is_empty(), "scripts that find nothing: {idle:?}");
}

/// Faults that break isolation, and so must show in what parallel clients see.
const OF_ISOLATION: &[Fault] = &[
    Fault::DirtyRead,
    Fault::DirtyWrite,
    Fault::NoReadLock,
    Fault::UpgradeIgnoresReaders,
    Fault::SnapshotMoves,
    Fault::SnapshotStale,
    Fault::CommitInParts,
    Fault::PruneTooEarly,
    Fault::RollbackKeepsChanges,
    Fault::FailedCommits,
];

/// Says what the run found. Tries other seeds for a long time: a fault shows only
/// if threads meet, as the machine lets them.
fn found(run: impl Fn(u64) -> Result<stress::Tally, String>) -> Option<String> {
    const LEAST: u64 = 20;
    let start = Instant::now();
    (0..)
        .take_while(|&seed| seed < LEAST || start.elapsed() < Duration::from_secs(60))
        .find_map(|seed| run(seed).err())
}

#[test]
fn recorded_histories_show_faults() {
    let record = |fault, workload| {
        move |seed| {
            let (clients, keys, transactions) = (4, 4, 1000);
            let plan = stress::Histories {
                seed,
                workload,
                clients,
                keys,
                transactions,
            };
            stress::record(&faulty(4, fault), plan)
        }
    };
    for workload in [Workload::Lists, Workload::Registers] {
        let tally = record(None, workload)(1).unwrap();
        assert!(tally.committed > 100 && tally.snapshots > 100, "{tally:?}");
        for fault in OF_ISOLATION {
            let violation = found(record(Some(*fault), workload));
            let violation =
                violation.unwrap_or_else(|| panic!("{workload:?}: {fault:?} is not found"));
            println!(
                "{workload:?} {fault:?}: {:.60}",
                violation.lines().next().unwrap()
            );
        }
    }
}

#[test]
fn keys_behind_a_scan_are_noticed() {
    let census = |fault| {
        move |seed| {
            let plan = stress::Census {
                seed,
                workers: 8,
                rounds: 200,
                members: 3,
            };
            stress::census(&faulty(4, fault), plan)
        }
    };
    let tally = census(None)(1).unwrap();
    assert!(tally.committed > 100 && tally.snapshots > 10, "{tally:?}");
    for fault in [Fault::ScanUnprotected, Fault::CommitInParts] {
        let violation = found(census(Some(fault)));
        println!(
            "{fault:?}: {}",
            violation.unwrap_or_else(|| panic!("{fault:?} is not found"))
        );
    }
}

#[test]
fn lost_and_made_money_is_noticed() {
    let transfer = |fault| {
        move |seed| {
            let plan = stress::Money {
                seed,
                accounts: 8,
                payers: 3,
                auditors: 1,
                transfers: 500,
                longest: 100,
                audits_in_a_row: 1 + 4 * (seed as usize % 2),
            };
            stress::transfer(&faulty(4, fault), plan)
        }
    };
    let tally = transfer(None)(1).unwrap();
    assert!(tally.committed > 100 && tally.snapshots > 0, "{tally:?}");
    for fault in [
        Fault::NoReadLock,
        Fault::SnapshotMoves,
        Fault::LeakedLock,
        Fault::CloseKeepsLocks,
    ] {
        assert!(
            found(transfer(Some(fault))).is_some(),
            "{fault:?} is not found"
        );
    }
}

#[test]
fn lost_increments_are_noticed() {
    let count = |fault| {
        move |seed| {
            let plan = stress::Counter {
                seed,
                counters: 2,
                workers: 3,
                increments: 300,
            };
            stress::count(&faulty(1, fault), plan)
        }
    };
    let tally = count(None)(1).unwrap();
    assert_eq!(tally.committed, 900);
    for fault in [
        Fault::NoReadLock,
        Fault::DirtyWrite,
        Fault::RollbackKeepsChanges,
    ] {
        assert!(
            found(count(Some(fault))).is_some(),
            "{fault:?} is not found"
        );
    }
}

#[test]
fn other_stress_passes_on_the_model() {
    let churn = stress::Churn {
        seed: 1,
        workers: 2,
        keys: 100,
        rounds: 4,
        changes: 1000,
        longest: 200,
        warm_up: 2,
        short: false,
        tolerance: 30,
    };
    assert_eq!(
        stress::churn(&faulty(4, None), churn).unwrap().committed,
        8000
    );
    let plan = stress::GrowShrink {
        seed: 1,
        writers: 2,
        readers: 1,
        holders: 2,
        waves: 2,
        keys: 500,
        staying: 50,
    };
    assert!(
        stress::grow_and_shrink(&faulty(4, None), plan)
            .unwrap()
            .committed
            >= 4000
    );
    let torn = stress::Torn {
        seed: 1,
        writers: 2,
        readers: 2,
        keys: 2,
        writes: 200,
        longest: 100,
    };
    let overwritten = stress::overwrite(&faulty(4, None), torn).unwrap();
    assert!(overwritten.committed > 0, "{overwritten:?}");
    let growth = stress::Growth {
        seed: 1,
        writers: 2,
        readers: 1,
        keys: 2000,
    };
    assert_eq!(
        stress::grow(&faulty(4, None), growth).unwrap().committed,
        4000
    );
}

type Recorded = Result<Tally, String>;

/// Clients that hand over whole transactions, each of which the target executes step by step;
/// or, which is wrong, in pieces.
fn record_whole(fault: Option<Fault>, plan: stress::Histories, in_pieces: bool) -> Recorded {
    let target = faulty(4, fault);
    let new = match in_pieces {
        true => Stepwise::in_pieces,
        false => Stepwise::new,
    };
    let mut clients: Vec<Box<dyn WholeClient>> = (0..plan.clients)
        .map(|_| Box::new(new(target.client())) as Box<dyn WholeClient>)
        .collect();
    let tallies = stress::record_whole(plan, &mut clients, &mut target.client())?;
    Ok(tallies.into_iter().fold(Tally::default(), |mut sum, one| {
        sum.add(one);
        sum
    }))
}

#[test]
fn histories_of_whole_transactions_show_faults() {
    let record = |fault, workload, in_pieces| {
        move |seed| {
            let plan = stress::Histories {
                seed,
                workload,
                clients: 4,
                keys: 4,
                transactions: 1000,
            };
            record_whole(fault, plan, in_pieces)
        }
    };
    for workload in [Workload::Lists, Workload::Registers] {
        let tally = record(None, workload, false)(1).unwrap();
        let least = [tally.committed, tally.snapshots, 10 * tally.given_up];
        assert!(least.iter().all(|&number| number > 100), "{tally:?}");
        let pieces = found(record(None, workload, true)).expect("pieces are not found");
        println!("{workload:?} in pieces: {pieces:.60}");
        for fault in OF_ISOLATION {
            // Here what has failed is not committed.
            if *fault == Fault::FailedCommits {
                continue;
            }
            let violation = found(record(Some(*fault), workload, false));
            let violation =
                violation.unwrap_or_else(|| panic!("{workload:?}: {fault:?} is not found"));
            println!("{workload:?} {fault:?}: {violation:.60}");
        }
    }
}
