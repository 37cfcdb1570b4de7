//! Readers are given bytes that no writer wrote. None of them may panic, and what they say of the
//! same bytes must agree.
//!
//! Every target has a corpus, the files of a folder below `corpus`. A test runs all of them, and
//! mutations of them: with right checksums as often as with wrong ones, or none would get past the
//! first. A mutation with an outcome that is new is mutated further. That takes the place of the
//! coverage by which other fuzzers are led, which needs a compiler of another channel than the
//! stable one; the outcomes of these readers are many and precise.
//!
//! ```text
//! cargo test --profile ci -p bpfdb-log --all-features --lib             # seconds
//! BPFDB_SOAK_SECONDS=600 cargo test … --lib -- --ignored soak_readers   # as long as you like
//! cargo test … --lib -- --ignored make_corpus                           # a new corpus
//! ```
//!
//! An input that fails is written to a file, whose name is printed. Put it into the corpus.

mod archive;
mod mutate;
mod seeds;
mod targets;

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bpfdb_log::simulation::Random;
use mutate::Mutator;
use targets::{TARGETS, Target};

/// Mutations of a target in the short test.
const SHORT: u64 = 5000;
/// Inputs that are kept to be mutated further.
const POOL_MAX: usize = 400;
/// Seconds of the long test, for all targets together.
const SOAK_SECONDS: u64 = 300;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/fuzz/corpus")
        .join(name)
}

/// The files of a corpus, in the order of their names.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let files = fs::read_dir(folder(name)).expect("the corpus is there");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "the corpus {name} is empty");
    paths
        .iter()
        .map(|path| fs::read(path).expect("read"))
        .collect()
}

/// Runs a target, and keeps the input if it fails.
fn attempt(target: &Target, input: &[u8]) -> String {
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    outcome.unwrap_or_else(|panic| {
        let sum = crc32c::crc32c(input);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp");
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join(format!("{}-{sum:08x}", target.name));
        fs::write(&path, input).expect("written");
        eprintln!("{} fails with {}", target.name, path.display());
        resume_unwind(panic)
    })
}

/// Runs a corpus and mutations of it. Returns how many outcomes there were.
fn fuzz(target: &Target, seed: u64, goes_on: impl Fn(u64) -> bool) -> usize {
    let mut pool = corpus(target.corpus);
    let mut outcomes: BTreeSet<String> = pool.iter().map(|input| attempt(target, input)).collect();
    let mut mutator = Mutator::new(Random::new(seed));
    let mut count = 0;
    while goes_on(count) {
        let input = mutator.mutate(target.form, &pool);
        if outcomes.insert(attempt(target, &input)) && pool.len() < POOL_MAX {
            pool.push(input);
        }
        count += 1;
    }
    println!(
        "{}: {count} inputs, {} outcomes",
        target.name,
        outcomes.len()
    );
    outcomes.len()
}

#[test]
fn no_bytes_confuse_a_reader() {
    for target in TARGETS {
        let outcomes = fuzz(target, 1, |count| count < SHORT);
        assert!(
            outcomes >= target.outcomes,
            "{}: only {outcomes} outcomes",
            target.name
        );
    }
}

#[test]
#[ignore = "long: BPFDB_SOAK_SECONDS"]
fn soak_readers() {
    let seconds = std::env::var("BPFDB_SOAK_SECONDS").ok();
    let seconds = seconds.map_or(SOAK_SECONDS, |text| text.parse().expect("a number"));
    let time = Duration::from_secs(seconds) / TARGETS.len() as u32;
    let seed = std::env::var("BPFDB_SEED").ok();
    let seed = seed.map_or(u64::from(std::process::id()), |text| {
        text.parse().expect("a number")
    });
    println!("BPFDB_SEED={seed}");
    for target in TARGETS {
        let begun = Instant::now();
        fuzz(target, seed, |_| begun.elapsed() < time);
    }
}

/// The corpus is what a writer writes, and inputs that failed once, which are added by hand.
#[test]
#[ignore = "changes the tree"]
fn make_corpus() {
    for (corpus, name, bytes) in seeds::all() {
        fs::create_dir_all(folder(corpus)).expect("made");
        fs::write(folder(corpus).join(name), bytes).expect("written");
    }
}

/// So a change of the format is seen here too.
#[test]
fn the_corpus_is_what_a_writer_writes() {
    for (corpus, name, bytes) in seeds::all() {
        let there = fs::read(folder(corpus).join(name)).expect("run make_corpus");
        assert!(there == bytes, "{corpus}/{name}");
    }
}
