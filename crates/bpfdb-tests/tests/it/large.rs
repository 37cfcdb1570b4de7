//! More data than one kernel map can hold: more than 4 GiB in tens of millions
//! of keys, loaded into an engine that starts with its smallest size.

use std::thread;
use std::time::{Duration, Instant};

use bpfdb::{Engine, Operation, Options, Session, Status};
use bpfdb_tests::random::Random;

const LOADERS: u64 = 2;
const BATCH: u64 = 256;
/// Every so many keys have a long value.
const LONG_EVERY: u64 = 6;
const LONG: usize = 1024;
const SHORT: usize = 16;

struct Large {
    engine: Engine,
    keys: u64,
}

fn key(i: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&i.to_le_bytes());
    key[8..].copy_from_slice(&i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

fn value(i: u64) -> Vec<u8> {
    let length = if i.is_multiple_of(LONG_EVERY) {
        LONG
    } else {
        SHORT
    };
    let mut value = vec![(i % 251) as u8; length];
    value[..8].copy_from_slice(&i.to_be_bytes());
    value
}

/// Executes a batch; what waits for memory again, until it is done. How long
/// the longest system call took.
fn execute(engine: &Engine, session: &mut Session, operations: &[Operation<'_>]) -> Duration {
    let (mut left, mut longest) = (operations.to_vec(), Duration::ZERO);
    while !left.is_empty() {
        let start = Instant::now();
        let outcomes = session.batch(&left, 0).expect("a batch");
        longest = longest.max(start.elapsed());
        left = left
            .iter()
            .zip(outcomes)
            .filter_map(|(operation, outcome)| match outcome {
                Ok(_) => None,
                Err(Status::MemoryPending) => Some(*operation),
                Err(other) => panic!("{other:?}"),
            })
            .collect();
        if !left.is_empty() {
            engine.grow().expect("a segment");
        }
    }
    longest
}

impl Large {
    fn new(keys: u64) -> Self {
        let engine = Engine::create(&Options {
            memory_limit: 12 << 30,
            ..Options::default()
        })
        .expect("an engine (tests run as root)");
        Self { engine, keys }
    }

    /// Lets each loader do its part of all keys, batch by batch. The longest
    /// system call of all.
    fn in_batches(
        &self,
        work: impl Fn(&mut Session, std::ops::Range<u64>) -> Duration + Sync,
    ) -> Duration {
        let part = self.keys.div_ceil(LOADERS);
        let run = |loader: u64| {
            let mut session = self.engine.session().expect("a session");
            let end = ((loader + 1) * part).min(self.keys);
            (loader * part..end)
                .step_by(BATCH as usize)
                .map(|first| work(&mut session, first..(first + BATCH).min(end)))
                .max()
                .unwrap_or_default()
        };
        thread::scope(|scope| {
            let loaders: Vec<_> = (0..LOADERS)
                .map(|loader| scope.spawn(move || run(loader)))
                .collect();
            let longest = loaders
                .into_iter()
                .map(|loader| loader.join().expect("no panic"));
            longest.max().unwrap_or_default()
        })
    }

    fn load(&self) -> Duration {
        self.in_batches(|session, numbers| {
            let records: Vec<_> = numbers.map(|i| (key(i), value(i))).collect();
            // Not all at once: 256 long values do not fit the session's buffer.
            records
                .chunks(64)
                .map(|records| {
                    let sets: Vec<_> = records
                        .iter()
                        .map(|(key, value)| Operation::Set(key, value))
                        .collect();
                    execute(&self.engine, session, &sets)
                })
                .max()
                .unwrap_or_default()
        })
    }

    fn delete(&self) -> Duration {
        self.in_batches(|session, numbers| {
            let keys: Vec<_> = numbers.map(key).collect();
            let deletes: Vec<_> = keys.iter().map(|key| Operation::Delete(key)).collect();
            execute(&self.engine, session, &deletes)
        })
    }

    fn check_some(&self, count: u64) {
        let mut session = self.engine.session().expect("a session");
        let mut random = Random::new(1);
        for _ in 0..count {
            let i = random.number() % self.keys;
            assert_eq!(session.get(&key(i)), Ok(Some(value(i))), "key {i}");
            assert_eq!(session.get(&key(i + self.keys)), Ok(None), "key {i}");
        }
    }
}

fn large(keys: u64, least_bytes: u64) {
    let large = Large::new(keys);
    for round in 0..2 {
        let start = Instant::now();
        let longest = large.load();
        let stats = large.engine.stats().expect("the gauges");
        println!(
            "round {round}: {keys} keys, {:.2} GiB, {:.0} thousand SETs per second, \
             longest batch of 64: {longest:?}",
            stats.memory_used() as f64 / f64::from(1 << 30),
            keys as f64 / start.elapsed().as_secs_f64() / 1e3,
        );
        assert_eq!(stats.records, keys);
        assert!(stats.memory_used() > least_bytes);
        large.check_some(keys / 50);

        large.delete();
        large.engine.sweep().expect("sweep");
        let stats = large.engine.stats().expect("the gauges");
        assert_eq!((stats.records, stats.slots_used()), (0, 0));
    }
}

#[test]
fn fifty_thousand_keys_of_mixed_lengths() {
    large(50_000, 10 << 20);
}

#[test]
#[ignore = "takes minutes and 8 GiB"]
fn soak_more_than_four_gigabytes_in_tens_of_millions_of_keys() {
    large(24_000_000, 6 << 30);
}
