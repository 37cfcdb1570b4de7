//! Hit rates beside redis-server: a cache that reads keys of a Zipf distribution, and sets those that
//! it has not found. Both have room for about as many keys.

use bpfdb_server::settings::EvictionPolicy;
use bpfdb_tests::random::Random;

use super::common::{Client, Redis, request};
use super::{PIPELINE, start_alone};

const KEYS: usize = 100_000;
const READS: usize = 120_000;
const READS_LONG: usize = 1_000_000;
const LEN: usize = 1000;

/// Numbers of keys, the first of them most often: with exponent 0.99, as in YCSB.
struct Zipf {
    sums: Vec<f64>,
}

impl Zipf {
    fn new() -> Self {
        let mut sum = 0.0;
        let next = |number: usize| {
            sum += 1.0 / (number as f64).powf(0.99);
            sum
        };
        Self {
            sums: (1..=KEYS).map(next).collect(),
        }
    }

    fn draw(&self, random: &mut Random) -> usize {
        let all = self.sums.last().expect("there are keys");
        let at = random.below(1 << 40) as f64 / (1u64 << 40) as f64 * all;
        self.sums.partition_point(|&sum| sum < at)
    }
}

/// The share of so many reads that found their key, of the second half.
fn hit_rate(client: &mut Client, zipf: &Zipf, reads: usize) -> f64 {
    let rounds = reads / PIPELINE;
    let mut random = Random::new(42);
    let value = vec![b'x'; LEN];
    let (mut hits, mut reads) = (0, 0);
    for round in 0..rounds {
        let drawn: Vec<_> = (0..PIPELINE)
            .map(|_| format!("key:{}", zipf.draw(&mut random)))
            .collect();
        let gets = drawn.iter().map(|key| request(&[b"GET", key.as_bytes()]));
        client.send(&gets.collect::<Vec<_>>().concat());
        let found: Vec<bool> = (drawn.iter())
            .map(|_| client.reply() != b"$-1\r\n")
            .collect();
        let missed: Vec<_> = drawn
            .iter()
            .zip(&found)
            .filter(|(_, found)| !**found)
            .collect();
        let sets = missed
            .iter()
            .map(|(key, _)| request(&[b"SET", key.as_bytes(), &value]));
        client.send(&sets.collect::<Vec<_>>().concat());
        for _ in &missed {
            assert_eq!(client.reply(), b"+OK\r\n");
        }
        if round >= rounds / 2 {
            hits += found.len() - missed.len();
            reads += found.len();
        }
    }
    f64::from(hits as u32) / f64::from(reads as u32)
}

fn keys(client: &mut Client) -> u64 {
    let reply = client.say("DBSIZE");
    reply[1..].trim().parse().expect("a number")
}

fn as_many_hits(reads: usize) {
    let zipf = Zipf::new();
    for policy in [EvictionPolicy::AllkeysLru, EvictionPolicy::AllkeysLfu] {
        let server = start_alone(policy);
        let mut client = server.client();
        let own = hit_rate(&mut client, &zipf, reads);
        let kept = keys(&mut client);

        let redis = Redis::start();
        let mut client = Client::connect(redis.address);
        client.say(&format!("CONFIG SET maxmemory-policy {}", policy.word()));
        // So that both keep as many keys at the end.
        let empty = super::field(&mut client, "used_memory");
        let per_key = 1180;
        let memory = empty + kept * per_key;
        client.say(&format!("CONFIG SET maxmemory {memory}"));
        let theirs = hit_rate(&mut client, &zipf, reads);
        let kept_there = keys(&mut client);
        println!(
            "{}: bpfdb {own:.4} of reads with {kept} keys, Redis {theirs:.4} with {kept_there}",
            policy.word()
        );
        assert!(own > theirs - 0.05, "{own} and {theirs}");
        assert!(own > 0.5, "{own}");
    }
}

#[test]
fn as_many_hits_as_redis() {
    as_many_hits(READS);
}

#[test]
#[ignore = "takes half a minute"]
fn soak_as_many_hits_as_redis() {
    as_many_hits(READS_LONG);
}
