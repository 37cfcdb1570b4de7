//! A server in a control group whose memory is limited, as in a container.

use std::process::Command;

use bpfdb_tests::server::memory_group::MemoryGroup;

use crate::common::{BINARY, Connection, Served, alone, request, wait_until, with_log};

const LIMIT: u64 = 512 << 20;
const VALUE: usize = 128 << 10;
/// A group that is full soon.
const SMALL: u64 = 256 << 20;

/// Sets keys until a reply is an error, which is returned with their number.
fn fill(server: &Served) -> (usize, String) {
    let value = "v".repeat(VALUE);
    let mut connection = Connection::open(server.port);
    for n in 0.. {
        let reply = connection.ask_until_logged(&["SET", &format!("k{n}"), &value]);
        if reply != "+OK" {
            return (n, reply);
        }
    }
    unreachable!("memory has an end")
}

/// How many keys an operator has deleted so, until there were none.
fn emptied(port: u16) -> u64 {
    let script = "redis-cli -p $0 --scan | xargs -r redis-cli -p $0 DEL";
    let mut deleted = 0;
    wait_until("it is empty", || {
        let output = Command::new("sh")
            .args(["-c", script, &port.to_string()])
            .output();
        let output = output.expect("redis-cli is installed by scripts/setup.sh");
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stdout).expect("text");
        for line in said.lines().filter(|line| !line.is_empty()) {
            // The disk may be slower than the client.
            match line.parse::<u64>() {
                Ok(count) => deleted += count,
                Err(_) => assert!(line.contains("the log has no room"), "{line}"),
            }
        }
        Connection::open(port).ask(&["DBSIZE"]) == ":0"
    });
    deleted
}

/// Sets short values in pipelines until memory is full.
fn fill_with_short_values(port: u16) -> u64 {
    const PIPELINE: u64 = 10_000;
    let mut connection = Connection::open(port);
    let mut keys = 0;
    for first in (0..).step_by(PIPELINE as usize) {
        let requests =
            (first..first + PIPELINE).map(|n| request(&["SET", &format!("key:{n}"), "value"]));
        connection
            .try_send_text(&requests.collect::<String>())
            .expect("sent");
        let replies: Vec<String> = (0..PIPELINE)
            .map(|_| connection.try_reply().expect("a reply"))
            .collect();
        keys += replies.iter().filter(|reply| *reply == "+OK").count() as u64;
        if let Some(error) = replies.iter().find(|reply| *reply != "+OK") {
            assert!(error.starts_with("-OOM"), "{error}");
            return keys;
        }
    }
    unreachable!("memory has an end")
}

/// A command line of names is thousands of them, and memory is full.
#[test]
fn many_short_values_are_deleted_when_memory_is_full() {
    alone();
    let group = MemoryGroup::limited(SMALL);
    let server = Served::launch(group.command(BINARY), 0, &["--maxmemory", "0"]);
    let keys = fill_with_short_values(server.port);
    assert_eq!(server.ask(&["DBSIZE"]), format!(":{keys}"));
    assert_eq!(emptied(server.port), keys);
    assert_eq!(server.ask(&["SET", "a", "1"]), "+OK");
    server.stop();
}

#[test]
fn clients_hear_of_it_before_the_group_is_full_and_a_start_is_possible_afterwards() {
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let group = MemoryGroup::limited(LIMIT);
    let start = |port: u16, more: &[&str]| {
        let arguments = [&with_log(&data)[..], &["--maxmemory", "0"], more].concat();
        Served::launch(group.command(BINARY), port, &arguments)
    };
    let server = start(0, &[]);
    let port = server.port;
    let limit = server.figure("memory", "maxmemory");
    assert!((LIMIT / 4..LIMIT).contains(&limit), "{limit}");
    let (keys, error) = fill(&server);
    assert!(error.starts_with("-OOM"), "{error}");
    assert!((keys * VALUE) as u64 > limit / 2, "{keys} keys");
    assert_eq!(server.ask(&["PING"]), "+PONG");
    server.crash();

    // What the dead server left is charged to the group still.
    let server = start(port, &[]);
    assert_eq!(server.ask(&["DBSIZE"]), format!(":{keys}"));
    assert_eq!(emptied(port), keys as u64);
    let mut connection = Connection::open(port);
    assert_eq!(connection.ask_until_logged(&["SET", "a", "1"]), "+OK");
    fill(&server);
    server.crash();

    let server = start(port, &["--fresh", "--maxmemory", "32mb"]);
    assert_eq!(
        server
            .ask(&["CONFIG", "SET", "maxmemory", "600mb"])
            .split(' ')
            .next(),
        Some("-ERR")
    );
    server.stop();
}

/// More than the group has is no promise: the group bounds it.
#[test]
fn what_a_user_asks_for_is_bounded_by_the_group() {
    alone();
    let group = MemoryGroup::limited(LIMIT);
    let server = Served::launch(group.command(BINARY), 0, &["--maxmemory", "2G"]);
    let limit = server.figure("memory", "maxmemory");
    assert!(limit < LIMIT, "{limit}");
    let limit = server.ask(&["CONFIG", "GET", "maxmemory-clients"]);
    assert_eq!(limit, "*2");
    server.stop();
}
