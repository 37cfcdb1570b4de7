//! The requests, and how many times the rate of the better Redis is wanted.

use bpfdb_apps::pattern::Pattern;
use bpfdb_apps::random::Random;

use super::Way;
use super::stock::{FIELDS, SMALL};
use crate::plan::Plan;
use crate::tcp::Writer;

/// A number that a request is written with.
#[derive(Clone, Copy, Debug)]
enum Draw {
    /// Of a small collection
    Collection,
    /// Of an element of a large one
    Element,
    Below(u32),
}

/// Commands that are sent in turn, each with numbers of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) name: &'static str,
    commands: &'static [&'static str],
    draws: &'static [Draw],
    /// One in so many requests is sent in a pipeline: of those that are much work.
    share: u32,
    /// That the clients have chosen.
    pub(super) database: u32,
}

/// An [`Ask`] at one depth of pipelines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) ask: Ask,
    pub(super) pipeline: u32,
    pub(super) target: f64,
}

const PIPELINES: [u32; 2] = [1, 16];
/// Long replies, a large sorted set's order, and all clients at one hash: ahead of Redis at least.
const AHEAD: f64 = 1.0;
/// Of the kernel in a large collection, by pipeline.
const LARGE_KERNEL: [f64; 2] = [1.1, 1.0];
/// Of the daemon, by pipeline.
const DAEMON: [f64; 2] = [0.8, 0.6];
const MUCH_WORK: u32 = 4;

use Draw::{Below, Collection, Element};

const IN_SMALL: &[Draw] = &[Collection, Below(SMALL)];
/// Twice the members that are there in the beginning: some are new.
const SOME_NEW: &[Draw] = &[Collection, Below(2 * SMALL)];
/// A small collection, a score and a member.
const SCORED: &[Draw] = &[Collection, Below(1000), Below(SMALL)];
const IN_LARGE: &[Draw] = &[Element];

#[rustfmt::skip]
const KERNEL: [Ask; 11] = [
    ask("HSET", &["HSET hash:###### field:######## fedcba9876543210"], IN_SMALL),
    ask("HGET", &["HGET hash:###### field:########"], IN_SMALL),
    ask("HMGET of 3", &["HMGET hash:###### field:######## field:00000001 field:00000007"], IN_SMALL),
    ask("HINCRBY", &["HINCRBY counts:###### field:######## 7"], IN_SMALL),
    ask("LPUSH, RPOP", &["LPUSH list:###### 0123456789abcdef", "RPOP list:######"], &[Collection]),
    ask("SADD", &["SADD set:###### member:########"], SOME_NEW),
    ask("SISMEMBER", &["SISMEMBER set:###### member:########"], SOME_NEW),
    ask("ZADD", &["ZADD zset:###### @ member:########"], SCORED),
    ask("ZINCRBY", &["ZINCRBY zset:###### @ member:########"], SCORED),
    ask("ZSCORE", &["ZSCORE zset:###### member:########"], IN_SMALL),
    ask("ZRANGE of 10", &["ZRANGE zset:###### 0 9"], &[Collection]),
];

#[rustfmt::skip]
const KERNEL_AHEAD: [Ask; 4] = [
    much("HGETALL of 50", &["HGETALL fields:######"], &[Collection]),
    much("LRANGE of 100", &["LRANGE elements:###### 0 -1"], &[Collection]),
    ask("one hash: HSET", &["HSET one field:######## fedcba9876543210"], &[Below(FIELDS)]),
    ask("one hash: HINCRBY", &["HINCRBY ones field:######## 1"], &[Below(FIELDS)]),
];

#[rustfmt::skip]
const LARGE: [Ask; 14] = [
    ask("HSET", &["HSET large:hash field:######## fedcba9876543210"], IN_LARGE),
    ask("HGET", &["HGET large:hash field:########"], IN_LARGE),
    ask("HMGET of 3", &["HMGET large:hash field:######## field:00000001 field:00000007"], IN_LARGE),
    ask("HINCRBY", &["HINCRBY large:hash count:######## 7"], IN_LARGE),
    ask("LPUSH, RPOP", &["LPUSH large:list 0123456789abcdef", "RPOP large:list"], &[]),
    ask("LRANGE of 10", &["LRANGE large:list 0 9"], &[]),
    ask("LRANGE of 10, middle", &["LRANGE large:list 500000 500009"], &[]),
    ask("LINDEX", &["LINDEX large:list @"], IN_LARGE),
    ask("SADD", &["SADD large:set member:########"], IN_LARGE),
    ask("SISMEMBER", &["SISMEMBER large:set member:########"], IN_LARGE),
    ask("ZINCRBY", &["ZINCRBY large:zset @ member:########"], &[Below(1000), Element]),
    ask("ZSCORE", &["ZSCORE large:zset member:########"], IN_LARGE),
    ask("ZRANGE of 10", &["ZRANGE large:zset 0 9"], &[]),
    ask("ZRANGE of 10, middle", &["ZRANGE large:zset 500000 500009"], &[]),
];

#[rustfmt::skip]
const LARGE_DAEMON: [Ask; 1] = [
    ask("ZRANGEBYSCORE of 10", &["ZRANGEBYSCORE large:zset @ +inf LIMIT 0 10"], &[Below(1_000_000)]),
];

#[rustfmt::skip]
const LARGE_AHEAD: [Ask; 3] = [
    ask("ZADD", &["ZADD large:zset @ member:########"], &[Below(1_000_000), Element]),
    ask("ZRANK", &["ZRANK large:zset member:########"], IN_LARGE),
    ask("ZREVRANGE of 10", &["ZREVRANGE large:zset 0 9"], &[]),
];

/// Of the kernel besides those that every table has: the others of the design's list, and what is asked of
/// another database.
#[rustfmt::skip]
const KERNEL_OTHERS: [Ask; 6] = [
    Ask { database: 1, ..ask("HSET, database 1", &["HSET hash:###### field:######## fedcba9876543210"], IN_SMALL) },
    ask("ZCOUNT", &["ZCOUNT zset:###### 0 500000"], &[Collection]),
    ask("ZRANGEBYSCORE of 10", &["ZRANGEBYSCORE zset:###### -inf +inf LIMIT 0 10"], &[Collection]),
    ask("RPOPLPUSH", &["RPOPLPUSH list:###### list:######"], &[Collection, Collection]),
    ask("SADD, SPOP", &["SADD set:###### member:########", "SPOP set:######"], SOME_NEW),
    ask("PUBLISH to nobody", &["PUBLISH channel:###### 0123456789abcdef"], &[Collection]),
];

/// Of the daemon: streams, estimates, places, bits and order.
#[rustfmt::skip]
const DAEMON_OTHERS: [Ask; 8] = [
    ask("XADD, 20 kept", &["XADD stream:###### MAXLEN 20 * field 0123456789abcdef"], &[Collection]),
    ask("XRANGE of 10", &["XRANGE stream:###### - + COUNT 10"], &[Collection]),
    ask("PFADD", &["PFADD seen:###### member:########"], &[Collection, Below(1000)]),
    ask("PFCOUNT", &["PFCOUNT seen:######"], &[Collection]),
    ask("GEOADD", &["GEOADD places:###### 13.361389 38.115556 member:########"], IN_SMALL),
    much("GEOSEARCH of 5", &["GEOSEARCH places:###### FROMLONLAT 13 38 BYRADIUS 100 km COUNT 5"], &[Collection]),
    ask("BITFIELD INCRBY", &["BITFIELD bits:###### INCRBY u16 @ 1"], &[Collection, Below(256)]),
    much("SORT, the first 10", &["SORT zset:###### ALPHA LIMIT 0 10"], &[Collection]),
];

const fn ask(name: &'static str, commands: &'static [&'static str], draws: &'static [Draw]) -> Ask {
    Ask {
        name,
        commands,
        draws,
        share: 1,
        database: 0,
    }
}

const fn much(
    name: &'static str,
    commands: &'static [&'static str],
    draws: &'static [Draw],
) -> Ask {
    Ask {
        share: MUCH_WORK,
        ..ask(name, commands, draws)
    }
}

/// Those that the kernel answers.
pub(super) fn small(way: Way) -> Vec<Row> {
    let targets = match way {
        Way::Tcp => [1.1, 1.5],
        Way::Local => [2.5, 2.0],
    };
    rows(&KERNEL, targets)
        .chain(rows(&KERNEL_AHEAD, [AHEAD; 2]))
        .collect()
}

/// Those of one element of a large collection.
pub(super) fn large() -> Vec<Row> {
    rows(&LARGE, LARGE_KERNEL)
        .chain(rows(&LARGE_DAEMON, DAEMON))
        .chain(rows(&LARGE_AHEAD, [AHEAD; 2]))
        .collect()
}

/// Other commands of small collections, and other types.
pub(super) fn others() -> Vec<Row> {
    rows(&KERNEL_OTHERS, [1.1, 1.5])
        .chain(rows(&DAEMON_OTHERS, DAEMON))
        .collect()
}

fn rows(asks: &[Ask], targets: [f64; 2]) -> impl Iterator<Item = Row> {
    let depths = PIPELINES.into_iter().zip(targets);
    depths.flat_map(move |(pipeline, target)| {
        asks.iter().map(move |&ask| Row {
            ask,
            pipeline,
            target,
        })
    })
}

impl Row {
    pub(super) fn requests(&self, plan: &Plan) -> u32 {
        match self.pipeline {
            1 => plan.types_requests[0],
            _ => plan.types_requests[1] / self.ask.share,
        }
    }
}

impl Ask {
    /// What writes one request after the other.
    pub(super) fn writer(&self, plan: &Plan, seed: u64) -> Writer {
        let commands: Vec<Pattern> = self
            .commands
            .iter()
            .map(|text| Pattern::new(text))
            .collect();
        let bounds: Vec<u64> = self.draws.iter().map(|draw| draw.bound(plan)).collect();
        let mut random = Random::new(seed);
        let mut numbers = vec![0; bounds.len()];
        let mut turn = 0;
        Box::new(move |to| {
            for (number, &bound) in numbers.iter_mut().zip(&bounds) {
                *number = random.below(bound) as i64;
            }
            commands[turn].write(to, &numbers);
            turn = (turn + 1) % commands.len();
        })
    }
}

impl Draw {
    fn bound(self, plan: &Plan) -> u64 {
        match self {
            Self::Collection => plan.collections.into(),
            Self::Element => plan.elements.into(),
            Self::Below(bound) => bound.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(ask: &Ask, times: usize) -> String {
        let plan = Plan::new(1, true);
        let mut write = ask.writer(&plan, 1);
        let mut bytes = Vec::new();
        (0..times).for_each(|_| write(&mut bytes));
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn every_request_has_its_numbers() {
        for row in [small(Way::Tcp), small(Way::Local), large(), others()].concat() {
            let text = written(&row.ask, 2);
            assert!(!text.contains(['#', '@']), "{text}");
        }
    }

    #[test]
    fn commands_take_turns() {
        let queue = KERNEL.iter().find(|ask| ask.commands.len() == 2);
        let text = written(queue.expect("a queue"), 4);
        assert_eq!(text.matches("LPUSH").count(), 2);
        assert_eq!(text.matches("RPOP").count(), 2);
    }
}
