//! MONITOR: requests are shown that the kernel would have answered.

use std::net::Ipv4Addr;

use bpfdb_server::settings::{LocalClients, Settings};
use bpfdb_tests::server::{Client, TestServer, cgroup, wait_until};

use super::next;

/// The next line, without the time.
fn shown(monitor: &mut Client) -> String {
    let line = next(monitor);
    let line = line.strip_prefix('+').expect("a status");
    let (time, rest) = line.trim_end().split_once(' ').expect("a time");
    assert_eq!(time.split_once('.').expect("a point").1.len(), 6, "{time}");
    rest.to_owned()
}

#[test]
fn every_request_is_shown() {
    let settings = Settings {
        bind: Ipv4Addr::LOCALHOST.into(),
        local_clients: LocalClients::In(cgroup::own()),
        ..Settings::default()
    };
    let server = TestServer::lent_new_as_told(&bpfdb::Options::default(), settings);
    let mut client = server.client();
    client.receive_until_known();
    let from = client.stream.local_addr().expect("an address");
    let mut monitor = server.client();
    assert_eq!(monitor.say("MONITOR"), "+OK\r\n");
    assert_eq!(client.ask(&[b"SET", b"a\n", b"1"]), b"+OK\r\n");
    assert_eq!(
        shown(&mut monitor),
        format!(r#"[0 {from}] "SET" "a\n" "1""#)
    );
    client.say("AUTH secret");
    assert_eq!(
        shown(&mut monitor),
        format!(r#"[0 {from}] "AUTH" "(redacted)""#)
    );
    // Commands of administrators are not shown.
    client.say("CONFIG GET port");
    for command in ["MULTI", "INCR n", "EXEC"] {
        client.say(command);
    }
    for command in [r#""MULTI""#, r#""INCR" "n""#, r#""EXEC""#] {
        assert_eq!(shown(&mut monitor), format!("[0 {from}] {command}"));
    }
    let script: &[u8] = b"return redis.call('get', 'n')";
    assert_eq!(client.ask(&[b"EVAL", script, b"0"]), b"$1\r\n1\r\n");
    assert_eq!(
        shown(&mut monitor),
        format!(r#"[0 {from}] "EVAL" "return redis.call('get', 'n')" "0""#)
    );
    assert_eq!(shown(&mut monitor), r#"[0 lua] "get" "n""#);
    assert_eq!(
        monitor.say("GET n"),
        "-ERR Replica can't interact with the keyspace\r\n"
    );
    assert_eq!(monitor.say("PING"), "+PONG\r\n");
    assert!(shown(&mut monitor).ends_with(r#""PING""#));
    assert!(client.say("CLIENT LIST").contains(" flags=O "));
    assert_eq!(monitor.say("RESET"), "+RESET\r\n");
    assert_eq!(monitor.say("GET n"), "$1\r\n1\r\n");
    // The kernel answers again, in send(), too.
    let local = || {
        let stats = server.engine.stats().expect("figures");
        stats.counters.redis().net.requests_local
    };
    let before = local();
    wait_until("the kernel answers again", || {
        client.say("PING");
        local() > before
    });
}
