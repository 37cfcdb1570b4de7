//! Random schedules: the kernel and the model answer the same.
//!
//! A failure prints the shortest schedule found, as a script, and the seed of
//! the run: `BPFDB_SEED=… cargo test -p bpfdb-tests --test it model::` repeats it.
//! `BPFDB_CASES` sets the number of schedules.

use std::cell::RefCell;

use bpfdb_model::Rules;
use bpfdb_tests::kernel::Kernel;
use bpfdb_tests::schedule::{self, Schedule, schedules};
use bpfdb_tests::settings;
use bpfdb_tests::target::{Client, Target, scrub};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

/// Schedules of a test for every day.
const CASES: u32 = 250;
/// Bursts of the last schedule, at most.
const LAST: usize = 300;

/// Runs schedules one after the other on one engine, which each leaves empty. If
/// one cannot, the next one gets a new engine. The last one leaves what it wrote: with a log,
/// all that is recovered at the end, and compared.
struct Bench {
    rules: Rules,
    batch: usize,
    kernel: RefCell<Option<Kernel>>,
}

impl Bench {
    fn run(&self, schedule: &Schedule) -> Result<(), TestCaseError> {
        let mut kernel = self.kernel.borrow_mut();
        let engine = kernel.get_or_insert_with(|| Kernel::with_versions(self.rules.versions));
        let result = schedule::run(engine, self.rules, schedule, self.batch);
        if result.is_err() && scrub(engine, &schedule::keys()).is_err() {
            *kernel = None;
        }
        result.map_err(TestCaseError::fail)
    }

    fn run_last(&self, runner: &mut TestRunner) {
        let tree = schedules(LAST).new_tree(runner).expect("a schedule");
        let kernel = self.kernel.borrow();
        let engine = kernel.as_ref().expect("an engine that is empty");
        if let Err(script) = schedule::follow(engine, self.rules, &tree.current(), self.batch) {
            panic!("{script}");
        }
        // Whatever it has deleted: something is there, and something expires.
        let mut client = engine.client();
        client.set(b"last", b"").expect("written");
        client
            .set_for(b"expires", &[b'e'; 100], 1)
            .expect("written");
    }
}

/// `seed`: the same schedules each time in every-day tests; chance is for the long
/// run.
fn compare(versions: usize, cases: u32, batch: usize, seed: u64) {
    let seed = settings::number("BPFDB_SEED").unwrap_or(seed);
    let cases = settings::number("BPFDB_CASES").map_or(cases, |cases| cases as u32);
    let config = Config {
        cases,
        max_shrink_iters: 20_000,
        max_shrink_time: 60_000,
        failure_persistence: None,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let bench = Bench {
        rules: Kernel::rules(versions),
        batch,
        kernel: RefCell::new(None),
    };
    let mut runner = TestRunner::new_with_rng(config, random);
    match runner.run(&schedules(60), |schedule| bench.run(&schedule)) {
        Ok(()) => bench.run_last(&mut runner),
        Err(TestError::Fail(script, _)) => panic!("BPFDB_SEED={seed}\n{script}"),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

#[test]
fn one_version() {
    compare(1, CASES, 1, 1);
}

#[test]
fn two_versions() {
    compare(2, CASES, 1, 2);
}

#[test]
fn four_versions() {
    compare(4, CASES, 1, 3);
}

#[test]
fn eight_versions() {
    compare(8, CASES, 1, 4);
}

#[test]
fn batches() {
    compare(4, CASES, 3, 5);
}

#[test]
#[ignore = "takes minutes"]
fn soak_model() {
    for versions in 1..=8 {
        compare(versions, 5_000, 1, settings::fresh_seed());
        compare(versions, 5_000, 3, settings::fresh_seed());
    }
}
