//! Ends that are gone without a word.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_proxy::settings::{ANY_DATABASE, KeepAlive};
use bpfdb_tests::namespace::ip;
use bpfdb_tests::server::netns;
use nix::sys::socket::{setsockopt, sockopt};

use crate::postgres;
use crate::proxy::{TestProxy, WAYS, Way};
use crate::wire::{Wire, error, message, query, start_packet};

/// Waits until so many servers are so.
fn await_count(what: &str, count: &str) {
    let begun = Instant::now();
    let select = format!("select count(*) from pg_stat_activity where {what}");
    while postgres::shared().direct(&select) != count {
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "there are not {count}: {what}"
        );
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_client_takes_its_transaction_with_it() {
    let name = |way: Way| format!("vanishing_{way:?}");
    for way in WAYS {
        let proxy = TestProxy::start(way, 2);
        for how in 0..5 {
            let more = [("application_name", name(way))];
            let more = more.each_ref().map(|(a, b)| (*a, b.as_str()));
            let mut wire = Wire::connect(proxy.port, postgres::USER, &more);
            wire.query("begin");
            wire.query("select txid_current()");
            match how {
                1 => {
                    wire.send(&query("select pg_sleep(20)"));
                    // Before it has begun it could not be cancelled.
                    let name = name(way);
                    let sleeps = "state = 'active' and query = 'select pg_sleep(20)'";
                    await_count(&format!("application_name = '{name}' and {sleeps}"), "1");
                }
                2 => wire.send(&message(b'X', b"")),
                3 => wire.send(b"Q\0\0"),
                4 => wire.send(b"Q\0\0\0\x02"),
                _ => {}
            }
            drop(wire);
        }
        let name = name(way);
        let is_left = "(state like 'idle in%' or state = 'active')";
        await_count(&format!("application_name = '{name}' and {is_left}"), "0");
        assert_eq!(proxy.client().value("select 1"), "1");
    }
}

/// Its machine is gone without a word: nothing comes from there any more, no reset either.
#[test]
fn a_client_that_is_out_of_reach_takes_its_transaction_with_it() {
    const NAME: &str = "out_of_reach";
    // It has its threads in the network of all tests.
    let shared = postgres::shared();
    netns::isolated(move || {
        let proxy = TestProxy::with(Way::Plain, |settings| {
            let text = format!("host={} port={}", shared.sockets(), shared.port);
            let database = text.parse().expect("a database");
            settings.databases = [(ANY_DATABASE.to_owned(), database)].into();
            settings.listen = vec!["0.0.0.0:0".parse().expect("an address")];
            settings.keep_alive = KeepAlive {
                idle: 1,
                interval: 1,
                count: 2,
                // On a busy machine it may not have done so.
                user_timeout: 3000,
                ..KeepAlive::default()
            };
        });
        let mut other = proxy.client();
        let begun = format!(
            "select count(*) from pg_stat_activity \
             where application_name = '{NAME}' and state = 'idle in transaction'"
        );
        let address = ([10, 77, 0, 1], proxy.port).into();
        let wire = netns::connected(move || {
            let more = [("application_name", NAME)];
            let mut wire = Wire::connect_at(address, postgres::USER, &more);
            wire.query("begin");
            // Its system acknowledges the reply, and nothing is under way any more.
            thread::sleep(Duration::from_millis(500));
            wire
        });
        assert_eq!(other.value(&begun), "1");
        ip("link set here down");
        let since = Instant::now();
        while other.value(&begun) != "0" {
            let is_late = since.elapsed() > Duration::from_secs(20);
            assert!(!is_late, "its transaction is still open");
            thread::sleep(Duration::from_millis(50));
        }
        drop(wire);
    });
}

/// Its greeting cannot be sent then.
#[test]
fn a_client_that_is_reset_at_its_start_ends_alone() {
    let proxy = TestProxy::start(Way::Plain, 2);
    assert_eq!(proxy.client().value("select 1"), "1");
    for _ in 0..500 {
        let mut wire = crate::wire::Wire::open(proxy.port);
        wire.send(&start_packet(postgres::USER, &[]));
        let at_once = libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        setsockopt(&wire.socket, sockopt::Linger, &at_once).expect("set");
        drop(wire);
    }
    assert_eq!(proxy.client().value("select 1"), "1");
    proxy.stop();
}

#[test]
fn a_database_that_is_gone_ends_its_client_only() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 2);
        let (mut wire, mut rests) = (proxy.client(), proxy.client());
        assert_eq!(rests.value("select 1"), "1");
        wire.query("begin");
        let process = wire.value("select pg_backend_pid()");
        postgres::shared().direct(&format!("select pg_terminate_backend({process})"));
        // The connection may have ended already.
        let _ = wire.socket.write_all(&query("select 1"));
        let told = wire.until(b'Z');
        assert!(told.iter().all(|(kind, _)| *kind != b'Z'), "{way:?}");
        // One that only rests at a client is replaced.
        let process = rests.value("select pg_backend_pid()");
        postgres::shared().direct(&format!("select pg_terminate_backend({process})"));
        thread::sleep(Duration::from_millis(100));
        assert_eq!(rests.value("select 2"), "2", "{way:?}");
    }
}

/// A client that does not read holds up its server, and no memory.
#[test]
fn a_slow_reader_gets_everything() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 2);
        let mut wire = proxy.client();
        wire.send(&query(
            "select g, repeat('x', 1000) from generate_series(1, 20000) g",
        ));
        thread::sleep(Duration::from_millis(400));
        let rows = crate::wire::rows(&wire.until(b'Z'));
        assert_eq!(rows.len(), 20000, "{way:?}");
        let is_next = |(at, row): (usize, &Vec<String>)| row[0] == (at + 1).to_string();
        assert!(rows.iter().enumerate().all(is_next), "{way:?}");
        assert_eq!(wire.value("select 9"), "9");
    }
}

/// A database that lets everybody in, answers a query with as many rows as that has bytes, says nothing more and is gone.
fn failing_database(row: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            let mut wire = Wire::of(socket);
            let mut length = [0; 4];
            let first = wire.socket.read_exact(&mut length);
            first.expect("the first packet");
            wire.skip(u32::from_be_bytes(length) as usize - length.len());
            let (key, ready) = (message(b'K', &[0; 8]), message(b'Z', b"I"));
            wire.send(&[message(b'R', &[0; 4]), key, ready].concat());
            let Some((_, text)) = wire.receive() else {
                return;
            };
            // Its client may be gone: then the proxy is, too.
            let _ = wire.socket.write_all(&row.repeat(text.len() - 1));
        }
    });
    port
}

/// What a server has said before it failed comes to a client that takes nothing meanwhile, and the error behind it. Some
/// of the replies are just longer than what the system keeps for such a client.
#[test]
fn a_client_gets_what_its_server_has_said_last() {
    let text = "x".repeat(1000);
    let length = (text.len() as u32).to_be_bytes();
    let row = message(b'D', &[&b"\0\x01"[..], &length, text.as_bytes()].concat());
    let port = failing_database(row);
    let proxy = TestProxy::before(Way::Plain, port, |_| {});
    for wanted in (100..6000).step_by(100) {
        let mut wire = proxy.client();
        wire.send(&query(&"x".repeat(wanted)));
        thread::sleep(Duration::from_millis(100));
        let mut found = 0;
        let last = loop {
            match wire.receive() {
                Some((b'D', _)) => found += 1,
                last => break last,
            }
        };
        assert_eq!(found, wanted);
        let last = last.expect("why it ends");
        assert_eq!(error(&[last], b'C'), "08006");
        assert!(wire.receive().is_none());
    }
}
