//! Parallel runs on the real engine, on all processors, with programs that
//! interrupt each other.

use std::sync::Mutex;
use std::time::Duration;

use bpfdb_model::history::Workload;
use bpfdb_tests::interrupt::Interrupts;
use bpfdb_tests::kernel::{Kernel, Limits};
use bpfdb_tests::{noise, settings, stress};

/// One run at a time: they are about parallelism of their own.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs it with a new seed, beside packets that interrupt it.
fn run(name: &str, work: impl Fn(u64) -> Result<stress::Tally, String>) -> stress::Tally {
    let _alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
    let seed = settings::number("BPFDB_SEED").unwrap_or_else(settings::fresh_seed);
    let result = stress::beside(noise::datagrams, || work(seed));
    let tally = result.unwrap_or_else(|error| panic!("{name}, BPFDB_SEED={seed}: {error}"));
    println!("{name}: {tally:?}");
    assert!(tally.committed > 0, "{name} did nothing");
    tally
}

/// `scale`: how many times longer than in the every-day test.
fn money(scale: usize) {
    for versions in [1, 2, 4, 8] {
        let kernel = Kernel::with_versions(versions);
        for (accounts, longest) in [(4, 20), (30, 3000)] {
            let name =
                format!("money, {versions} versions, {accounts} accounts, to {longest} bytes");
            run(&name, |seed| {
                let plan = stress::Money {
                    seed,
                    accounts,
                    payers: 4,
                    auditors: 2,
                    transfers: 20_000 * scale,
                    longest,
                    audits_in_a_row: 1,
                };
                stress::transfer(&kernel, plan)
            });
        }
    }
}

/// Some payers are interrupts, on each processor, in the middle of others.
fn interrupted_money(scale: usize) {
    let mut interrupts = 0;
    for versions in [1, 4] {
        let kernel = Kernel::with_versions(versions);
        for (accounts, period) in [(4, 20), (30, 50)] {
            let name = format!("money, {versions} versions, interrupts every {period} µs");
            let tally = run(&name, |seed| {
                let plan = stress::Money {
                    seed,
                    accounts,
                    payers: 3,
                    auditors: 2,
                    transfers: 30_000 * scale,
                    longest: 100,
                    audits_in_a_row: 500 / accounts,
                };
                stress::transfer_with(&kernel, plan, |accounts| {
                    Interrupts::start(&kernel, accounts, Duration::from_micros(period))
                })
            });
            interrupts += tally.interrupts;
        }
    }
    // In all: a short run at a long period may see none.
    assert!(interrupts > 0, "no operator was interrupted");
}

fn counters(scale: usize) {
    let kernel = Kernel::with_versions(4);
    for counters in [1, 5] {
        run(&format!("{counters} counters"), |seed| {
            let increments = 50_000 * scale;
            let plan = stress::Counter {
                seed,
                counters,
                workers: 4,
                increments,
            };
            stress::count(&kernel, plan)
        });
    }
}

fn histories(scale: usize) {
    for _ in 0..scale {
        for versions in [1, 4, 8] {
            let kernel = Kernel::with_versions(versions);
            for workload in [Workload::Lists, Workload::Registers] {
                for keys in [2, 8] {
                    let name = format!("{workload:?}, {versions} versions, {keys} keys");
                    run(&name, |seed| {
                        let (clients, transactions) = (4, 10_000);
                        let plan = stress::Histories {
                            seed,
                            workload,
                            clients,
                            keys,
                            transactions,
                        };
                        stress::record(&kernel, plan)
                    });
                }
            }
        }
    }
}

fn churn(scale: usize) {
    let kernel = Kernel::with_versions(4);
    run("churn", |seed| {
        let plan = stress::Churn {
            seed,
            workers: 2,
            keys: 1000,
            rounds: 10 * scale,
            changes: 10_000,
            longest: 8192,
            warm_up: 10,
            short: false,
            // Which sizes meet is random; what is lost adds up to more in ten rounds.
            tolerance: 25,
        };
        stress::churn(&kernel, plan)
    });
}

fn shortage(scale: usize) {
    let memory = 32 << 20;
    let kernel = Kernel::with(Limits {
        memory,
        ..Limits::default()
    });
    // Every size class takes pages from the others all the time.
    for longest in [60_000, 300, 8_000] {
        let tally = run(&format!("short of memory, values to {longest}"), |seed| {
            let plan = stress::Churn {
                seed,
                workers: 3,
                keys: memory as usize * 2 / longest,
                rounds: 4 * scale,
                changes: 15_000,
                longest,
                warm_up: 2,
                short: true,
                tolerance: 100,
            };
            stress::churn(&kernel, plan)
        });
        assert!(tally.out_of_memory > 0, "memory was not short: {tally:?}");
    }
}

fn growth(scale: usize) {
    let memory = scale as u64 * (512 << 20);
    let kernel = Kernel::with(Limits {
        memory,
        ..Limits::default()
    });
    run("growth", |seed| {
        let keys = 600_000 * scale as u64;
        let plan = stress::Growth {
            seed,
            writers: 2,
            readers: 2,
            keys,
        };
        stress::grow(&kernel, plan)
    });
}

fn torn(scale: usize) {
    for versions in [1, 4] {
        let kernel = Kernel::with_versions(versions);
        for longest in [100, 2_000, 60_000] {
            run(
                &format!("overwriting, {versions} versions, to {longest} bytes"),
                |seed| {
                    let plan = stress::Torn {
                        seed,
                        writers: 2,
                        readers: 2,
                        keys: 2,
                        writes: 20_000 * scale,
                        longest,
                    };
                    stress::overwrite(&kernel, plan)
                },
            );
        }
    }
}

fn grow_and_shrink(scale: usize) {
    let kernel = Kernel::with_versions(4);
    run("grow_and_shrink", |seed| {
        let plan = stress::GrowShrink {
            seed,
            writers: 2,
            readers: 2,
            holders: 1,
            waves: 3 * scale,
            keys: 60_000,
            staying: 2_000,
        };
        stress::grow_and_shrink(&kernel, plan)
    });
}

fn snapshots(seconds: u64) {
    let _alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
    let kernel = Kernel::with_versions(8);
    for keys in [1, 8] {
        let time = Duration::from_secs(seconds);
        let plan = stress::Still { keys, time };
        let done = stress::stand_still(&kernel.engine, plan);
        let (snapshots, sets) = done.unwrap_or_else(|error| panic!("{keys} keys: {error}"));
        println!("{keys} keys: {snapshots} snapshots, {sets} SETs");
        assert!(snapshots > 0 && sets > 0);
    }
}

#[test]
fn snapshots_stand_still() {
    snapshots(1);
}

#[test]
fn money_is_conserved() {
    money(1);
}

#[test]
fn money_is_conserved_when_operators_interrupt_each_other() {
    interrupted_money(3);
}

#[test]
fn counters_lose_nothing() {
    counters(1);
}

#[test]
fn histories_are_strictly_serializable() {
    histories(1);
}

#[test]
fn overwriting_and_deleting_needs_no_more_memory() {
    churn(1);
}

#[test]
fn a_shortage_of_memory_damages_nothing() {
    shortage(1);
}

#[test]
fn a_million_keys_while_readers_look() {
    growth(1);
}

#[test]
fn nobody_sees_part_of_a_value() {
    torn(1);
}

#[test]
fn keys_come_and_go_around_others() {
    grow_and_shrink(1);
}

#[test]
#[ignore = "takes minutes"]
fn soak_money() {
    money(10);
    interrupted_money(10);
}

#[test]
#[ignore = "takes minutes"]
fn soak_snapshots() {
    snapshots(60);
}

#[test]
#[ignore = "takes minutes"]
fn soak_counters() {
    counters(10);
}

#[test]
#[ignore = "takes minutes"]
fn soak_histories() {
    histories(10);
}

#[test]
#[ignore = "takes minutes"]
fn soak_churn() {
    churn(10);
}

#[test]
#[ignore = "takes minutes"]
fn soak_shortage() {
    shortage(20);
}

#[test]
#[ignore = "takes minutes"]
fn soak_growth() {
    growth(4);
}

#[test]
#[ignore = "takes minutes"]
fn soak_grow_and_shrink() {
    grow_and_shrink(20);
}

#[test]
#[ignore = "takes minutes"]
fn soak_torn() {
    torn(20);
}
