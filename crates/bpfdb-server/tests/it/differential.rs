//! The same bytes to Redis and to bpfdb: the same bytes must come back.

use bpfdb_tests::server as common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use common::{Client, Redis, TestServer, request, show};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

type Words = Vec<Vec<u8>>;

/// Keys are few, so that commands meet; each test has its own.
fn key(prefix: &str, number: usize) -> Vec<u8> {
    let lengths = [1, 7, 8, 9, 16, 17, 100, 512];
    let mut key = format!("{number}").into_bytes();
    key.extend_from_slice(prefix.as_bytes());
    let len = lengths[number % lengths.len()].max(key.len());
    key.resize(len, b'k');
    key
}

fn value(kind: usize, seed: u8) -> Vec<u8> {
    let lengths = [
        0, 1, 8, 15, 16, 17, 31, 100, 1000, 5000, 20_000, 40_000, 60_000,
    ];
    match kind {
        0..=3 => format!("{}", i64::from(seed) - 100).into_bytes(),
        4 => i64::MAX.to_string().into_bytes(),
        5 => b"007".to_vec(),
        6 => b"\r\n$-1\r\n\0*1".to_vec(),
        _ => {
            let len = lengths[(kind - 7) % lengths.len()];
            (0..len).map(|i| (i as u8).wrapping_mul(seed | 1)).collect()
        }
    }
}

/// A command that both know, its name in letters of any size.
fn command(prefix: String) -> impl Strategy<Value = Words> {
    let pick = (
        0..50u8,
        0..8usize,
        0..8usize,
        0..20usize,
        any::<u8>(),
        any::<u32>(),
    );
    pick.prop_map(move |(what, a, b, kind, seed, case)| {
        let (ka, kb) = (key(&prefix, a), key(&prefix, b));
        let v = value(kind, seed);
        let n = |n: i64| n.to_string().into_bytes();
        let (name, rest): (&str, Words) = match what {
            0..=4 => ("get", vec![ka]),
            5..=9 => ("set", vec![ka, v]),
            10 => ("del", vec![ka]),
            11 => ("del", vec![ka, kb, b"none".to_vec()]),
            12 => ("exists", vec![ka]),
            13 => ("exists", vec![ka.clone(), kb, ka]),
            14 => ("strlen", vec![ka]),
            15 => ("append", vec![ka, value(kind % 12, seed)]),
            16 => ("incr", vec![ka]),
            17 => ("decr", vec![ka]),
            18 => ("incrby", vec![ka, n(i64::from(seed) << (kind * 3))]),
            19 => ("decrby", vec![ka, n(i64::MIN + i64::from(seed % 2))]),
            20 => ("mget", vec![ka, b"none".to_vec(), kb]),
            21 => ("mset", vec![ka, v, kb, b"x".to_vec()]),
            22 => ("ping", vec![]),
            23 => ("ping", vec![v]),
            24 => ("echo", vec![v]),
            // What goes the slow way.
            25 => ("get", vec![]),
            26 => ("set", vec![ka]),
            27 => ("mset", vec![ka, v, kb]),
            28 => ("nonsense", vec![ka, b"x y".to_vec()]),
            29 => ("incrby", vec![ka, b"1x".to_vec()]),
            30 => ("set", vec![ka, v, b"NX".to_vec()]),
            31 => ("set", vec![ka, v, b"get".to_vec(), b"XX".to_vec()]),
            32 => ("set", vec![ka, v, b"nx".to_vec(), b"xx".to_vec()]),
            33 => ("select", vec![b"0".to_vec()]),
            34 => (
                "setrange",
                vec![ka, n(i64::from(seed)), value(kind % 12, seed)],
            ),
            35 => ("getrange", vec![ka, n(i64::from(seed) - 128), n(-3)]),
            36 => ("copy", vec![ka, kb, b"replace".to_vec()]),
            37 => ("rename", vec![ka, kb]),
            38 => ("msetnx", vec![ka, v, kb, b"y".to_vec()]),
            39 => ("getset", vec![ka, v]),
            40 => ("setbit", vec![ka, n(i64::from(seed) * 9), b"1".to_vec()]),
            41 => ("incrbyfloat", vec![ka, b"1.5".to_vec()]),
            42 => ("bitcount", vec![ka]),
            43 => ("watch", vec![ka, kb]),
            44 => ("unwatch", vec![]),
            45 => ("discard", vec![]),
            46 | 47 => ("multi", vec![]),
            _ => ("exec", vec![]),
        };
        let name = name
            .bytes()
            .enumerate()
            .map(|(i, byte)| {
                if case >> i & 1 == 1 {
                    byte.to_ascii_uppercase()
                } else {
                    byte
                }
            })
            .collect();
        [vec![name], rest].concat()
    })
}

fn prefix() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("-{}-", NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Pieces in which the stream is sent: lengths, and whether to wait a little.
type Pieces = Vec<(usize, bool)>;

fn send_in_pieces(client: &mut Client, bytes: &[u8], pieces: &Pieces) {
    let mut rest = bytes;
    for &(len, wait) in pieces {
        let (piece, behind) = rest.split_at(len.min(rest.len()));
        client.send(piece);
        rest = behind;
        if wait {
            thread::sleep(Duration::from_micros(300));
        }
    }
    client.send(rest);
}

/// Sends from another thread: neither side may block the other.
fn talk(mut client: Client, bytes: &[u8], pieces: &Pieces, replies: usize) -> Vec<Vec<u8>> {
    let mut sender = Client::from_stream(client.stream.try_clone().expect("a second handle"));
    thread::scope(|scope| {
        scope.spawn(move || send_in_pieces(&mut sender, bytes, pieces));
        (0..replies).map(|_| client.reply()).collect()
    })
}

fn compare(redis: &Redis, server: &TestServer, commands: &[Words], pieces: &Pieces) {
    let bytes: Vec<u8> = commands
        .iter()
        .flat_map(|words| request(&words.iter().map(Vec::as_slice).collect::<Vec<_>>()))
        .collect();
    let expected = talk(
        Client::connect(redis.address),
        &bytes,
        pieces,
        commands.len(),
    );
    let got = talk(server.client(), &bytes, pieces, commands.len());

    for (i, (expected, got)) in expected.iter().zip(&got).enumerate() {
        let words: Vec<String> = commands[i].iter().map(|word| show(word)).collect();
        assert!(
            expected == got,
            "command {i}, {words:?}\n redis: {}\n bpfdb: {}",
            show(expected),
            show(got)
        );
    }
}

fn run(cases: u32, commands: std::ops::Range<usize>, pieces: impl Strategy<Value = Pieces>) {
    run_with(
        &Redis::start(),
        &TestServer::shared(),
        cases,
        commands,
        pieces,
    );
}

fn run_with(
    redis: &Redis,
    server: &TestServer,
    cases: u32,
    commands: std::ops::Range<usize>,
    pieces: impl Strategy<Value = Pieces>,
) {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    };
    let own = prefix();
    let mut seed = [0; 32];
    seed[..own.len()].copy_from_slice(own.as_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(config, random);
    let commands = proptest::collection::vec(command(own.clone()), commands);
    runner
        .run(&(commands, pieces), |(mut commands, pieces)| {
            // Begins without keys, whatever the case before left behind.
            let keys = (0..8).map(|number| key(&own, number));
            commands.insert(0, std::iter::once(b"del".to_vec()).chain(keys).collect());
            compare(redis, server, &commands, &pieces);
            Ok(())
        })
        .unwrap_or_else(|failure| match failure {
            // The message of compare() names the command.
            TestError::Fail(reason, (commands, pieces)) => {
                panic!(
                    "{reason}\n{} commands, in pieces of {pieces:?}",
                    commands.len()
                )
            }
            other => panic!("{other}"),
        });
}

#[test]
fn one_command_after_the_other() {
    let (redis, server) = (Redis::start(), TestServer::shared());
    let mut runner = TestRunner::deterministic();
    let strategy = command(prefix());
    let (mut a, mut b) = (Client::connect(redis.address), server.client());
    for _ in 0..3000 {
        let words = strategy.new_tree(&mut runner).expect("a command").current();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let (expected, got) = (a.ask(&words), b.ask(&words));
        assert!(
            expected == got,
            "{:?}\n redis: {}\n bpfdb: {}",
            words.iter().map(|word| show(word)).collect::<Vec<_>>(),
            show(&expected),
            show(&got)
        );
    }
}

#[test]
fn deep_pipelines() {
    run(60, 1..200, Just(Vec::new()));
}

/// Each with keys of its own: what the others do at the same time must not show.
#[test]
fn many_connections_with_deep_pipelines() {
    let (redis, server) = (Redis::start(), TestServer::shared());
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| run_with(&redis, &server, 12, 100..600, Just(Vec::new())));
        }
    });
}

#[test]
fn streams_split_anywhere() {
    let piece = (
        prop_oneof![1..40usize, 1..3000usize, 1..70_000usize],
        any::<bool>(),
    );
    run(120, 1..40, proptest::collection::vec(piece, 0..60));
}

#[test]
fn byte_by_byte() {
    run(6, 1..12, Just(vec![(1, false); 2000]));
}
