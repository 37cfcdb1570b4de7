//! A server in a control group whose memory is limited, as in a container.

use bpfdb_tests::server::memory_group::MemoryGroup;

use crate::common::{BINARY, Connection, Served, alone, with_log};

const LIMIT: u64 = 512 << 20;
const VALUE: usize = 128 << 10;

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
    let names: Vec<String> = (0..keys).map(|n| format!("k{n}")).collect();
    let mut connection = Connection::open(port);
    for some in names.chunks(20) {
        let words: Vec<&str> = ["DEL"]
            .into_iter()
            .chain(some.iter().map(String::as_str))
            .collect();
        assert_eq!(
            connection.ask_until_logged(&words),
            format!(":{}", some.len())
        );
    }
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
