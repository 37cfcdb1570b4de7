//! Eviction: docs/decisions/0032-eviction.md.

mod hit_rate;
mod objects;
mod policies;
mod pressure;
mod ways;

use bpfdb_tests::server as common;

use bpfdb_server::settings::{EvictionPolicy, Settings};

use common::{Client, Lent, TestServer, request};

const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
const LIMIT: u64 = 32 << 20;

fn options() -> bpfdb::Options {
    bpfdb::Options {
        memory_limit: LIMIT,
        ..bpfdb::Options::default()
    }
}

fn settings(policy: EvictionPolicy) -> Settings {
    Settings {
        max_memory_policy: policy,
        ..Settings::default()
    }
}

pub(crate) fn start(policy: EvictionPolicy) -> Lent {
    TestServer::lent_new(&options(), settings(policy))
}

/// The same with an engine of its own: how many records there is room for depends on what its index takes.
fn start_alone(policy: EvictionPolicy) -> TestServer {
    TestServer::start_with(&options(), settings(policy))
}

/// A field of INFO.
fn field(client: &mut Client, name: &str) -> u64 {
    let info = client.say("INFO everything");
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.expect("there is such a field")
        .trim()
        .parse()
        .expect("a number")
}

pub(crate) fn evicted(client: &mut Client) -> u64 {
    field(client, "evicted_keys")
}

/// Requests of one pipeline, and their replies.
const PIPELINE: usize = 64;

/// Executes all of them; `look` at each reply.
fn pipelined(
    client: &mut Client,
    requests: impl IntoIterator<Item = Vec<u8>>,
    mut look: impl FnMut(usize, Vec<u8>),
) {
    let mut requests = requests.into_iter().peekable();
    let mut number = 0;
    while requests.peek().is_some() {
        let some: Vec<_> = requests.by_ref().take(PIPELINE).collect();
        client.send(&some.concat());
        for _ in &some {
            look(number, client.reply());
            number += 1;
        }
    }
}

/// SETs so many keys of this name, with values of so many bytes and what follows them.
pub(crate) fn fill(client: &mut Client, name: &str, keys: usize, len: usize, options: &[&[u8]]) {
    let value = vec![b'x'; len];
    let set = |i: usize| {
        let key = format!("{name}:{i}");
        request(&[&[b"SET", key.as_bytes(), &value], options].concat())
    };
    pipelined(client, (0..keys).map(set), |i, reply| {
        assert_eq!(reply, b"+OK\r\n", "{name}:{i}: {}", common::show(&reply));
    });
}

/// Which of the keys there are.
pub(crate) fn there(client: &mut Client, name: &str, keys: usize) -> Vec<bool> {
    let mut found = Vec::new();
    let exists = |i: usize| request(&[b"EXISTS", format!("{name}:{i}").as_bytes()]);
    pipelined(client, (0..keys).map(exists), |_, reply| {
        found.push(reply == b":1\r\n");
    });
    found
}

fn count(found: &[bool]) -> usize {
    found.iter().filter(|&&found| found).count()
}
