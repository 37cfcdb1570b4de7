//! Parallel runs on the real engine, on all processors, with programs that
//! interrupt each other.

use std::time::Duration;

use bpfdb_model::history::Workload;
use bpfdb_tests::interrupt::Interrupts;
use bpfdb_tests::kernel::{Kernel, Limits};
use bpfdb_tests::{noise, serial, settings, stress};

/// How long the runs of a test are.
#[derive(Clone, Copy)]
enum Length {
    /// For every day: long enough to show that a mechanism is missing, with the same seed each time.
    Short,
    /// For the soak: long enough for what happens once in millions, with a new seed each time.
    Long,
}

impl Length {
    fn of<V>(self, short: V, long: V) -> V {
        match self {
            Self::Short => short,
            Self::Long => long,
        }
    }

    fn seed(self) -> u64 {
        let chosen = settings::number("BPFDB_SEED");
        chosen.unwrap_or_else(|| match self {
            Self::Short => 1,
            Self::Long => settings::fresh_seed(),
        })
    }
}

/// One run at a time: they are about parallelism of their own.
fn alone() -> impl Drop {
    serial::lock("stress")
}

/// Runs it beside packets that interrupt it.
fn run(
    name: &str,
    length: Length,
    work: impl Fn(u64) -> Result<stress::Tally, String>,
) -> stress::Tally {
    let _alone = alone();
    let seed = length.seed();
    let result = stress::beside(noise::datagrams, || work(seed));
    let tally = result.unwrap_or_else(|error| panic!("{name}, BPFDB_SEED={seed}: {error}"));
    println!("{name}: {tally:?}");
    assert!(tally.committed > 0, "{name} did nothing");
    tally
}

fn money(length: Length) {
    for versions in [1, 2, 4, 8] {
        let kernel = Kernel::with_versions(versions);
        for (accounts, longest) in [(4, 20), (30, 3000)] {
            let name =
                format!("money, {versions} versions, {accounts} accounts, to {longest} bytes");
            run(&name, length, |seed| {
                let plan = stress::Money {
                    seed,
                    accounts,
                    payers: 4,
                    auditors: 2,
                    transfers: length.of(2_500, 200_000),
                    longest,
                    audits_in_a_row: 1,
                };
                stress::transfer(&kernel, plan)
            });
        }
    }
}

fn census(length: Length) {
    for (versions, members) in [(1, 3), (4, 2), (4, 400)] {
        let kernel = Kernel::with_versions(versions);
        let name = format!("census, {versions} versions, sets of {members}");
        let rounds = length.of(4_000, 200_000) / members;
        let tally = run(&name, length, |seed| {
            let plan = stress::Census {
                seed,
                workers: 8,
                rounds,
                members,
            };
            stress::census(&kernel, plan)
        });
        assert!(
            tally.conflicts > 0 && tally.snapshots > 0,
            "{name}: {tally:?}"
        );
    }
}

/// Some payers are interrupts, on each processor, in the middle of others.
fn interrupted_money(length: Length) {
    let mut interrupts = 0;
    for versions in [1, 4] {
        let kernel = Kernel::with_versions(versions);
        for (accounts, period) in [(4, 20), (30, 50)] {
            let name = format!("money, {versions} versions, interrupts every {period} µs");
            let tally = run(&name, length, |seed| {
                let plan = stress::Money {
                    seed,
                    accounts,
                    payers: 3,
                    auditors: 2,
                    transfers: length.of(10_000, 300_000),
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

fn counters(length: Length) {
    let kernel = Kernel::with_versions(4);
    for counters in [1, 5] {
        run(&format!("{counters} counters"), length, |seed| {
            let increments = length.of(6_000, 500_000);
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

fn histories(length: Length) {
    for _ in 0..length.of(1, 10) {
        for versions in [1, 4, 8] {
            let kernel = Kernel::with_versions(versions);
            for workload in [Workload::Lists, Workload::Registers] {
                for keys in [2, 8] {
                    let name = format!("{workload:?}, {versions} versions, {keys} keys");
                    run(&name, length, |seed| {
                        let (clients, transactions) = (4, length.of(1_500, 10_000));
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

/// Values go to files, and are read and written there: those that nobody has changed for some milliseconds, so clients are slow.
fn cold_histories(length: Length) {
    let kernel = Kernel::with(Limits {
        tier: true,
        ..Limits::default()
    });
    let figures = || kernel.tier().expect("cold values");
    run("cold histories", length, |seed| {
        let plan = stress::Histories {
            seed,
            // Of registers no value is long enough.
            workload: Workload::Lists,
            clients: 4,
            keys: 150,
            transactions: length.of(1_500, 20_000),
        };
        stress::record_slowly(&kernel, plan, Duration::from_millis(1))
    });
    let histories = figures();
    assert!(histories.demotions > 0, "{histories:?}");
    run("cold money", length, |seed| {
        let plan = stress::Money {
            seed,
            accounts: 1_000,
            payers: 4,
            auditors: 2,
            transfers: length.of(2_500, 200_000),
            longest: 3_000,
            audits_in_a_row: 1,
        };
        stress::transfer(&kernel, plan)
    });
    let all = figures();
    println!("{histories:?}, then {all:?}");
    assert!(all.demotions > histories.demotions, "{all:?}");
    assert!(all.fetches > histories.fetches && histories.fetches > 0);
    // One that finds its file gone, because the value has moved meanwhile, is unavailable, and looks again.
    assert_eq!(all.corrupt, 0, "{all:?}");
}

fn churn(length: Length) {
    let kernel = Kernel::with_versions(4);
    run("churn", length, |seed| {
        let plan = stress::Churn {
            seed,
            workers: 2,
            keys: 1000,
            rounds: length.of(10, 100),
            changes: length.of(3_000, 10_000),
            longest: 8192,
            warm_up: length.of(5, 10),
            short: false,
            // Which sizes meet is random; what is lost adds up to more in ten rounds.
            tolerance: 25,
        };
        stress::churn(&kernel, plan)
    });
}

fn shortage(length: Length) {
    let memory = 32 << 20;
    let kernel = Kernel::with(Limits {
        memory,
        ..Limits::default()
    });
    // Every size class takes pages from the others all the time.
    for (longest, changes) in [(60_000, 1_500), (300, 15_000), (8_000, 4_000)] {
        let name = format!("short of memory, values to {longest}");
        let tally = run(&name, length, |seed| {
            let plan = stress::Churn {
                seed,
                workers: 3,
                keys: memory as usize * 2 / longest,
                rounds: length.of(4, 80),
                changes: length.of(changes, 15_000),
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

fn growth(length: Length) {
    let memory = length.of(512 << 20, 2 << 30);
    let kernel = Kernel::with(Limits {
        memory,
        ..Limits::default()
    });
    run("growth", length, |seed| {
        let keys = length.of(60_000, 2_400_000);
        let plan = stress::Growth {
            seed,
            writers: 2,
            readers: 2,
            keys,
        };
        stress::grow(&kernel, plan)
    });
}

fn torn(length: Length) {
    for versions in [1, 4] {
        let kernel = Kernel::with_versions(versions);
        for longest in [100, 2_000, 60_000] {
            let name = format!("overwriting, {versions} versions, to {longest} bytes");
            run(&name, length, |seed| {
                let plan = stress::Torn {
                    seed,
                    writers: 2,
                    readers: 2,
                    keys: 2,
                    writes: length.of(2_000, 400_000),
                    longest,
                };
                stress::overwrite(&kernel, plan)
            });
        }
    }
}

fn grow_and_shrink(length: Length) {
    let kernel = Kernel::with_versions(4);
    run("grow_and_shrink", length, |seed| {
        let plan = stress::GrowShrink {
            seed,
            writers: 2,
            readers: 2,
            holders: 1,
            waves: length.of(2, 60),
            keys: length.of(8_000, 60_000),
            staying: length.of(500, 2_000),
        };
        stress::grow_and_shrink(&kernel, plan)
    });
}

fn snapshots(length: Length) {
    let _alone = alone();
    let kernel = Kernel::with_versions(8);
    for keys in [1, 8] {
        let least = length.of(100_000, 15_000_000);
        let plan = stress::Still { keys, least };
        let done = stress::stand_still(&kernel.engine, plan);
        let (snapshots, sets) = done.unwrap_or_else(|error| panic!("{keys} keys: {error}"));
        println!("{keys} keys: {snapshots} snapshots, {sets} SETs");
    }
}

#[test]
fn snapshots_stand_still() {
    snapshots(Length::Short);
}

#[test]
fn keys_that_are_listed_stay() {
    census(Length::Short);
}

#[test]
fn money_is_conserved() {
    money(Length::Short);
}

#[test]
fn money_is_conserved_when_operators_interrupt_each_other() {
    interrupted_money(Length::Short);
}

#[test]
fn counters_lose_nothing() {
    counters(Length::Short);
}

#[test]
fn histories_are_strictly_serializable() {
    histories(Length::Short);
}

#[test]
fn histories_of_cold_values_are_strictly_serializable() {
    cold_histories(Length::Short);
}

#[test]
fn overwriting_and_deleting_needs_no_more_memory() {
    churn(Length::Short);
}

#[test]
fn a_shortage_of_memory_damages_nothing() {
    shortage(Length::Short);
}

#[test]
fn keys_are_there_while_the_store_grows() {
    growth(Length::Short);
}

#[test]
fn nobody_sees_part_of_a_value() {
    torn(Length::Short);
}

#[test]
fn keys_come_and_go_around_others() {
    grow_and_shrink(Length::Short);
}

#[test]
#[ignore = "takes minutes"]
fn soak_money() {
    money(Length::Long);
    interrupted_money(Length::Long);
}

#[test]
#[ignore = "takes minutes"]
fn soak_snapshots() {
    snapshots(Length::Long);
}

#[test]
#[ignore = "takes minutes"]
fn soak_census() {
    census(Length::Long);
}

#[test]
#[ignore = "takes minutes"]
fn soak_counters() {
    counters(Length::Long);
}

#[test]
#[ignore = "takes minutes"]
fn soak_histories() {
    histories(Length::Long);
    cold_histories(Length::Long);
}

#[test]
#[ignore = "takes minutes"]
fn soak_churn() {
    churn(Length::Long);
}

#[test]
#[ignore = "takes minutes"]
fn soak_shortage() {
    shortage(Length::Long);
}

#[test]
#[ignore = "takes minutes"]
fn soak_growth() {
    growth(Length::Long);
}

#[test]
#[ignore = "takes minutes"]
fn soak_grow_and_shrink() {
    grow_and_shrink(Length::Long);
}

#[test]
#[ignore = "takes minutes"]
fn soak_torn() {
    torn(Length::Long);
}
