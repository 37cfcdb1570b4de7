//! Limits, and what clients hear of them.

use std::io::{Read, Write};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_proxy::settings::AuthType;

use crate::console::{self, ADMIN};
use crate::postgres;
use crate::proxy::{TestProxy, WAYS, Way};
use crate::relay::Relay;
use crate::wire::{Wire, cancel_request, error, kinds, message, query, rows, start_packet};

/// The state of SQL with which a connection ends that sends this.
fn refused(proxy: &TestProxy, packet: &[u8]) -> String {
    let mut wire = Wire::open(proxy.port);
    wire.send(packet);
    let told = wire.until(b'Z');
    error(&told, b'C')
}

#[test]
fn there_are_no_more_clients_than_may_be() {
    let proxy = TestProxy::with(Way::Plain, |settings| settings.max_client_conn = 2);
    let _clients = [proxy.client(), proxy.client()];
    assert_eq!(refused(&proxy, &start_packet(postgres::USER, &[])), "53300");
}

#[test]
fn databases_and_users_have_so_many_clients_at_most() {
    for (of_database, of_user, told) in [
        (
            2,
            0,
            "no more connections allowed (max_db_client_connections)",
        ),
        (
            0,
            2,
            "no more connections allowed (max_user_client_connections)",
        ),
    ] {
        let proxy = TestProxy::with(Way::Plain, |settings| {
            settings.max_db_client_connections = of_database;
            settings.max_user_client_connections = of_user;
        });
        let (one, _two) = (proxy.client(), proxy.client());
        let mut three = Wire::open(proxy.port);
        three.send(&start_packet(postgres::USER, &[]));
        let refused = three.until(b'Z');
        assert_eq!(error(&refused, b'C'), "53300");
        assert_eq!(error(&refused, b'M'), told);
        // Of another user and another database there may be more.
        let other = [("database", "template1")];
        let mut other = Wire::connect(proxy.port, "root", &other);
        assert_eq!(other.value("select 1"), "1");
        drop(one);
        // It may not have been seen yet that it has left.
        let begun = Instant::now();
        loop {
            let mut again = Wire::open(proxy.port);
            again.send(&start_packet(postgres::USER, &[]));
            if kinds(&again.until(b'Z')).ends_with('Z') {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "no room");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn what_is_no_start_is_refused() {
    let proxy = TestProxy::start(Way::Plain, 2);
    assert_eq!(refused(&proxy, b"GET / HTTP/1.1\r\n\r\n"), "08P01");
    assert_eq!(refused(&proxy, &[0, 0, 0, 8, 0, 2, 0, 0]), "0A000");
    let replication = start_packet(postgres::USER, &[("replication", "true")]);
    assert_eq!(refused(&proxy, &replication), "0A000");
    // What PostgreSQL says of a user that there is not.
    assert_eq!(refused(&proxy, &start_packet("nobody_such", &[])), "28000");
}

#[test]
fn a_client_waits_so_long_for_a_server() {
    for way in WAYS {
        let proxy = TestProxy::with(way, |settings| {
            settings.default_pool_size = 1;
            settings.query_wait_timeout = Duration::from_millis(300);
            settings.query_wait_notify = Duration::ZERO;
        });
        let (mut one, mut two) = (proxy.client(), proxy.client());
        one.query("begin");
        let told = two.query("select 1");
        assert_eq!(kinds(&told), "E", "{way:?}");
        assert_eq!(error(&told, b'M'), "query_wait_timeout", "{way:?}");
        one.query("commit");
        assert_eq!(proxy.client().value("select 1"), "1");
    }
}

#[test]
fn a_client_that_waits_is_told_so_once() {
    for way in WAYS {
        let proxy = TestProxy::with(way, |settings| {
            settings.default_pool_size = 1;
            settings.query_wait_notify = Duration::from_millis(200);
        });
        let (mut one, mut two) = (proxy.client(), proxy.client());
        for _ in 0..2 {
            one.query("begin");
            two.send(&query("select 1"));
            let (kind, body) = two.receive().expect("a notice");
            assert_eq!(kind, b'N', "{way:?}");
            let text = "No server connection available in postgres backend, client being queued";
            assert_eq!(error(&[(b'E', body)], b'M'), text);
            one.query("commit");
            assert_eq!(kinds(&two.until(b'Z')), "TDCZ", "{way:?}");
        }
    }
}

/// Who has not proved who they are takes nothing that others need.
#[test]
fn who_is_not_admitted_makes_no_pool() {
    let proxy = TestProxy::with(Way::Plain, |settings| {
        settings.auth_type = AuthType::Plain;
        settings.users.insert(postgres::USER.into(), "right".into());
    });
    let attempt = |number: usize, password: &str| {
        let mut wire = Wire::open(proxy.port);
        let number = number.to_string();
        wire.send(&start_packet(
            postgres::USER,
            &[("extra_float_digits", &number)],
        ));
        wire.send(&message(b'p', format!("{password}\0").as_bytes()));
        wire.until(b'Z')
    };
    for number in 0..1100 {
        assert_eq!(error(&attempt(number, "wrong"), b'C'), "28P01");
    }
    let told = attempt(3, "right");
    assert_eq!(told.last().map(|(kind, _)| *kind), Some(b'Z'));
}

/// Pools make room that nobody uses any more.
#[test]
fn pools_that_nobody_uses_make_room() {
    let proxy = TestProxy::with(Way::Plain, |settings| {
        settings.server_idle_timeout = Duration::from_millis(1);
    });
    for number in 0..1100 {
        // PostgreSQL refuses such a parameter: the pool never has a server.
        let more = [("nothing_such", number.to_string())];
        let more = more.each_ref().map(|(name, value)| (*name, value.as_str()));
        assert_eq!(
            refused(&proxy, &start_packet(postgres::USER, &more)),
            "42704"
        );
    }
    assert_eq!(proxy.client().value("select 1"), "1");
}

/// A driver sends its next statement when the connection by which it has cancelled ends.
#[test]
fn a_request_to_cancel_hits_nothing_that_is_sent_behind_its_end() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let mut wire = proxy.client();
        for round in 0..40 {
            wire.send(&query("select from pg_sleep(0.002)"));
            let mut cancels = Wire::open(proxy.port);
            cancels.send(&cancel_request(&wire.key));
            assert_eq!(cancels.receive(), None);
            wire.until(b'Z');
            let answers = wire.query("select from pg_sleep(0.005)");
            assert_eq!(kinds(&answers), "TDCZ", "{way:?}: {round}");
        }
    }
}

#[test]
fn a_request_to_cancel_is_answered_in_time_or_given_up() {
    let relay = Relay::start(postgres::shared().port);
    let proxy = TestProxy::before(Way::Plain, relay.port, |settings| {
        settings.default_pool_size = 1;
        settings.cancel_wait_timeout = Duration::from_millis(300);
    });
    let mut one = proxy.client();
    let process = one.value("select pg_backend_pid()");
    one.send(&query("select pg_sleep(0.5)"));
    let mut cancels = Wire::open(proxy.port);
    let asked = Instant::now();
    cancels.send(&cancel_request(&one.key));
    assert_eq!(cancels.receive(), None);
    assert!(asked.elapsed() >= Duration::from_millis(250), "too early");
    assert!(one.until(b'Z').iter().all(|(kind, _)| *kind != b'E'));
    assert_eq!(relay.cancels.load(Ordering::SeqCst), 1);
    // One that might still be cancelled is not given on.
    assert_ne!(proxy.client().value("select pg_backend_pid()"), process);
}

#[test]
fn modes_are_as_named() {
    use bpfdb_proxy::settings::PoolMode;

    for way in WAYS {
        let proxy = TestProxy::with(way, |settings| {
            settings.pool_mode = PoolMode::Session;
            settings.default_pool_size = 2;
        });
        let (mut one, mut two) = (proxy.client(), proxy.client());
        let process = "select pg_backend_pid()";
        let first = one.value(process);
        assert_ne!(first, two.value(process), "{way:?}");
        assert_eq!(first, one.value(process));
        drop(proxy);
        let proxy = TestProxy::with(way, |settings| settings.pool_mode = PoolMode::Statement);
        let mut wire = proxy.client();
        assert_eq!(wire.value("select 1"), "1");
        wire.send(&query("begin"));
        // To the end of the connection.
        assert_eq!(error(&wire.until(0), b'C'), "08P01", "{way:?}");
    }
}

/// What has come of a request is not enough to keep a server for it.
#[test]
fn the_beginning_of_a_request_holds_no_server() {
    for way in WAYS {
        for part in [&b"Q\0\0"[..], b"Q\0\0\0\x0dsel"] {
            let proxy = console::start(way, 1);
            let (mut one, mut two) = (proxy.client(), proxy.client());
            for _ in 0..3 {
                // A client goes back to the kernel a moment after the process has served it.
                thread::sleep(Duration::from_millis(20));
                assert_eq!(one.value("select 1"), "1");
            }
            one.send(part);
            thread::sleep(Duration::from_millis(50));
            assert_eq!(two.value("select 2"), "2", "{way:?}");
            let mut console = console::console(proxy.port, ADMIN);
            assert_eq!(kinds(&console.query("PAUSE")), "CZ", "{way:?}");
            console.query("RESUME");
            one.send(&query("select 1")[part.len()..]);
            assert_eq!(rows(&one.until(b'Z')), [["1"]], "{way:?}");
        }
    }
}

/// An operator who sends commands, and takes no replies, is not served without end.
#[test]
fn replies_that_nobody_takes_are_bounded() {
    // More than sockets keep, in both directions.
    const COMMANDS: usize = 1000;
    let proxy = console::start(Way::Plain, 1);
    let mut console = console::console(proxy.port, ADMIN);
    // The reply repeats the command.
    let command = query(&"x".repeat(60_000));
    console.send(&command);
    let reply = console.until(b'Z');
    let whole = reply.iter().map(|(kind, body)| message(*kind, body));
    let reply = whole.collect::<Vec<_>>().concat();
    let mut sends = console.socket.try_clone().expect("a second handle");
    let writes = thread::spawn(move || sends.write_all(&command.repeat(COMMANDS)).is_ok());
    thread::sleep(Duration::from_secs(2));
    assert!(!writes.is_finished(), "all commands were taken");
    let mut got = vec![0; reply.len()];
    for number in 0..COMMANDS {
        console.socket.read_exact(&mut got).expect("a reply");
        assert!(got == reply, "{number}");
    }
    assert!(writes.join().expect("it ends"));
}
