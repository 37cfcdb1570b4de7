//! Parts of values, read and written in the kernel, against what they must be.

use crate::local::{local, local_client, server};
use bpfdb_tests::server::{Client, bulk};

/// Around the sizes of what is inline, with and without an expiry, and of slots.
const LENGTHS: [usize; 14] = [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 100, 4095, 4096];
const POSITIONS: [i64; 15] = [0, 1, 6, 7, 8, 15, 16, 17, 40, 5000, -1, -2, -8, -16, -17];

fn value(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + 1) as u8).collect()
}

fn number(number: impl ToString) -> Vec<u8> {
    number.to_string().into_bytes()
}

fn integer(value: impl std::fmt::Display) -> Vec<u8> {
    format!(":{value}\r\n").into_bytes()
}

/// Sets the value, for ever or for a time.
fn set(client: &mut Client, value: &[u8], expires: bool) {
    let time: &[&[u8]] = if expires { &[b"EX", b"5000"] } else { &[] };
    let words = [&[&b"SET"[..], b"key", value], time].concat();
    assert_eq!(client.ask(&words), b"+OK\r\n");
}

/// Bytes from start to end, as Redis counts them, one by one.
fn part(value: &[u8], start: i64, end: i64) -> Vec<u8> {
    let len = value.len() as i64;
    if start < 0 && end < 0 && start > end {
        return Vec::new();
    }
    let from_front = |at: i64| if at < 0 { (at + len).max(0) } else { at };
    let (start, end) = (from_front(start), from_front(end));
    (0..len)
        .filter(|at| (start..=end).contains(at))
        .map(|at| value[at as usize])
        .collect()
}

/// Everything is answered inside send(); slots are not zero from the beginning.
fn in_the_kernel(work: impl Fn(&mut Client)) {
    let server = server();
    let mut client = local_client(&server);
    for len in LENGTHS {
        for number in 0..20 {
            let key = format!("dirt {number}");
            client.ask(&[b"SET", key.as_bytes(), &vec![0xff; len + 40]]);
        }
        for number in 0..20 {
            client.ask(&[b"DEL", format!("dirt {number}").as_bytes()]);
        }
    }
    let passed = || {
        server
            .engine
            .stats()
            .expect("figures")
            .counters
            .redis()
            .net
            .bytes_passed
    };
    let before = (local(&server), passed());
    work(&mut client);
    assert!(local(&server) > before.0);
    assert_eq!(passed(), before.1);
}

#[test]
fn parts_are_read() {
    in_the_kernel(|client| {
        for (len, expires) in LENGTHS
            .into_iter()
            .flat_map(|len| [(len, false), (len, true)])
        {
            let value = value(len);
            set(client, &value, expires);
            for start in POSITIONS {
                for end in POSITIONS {
                    let (from, to) = (number(start), number(end));
                    let part = part(&value, start, end);
                    let reply = client.ask(&[b"GETRANGE", b"key", &from, &to]);
                    assert_eq!(reply, bulk(&part), "{len}: {start} {end}");
                    let bits: u32 = part.iter().map(|byte| byte.count_ones()).sum();
                    let reply = client.ask(&[b"BITCOUNT", b"key", &from, &to]);
                    assert_eq!(reply, integer(bits), "{len}: {start} {end}");
                }
            }
            let all: u32 = value.iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(client.ask(&[b"BITCOUNT", b"key"]), integer(all));
        }
    });
}

/// What another command read before is given up meanwhile; that is of no account.
#[test]
fn parts_of_nothing() {
    in_the_kernel(|client| {
        for (command, expected) in [
            ("BITCOUNT none", ":0\r\n"),
            ("GETBIT none 0", ":0\r\n"),
            ("GETRANGE none 0 -1", "$0\r\n\r\n"),
        ] {
            set(client, &value(100), false);
            client.ask(&[b"GET", b"key"]);
            set(client, &value(101), false);
            assert_eq!(client.say(command), expected);
        }
    });
}

#[test]
fn parts_are_written() {
    in_the_kernel(|client| {
        for (len, expires) in LENGTHS
            .into_iter()
            .flat_map(|len| [(len, false), (len, true)])
        {
            for at in [0, 1, 7, 8, 12, 15, 16, 17, 30, 4090, 9000] {
                for piece in [1, 8, 16, 17, 300] {
                    let mut expected = value(len);
                    set(client, &expected, expires);
                    let piece = vec![b'-'; piece];
                    expected.resize(len.max(at + piece.len()), 0);
                    expected[at..at + piece.len()].copy_from_slice(&piece);
                    let reply = client.ask(&[b"SETRANGE", b"key", &number(at), &piece]);
                    assert_eq!(reply, integer(expected.len()), "{len}: {at}");
                    assert!(
                        client.ask(&[b"GET", b"key"]) == bulk(&expected),
                        "{len}: {at}"
                    );
                    assert_eq!(client.say("TTL key") != ":-1\r\n", expires);
                }
            }
        }
    });
}

#[test]
fn bits_are_read_and_written() {
    in_the_kernel(|client| {
        for (len, expires) in LENGTHS
            .into_iter()
            .flat_map(|len| [(len, false), (len, true)])
        {
            let mut expected = value(len);
            set(client, &expected, expires);
            for bit in [0usize, 7, 8, 63, 64, 70, 127, 128, 131, 300, 32_767, 40_000] {
                let (at, mask) = (bit / 8, 0x80u8 >> (bit % 8));
                for on in [true, false, true] {
                    let before = expected.get(at).is_some_and(|byte| byte & mask != 0);
                    let bit = number(bit);
                    let reply = client.ask(&[b"GETBIT", b"key", &bit]);
                    assert_eq!(reply, integer(u8::from(before)), "{len}: {at}");
                    expected.resize(expected.len().max(at + 1), 0);
                    expected[at] = if on {
                        expected[at] | mask
                    } else {
                        expected[at] & !mask
                    };
                    let digit = number(u8::from(on));
                    let reply = client.ask(&[b"SETBIT", b"key", &bit, &digit]);
                    assert_eq!(reply, integer(u8::from(before)), "{len}: {at}");
                    assert!(
                        client.ask(&[b"GET", b"key"]) == bulk(&expected),
                        "{len}: {at}"
                    );
                }
            }
            assert_eq!(client.say("TTL key") != ":-1\r\n", expires);
        }
    });
}
