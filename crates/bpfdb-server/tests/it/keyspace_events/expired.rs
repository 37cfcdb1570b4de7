//! The event `expired`.

use std::time::Duration;

use bpfdb_tests::server::{TestServer, wait_until};

use super::{Listener, silence};

#[test]
fn of_keys_that_were_there_before_and_of_new_ones() {
    let server = TestServer::shared();
    let mut client = server.client();
    client.say("SET before 1 PX 1500");
    client.say("SET stays 1 PX 1500");
    client.say("SELECT 3");
    client.say("HSET other f 1");
    client.say("PEXPIRE other 1500");
    client.say("SELECT 0");
    let mut listener = Listener::start(server.address, "KEx", true);
    client.say("SET new 1 PX 60");
    client.say("SET deleted 1 PX 60");
    client.say("DEL deleted");
    client.say("SET replaced 1 PX 60");
    client.say("SET replaced 2");
    client.say("SET later 1 PX 60");
    client.say("PERSIST stays");
    client.say("PEXPIRE later 3600000");
    let mut heard = Vec::new();
    wait_until("three have expired", || {
        heard.extend(listener.heard_by_key());
        heard.len() >= 3
    });
    heard[1..].sort();
    assert_eq!(heard, ["new expired", "3:other expired", "before expired"]);
    for key in ["before", "new"] {
        assert_eq!(client.say(&format!("EXISTS {key}")), ":0\r\n");
    }
    assert_eq!(client.say("EXISTS stays later replaced"), ":3\r\n");
    std::thread::sleep(Duration::from_millis(100));
    assert!(listener.heard().is_empty());
    silence(&server);
}

/// The event comes before those of the write that finds the key expired.
#[test]
fn before_the_next_write() {
    let server = TestServer::shared();
    let mut client = server.client();
    let mut listener = Listener::start(server.address, "KAnm", false);
    for _ in 0..20 {
        client.say("SET key 1 PX 1");
        let end = std::time::Instant::now() + Duration::from_millis(2);
        while std::time::Instant::now() < end {
            std::hint::spin_loop();
        }
        client.say("SET key 2");
        client.say("DEL key");
        let expected = ["set", "expire", "expired", "new", "set", "del"];
        let mut expected: Vec<String> = expected.iter().map(|it| format!("key {it}")).collect();
        expected.insert(0, "key new".into());
        assert_eq!(listener.heard_by_key(), expected);
    }
    silence(&server);
}

/// What is rolled back neither gives a time nor takes one away.
#[test]
fn times_are_those_that_are_committed() {
    let server = TestServer::shared();
    let mut client = server.client();
    let mut listener = Listener::start(server.address, "Kx", false);
    client.say("SET kept 1 PX 300");
    client.say("BEGIN");
    client.say("SET undone 1 PX 50");
    client.say("PERSIST kept");
    client.say("ROLLBACK");
    let mut heard = Vec::new();
    wait_until("it has expired", || {
        heard.extend(listener.heard_by_key());
        !heard.is_empty()
    });
    assert_eq!(heard, ["kept expired"]);
    silence(&server);
}
