//! Receivers that do not read, or are gone.

use std::time::Duration;

use bpfdb_server::settings::{OutputLimit, OutputLimits, Settings, Size};
use bpfdb_tests::server::{Client, Lent, TestServer, request, wait_until};

use super::{message, next, subscribe};

/// More than the buffers of two sockets take.
const MUCH: usize = 64 << 20;

fn limited(hard: Size, soft: Size, seconds: u64) -> Lent {
    let mut output_limit = OutputLimits::of_normal(OutputLimit {
        hard: Size(0),
        soft: Size(0),
        seconds: 0,
    });
    output_limit.pubsub = OutputLimit {
        hard,
        soft,
        seconds,
    };
    let settings = Settings {
        output_limit,
        ..Settings::default()
    };
    TestServer::lent_new(&bpfdb::Options::default(), settings)
}

fn closed(client: &mut Client) -> u64 {
    let info = client.say("INFO stats");
    let field = "client_output_buffer_limit_disconnections:";
    let line = info.lines().find_map(|line| line.strip_prefix(field));
    line.expect("a field").parse().expect("a number")
}

/// Publishes until the slow one is closed, while one that reads hears everything.
fn publish_until_closed(publisher: &mut Client, reader: &mut Client) {
    let text = "x".repeat(100_000);
    for _ in 0..MUCH / text.len() {
        publisher.send(&request(&[b"PUBLISH", b"slow", text.as_bytes()]));
        let receivers = next(publisher);
        assert_eq!(next(reader), message("slow", &text));
        if receivers == ":1\r\n" {
            return;
        }
    }
    panic!("the one that does not read still listens");
}

#[test]
fn one_that_does_not_read_is_closed_at_the_hard_limit() {
    let server = limited(Size::mib(4), Size(0), 0);
    let (mut slow, mut reader) = (server.client(), server.client());
    let mut publisher = server.client();
    subscribe(&mut slow, "slow");
    subscribe(&mut reader, "slow");
    publish_until_closed(&mut publisher, &mut reader);
    assert_eq!(closed(&mut publisher), 1);
    drop(slow);
}

#[test]
fn one_that_does_not_read_is_closed_after_a_time_above_the_soft_limit() {
    let server = limited(Size(0), Size::mib(1), 1);
    let (mut slow, mut publisher) = (server.client(), server.client());
    subscribe(&mut slow, "slow");
    let text = vec![b'x'; 100_000];
    for _ in 0..MUCH / text.len() {
        publisher.ask(&[b"PUBLISH", b"slow", &text]);
    }
    wait_until("it is closed", || {
        std::thread::sleep(Duration::from_millis(50));
        closed(&mut publisher) == 1
    });
    assert_eq!(publisher.say("PUBLISH slow x"), ":0\r\n");
}

/// It is sent what others do, as those that listen are.
#[test]
fn one_that_monitors_and_does_not_read_is_closed_too() {
    let server = limited(Size::mib(4), Size(0), 0);
    let (mut monitor, mut other) = (server.client(), server.client());
    assert_eq!(monitor.say("MONITOR"), "+OK\r\n");
    let text = vec![b'x'; 100_000];
    for _ in 0..MUCH / text.len() {
        assert!(other.ask(&[b"ECHO", &text]).starts_with(b"$100000"));
        if closed(&mut other) == 1 {
            return;
        }
    }
    panic!("it is shown all of them");
}

#[test]
fn one_that_vanishes_is_forgotten() {
    let server = limited(Size::mib(32), Size(0), 0);
    let mut publisher = server.client();
    for _ in 0..20 {
        let mut listener = server.client();
        subscribe(&mut listener, "vanished");
        assert_eq!(publisher.say("PUBLISH vanished x"), ":1\r\n");
        assert_eq!(next(&mut listener), message("vanished", "x"));
        drop(listener);
        wait_until("its subscription is gone", || {
            publisher.say("PUBSUB NUMSUB vanished").ends_with(":0\r\n")
        });
        assert_eq!(publisher.say("PUBLISH vanished x"), ":0\r\n");
    }
}

/// Names are kept for the client that has chosen them.
#[test]
fn many_names_count_against_the_memory_of_clients() {
    let settings = Settings {
        max_client_memory: bpfdb_server::settings::ClientMemory::Bytes(Size::mib(8)),
        ..Settings::default()
    };
    let server = TestServer::lent_new(&bpfdb::Options::default(), settings);
    let (mut greedy, mut other) = (server.client(), server.client());
    for number in 0..1000u32 {
        let name = vec![number as u8; 100_000 + number as usize];
        if std::io::Write::write_all(&mut greedy.stream, &request(&[b"SUBSCRIBE", &name])).is_err()
            || greedy.try_reply().is_err()
        {
            break;
        }
        assert!(number < 200, "all names are kept");
    }
    assert_eq!(other.say("PING"), "+PONG\r\n");
    wait_until("its names are gone", || {
        other.say("PUBSUB CHANNELS") == "*0\r\n"
    });
}

/// A million short patterns: those that the limit has no room for close their client. Each PUBLISH is compared with
/// those that are kept, while others are served.
#[test]
fn a_million_patterns_stay_within_the_limit() {
    const TOGETHER: usize = 1000;
    let settings = Settings {
        max_client_memory: bpfdb_server::settings::ClientMemory::Bytes(Size::mib(8)),
        ..Settings::default()
    };
    let server = TestServer::lent_new(&bpfdb::Options::default(), settings);
    let (mut greedy, mut other) = (server.client(), server.client());
    let mut kept = 0;
    for first in (0..1_000_000).step_by(TOGETHER) {
        let names = (first..first + TOGETHER).map(|number| format!("*{number}"));
        let words: Vec<Vec<u8>> = std::iter::once("PSUBSCRIBE".to_owned())
            .chain(names)
            .map(String::into_bytes)
            .collect();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let is_sent = std::io::Write::write_all(&mut greedy.stream, &request(&words)).is_ok();
        if !is_sent || (0..TOGETHER).any(|_| greedy.try_reply().is_err()) {
            break;
        }
        kept = first + TOGETHER;
        if first % (10 * TOGETHER) == 0 {
            let begun = std::time::Instant::now();
            assert_eq!(other.say("PUBLISH channel hi"), ":0\r\n");
            let time = begun.elapsed();
            assert!(time < Duration::from_secs(5), "{time:?} for {kept}");
        }
    }
    assert!(
        (1000..1_000_000).contains(&kept),
        "{kept} patterns are kept"
    );
    wait_until("none is left", || other.say("PUBSUB NUMPAT") == ":0\r\n");
    assert_eq!(other.say("PUBLISH channel hi"), ":0\r\n");
}
