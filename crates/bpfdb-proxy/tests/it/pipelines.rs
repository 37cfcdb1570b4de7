//! Several batches in one message, of which the first ones fail, or end statements: what names mean behind them is
//! what they mean without the proxy.

use std::io::Write;
use std::thread;

use bpfdb_proxy::settings::Settings;

use crate::postgres::{self, USER};
use crate::proxy::{TestProxy, WAYS};
use crate::wire::{Message, Wire, close, error, execute, kinds, message, parse, query, rows, sync};

/// As of a driver that sends each row as a text of its own.
#[test]
fn a_batch_may_have_twenty_thousand_texts() {
    const TEXTS: usize = 20_000;
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let mut wire = Wire::connect(proxy.port, USER, &[]);
        let mut sends = wire.socket.try_clone().expect("a second one of it");
        let answers = thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0..TEXTS {
                    let text = parse("", &format!("select {number}"));
                    sends
                        .write_all(&[text, execute("")].concat())
                        .expect("sent");
                }
                sends.write_all(&sync()).expect("sent");
            });
            wire.until(b'Z')
        });
        let rows = rows(&answers);
        assert_eq!(rows.len(), TEXTS, "{way:?}");
        for (number, row) in rows.iter().enumerate() {
            assert_eq!(*row, [number.to_string()], "{way:?}");
        }
    }
}

/// Bytes of one message, and the ReadyForQuery messages that answer it.
type Step = (Vec<u8>, usize);

fn batch(parts: &[Vec<u8>]) -> Step {
    ([parts.concat(), sync()].concat(), 1)
}

/// In one message.
fn together(steps: &[Step]) -> Step {
    let bytes = steps.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
    (bytes, steps.iter().map(|(_, readies)| readies).sum())
}

/// Kinds, states of errors and rows: all that is the same in two sessions.
type Told = (String, Vec<String>, Vec<Vec<String>>);

fn told(messages: &[Message]) -> Told {
    let errors = messages.iter().filter(|(kind, _)| *kind == b'E');
    let states = errors.map(|told| error(std::slice::from_ref(told), b'C'));
    (kinds(messages), states.collect(), rows(messages))
}

fn run(wire: &mut Wire, (bytes, readies): &Step) -> Told {
    wire.send(bytes);
    let all: Vec<_> = (0..*readies).flat_map(|_| wire.until(b'Z')).collect();
    told(&all)
}

/// Each in a session of its own.
fn sessions() -> Vec<(&'static str, Vec<Step>)> {
    let one = |name: &str| parse(name, "select 'one'");
    let two = |name: &str| parse(name, "select 'two'");
    let fails = || execute("bogus");
    let ends = || parse("", "deallocate all");
    vec![
        (
            "a Close that is passed over, and a Parse",
            vec![
                batch(&[one("S_1")]),
                together(&[
                    batch(&[fails(), close("S_1")]),
                    batch(&[close("S_1"), two("S_1")]),
                ]),
                batch(&[execute("S_1")]),
                batch(&[execute("S_1")]),
            ],
        ),
        (
            "a Parse without a name that fails, and another one",
            vec![
                together(&[batch(&[parse("", "select nothing")]), batch(&[two("")])]),
                batch(&[execute("")]),
            ],
        ),
        (
            "a Parse that is passed over, and the same again",
            vec![
                together(&[batch(&[fails(), one("S_2")]), batch(&[one("S_2")])]),
                batch(&[execute("S_2")]),
            ],
        ),
        (
            "one that is passed over, and another one",
            vec![
                together(&[batch(&[fails(), one("S_2")]), batch(&[two("S_2")])]),
                batch(&[execute("S_2")]),
                batch(&[execute("S_2")]),
            ],
        ),
        (
            "all statements end, and one is parsed",
            vec![
                batch(&[one("S_1")]),
                together(&[(query("deallocate all"), 1), batch(&[two("S_1")])]),
                batch(&[execute("S_1")]),
            ],
        ),
        (
            "the same within a batch",
            vec![
                batch(&[one("S_1")]),
                batch(&[ends(), execute(""), two("S_1"), execute("S_1"), one("S_2")]),
                batch(&[execute("S_1"), execute("S_2")]),
                batch(&[execute("S_1"), execute("S_2")]),
            ],
        ),
        (
            "a portal that ends all statements",
            vec![
                batch(&[one("S_1")]),
                (query("begin"), 1),
                batch(&[ends(), message(b'B', b"\0\0\0\0\0\0\0\0")]),
                batch(&[message(b'E', b"\0\0\0\0\0")]),
                (query("commit"), 1),
                batch(&[two("S_1")]),
                batch(&[execute("S_1")]),
            ],
        ),
        (
            "a call of a function in a batch",
            vec![
                together(&[
                    ([one(""), execute(""), message(b'F', b"")].concat(), 1),
                    batch(&[parse("", "select nothing")]),
                ]),
                batch(&[execute("")]),
            ],
        ),
    ]
}

#[test]
fn names_mean_what_they_mean_without_the_proxy() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        for (what, steps) in sessions() {
            let mut direct = Wire::connect(postgres::shared().port, USER, &[]);
            let mut wire = proxy.client();
            assert_eq!(wire.value("select 1"), "1");
            for (number, step) in steps.iter().enumerate() {
                let wanted = run(&mut direct, step);
                assert_eq!(run(&mut wire, step), wanted, "{way:?}: {what}, {number}");
            }
            drop(wire);
            assert_eq!(proxy.client().value("select 2"), "2", "{way:?}: {what}");
        }
    }
}

/// A statement that a server lacks is prepared in front of a Bind, which is passed over.
#[test]
fn a_statement_that_was_not_prepared_after_all_is_prepared_again() {
    for way in WAYS {
        let proxy = TestProxy::with(way, |settings: &mut Settings| {
            settings.default_pool_size = 1;
            settings.max_prepared_statements = 1;
        });
        let (mut one, mut other) = (proxy.client(), proxy.client());
        run(&mut one, &batch(&[parse("S_1", "select 'mine'")]));
        run(&mut other, &batch(&[parse("S_1", "select 'other'")]));
        let both = together(&[
            batch(&[execute("bogus"), execute("S_1")]),
            batch(&[execute("S_1")]),
        ]);
        let (kinds, states, rows) = run(&mut one, &both);
        assert_eq!(
            (kinds.as_str(), rows),
            ("EZ2TDCZ", vec![vec!["mine".into()]]),
            "{way:?}"
        );
        assert_eq!(states, ["26000"], "{way:?}");
    }
}

/// One that is prepared when all others are in use stays.
#[test]
fn the_newest_statement_of_a_server_stays() {
    for way in WAYS {
        let proxy = TestProxy::with(way, |settings: &mut Settings| {
            settings.default_pool_size = 1;
            settings.max_prepared_statements = 2;
        });
        let mut wire = proxy.client();
        wire.value("select 1");
        for name in ["S_1", "S_2"] {
            run(
                &mut wire,
                &batch(&[parse(name, &format!("select '{name}'"))]),
            );
        }
        for _ in 0..3 {
            for name in ["S_1", "S_2"] {
                let (_, _, rows) = run(&mut wire, &batch(&[execute(name)]));
                assert_eq!(rows, [[name]], "{way:?}");
            }
        }
        let third = batch(&[parse("S_3", "select 'S_3'"), execute("S_3")]);
        assert_eq!(run(&mut wire, &third).2, [["S_3"]], "{way:?}");
        for name in ["S_1", "S_2", "S_3", "S_1"] {
            let (_, _, rows) = run(&mut wire, &batch(&[execute(name)]));
            assert_eq!(rows, [[name]], "{way:?}");
        }
    }
}

/// What a portal does is judged when it is bound, also if a later batch of its transaction executes it.
#[test]
fn a_portal_is_executed_later() {
    let bind = || message(b'B', b"\0\0\0\0\0\0\0\0");
    let run_it = || batch(&[message(b'E', b"\0\0\0\0\0")]);
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let mut wire = proxy.client();
        wire.query("create table if not exists portaled (a int)");
        wire.query("begin");
        run(
            &mut wire,
            &batch(&[parse("", "copy portaled from stdin"), bind()]),
        );
        wire.send(&run_it().0);
        assert_eq!(kinds(&wire.until(b'G')), "G", "{way:?}");
        wire.send(&[message(b'd', b"1\n"), message(b'c', b""), sync()].concat());
        assert_eq!(kinds(&wire.until(b'Z')), "CZ", "{way:?}");
        wire.query("commit");
        // The server is the next one's.
        let mut next = proxy.client();
        assert_eq!(next.value("select 1"), "1", "{way:?}");
        wire.query("begin");
        run(
            &mut wire,
            &batch(&[parse("", "select 1 as a into temp portaled_1"), bind()]),
        );
        run(&mut wire, &run_it());
        wire.query("commit");
        let shows = "select to_regclass('portaled_1') is not null";
        assert_eq!(wire.value(shows), "t", "{way:?}");
        drop(wire);
        assert_eq!(next.value(shows), "f", "{way:?}");
    }
}

/// A parameter changes, which keeps the server, while the answer to a Parse is to come.
#[test]
fn a_server_is_kept_before_a_parse_is_answered() {
    postgres::shared().direct(
        "create or replace function shifts() returns text language sql as \
         'select set_config(''TimeZone'', ''UTC+1'', false) from pg_sleep(0.05)'",
    );
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let mut wire = proxy.client();
        wire.value("select 1");
        let texts = [
            parse("", "select 1"),
            execute(""),
            parse("", "select 'mine'"),
        ];
        wire.send(&together(&[(query("select shifts()"), 1), batch(&texts)]).0);
        wire.send(&batch(&[parse("S_1", "select 2")]).0);
        for _ in 0..3 {
            wire.until(b'Z');
        }
        let (_, _, rows) = run(&mut wire, &batch(&[execute("")]));
        assert_eq!(rows, [["mine"]], "{way:?}");
    }
}
