//! Clients that mean harm: what they can take is bounded, and others are served on.

use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_proxy::settings::AuthType;

use crate::postgres;
use crate::proxy::{TestProxy, WAYS, Way};
use crate::relay::Relay;
use crate::wire::{
    Wire, cancel_request, close, error, kinds, message, parse, query, start_packet, sync,
};

const PATIENCE: Duration = Duration::from_secs(20);

fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Has the other end closed the connection? What it has said is passed over.
fn is_closed(wire: &mut Wire) -> bool {
    wire.socket.set_nonblocking(true).expect("set");
    let mut bytes = [0; 4096];
    loop {
        match wire.socket.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// Each of them has come as far as it can without proving who it is.
#[test]
fn logins_that_stand_still_are_bounded_and_ended() {
    const CLIENTS: usize = 20;
    // Operators, and those whose first packet is awaited.
    const MORE: usize = 110;
    let proxy = TestProxy::with(Way::Plain, |settings| {
        settings.max_client_conn = CLIENTS;
        settings.client_login_timeout = Duration::from_secs(3);
        settings.auth_type = AuthType::Plain;
        settings.users.insert(postgres::USER.into(), "right".into());
    });
    let start = start_packet(postgres::USER, &[]);
    let log_in = || {
        let mut wire = Wire::open(proxy.port);
        // It may be closed at once.
        let _ = wire.socket.write_all(&start);
        let _ = wire.socket.write_all(&message(b'p', b"right\0"));
        let is_in = kinds(&wire.until(b'Z')).ends_with('Z');
        is_in.then_some(wire)
    };
    let mut inside = log_in().expect("it is let in");
    let longest = 10_000u32.to_be_bytes();
    // The longest password, of which a part comes.
    let password = [&b"p\0\0\xff\xff"[..], &[b'x'; 1000]].concat();
    let parts = [
        Vec::new(),
        longest[..3].to_vec(),
        [&longest[..], &start[4..]].concat(),
        [&start[..], &password].concat(),
    ];
    let begun = Instant::now();
    let mut all: Vec<Wire> = (0..300)
        .map(|number: usize| {
            let mut wire = Wire::open(proxy.port);
            let _ = wire.socket.write_all(&parts[number % parts.len()]);
            wire
        })
        .collect();
    let mut open = all.len();
    await_that("more are open than may be", || {
        all.retain_mut(|wire| !is_closed(wire));
        open = all.len();
        open < CLIENTS + MORE
    });
    // If it has not taken too long for that they have not been ended for the time that they take.
    assert!(
        open > MORE / 2 || begun.elapsed() > Duration::from_secs(2),
        "{open}"
    );
    assert_eq!(inside.value("select 1"), "1");
    await_that("nobody is let in any more", || log_in().is_some());
    await_that("they are not ended", || all.iter_mut().all(is_closed));
    assert_eq!(inside.value("select 2"), "2");
}

/// Each answer takes a byte, also of a client that reads none of them.
#[test]
fn encryption_is_asked_for_once() {
    let proxy = TestProxy::start(Way::Plain, 1);
    let [tls, gss] = [80_877_103u32, 80_877_104].map(|code| {
        let parts = [8u32.to_be_bytes(), code.to_be_bytes()];
        parts.concat()
    });
    // Both, in any order, as clients do that would take either.
    for asks in [[&gss, &tls], [&tls, &gss]] {
        let mut wire = Wire::open(proxy.port);
        for ask in asks {
            wire.send(ask);
            wire.skip(1);
        }
        wire.send(&start_packet(postgres::USER, &[]));
        assert!(kinds(&wire.until(b'Z')).ends_with('Z'));
    }
    for ask in [&tls, &gss] {
        let mut wire = Wire::open(proxy.port);
        wire.send(&ask.repeat(2));
        wire.skip(1);
        assert_eq!(error(&wire.until(0), b'C'), "08P01");
    }
}

/// What a length promises is not waited for in memory.
#[test]
fn lengths_that_nobody_has_are_refused() {
    const LONGEST: [u8; 4] = [0x3f, 0xff, 0xff, 0xff];
    for way in WAYS {
        let proxy = TestProxy::start(way, 2);
        let mut other = proxy.client();
        for length in [0u32, 7, 10_001, 0x7fff_ffff, u32::MAX] {
            let mut wire = Wire::open(proxy.port);
            wire.send(&[length.to_be_bytes(), 196_608u32.to_be_bytes()].concat());
            assert_eq!(error(&wire.until(0), b'C'), "08P01", "{way:?}: {length}");
        }
        let of = |kind: u8, length: [u8; 4]| [&[kind][..], &length].concat();
        // A name that does not end.
        let endless = [&of(b'B', LONGEST)[..], &[b'x'; 20_000]].concat();
        for (bytes, state) in [
            (of(b'Q', [0, 0, 0, 3]), "08P01"),
            (of(b'Q', [0x40, 0, 0, 0]), "08P01"),
            (of(b'Q', [0xff; 4]), "08P01"),
            (of(b'S', [0xff; 4]), "08P01"),
            (of(b'P', LONGEST), "54000"),
            (of(b'~', LONGEST), "08P01"),
            (endless, "08P01"),
        ] {
            let mut wire = proxy.client();
            assert_eq!(wire.value("select 1"), "1");
            wire.send(&bytes);
            let shown = &bytes[..bytes.len().min(9)];
            assert_eq!(error(&wire.until(0), b'C'), state, "{way:?}: {shown:x?}");
            assert_eq!(other.value("select 2"), "2", "{way:?}");
        }
        // These may be as long as they say: those who send no more of them hold nothing up.
        for kind in [b'Q', b'd', b'F'] {
            let mut wire = proxy.client();
            wire.send(&of(kind, LONGEST));
            wire.send(&[b'x'; 300_000]);
            drop(wire);
            assert_eq!(other.value("select 3"), "3", "{way:?}");
        }
        // Also the servers that they had.
        for _ in 0..4 {
            assert_eq!(proxy.client().value("select 4"), "4", "{way:?}");
        }
    }
}

/// A server that takes its time with what is copied stops the client that sends it.
#[test]
fn a_copy_without_an_end_takes_little_memory() {
    // More than sockets keep.
    const BYTES: usize = 64 << 20;
    const NAME: &str = "endless_copy";
    let proxy = TestProxy::start(Way::Plain, 2);
    let mut wire = proxy.client();
    for statement in [
        format!("drop table if exists {NAME}"),
        format!("create table {NAME} (a text)"),
        format!(
            "create or replace function {NAME}() returns trigger language plpgsql as \
             'begin perform pg_sleep(60); return new; end'"
        ),
        format!(
            "create trigger waits before insert on {NAME} for each row execute function {NAME}()"
        ),
    ] {
        let told = wire.query(&statement);
        assert!(kinds(&told).ends_with("CZ"), "{told:?}");
    }
    wire.send(&query(&format!("copy {NAME} from stdin")));
    assert_eq!(kinds(&wire.until(b'G')), "G");
    let mut sends = wire.socket.try_clone().expect("a second handle");
    let row = message(b'd', &[&[b'x'; 65_000][..], b"\n"].concat());
    let writes = thread::spawn(move || {
        let all = (0..BYTES / row.len()).map(|_| sends.write_all(&row));
        all.take_while(Result::is_ok).count() * row.len()
    });
    thread::sleep(Duration::from_secs(2));
    assert!(!writes.is_finished(), "all of it was taken");
    // Others are served meanwhile. As without the proxy, nothing is heard of the client before what it has sent is read.
    assert_eq!(proxy.client().value("select 1"), "1");
    let copies = format!("query like 'copy {NAME}%'");
    let end =
        format!("select count(pg_terminate_backend(pid)) from pg_stat_activity where {copies}");
    assert_eq!(postgres::shared().direct(&end), "1");
    let taken = writes.join().expect("it ends");
    assert!(taken < BYTES, "{taken}");
    drop(wire);
}

/// As one tries keys who has none.
#[test]
fn keys_that_are_tried_cancel_nothing() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 2);
        let (mut wire, mut other) = (proxy.client(), proxy.client());
        let key = wire.key.clone();
        wire.send(&query("select 1 from pg_sleep(1.5)"));
        for number in 0..500u32 {
            // The numbers of all clients are easily known; secrets are not.
            let secret =
                u32::from_be_bytes(key[4..].try_into().expect("four bytes")) ^ (number + 1);
            let mut tries = Wire::open(proxy.port);
            tries.send(&cancel_request(
                &[&key[..4], &secret.to_be_bytes()].concat(),
            ));
        }
        assert_eq!(other.value("select 2"), "2", "{way:?}");
        assert_eq!(kinds(&wire.until(b'Z')), "TDCZ", "{way:?}");
    }
}

/// Who asks again and again for what is its own to be cancelled leaves room for the requests of others.
#[test]
fn requests_to_cancel_of_one_client_are_bounded() {
    let relay = Relay::start(postgres::shared().port);
    let proxy = TestProxy::before(Way::Plain, relay.port, |settings| {
        settings.cancel_wait_timeout = PATIENCE;
    });
    let (mut greedy, mut other) = (proxy.client(), proxy.client());
    for wire in [&mut greedy, &mut other] {
        wire.send(&query("select pg_sleep(60) as greedy_or_other"));
    }
    let sleep = "select count(*) from pg_stat_activity where state = 'active' and query like '%(60) as greedy_or%' \
                 and pid <> pg_backend_pid()";
    await_that("they do not sleep", || {
        postgres::shared().direct(sleep) == "2"
    });
    let ask = |key: &[u8], times| {
        for _ in 0..times {
            Wire::open(proxy.port).send(&cancel_request(key));
        }
    };
    let arrived = || relay.cancels.load(Ordering::SeqCst);
    ask(&greedy.key, 200);
    await_that("nothing is to be cancelled", || arrived() == 4);
    ask(&other.key, 1);
    await_that("the other one's request is lost", || arrived() == 5);
    thread::sleep(Duration::from_millis(300));
    assert_eq!(arrived(), 5);
}

/// Behind an error PostgreSQL passes over what follows, without an answer, up to a Sync that never comes.
#[test]
fn a_batch_without_an_end_takes_so_much_memory_at_most() {
    let long = parse("", &format!("select 1 /* {} */", "x".repeat(15 << 20)));
    for (endless, times) in [(long, 20), (close("none").repeat(1000), 200)] {
        let proxy = TestProxy::start(Way::Plain, 2);
        let mut wire = proxy.client();
        wire.send(&message(b'B', b"\0there_is_none\0\0\0\0\0\0\0"));
        wire.until(b'E');
        wire.send(&parse("", "select 1"));
        for _ in 0..times {
            if wire.socket.write_all(&endless).is_err() {
                break;
            }
        }
        await_that("it is served on", || is_closed(&mut wire));
        assert_eq!(proxy.client().value("select 1"), "1");
    }
}

/// A server keeps some statements, the proxy all of them.
#[test]
fn prepared_statements_take_so_much_memory_at_most() {
    let proxy = TestProxy::start(Way::Plain, 2);
    let mut wire = proxy.client();
    let text = format!("select 1 /* {} */", "x".repeat(15 << 20));
    let mut prepare = |name: &str| {
        wire.send(&[parse(name, &text), sync()].concat());
        wire.until(b'Z')
    };
    for name in ["a", "b", "c", "d"] {
        assert_eq!(kinds(&prepare(name)), "1Z", "{name}");
    }
    // What is closed makes room.
    wire.send(&[close("a"), sync()].concat());
    assert_eq!(kinds(&wire.until(b'Z')), "3Z");
    let mut prepare = |name: &str| {
        wire.send(&[parse(name, &text), sync()].concat());
        wire.until(b'Z')
    };
    assert_eq!(kinds(&prepare("e")), "1Z");
    assert_eq!(error(&prepare("f"), b'C'), "54000");
    assert_eq!(proxy.client().value("select 1"), "1");
}
