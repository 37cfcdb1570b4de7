//! Clients that always have requests under way: what they have not read is counted,
//! not what they were ever sent.

use std::io::{Read, Write};

use crate::local::{at_hand, local, local_client, server};
use bpfdb_tests::server::{Client, bulk, request};

const REQUESTS: usize = 5_000;
const UNDER_WAY: usize = 16;

/// Sends so many requests with a window of them under way, and reads so many bytes by
/// each recv(): how many were answered inside send().
fn slide(reads: usize, value: usize) -> u64 {
    let server = server();
    let mut client = local_client(&server);
    let value: Vec<u8> = (0..value).map(|i| i as u8).collect();
    assert_eq!(client.ask(&[b"SET", b"key", &value]), b"+OK\r\n");
    let (bytes, reply) = (request(&[b"GET", b"key"]), bulk(&value));
    let before = local(&server);
    let (mut sent, mut got) = (0, Vec::with_capacity(REQUESTS * reply.len()));
    let mut buffer = vec![0; reads];
    while got.len() < REQUESTS * reply.len() {
        while sent < REQUESTS && sent < got.len() / reply.len() + UNDER_WAY {
            client.stream.write_all(&bytes).expect("sent");
            sent += 1;
        }
        let some = client.stream.read(&mut buffer).expect("replies");
        assert!(some > 0, "closed");
        got.extend_from_slice(&buffer[..some]);
    }
    assert!(got.chunks(reply.len()).all(|one| one == reply));
    local(&server) - before
}

#[test]
fn a_queue_that_is_never_empty() {
    for (reads, value) in [(65_536, 1024), (4096, 1024), (1000, 1024), (4, 1)] {
        let answered = slide(reads, value);
        assert_eq!(answered, REQUESTS as u64, "{reads} of {value}");
    }
}

/// Short replies take memory too: one message each.
#[test]
fn messages_are_counted_too() {
    let server = server();
    let mut client = local_client(&server);
    let before = local(&server);
    let most = usize::try_from(bpfdb::abi::BPFDB_LOCAL_MESSAGES_MAX).expect("small");
    for _ in 0..4 * most {
        client.send(&request(&[b"PING"]));
    }
    let answered = usize::try_from(local(&server) - before).expect("few");
    assert!(
        (most..=most + 1).contains(&answered),
        "{answered} of {most}"
    );
    for _ in 0..4 * most {
        assert_eq!(client.reply(), b"+PONG\r\n");
    }
    comes_back(&server, &mut client);
}

/// Full, it goes through TCP; when it has read all, it is answered locally again.
#[test]
fn a_full_queue_is_left_for_a_while_only() {
    let server = server();
    let mut client = local_client(&server);
    let text = [b'f'; 500];
    let (bytes, reply) = (request(&[b"ECHO", &text]), bulk(&text));
    for _ in 0..3 {
        let before = local(&server);
        for _ in 0..1_000 {
            client.send(&bytes);
        }
        let answered = local(&server) - before;
        assert!((400..1_000).contains(&answered), "{answered}");
        for _ in 0..1_000 {
            assert_eq!(client.reply(), reply);
        }
        comes_back(&server, &mut client);
    }
}

fn comes_back(server: &bpfdb_tests::server::TestServer, client: &mut Client) {
    assert!(at_hand(&client.stream).is_empty());
    crate::local::settle(server, client);
}
