//! Nothing but what was asked for is in a reply: replies are made in place, in
//! memory of the kernel that held something else before.
//!
//! Memory is filled with a marker: values, then freed, and messages of others
//! that come and go meanwhile. Then every reply is compared byte for byte, for
//! values of all lengths, in whole pipelines and in pieces.

use bpfdb_tests::server as common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::lent::plain;
use common::{Client, bulk, request, show};

/// Values below this lie within their record, or in the smallest pieces of memory.
const VERY_SHORT: usize = 80;
/// Which of the other lengths `make test` has: no power of two, so that each place of a word is met.
const SOME: usize = 23;
/// Lengths after which memory is filled with the marker again.
const SPREAD_EVERY: usize = 50;
const MARKER: &[u8] = b"<secret>";

/// Lengths of short values, one in so many of those that are not very short; and some around each
/// bound.
fn lengths(one_in: usize) -> Vec<usize> {
    let bounds = [4096, 28 * 1024, 32 * 1024, 60_000, 65_535];
    let around = bounds.iter().flat_map(|bound| bound - 3..=bound + 3);
    (0..VERY_SHORT)
        .chain((VERY_SHORT..=2048).step_by(one_in))
        .chain(around)
        .filter(|&len| len < 65_536)
        .collect()
}

/// Bytes without any part of the marker, different for every length.
fn value(len: usize) -> Vec<u8> {
    (0..len).map(|i| b'0' + ((i + len) % 10) as u8).collect()
}

/// Requests with the replies to them.
type Talk = Vec<(Vec<u8>, Vec<u8>)>;

/// All that the kernel replies to, about one value.
fn talk(len: usize, nil: &[u8]) -> Talk {
    let value = value(len);
    let longer = [&value[..], b"+"].concat();
    let integer = |number: usize| format!(":{number}\r\n").into_bytes();
    let ok = || b"+OK\r\n".to_vec();
    let error = |text: &str| format!("-ERR {text}\r\n").into_bytes();
    let ask = |words: &[&[u8]], reply: Vec<u8>| (request(words), reply);
    let number = (len * 1_000_003).to_string();
    vec![
        ask(&[b"set", b"k", &value], ok()),
        ask(&[b"get", b"k"], bulk(&value)),
        ask(&[b"strlen", b"k"], integer(len)),
        ask(&[b"echo", &value], bulk(&value)),
        ask(&[b"ping", &value], bulk(&value)),
        ask(&[b"ping"], b"+PONG\r\n".to_vec()),
        ask(
            &[b"mget", b"k", b"absent", b"k"],
            [b"*3\r\n", &bulk(&value)[..], nil, &bulk(&value)].concat(),
        ),
        ask(&[b"begin"], ok()),
        ask(
            &[b"begin"],
            error("a transaction is open already; COMMIT or ROLLBACK it first"),
        ),
        ask(&[b"append", b"k", b"+"], integer(len + 1)),
        ask(&[b"get", b"k"], bulk(&longer)),
        ask(&[b"commit"], ok()),
        ask(
            &[b"rollback"],
            error("no transaction is open; BEGIN one first"),
        ),
        ask(&[b"mset", b"k", &longer, b"n", number.as_bytes()], ok()),
        ask(&[b"incr", b"n"], integer(len * 1_000_003 + 1)),
        ask(&[b"decrby", b"n", b"1"], integer(len * 1_000_003)),
        ask(&[b"get", b"n"], bulk(number.as_bytes())),
        ask(&[b"exists", b"k", b"absent", b"n"], integer(2)),
        ask(&[b"del", b"k", b"n"], integer(2)),
        ask(&[b"get", b"k"], nil.to_vec()),
    ]
}

/// Sends in pieces of so many bytes, from another thread: neither side may block
/// the other. Then all that came, and nothing more, must be the replies.
fn check(client: &mut Client, talk: &Talk, piece: usize, what: &str) {
    let bytes: Vec<u8> = talk
        .iter()
        .flat_map(|(request, _)| request.clone())
        .collect();
    let mut sender = Client::from_stream(client.stream.try_clone().expect("a second handle"));
    thread::scope(|scope| {
        scope.spawn(move || bytes.chunks(piece).for_each(|piece| sender.send(piece)));
        for (request, expected) in talk {
            let got = client.reply();
            assert!(
                got == *expected,
                "{what}: {}\n wanted {}\n got {}",
                show(request),
                show(expected),
                show(&got)
            );
        }
    });
}

/// Fills memory with the marker and gives it back.
fn spread_marker(client: &mut Client) {
    let long = MARKER.repeat(65_536 / MARKER.len());
    for round in 0..2 {
        let mut keys = Vec::new();
        for len in (16..=4096).step_by(16).chain((8192..=65_536).step_by(8192)) {
            let key = format!("marker:{round}:{len}");
            assert_eq!(
                client.ask(&[b"set", key.as_bytes(), &long[..len]]),
                b"+OK\r\n"
            );
            assert_eq!(client.ask(&[b"get", key.as_bytes()]), bulk(&long[..len]));
            keys.push(key);
        }
        for key in keys {
            assert_eq!(client.ask(&[b"del", key.as_bytes()]), b":1\r\n");
        }
    }
}

/// Messages full of the marker, through the same memory of the kernel.
fn chatter(mut client: Client, stop: &AtomicBool) {
    let lengths = [8, 64, 200, 500, 2000, 9000, 30_000];
    for len in lengths.into_iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let text = MARKER.repeat(len / MARKER.len());
        assert_eq!(client.ask(&[b"set", b"chatter", &text]), b"+OK\r\n");
        assert_eq!(client.ask(&[b"get", b"chatter"]), bulk(&text));
        assert_eq!(client.ask(&[b"echo", &text]), bulk(&text));
        // A client that is answered in its own send() never sleeps else.
        thread::sleep(Duration::from_micros(100));
    }
}

fn expose(hello: &[u8], nil: &[u8], one_in: usize) {
    let server = plain();
    let mut client = server.client();
    assert!(!client.ask(&[b"hello", hello]).starts_with(b"-"));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let other = server.client();
        scope.spawn(|| chatter(other, &stop));
        let end = common::AtEnd::of(&stop);
        for (number, len) in lengths(one_in).into_iter().enumerate() {
            if number % SPREAD_EVERY == 0 {
                spread_marker(&mut client);
            }
            let talk = talk(len, nil);
            check(&mut client, &talk, usize::MAX, &format!("{len} bytes"));
            // Somewhere within a request, another place for every length.
            let piece = 1 + (len * 7919) % (3 * len + 200);
            let what = format!("{len} bytes, in pieces of {piece}");
            check(&mut client, &talk, piece.max(20), &what);
        }
        drop(end);
    });
}

#[test]
fn replies_hold_only_what_was_asked() {
    expose(b"2", b"$-1\r\n", SOME);
}

#[test]
fn replies_in_resp3_too() {
    expose(b"3", b"_\r\n", SOME);
}

#[test]
#[ignore = "every length: make soak"]
fn soak_replies_of_every_length_hold_only_what_was_asked() {
    expose(b"2", b"$-1\r\n", 1);
    expose(b"3", b"_\r\n", 1);
}
