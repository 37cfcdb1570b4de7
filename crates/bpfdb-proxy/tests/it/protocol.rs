//! What goes through the proxy is what comes from PostgreSQL.

use std::thread;
use std::time::{Duration, Instant};

use bpfdb_tests::random::Random;

use crate::postgres;
use crate::proxy::{TestProxy, WAYS};
use crate::wire::{
    Message, Wire, cancel_request, error, execute, kinds, message, parse, query, rows, sync,
};

/// Requests of all kinds, each with the number of ReadyForQuery that it has.
fn requests() -> Vec<(Vec<u8>, usize)> {
    let extended = |text: &str| [parse("", text), execute("")].concat();
    vec![
        (query("select 1, 'two', null::int"), 1),
        (query("select 1; select 2"), 1),
        (query(""), 1),
        (query("select nothing"), 1),
        ([extended("select 41 + 1"), sync()].concat(), 1),
        (
            [
                extended("select 1"),
                extended("select 1 / 0"),
                extended("select 3"),
                sync(),
            ]
            .concat(),
            1,
        ),
        (
            [query("select 5"), query("select 6"), query("select 7")].concat(),
            3,
        ),
        (
            [parse("named", "select 8"), sync(), execute("named"), sync()].concat(),
            2,
        ),
        ([message(b'D', b"Snamed\0"), sync()].concat(), 1),
        ([parse("named", "select 9"), sync()].concat(), 1),
        ([message(b'C', b"Snamed\0"), sync()].concat(), 1),
        ([execute("named"), sync()].concat(), 1),
        (query("select repeat('y', 100000)"), 1),
        (
            query(&format!("select length('{}')", "z".repeat(200_000))),
            1,
        ),
        (query("begin"), 1),
        (query("select 1 from nothing"), 1),
        (query("select 1"), 1),
        (query("rollback"), 1),
        (query("copy (select generate_series(1, 2000)) to stdout"), 1),
    ]
}

/// Without what differs between two sessions: a name of ours in the error about a name that is taken.
fn comparable(messages: Vec<Message>) -> Vec<Message> {
    let strip = |(kind, body): Message| match kind {
        b'E' => (kind, error(&[(kind, body)], b'C').into_bytes()),
        _ => (kind, body),
    };
    messages.into_iter().map(strip).collect()
}

fn replies(wire: &mut Wire, readies: usize) -> Vec<Message> {
    comparable((0..readies).flat_map(|_| wire.until(b'Z')).collect())
}

#[test]
fn requests_in_pieces_are_answered_as_without_the_proxy() {
    let mut direct = Wire::connect(postgres::shared().port, postgres::USER, &[]);
    let mut random = Random::new(1);
    for way in WAYS {
        let proxy = TestProxy::start(way, 2);
        let mut wire = proxy.client();
        for (bytes, readies) in requests() {
            direct.send(&bytes);
            let wanted = replies(&mut direct, readies);
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let most = if rest.len() > 1000 {
                    rest.len()
                } else {
                    1 + rest.len() / 2
                };
                let piece = 1 + random.below(most);
                let (now, later) = rest.split_at(piece.min(rest.len()));
                wire.send(now);
                rest = later;
                if random.below(3) == 0 {
                    thread::sleep(Duration::from_micros(300));
                }
            }
            let got = replies(&mut wire, readies);
            assert_eq!(
                kinds(&got),
                kinds(&wanted),
                "{way:?}: {:?}",
                &bytes[..bytes.len().min(60)]
            );
            assert_eq!(got, wanted, "{way:?}");
        }
    }
}

#[test]
fn data_is_copied_both_ways() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 2);
        let mut wire = proxy.client();
        let table = format!("copied_{way:?}");
        wire.query(&format!("drop table if exists {table}"));
        wire.query(&format!("create table {table} (a int)"));
        wire.send(&query(&format!("copy {table} from stdin")));
        assert_eq!(kinds(&wire.until(b'G')), "G");
        for part in 0..50 {
            let rows = (0..200)
                .flat_map(|row| message(b'd', format!("{}\n", part * 200 + row).as_bytes()));
            wire.send(&rows.collect::<Vec<u8>>());
        }
        wire.send(&message(b'c', b""));
        assert_eq!(kinds(&wire.until(b'Z')), "CZ");
        let sum = wire.value(&format!("select count(*) || ' ' || sum(a) from {table}"));
        assert_eq!(sum, "10000 49995000");
        // By an extended query, whose first Sync PostgreSQL passes over.
        let copy = [
            parse("", &format!("copy {table} from stdin")),
            execute(""),
            sync(),
        ]
        .concat();
        wire.send(&copy);
        wire.until(b'G');
        wire.send(&[message(b'd', b"1\n"), message(b'c', b""), sync()].concat());
        assert_eq!(kinds(&wire.until(b'Z')), "CZ");
        // An error in the midst; what is under way is passed over.
        wire.send(&query(&format!("copy {table} from stdin")));
        wire.until(b'G');
        for part in 0..20 {
            let row: &[u8] = if part == 3 { b"bad\n" } else { b"1\n" };
            wire.send(&message(b'd', row));
        }
        wire.send(&message(b'c', b""));
        assert_eq!(kinds(&wire.until(b'Z')), "EZ");
        assert_eq!(wire.value("select 3"), "3");
        wire.send(&query(&format!("copy {table} to stdout")));
        let copied = wire
            .until(b'Z')
            .iter()
            .filter(|(kind, _)| *kind == b'd')
            .count();
        assert_eq!(copied, 10001);
    }
}

#[test]
fn a_request_is_cancelled_and_no_other() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 2);
        let (mut wire, mut other) = (proxy.client(), proxy.client());
        wire.send(&query("select pg_sleep(15)"));
        other.send(&query("select pg_sleep(1)"));
        thread::sleep(Duration::from_millis(300));
        let begun = Instant::now();
        let cancel = |key: &[u8]| Wire::open(proxy.port).send(&cancel_request(key));
        let mut wrong = wire.key.clone();
        wrong[7] ^= 1;
        cancel(&wrong);
        thread::sleep(Duration::from_millis(100));
        cancel(&wire.key);
        assert_eq!(error(&wire.until(b'Z'), b'C'), "57014", "{way:?}");
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert_eq!(kinds(&other.until(b'Z')), "TDCZ");
        assert_eq!(wire.value("select 1"), "1");
    }
}

/// More clients than servers, with the same names for other statements.
#[test]
fn statements_are_on_every_server() {
    for way in WAYS {
        let proxy = TestProxy::with(way, |settings| {
            settings.default_pool_size = 3;
            settings.max_prepared_statements = 5;
        });
        let mut wires: Vec<Wire> = (0..8).map(|_| proxy.client()).collect();
        for (number, wire) in wires.iter_mut().enumerate() {
            let own = parse("own", &format!("select {number}"));
            wire.send(&[own, parse("common", "select 'common'"), sync()].concat());
            assert_eq!(kinds(&wire.until(b'Z')), "11Z");
            wire.send(&[parse("", "select 'unnamed'"), sync()].concat());
            assert_eq!(kinds(&wire.until(b'Z')), "1Z");
        }
        let mut random = Random::new(3);
        // Some are in a transaction, so that the others change servers.
        for wire in &mut wires[..2] {
            wire.query("begin");
        }
        for _ in 0..300 {
            let number = 2 + random.below(6);
            let own = number.to_string();
            let (name, wanted) = match random.below(3) {
                0 => ("common", "common"),
                1 => ("", "unnamed"),
                _ => ("own", own.as_str()),
            };
            wires[number].send(&[execute(name), sync()].concat());
            let replies = wires[number].until(b'Z');
            assert_eq!(kinds(&replies), "2TDCZ", "{way:?}");
            assert_eq!(rows(&replies), [[wanted]], "{way:?}");
        }
    }
}

/// What PostgreSQL passes over behind an error has not been done, in whatever order it was sent.
#[test]
fn what_is_passed_over_behind_an_error_changes_no_statement() {
    let fails = execute("bogus");
    let close = |name: &str| message(b'C', format!("S{name}\0").as_bytes());
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let (mut one, mut two) = (proxy.client(), proxy.client());
        one.send(&[parse("", "select 'of one'"), sync()].concat());
        one.until(b'Z');
        two.send(&[fails.clone(), close(""), sync()].concat());
        assert_eq!(error(&two.until(b'Z'), b'C'), "26000", "{way:?}");
        // The server has that of the other client without a name.
        two.send(&[execute(""), sync()].concat());
        assert_eq!(error(&two.until(b'Z'), b'C'), "26000", "{way:?}");
        one.send(&[parse("mine", "select 1"), sync()].concat());
        one.until(b'Z');
        let again = [
            fails.clone(),
            close("mine"),
            parse("mine", "select 2"),
            sync(),
        ]
        .concat();
        one.send(&again);
        one.until(b'Z');
        one.send(&[execute("mine"), sync()].concat());
        assert_eq!(rows(&one.until(b'Z')), [["1"]], "{way:?}");
        // The proxy's own Close of the same text, and its Parse.
        one.send(
            &[
                fails.clone(),
                close("mine"),
                parse("mine", "select 1"),
                sync(),
            ]
            .concat(),
        );
        one.until(b'Z');
        let anew = [
            close("mine"),
            parse("mine", "select 1"),
            execute("mine"),
            sync(),
        ]
        .concat();
        one.send(&anew);
        assert_eq!(rows(&one.until(b'Z')), [["1"]], "{way:?}");
    }
}
