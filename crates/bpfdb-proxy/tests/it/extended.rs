//! Extended queries and prepared statements: each reply is its client's, whichever way it comes, and statements are
//! what they are without the proxy.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use bpfdb_proxy::settings::Settings;
use bpfdb_tests::random::Random;

use crate::postgres::{self, USER};
use crate::proxy::{TestProxy, WAYS, Way};
use crate::wire::{
    Message, Wire, close, error, execute, execute_with, kinds, message, parse, query, rows, sync,
};

fn batch(parts: &[Vec<u8>]) -> Vec<u8> {
    [parts.concat(), sync()].concat()
}

fn answer(wire: &mut Wire, parts: &[Vec<u8>]) -> Vec<Message> {
    wire.send(&batch(parts));
    wire.until(b'Z')
}

/// A client that the kernel serves, where there are programs.
fn client(proxy: &TestProxy) -> Wire {
    let mut wire = proxy.client();
    assert_eq!(wire.value("select 1"), "1");
    wire
}

/// The first request of each kind may go through the process.
#[test]
fn the_kernel_brings_batches() {
    const TIMES: u64 = 60;
    let proxy = TestProxy::start(Way::Kernel, 1);
    let mut wire = client(&proxy);
    // As drivers have them that count names up: of three bytes, and of one.
    for name in ["S_1", "1"] {
        answer(&mut wire, &[parse(name, "select $1::text")]);
    }
    for number in 0..TIMES {
        let number = number.to_string();
        let unnamed = [parse("", "select $1::text"), execute_with("", &number)];
        let named = ["S_1", "1"].map(|name| execute_with(name, &number));
        for parts in [&unnamed[..], &named[..1], &named[1..]] {
            assert_eq!(rows(&answer(&mut wire, parts)), [[number.as_str()]]);
        }
        // As drivers do that ask for the types of parameters first.
        let described = [parse("", "select $1::int"), message(b'D', b"S\0")];
        assert_eq!(kinds(&answer(&mut wire, &described)), "1tTZ");
        let got = answer(&mut wire, &[execute_with("", &number)]);
        assert_eq!(rows(&got), [[number.as_str()]]);
        // Three requests in one message.
        let many = [batch(&unnamed), batch(&unnamed), query("select 1")].concat();
        wire.send(&many);
        for kinds_wanted in ["12TDCZ", "12TDCZ", "TDCZ"] {
            assert_eq!(kinds(&wire.until(b'Z')), kinds_wanted);
        }
    }
    drop(wire);
    proxy.brought(TIMES * 8 * 7 / 8);
}

/// What a client has prepared, and what it is to get.
struct Tagged {
    client: usize,
    wire: Wire,
    random: Random,
    /// The texts of its names.
    names: HashMap<&'static str, usize>,
    sent: usize,
}

/// Of all lengths that matter; all clients have the same.
const NAMES: [&str; 7] = [
    "",
    "s",
    "s1",
    "S_1",
    "_pg3_0",
    "stmtcache_0123456789abcdef0123456789abcdef0123456789abcdef",
    // The kernel does not know it.
    "longer_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
];

impl Tagged {
    /// Every second text is the same for all clients.
    fn text(&self, text: usize) -> String {
        match text % 2 {
            0 => format!("select 'common {text}', $1::text"),
            _ => format!("select '{} {text}', $1::text", self.client),
        }
    }

    /// Bytes, the kinds of the messages that answer them, and the row among them.
    fn next(&mut self) -> (Vec<u8>, &'static str, Option<Vec<String>>) {
        self.sent += 1;
        let tag = format!("{}-{}", self.client, self.sent);
        let name = NAMES[self.random.below(NAMES.len())];
        let text = self.random.below(6);
        let row = |text: String| {
            let shown = text.split('\'').nth(1).expect("its text").to_owned();
            Some(vec![shown, tag.clone()])
        };
        match self.random.below(10) {
            0 => {
                let shown = format!("select 'Q', '{tag}'");
                // It ends the unnamed statement.
                self.names.remove("");
                (query(&shown), "TDCZ", row("'Q'".into()))
            }
            1 => {
                let parts = [parse("", "select 1 / $1::int"), execute_with("", "0")];
                self.names.remove("");
                (batch(&parts), "1EZ", None)
            }
            2 | 3 if !self.names.contains_key(name) || name.is_empty() => {
                self.names.insert(name, text);
                (batch(&[parse(name, &self.text(text))]), "1Z", None)
            }
            4 if self.names.remove(name).is_some() => (batch(&[close(name)]), "3Z", None),
            5 | 6 => {
                self.names.insert("", text);
                let text = self.text(text);
                let parts = [parse("", &text), execute_with("", &tag)];
                (batch(&parts), "12TDCZ", row(text))
            }
            _ => {
                let parts = [execute_with(name, &tag)];
                match self.names.get(name) {
                    Some(text) => (batch(&parts), "2TDCZ", row(self.text(*text))),
                    None => (batch(&parts), "EZ", None),
                }
            }
        }
    }

    fn run(&mut self, way: Way, requests: usize) {
        let mut sent = 0;
        while sent < requests {
            let many = 1 + self.random.below(3);
            let next: Vec<_> = (0..many).map(|_| self.next()).collect();
            let bytes: Vec<u8> = next.iter().flat_map(|(bytes, ..)| bytes.clone()).collect();
            if self.random.below(4) == 0 {
                let at = self.random.below(bytes.len());
                self.wire.send(&bytes[..at]);
                thread::sleep(Duration::from_micros(100));
                self.wire.send(&bytes[at..]);
            } else if self.random.below(4) == 0 {
                for (bytes, ..) in &next {
                    self.wire.send(bytes);
                }
            } else {
                self.wire.send(&bytes);
            }
            for (bytes, wanted, row) in next {
                let got = self.wire.until(b'Z');
                let about = format!(
                    "{way:?}, {}: {:?}",
                    self.sent,
                    String::from_utf8_lossy(&bytes)
                );
                assert_eq!(kinds(&got), wanted, "{about}: {got:?}");
                let wanted: Vec<_> = row.into_iter().collect();
                assert_eq!(rows(&got), wanted, "{about}");
            }
            sent += many;
        }
    }
}

/// Clients on few servers, with the same names for other texts: each row has the tag of its request and the text of
/// its client.
#[test]
fn replies_are_those_of_the_statements_that_were_sent() {
    for way in WAYS {
        tag(way, 0, 250);
    }
}

#[test]
#[ignore = "a long loop"]
fn soak_replies_are_those_of_the_statements_that_were_sent() {
    for seed in 1..40 {
        tag(Way::Kernel, seed, 1000);
    }
}

fn tag(way: Way, seed: u64, requests: usize) {
    let proxy = TestProxy::with(way, |settings: &mut Settings| {
        settings.default_pool_size = 2;
        settings.max_prepared_statements = 20;
    });
    thread::scope(|scope| {
        for client in 0..6 {
            let wire = proxy.client();
            scope.spawn(move || {
                let random = Random::new(seed * 100 + client as u64);
                let (names, sent) = (HashMap::new(), 0);
                let mut tagged = Tagged {
                    client,
                    wire,
                    random,
                    names,
                    sent,
                };
                tagged.run(way, requests);
            });
        }
    });
    proxy.brought(1);
}

/// Takes the only server of a pool from its client.
fn take_server(other: &mut Wire) {
    let parts = [parse("", "select 'other'"), execute("")];
    assert_eq!(rows(&answer(other, &parts)), [["other"]]);
}

/// What it is, batches, and what the unnamed statement is behind them.
type Unnamed = (&'static str, Vec<Vec<u8>>, Option<&'static str>);

fn unnamed() -> Vec<Unnamed> {
    let mine = || parse("", "select 'mine'");
    let second = || parse("", "select 'second'");
    let run = || execute("");
    // It has no parameter.
    let fails = || execute_with("", "1");
    let nothing = || parse("", "select nothing");
    vec![
        ("a Parse", vec![batch(&[mine()])], Some("mine")),
        ("a batch", vec![batch(&[mine(), run()])], Some("mine")),
        ("that fails", vec![batch(&[mine(), fails()])], Some("mine")),
        (
            "a Parse that fails",
            vec![batch(&[mine()]), batch(&[nothing()])],
            None,
        ),
        (
            "one that is passed over",
            vec![batch(&[mine()]), batch(&[fails(), second()])],
            Some("mine"),
        ),
        (
            "a simple query",
            vec![batch(&[mine()]), query("select 1")],
            None,
        ),
        ("a Close", vec![batch(&[mine()]), batch(&[close("")])], None),
        (
            "two",
            vec![batch(&[mine(), run(), second(), run()])],
            Some("second"),
        ),
        (
            "two, the second of which fails",
            vec![batch(&[mine(), run(), nothing(), run()])],
            None,
        ),
        (
            "two, after the first of which it fails",
            vec![batch(&[mine(), fails(), second()])],
            Some("mine"),
        ),
        (
            "two, the first of which fails",
            vec![batch(&[nothing(), second()])],
            None,
        ),
        (
            "two, and a Flush",
            vec![batch(&[
                mine(),
                message(b'H', b""),
                run(),
                second(),
                fails(),
                mine(),
            ])],
            Some("second"),
        ),
        (
            "two batches",
            vec![batch(&[mine(), fails()]), batch(&[second(), fails()])],
            Some("second"),
        ),
    ]
}

/// It is there for later batches as without the proxy, also on another server.
#[test]
fn the_unnamed_statement_is_the_sessions() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let (mut one, mut other) = (client(&proxy), client(&proxy));
        answer(&mut one, &[parse("S_1", "select 'named'")]);
        answer(&mut one, &[execute("S_1")]);
        for is_taken in [false, true] {
            for (number, (what, sent, left)) in unnamed().into_iter().enumerate() {
                one.send(&sent.concat());
                for _ in sent {
                    one.until(b'Z');
                }
                // A batch without a Parse, and one of nothing.
                for parts in [&[execute("S_1")][..], &[]] {
                    if (number + usize::from(is_taken)) % 2 == 0 {
                        answer(&mut one, parts);
                    }
                }
                if is_taken {
                    take_server(&mut other);
                }
                let got = answer(&mut one, &[execute("")]);
                let about = format!("{way:?}: {what}, {is_taken}: {got:?}");
                match left {
                    Some(left) => assert_eq!(rows(&got), [[left]], "{about}"),
                    None => {
                        assert_eq!(kinds(&got), "EZ", "{about}");
                        assert_eq!(error(&got, b'C'), "26000", "{about}");
                    }
                }
            }
        }
    }
}

/// Requests that do not wait for the answer to the Parse before them.
#[test]
fn an_unnamed_statement_is_used_before_it_is_answered() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let mut one = client(&proxy);
        for (what, sent, left) in unnamed() {
            let many = sent.len();
            // The database is at it when the next ones come.
            let sleeps = batch(&[parse("", "select pg_sleep(0.02)"), execute("")]);
            one.send(&sleeps);
            for bytes in sent {
                one.send(&bytes);
            }
            one.send(&batch(&[execute("")]));
            one.send(&query("select 2"));
            for _ in 0..=many {
                one.until(b'Z');
            }
            let got = rows(&one.until(b'Z'));
            let wanted: Vec<_> = left.into_iter().map(|left| vec![left.to_owned()]).collect();
            assert_eq!(got, wanted, "{way:?}: {what}");
            assert_eq!(rows(&one.until(b'Z')), [["2"]], "{way:?}: {what}");
        }
    }
}

/// A parameter that PostgreSQL reports is the client's own, also if a prepared statement sets it: its server serves
/// others.
#[test]
fn a_prepared_statement_that_sets_a_parameter_keeps_no_server() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let (mut one, mut two) = (client(&proxy), client(&proxy));
        let of_database = two.value("show timezone");
        let text = "select set_config('TimeZone', $1, false)";
        for round in 0..20 {
            let zone = ["Asia/Tokyo", "Europe/Berlin"][round % 2];
            // The execution comes by itself: the kernel has the client again by then.
            answer(&mut one, &[parse("S_1", text)]);
            thread::sleep(Duration::from_millis(5));
            let got = answer(&mut one, &[execute_with("S_1", zone)]);
            assert_eq!(rows(&got), [[zone]], "{way:?}");
            assert_eq!(two.value("show timezone"), of_database, "{way:?}");
            assert_eq!(one.value("show timezone"), zone, "{way:?}");
            answer(&mut one, &[close("S_1")]);
        }
    }
}

/// More texts than the kernel has numbers for short names: numbers are used again, for other texts.
#[test]
fn numbers_of_statements_are_used_again() {
    for way in [Way::Kernel, Way::Slow] {
        let proxy = TestProxy::start(way, 2);
        let (mut one, mut two) = (client(&proxy), client(&proxy));
        for round in 0..300 {
            let name = if round % 2 == 0 { "s1" } else { "1" };
            let text = format!("select '{round}'");
            answer(&mut one, &[parse(name, &text)]);
            for wire in [&mut two, &mut one] {
                if round % 3 == 0 {
                    answer(wire, &[parse("", "select 1"), execute("")]);
                }
            }
            for _ in 0..2 {
                let got = answer(&mut one, &[execute(name)]);
                assert_eq!(rows(&got), [[round.to_string()]], "{way:?}");
            }
            answer(&mut one, &[close(name)]);
            let got = answer(&mut one, &[execute(name)]);
            assert_eq!(error(&got, b'C'), "26000", "{way:?}");
        }
    }
}

/// What ends statements in the session of a server, or in that of a client.
#[test]
fn statements_that_were_ended_are_prepared_again_or_gone() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let (mut one, mut two) = (client(&proxy), client(&proxy));
        for ends in ["deallocate all", "discard all"] {
            for wire in [&mut one, &mut two] {
                answer(wire, &[parse("S_1", "select 'both'")]);
                for _ in 0..2 {
                    assert_eq!(rows(&answer(wire, &[execute("S_1")])), [["both"]]);
                }
            }
            one.query(ends);
            let got = answer(&mut one, &[execute("S_1")]);
            assert_eq!(error(&got, b'C'), "26000", "{way:?}: {ends}");
            for _ in 0..2 {
                let got = answer(&mut two, &[execute("S_1")]);
                assert_eq!(rows(&got), [["both"]], "{way:?}: {ends}");
            }
            answer(&mut two, &[close("S_1")]);
        }
        // As DEALLOCATE, by a statement of the client's own, which the kernel does not bring.
        answer(
            &mut one,
            &[parse("S_1", "select 'both'"), parse("ends", "discard all")],
        );
        for _ in 0..2 {
            answer(&mut one, &[execute("S_1")]);
        }
        answer(&mut one, &[execute("ends")]);
        assert_eq!(kinds(&answer(&mut one, &[execute("S_1")])), "EZ", "{way:?}");
    }
}

/// Of long names PostgreSQL takes the first bytes only, and the kernel none; what else their client sends it brings.
#[test]
fn long_names_are_what_they_are_without_the_proxy() {
    const TIMES: u64 = 60;
    let long = |length| "x".repeat(length);
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let mut direct = Wire::connect(postgres::shared().port, USER, &[]);
        let mut wire = client(&proxy);
        for parts in [
            vec![parse(&long(63), "select 'one'")],
            vec![execute(&long(63)), execute(&long(64))],
            vec![parse(&long(200), "select 'another'")],
            vec![close(&long(64))],
            vec![execute(&long(63))],
            vec![parse(&long(200), "select 'two'"), execute(&long(200))],
            vec![execute(&long(63)), execute(&long(5000))],
            vec![close(&long(63))],
            vec![execute(&long(200))],
        ] {
            let told = |messages: Vec<Message>| {
                let has_failed = messages.iter().any(|(kind, _)| *kind == b'E');
                let state = has_failed.then(|| error(&messages, b'C'));
                (kinds(&messages), state, rows(&messages))
            };
            let (wanted, got) = (answer(&mut direct, &parts), answer(&mut wire, &parts));
            assert_eq!(told(got), told(wanted), "{way:?}: {parts:?}");
        }
        for _ in 0..TIMES {
            assert_eq!(wire.value("select 1"), "1");
        }
        drop(wire);
        proxy.brought(TIMES - 5);
    }
}

/// A Parse that fails leaves nothing, in a transaction and outside of one.
#[test]
fn a_parse_that_fails_is_no_statement() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let mut direct = Wire::connect(postgres::shared().port, USER, &[]);
        let mut wire = client(&proxy);
        for text in [
            "begin",
            "select nothing",
            "select 1",
            "rollback",
            "select 2",
        ] {
            let parts = [
                vec![parse("S_1", text)],
                vec![execute("S_1")],
                vec![close("S_1")],
                vec![parse("", text), execute("")],
            ];
            for parts in parts {
                let told = |messages: Vec<Message>| {
                    let has_failed = messages.iter().any(|(kind, _)| *kind == b'E');
                    let state = has_failed.then(|| error(&messages, b'C'));
                    let status = messages.last().map(|(_, body)| body.clone());
                    (kinds(&messages), state, status)
                };
                let (wanted, got) = (answer(&mut direct, &parts), answer(&mut wire, &parts));
                assert_eq!(told(got), told(wanted), "{way:?}: {text}, {parts:?}");
            }
        }
    }
}

/// A Bind whose values are as long as a message that the kernel looks at may be, and longer.
#[test]
fn values_of_any_length_are_bound() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 2);
        let mut wire = client(&proxy);
        answer(&mut wire, &[parse("S_1", "select length($1::text)")]);
        for length in [1, 1000, 5000, 31_000, 32_000, 100_000] {
            for _ in 0..2 {
                let got = answer(&mut wire, &[execute_with("S_1", &"x".repeat(length))]);
                assert_eq!(rows(&got), [[length.to_string()]], "{way:?}");
            }
        }
        // A portal with a name, and rows in parts, in a transaction.
        answer(&mut wire, &[parse("S_2", "select generate_series(1, 3)")]);
        wire.query("begin");
        let portal = message(b'B', b"p\0S_2\0\0\0\0\0\0\0");
        let two = message(b'E', b"p\0\0\0\0\x02");
        assert_eq!(kinds(&answer(&mut wire, &[portal, two.clone()])), "2DDsZ");
        assert_eq!(kinds(&answer(&mut wire, &[two])), "DCZ", "{way:?}");
        wire.query("commit");
    }
}
