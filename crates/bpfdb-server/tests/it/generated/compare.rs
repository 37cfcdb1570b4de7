//! When are two replies the same? Byte for byte, but for what depends on the
//! moment, on chance, or on the server itself.

use std::collections::BTreeSet;

use super::commands::{find, inner};
use super::words::{TOLERANCE, Words};
use bpfdb_tests::server::{Client, Reply, show};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// Byte for byte.
    Exact,
    /// A moment or a time to live, in units of which so many make a second;
    /// what is not positive has a meaning and is compared exactly.
    Time(i64),
    /// A number that may be higher here: it counts what is deleted or expired,
    /// but not cleared away yet.
    AtLeast,
    /// The present.
    Now,
    /// An array in any order.
    Unordered,
    /// Names and values, pair by pair, in any order of the pairs.
    Pairs,
    /// What chance has chosen: as many, and of the same form. Membership: see chance.rs.
    Chosen,
    /// The name of a collection's encoding exactly; for anything else, Shape.
    Encoding,
    /// An error exactly; of anything else, that it is of the same type, and nil
    /// if the other is.
    Shape,
    /// All that SCAN replies until its end.
    Scan,
    /// Each server's dump restores to the same value on the other one.
    Dump,
    /// What describes the connection; not what describes the server.
    Hello,
    /// Of COMMAND: GETKEYS exactly, the rest describes the server.
    GetKeys,
    /// The replies to the commands in between, each in its way.
    Exec,
}

/// The two servers, on connections that tests of replies may use.
pub struct Aside {
    pub redis: Client,
    pub bpfdb: Client,
}

/// A request with the commands that it executes, if it is EXEC.
pub struct Asked<'a> {
    pub words: &'a Words,
    pub queued: &'a [Words],
}

impl Asked<'_> {
    pub fn compare(&self) -> Compare {
        let known = inner(self.words).first().and_then(|name| find(name));
        known.map_or(Compare::Exact, |command| command.compare)
    }
}

pub fn same(asked: &Asked<'_>, redis: &Reply, bpfdb: &Reply, aside: &mut Aside) -> bool {
    if redis == bpfdb {
        return true;
    }
    if redis.is_error() || bpfdb.is_error() || is_queued(redis) {
        return false;
    }
    match asked.compare() {
        Compare::Exact => false,
        Compare::Time(per_second) => same_time(redis, bpfdb, per_second),
        Compare::AtLeast => redis.number() <= bpfdb.number() && same_shape(redis, bpfdb),
        Compare::Now => same_now(redis, bpfdb),
        Compare::Unordered => sorted(redis, 1) == sorted(bpfdb, 1),
        Compare::Pairs => sorted(redis, 2) == sorted(bpfdb, 2),
        Compare::Chosen => same_form(redis, bpfdb),
        Compare::Encoding => !is_encoding(redis) && same_shape(redis, bpfdb),
        Compare::Shape => same_shape(redis, bpfdb),
        Compare::GetKeys => {
            let sub = asked.words.get(1);
            !sub.is_some_and(|word| word.eq_ignore_ascii_case(b"getkeys"))
                && same_shape(redis, bpfdb)
        }
        // Followed to the end by the caller, unless it was inside MULTI: then
        // there is no telling which part this is.
        Compare::Scan => same_shape(redis, bpfdb),
        Compare::Dump => same_dump(redis, bpfdb, aside),
        Compare::Hello => same_hello(redis, bpfdb),
        Compare::Exec => same_results(asked.queued, redis, bpfdb, aside),
    }
}

fn is_queued(reply: &Reply) -> bool {
    reply.is("QUEUED")
}

fn same_time(redis: &Reply, bpfdb: &Reply, per_second: i64) -> bool {
    let (Some(a), Some(b)) = (redis.number(), bpfdb.number()) else {
        return false;
    };
    redis.marker == bpfdb.marker
        && a > 0
        && b > 0
        && a.abs_diff(b) <= (TOLERANCE * per_second) as u64
}

fn same_now(redis: &Reply, bpfdb: &Reply) -> bool {
    let seconds = |reply: &Reply| reply.items.first().and_then(Reply::number);
    match (seconds(redis), seconds(bpfdb)) {
        (Some(a), Some(b)) => same_shape(redis, bpfdb) && a.abs_diff(b) <= TOLERANCE as u64,
        _ => false,
    }
}

/// The items in order, so many of them together.
fn sorted(reply: &Reply, together: usize) -> (u8, Vec<String>) {
    let text = |items: &[Reply]| format!("{items:?}");
    let mut items: Vec<String> = reply.items.chunks(together).map(text).collect();
    items.sort();
    (reply.marker, items)
}

fn same_form(redis: &Reply, bpfdb: &Reply) -> bool {
    same_shape(redis, bpfdb)
        && redis.items.len() == bpfdb.items.len()
        && (redis.items.iter().zip(&bpfdb.items)).all(|(redis, bpfdb)| same_form(redis, bpfdb))
}

fn is_encoding(reply: &Reply) -> bool {
    let names = [
        &b"listpack"[..],
        b"hashtable",
        b"quicklist",
        b"intset",
        b"skiplist",
    ];
    names.contains(&reply.text.as_slice())
}

fn same_shape(redis: &Reply, bpfdb: &Reply) -> bool {
    redis.marker == bpfdb.marker && redis.is_nil == bpfdb.is_nil
}

fn same_hello(redis: &Reply, bpfdb: &Reply) -> bool {
    let names = |reply: &Reply| -> Vec<Reply> { reply.items.iter().step_by(2).cloned().collect() };
    same_shape(redis, bpfdb)
        && names(redis) == names(bpfdb)
        && ["proto", "mode", "role"]
            .iter()
            .all(|name| redis.field(name) == bpfdb.field(name))
}

fn same_results(queued: &[Words], redis: &Reply, bpfdb: &Reply, aside: &mut Aside) -> bool {
    same_shape(redis, bpfdb)
        && redis.items.len() == bpfdb.items.len()
        && redis.items.len() == queued.len()
        && (redis.items.iter().zip(&bpfdb.items))
            .zip(queued)
            .all(|((redis, bpfdb), words)| {
                let asked = Asked { words, queued: &[] };
                same(&asked, redis, bpfdb, aside)
            })
}

/// The value, of whatever type: what has no order comes in the order of its bytes.
fn read(server: &mut Client, key: &[u8]) -> Vec<String> {
    let kind = server.ask(&[b"type", key]);
    let (look, together): (&[&[u8]], _) = match kind.as_slice() {
        b"+hash\r\n" => (&[b"hgetall", key], 2),
        b"+list\r\n" => (&[b"lrange", key, b"0", b"-1"], usize::MAX),
        b"+set\r\n" => (&[b"smembers", key], 1),
        b"+zset\r\n" => (&[b"zrange", key, b"0", b"-1", b"withscores"], usize::MAX),
        _ => return vec![show(&server.ask(&[b"get", key]))],
    };
    let (reply, _) = Reply::parse(&server.ask(look)).expect("a whole reply");
    sorted(&reply, together).1
}

/// A key of no test.
const DUMPED: &[u8] = b"restored from a dump";

fn same_dump(redis: &Reply, bpfdb: &Reply, aside: &mut Aside) -> bool {
    if redis.is_nil || bpfdb.is_nil || redis.marker != bpfdb.marker {
        return false;
    }
    let mut restored = BTreeSet::new();
    for server in [&mut aside.redis, &mut aside.bpfdb] {
        for dump in [redis, bpfdb] {
            let done = server.ask(&[b"restore", DUMPED, b"0", &dump.text]);
            let value = read(server, DUMPED);
            server.ask(&[b"del", DUMPED]);
            restored.insert((done, value));
        }
    }
    restored.len() == 1 && restored.iter().all(|(done, _)| done == b"+OK\r\n")
}
