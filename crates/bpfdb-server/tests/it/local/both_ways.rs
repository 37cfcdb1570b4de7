//! A connection that goes both ways, in turns.

use crate::local::{SLOW, local, local_client, send_with, server, settle};
use bpfdb_tests::server::{bulk, request};

#[test]
fn it_comes_back_by_itself() {
    let server = server();
    let mut client = local_client(&server);
    for round in 0..50 {
        let text = vec![b'x'; SLOW + round];
        assert_eq!(client.ask(&[b"ECHO", &text]), bulk(&text));
        settle(&server, &mut client);
        let before = local(&server);
        assert_eq!(client.say("PING"), "+PONG\r\n");
        assert_eq!(local(&server) - before, 1, "round {round}");
    }
}

#[test]
fn a_transaction_on_both_ways() {
    let server = server();
    let (mut a, mut b) = (local_client(&server), local_client(&server));
    let slow = vec![b's'; SLOW];
    assert_eq!(a.say("BEGIN"), "+OK\r\n");
    assert_eq!(a.say("SET both 1"), "+OK\r\n");
    assert_eq!(a.ask(&[b"ECHO", &slow]), bulk(&slow));
    // The way is open again when no byte is on its way through TCP.
    settle(&server, &mut a);
    settle(&server, &mut b);
    let before = local(&server);
    assert_eq!(b.say("GET both"), "$-1\r\n");
    assert_eq!(a.say("SET both 2 XX"), "+OK\r\n");
    assert_eq!(a.say("GET both"), "$1\r\n2\r\n");
    assert!(b.say("SET both 9").starts_with("-CONFLICT"));
    assert_eq!(a.say("COMMIT"), "+OK\r\n");
    assert_eq!(b.say("GET both"), "$1\r\n2\r\n");
    assert!(local(&server) - before >= 4, "{}", local(&server) - before);
}

/// xorshift: the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// A request and its reply, of which no two are alike.
fn some_request(random: &mut Random, number: usize, counter: &mut u64) -> (Vec<u8>, Vec<u8>) {
    let mark = format!("m{number}");
    match random.below(30) {
        0 => {
            let text = mark.repeat(1 + SLOW / 2).into_bytes();
            (request(&[b"ECHO", &text]), bulk(&text))
        }
        1 => {
            let reply = format!("-ERR unknown command '{mark}', with args beginning with: \r\n");
            (request(&[mark.as_bytes()]), reply.into_bytes())
        }
        2 => (
            format!("ECHO {mark}\r\n").into_bytes(),
            bulk(mark.as_bytes()),
        ),
        3 => {
            let value = vec![b'v'; 20_000];
            (request(&[b"SET", b"long", &value]), b"+OK\r\n".to_vec())
        }
        4 => (request(&[b"STRLEN", b"long"]), b":20000\r\n".to_vec()),
        5 => (request(&[b"GET", b"long"]), bulk(&vec![b'v'; 20_000])),
        6..=8 => {
            *counter += 1;
            let reply = format!(":{counter}\r\n");
            (request(&[b"INCR", b"count"]), reply.into_bytes())
        }
        _ => (request(&[b"ECHO", mark.as_bytes()]), bulk(mark.as_bytes())),
    }
}

/// Deep pipelines of fast and slow requests, sent in pieces of any size and read
/// now and then.
#[test]
fn random_mixes_in_deep_pipelines() {
    mix(1..8);
}

#[test]
#[ignore = "long: make soak"]
fn soak_random_mixes_in_deep_pipelines() {
    mix(1..200);
}

fn mix(seeds: std::ops::Range<u64>) {
    let least = 20 * (seeds.end - seeds.start);
    let server = server();
    let before = local(&server);
    for seed in seeds {
        let mut random = Random(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15));
        let mut client = server.client();
        let (mut counter, mut number) = (0, 0);
        client.say("DEL count");
        client.ask(&[b"SET", b"long", &[b'v'; 20_000]]);
        for _ in 0..40 {
            let (mut bytes, mut expected) = (Vec::new(), Vec::new());
            for _ in 0..=random.below(40) {
                let (request, reply) = some_request(&mut random, number, &mut counter);
                number += 1;
                bytes.extend(request);
                expected.push(reply);
            }
            let mut rest = &bytes[..];
            let mut replies = expected.iter();
            while !rest.is_empty() {
                let len = if random.below(3) > 0 {
                    rest.len()
                } else {
                    1 + random.below(rest.len().min(3000))
                };
                client.send(&rest[..len]);
                rest = &rest[len..];
                if random.below(8) == 0 {
                    for reply in client.replies_at_hand() {
                        assert_eq!(Some(&reply), replies.next(), "seed {seed}");
                    }
                }
            }
            for reply in replies {
                assert_eq!(&client.reply(), reply, "seed {seed}");
            }
        }
    }
    assert!(local(&server) - before > least, "{}", local(&server));
}

#[test]
fn byte_by_byte() {
    let server = server();
    let mut client = local_client(&server);
    for i in 0..50 {
        for byte in request(&[b"ECHO", format!("byte {i}").as_bytes()]) {
            client.send(&[byte]);
        }
        assert_eq!(client.reply(), bulk(format!("byte {i}").as_bytes()));
    }
    settle(&server, &mut client);
}

#[test]
fn more_to_come() {
    let server = server();
    let mut client = local_client(&server);
    for i in 0..50 {
        let text = format!("more {i}");
        let bytes = request(&[b"ECHO", text.as_bytes()]);
        for cut in [1, 9, bytes.len() - 1, bytes.len()] {
            send_with(&client.stream, &bytes[..cut], libc::MSG_MORE);
            send_with(&client.stream, &bytes[cut..], 0);
            // Nothing more comes for a whole one: it must not wait.
            assert_eq!(client.reply(), bulk(text.as_bytes()));
        }
    }
    settle(&server, &mut client);
}
