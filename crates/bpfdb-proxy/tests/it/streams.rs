//! Streams of requests by chance, cut at any place: what comes back is what PostgreSQL says without the
//! proxy.

use std::thread;
use std::time::Duration;

use bpfdb_tests::random::Random;

use crate::postgres;
use crate::proxy::{TestProxy, WAYS, Way};
use crate::wire::{Message, Wire, error, execute, message, parse, query, sync};

/// Bytes, and the ReadyForQuery messages that they ask for.
type Request = (Vec<u8>, usize);

/// A text of one or more statements. None of them leaves anything that differs between two sessions.
fn text(random: &mut Random) -> String {
    const TEXTS: [&str; 14] = [
        "select 1, 'two', null::int",
        "select 1; select 2",
        "select ';' -- ; into",
        "",
        ";",
        "select nothing",
        "select 1/0",
        "begin",
        "commit",
        "rollback",
        "savepoint s",
        "show server_encoding",
        "values (1), (2), (3)",
        "select 1; select 1/0; select 2",
    ];
    match random.below(TEXTS.len() + 3) {
        0 => format!("select repeat('x', {})", random.below(70_000)),
        1 => format!("select length('{}')", "y".repeat(random.below(50_000))),
        2 => format!("select g from generate_series(1, {}) g", random.below(500)),
        at => TEXTS[at - 3].to_owned(),
    }
}

/// A batch of extended queries with its Sync, or with a Flush in the midst.
fn batch(random: &mut Random) -> Request {
    let mut bytes = Vec::new();
    for _ in 0..=random.below(3) {
        let name = if random.below(2) == 0 { "" } else { "named" };
        match random.below(6) {
            0 => bytes.extend(message(b'C', format!("S{name}\0").as_bytes())),
            1 => bytes.extend(message(b'D', format!("S{name}\0").as_bytes())),
            2 => bytes.extend(execute(name)),
            _ => {
                // Parse takes one statement.
                let text = text(random);
                bytes.extend(message(b'C', format!("S{name}\0").as_bytes()));
                bytes.extend(parse(name, text.split(';').next().unwrap_or_default()));
                bytes.extend(execute(name));
            }
        }
        if random.below(4) == 0 {
            bytes.extend(message(b'H', b""));
        }
    }
    bytes.extend(sync());
    (bytes, 1)
}

/// A batch as drivers send it.
fn driven(random: &mut Random) -> Request {
    let text = text(random);
    let text = text.split(';').next().unwrap_or_default();
    let name = ["", "", "S_1", "named"][random.below(4)];
    let parts = match random.below(4) {
        0 => parse(name, text),
        1 => execute(name),
        _ => [parse("", text), execute("")].concat(),
    };
    ([parts, sync()].concat(), 1)
}

fn copy(random: &mut Random) -> Request {
    if random.below(2) == 0 {
        let count = random.below(3000);
        let text = format!("copy (select generate_series(1, {count})) to stdout");
        return (query(&text), 1);
    }
    let mut bytes = query("copy streamed from stdin");
    for _ in 0..random.below(20) {
        let row = if random.below(30) == 0 {
            "bad\n"
        } else {
            "1\n"
        };
        bytes.extend(message(b'd', row.as_bytes()));
    }
    let end = if random.below(4) == 0 {
        message(b'f', b"no more\0")
    } else {
        message(b'c', b"")
    };
    bytes.extend(end);
    (bytes, 1)
}

fn request(random: &mut Random) -> Request {
    match random.below(11) {
        0 | 1 => batch(random),
        8..=10 => driven(random),
        2 => copy(random),
        3 => {
            let texts: Vec<String> = (0..=random.below(4)).map(|_| text(random)).collect();
            let bytes = texts.iter().flat_map(|text| query(text)).collect();
            (bytes, texts.len())
        }
        _ => (query(&text(random)), 1),
    }
}

/// Without what differs between two sessions: names, and numbers of lines in errors.
fn comparable(message: Message) -> Message {
    match message {
        (kind @ (b'E' | b'N'), body) if !body.is_empty() => {
            let told = [(b'E', body)];
            (kind, error(&told, b'C').into_bytes())
        }
        message => message,
    }
}

fn replies(wire: &mut Wire, readies: usize) -> Vec<Message> {
    let all = (0..readies).flat_map(|_| wire.until(b'Z'));
    all.map(comparable).collect()
}

fn send_cut(wire: &mut Wire, bytes: &[u8], random: &mut Random) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let most = if random.below(2) == 0 { 40 } else { rest.len() };
        let (now, later) = rest.split_at((1 + random.below(most)).min(rest.len()));
        wire.send(now);
        rest = later;
        if random.below(4) == 0 {
            thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Streams from this number on, of so many requests each.
fn compare(way: Way, seeds: std::ops::Range<u64>, requests: usize) {
    let postgres = postgres::shared();
    let proxy = TestProxy::start(way, 2);
    let mut direct = Wire::connect(postgres.port, postgres::USER, &[]);
    direct.query("create table if not exists streamed (a int)");
    for seed in seeds {
        let mut random = Random::new(seed);
        let mut direct = Wire::connect(postgres.port, postgres::USER, &[]);
        let mut wire = proxy.client();
        for number in 0..requests {
            let (bytes, readies) = request(&mut random);
            direct.send(&bytes);
            let wanted = replies(&mut direct, readies);
            send_cut(&mut wire, &bytes, &mut random);
            let got = replies(&mut wire, readies);
            let begin = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
            assert_eq!(
                crate::wire::kinds(&got),
                crate::wire::kinds(&wanted),
                "{way:?}, seed {seed}, request {number}: {begin:?}"
            );
            assert_eq!(
                got, wanted,
                "{way:?}, seed {seed}, request {number}: {begin:?}"
            );
        }
    }
}

#[test]
fn streams_by_chance_are_answered_as_without_the_proxy() {
    for way in WAYS {
        compare(way, 0..4, 60);
    }
}

#[test]
#[ignore = "a long loop"]
fn soak_streams_by_chance_are_answered_as_without_the_proxy() {
    for way in WAYS {
        compare(way, 100..400, 200);
    }
}
