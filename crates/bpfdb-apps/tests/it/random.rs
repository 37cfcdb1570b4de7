//! Which key is used next.

use bpfdb_apps::random::{Distribution, Draw, EXPONENT, sequence};

const RECORDS: u32 = 1000;
const DRAWS: u32 = 100_000;

#[test]
fn each_record_has_one_rank() {
    for records in [1, 2, 100, 300, 1000, 4096, 10_000] {
        let draw = Draw::new(Distribution::Zipf, records);
        let all: std::collections::BTreeSet<u32> = (0..u64::from(records))
            .map(|rank| draw.scattered(rank))
            .collect();
        assert_eq!(all.len() as u32, records);
    }
}

/// How often record `record` is drawn.
fn share(distribution: Distribution, record: u32) -> f64 {
    let numbers = sequence(distribution, RECORDS, DRAWS, 1);
    assert!(numbers.iter().all(|&n| n < RECORDS));
    numbers.iter().filter(|&&n| n == record).count() as f64 / f64::from(DRAWS)
}

#[test]
fn uniform_is_uniform() {
    let share = share(Distribution::Uniform, 7);
    assert!((0.0005..0.002).contains(&share), "{share}");
}

#[test]
fn the_first_ranks_of_zipf_are_as_frequent_as_they_should_be() {
    let zeta: f64 = (1..=RECORDS).map(|i| f64::from(i).powf(-EXPONENT)).sum();
    let first = share(
        Distribution::Zipf,
        Draw::new(Distribution::Zipf, RECORDS).scattered(0),
    );
    assert!((first * zeta - 1.0).abs() < 0.1, "{first} of {zeta}");
    let second = share(
        Distribution::Zipf,
        Draw::new(Distribution::Zipf, RECORDS).scattered(1),
    );
    assert!((second / first - 0.5).abs() < 0.1, "{second} of {first}");
}

#[test]
fn the_same_seed_draws_the_same() {
    let draw = |seed| sequence(Distribution::Zipf, RECORDS, 100, seed);
    assert_eq!(draw(3), draw(3));
    assert_ne!(draw(3), draw(4));
}
