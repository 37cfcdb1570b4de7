//! The invariants of the design (bpf/pg/state.bpf.h), each by its number.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use crate::postgres;
use crate::proxy::{TestProxy, WAYS, Way};
use crate::wire::{Wire, error, execute, kinds, message, parse, query, rows, sync};

/// Each of many clients on few servers gets its own replies, and no byte of another's.
#[test]
fn invariant_1_a_reply_goes_to_its_client_only() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 2);
        thread::scope(|scope| {
            for client in 0..8 {
                let proxy = &proxy;
                scope.spawn(move || {
                    let mut wire = proxy.client();
                    for number in 0..100 {
                        let tag = format!("{client}-{number}");
                        let told = wire.query(&format!("select '{tag}'"));
                        assert_eq!(
                            (kinds(&told).as_str(), rows(&told)),
                            ("TDCZ", vec![vec![tag]])
                        );
                    }
                });
            }
        });
    }
}

/// A long reply is whole although others wait for its server.
#[test]
fn invariant_2_a_server_is_given_on_behind_its_last_reply() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let mut wires: Vec<Wire> = (0..6).map(|_| proxy.client()).collect();
        for _ in 0..5 {
            for (number, wire) in wires.iter_mut().enumerate() {
                wire.send(&query(&format!("select repeat('{number}', 100000)")));
            }
            for (number, wire) in wires.iter_mut().enumerate() {
                let rows = rows(&wire.until(b'Z'));
                assert_eq!(rows, [[number.to_string().repeat(100_000)]], "{way:?}");
            }
        }
    }
}

/// What is no message ends its client, and touches no other.
#[test]
fn invariant_3_what_cannot_be_followed_is_never_wrong() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let mut other = proxy.client();
        for broken in [
            &b"Q\0\0\0\x03"[..],
            b"Q\xff\xff\xff\xff",
            b"?\0\0\0\x04",
            b"Q\0\0\0\x04",
        ] {
            let mut wire = proxy.client();
            assert_eq!(wire.value("select 1"), "1");
            wire.send(broken);
            let told = wire.until(b'Z');
            assert_eq!(error(&told, b'C'), "08P01", "{way:?}: {broken:?}");
            assert_eq!(other.value("select 2"), "2", "{way:?}: {broken:?}");
        }
    }
}

/// Requests of one client are answered in their order, whichever way each goes.
#[test]
fn invariant_4_bytes_keep_their_order() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 2);
        let mut wire = proxy.client();
        for round in 0..50 {
            let text = |part: &str| format!("select '{round}{part}'");
            wire.send(&query(&text("a")));
            // Goes through the process.
            wire.send(&[parse("", &text("b")), execute(""), sync()].concat());
            let cut = query(&text("c"));
            wire.send(&cut[..9]);
            wire.send(&cut[9..]);
            wire.send(&query(&text("d")));
            for part in ["a", "b", "c", "d"] {
                assert_eq!(
                    rows(&wire.until(b'Z')),
                    [[format!("{round}{part}")]],
                    "{way:?}"
                );
            }
        }
    }
}

/// What a session has is its client's while that is there, and nobody's then.
#[test]
fn invariant_5_the_state_of_a_session_is_its_clients() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 2);
        for (leaves, shows, left) in [
            ("set work_mem = '7MB'", "show work_mem", "7MB"),
            (
                "listen channel",
                "select count(*) from pg_listening_channels()",
                "1",
            ),
            (
                "prepare p as select 1",
                "select count(*) from pg_prepared_statements where name = 'p'",
                "1",
            ),
            (
                "begin; declare c cursor with hold for select 1; commit",
                "select count(*) from pg_cursors",
                "1",
            ),
            (
                "create temp table t ()",
                "select count(*) from pg_class where relname = 't' and relpersistence = 't' \
                 and pg_table_is_visible(oid)",
                "1",
            ),
        ] {
            let (mut one, mut two) = (proxy.client(), proxy.client());
            one.value("select 1");
            one.query(leaves);
            for _ in 0..3 {
                assert_eq!(one.value(shows), left, "{way:?}: {leaves}");
                assert_ne!(two.value(shows), left, "{way:?}: {leaves}");
            }
            drop(one);
            let mut three = proxy.client();
            two.query("begin");
            assert_ne!(two.value(shows), left, "{way:?}: {leaves}");
            assert_ne!(three.value(shows), left, "{way:?}: {leaves}");
        }
    }
}

#[test]
fn invariant_6_a_transaction_ends_with_its_client() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        proxy
            .client()
            .query("create table if not exists open_ones (a int)");
        let mut wire = proxy.client();
        wire.value("select 1");
        wire.query("begin");
        wire.query("insert into open_ones values (1)");
        let process = wire.value("select pg_backend_pid()");
        drop(wire);
        let mut next = proxy.client();
        assert_eq!(next.value("select count(*) from open_ones"), "0", "{way:?}");
        assert_ne!(next.value("select pg_backend_pid()"), process, "{way:?}");
    }
}

/// A client that does not read holds up its server: PostgreSQL waits to send.
#[test]
fn invariant_7_bytes_that_are_not_read_are_bounded() {
    const WAITS: &str = "select count(*) from pg_stat_activity where wait_event = 'ClientWrite' \
                         and query like '%unread bytes%' and pid <> pg_backend_pid()";
    for way in [Way::Kernel, Way::Plain] {
        let proxy = TestProxy::start(way, 2);
        let mut wire = proxy.client();
        wire.value("select 1");
        let text = "select repeat('unread bytes', 1000) from generate_series(1, 5000)";
        wire.socket.write_all(&query(text)).expect("sent");
        let begun = Instant::now();
        while postgres::shared().direct(WAITS) != "1" {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "{way:?}: it has sent all"
            );
            thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(proxy.client().value("select 1"), "1", "{way:?}");
        assert_eq!(rows(&wire.until(b'Z')).len(), 5000, "{way:?}");
        // Nothing of it is left for another.
        wire.send(&message(b'X', b""));
        assert_eq!(proxy.client().value("select 2"), "2", "{way:?}");
    }
}
