//! What a client has said of its session holds for it, and for no other.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use crate::postgres;
use crate::proxy::{TestProxy, WAYS};
use crate::wire::{Wire, execute, kinds, message, parse, rows, sync};

#[test]
fn parameters_follow_their_client() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let named = |name| Wire::connect(proxy.port, postgres::USER, &[("application_name", name)]);
        let (mut one, mut two) = (named("one"), named("two"));
        one.query("set timezone to 'Asia/Tokyo'");
        two.query("set datestyle to 'German'");
        for _ in 0..3 {
            let shown = "select current_setting('application_name') || ' ' || current_setting('timezone') \
                         || ' ' || split_part(current_setting('datestyle'), ',', 1)";
            assert!(
                one.value(shown).starts_with("one Asia/Tokyo ISO"),
                "{way:?}"
            );
            let shown = two.value(shown);
            assert!(
                shown.starts_with("two ") && shown.ends_with(" German"),
                "{way:?}: {shown}"
            );
        }
    }
}

/// Drivers tell connections apart by what they could be cancelled by, as by the process that serves them.
#[test]
fn connections_that_follow_each_other_have_other_numbers() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let number = |_| Wire::connect(proxy.port, postgres::USER, &[]).key[..4].to_vec();
        let numbers: BTreeSet<_> = (0..5).map(number).collect();
        assert_eq!(numbers.len(), 5, "{way:?}: {numbers:?}");
    }
}

#[test]
fn the_name_of_an_application_may_say_where_it_is() {
    for way in WAYS {
        let proxy = TestProxy::with(way, |settings| settings.application_name_add_host = true);
        for (more, name) in [
            (vec![("application_name", "shop")], "shop"),
            (vec![], "app"),
        ] {
            let mut wire = Wire::connect(proxy.port, postgres::USER, &more);
            let place = wire.socket.local_addr().expect("its address");
            for _ in 0..3 {
                let shown = wire.value("show application_name");
                assert_eq!(shown, format!("{name} - {place}"), "{way:?}");
            }
        }
    }
}

/// As drivers write them: JDBC says `ISO`, and asyncpg `utf-8`. PostgreSQL reports what it makes of that.
#[test]
fn values_that_postgresql_writes_otherwise_are_set_once() {
    const TIMES: u64 = 60;
    let more = [
        ("client_encoding", "utf-8"),
        ("DateStyle", "ISO"),
        ("TimeZone", "asia/tokyo"),
        ("application_name", "caf\u{e9}"),
    ];
    let direct = Wire::started_with(postgres::shared().port, &more);
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let mut wire = Wire::connect(proxy.port, postgres::USER, &more);
        // What it hears of them by its first request is what it would have been greeted with.
        let told = wire.query("select 1");
        for (name, _) in more {
            let said = told.iter().filter(|(kind, _)| *kind == b'S');
            let said = said.filter_map(|(_, body)| body.strip_prefix(name.as_bytes()));
            let said: Vec<String> = said
                .map(|value| String::from_utf8_lossy(value).replace('\0', ""))
                .collect();
            assert_eq!(said, [direct[name].as_str()], "{way:?}: {name}");
            for _ in 0..TIMES / 4 {
                let shown = wire.query(&format!("show {name}"));
                assert_eq!(kinds(&shown), "TDCZ", "{way:?}: {name}");
                assert_eq!(rows(&shown), [[direct[name].as_str()]], "{way:?}");
            }
        }
        drop(wire);
        proxy.brought(TIMES - 5);
    }
}

/// What frameworks set in each of their sessions keeps no server.
#[test]
fn plain_settings_follow_their_client() {
    const SHOWN: &str = "select current_setting('statement_timeout') || ' ' || current_setting('client_min_messages')";
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let (mut one, mut two, mut three) = (proxy.client(), proxy.client(), proxy.client());
        one.query("SET client_min_messages TO 'warning'");
        one.query("set session statement_timeout = '7s';");
        two.query("set statement_timeout to 9000");
        let process = three.value("select pg_backend_pid()");
        let shows = |wire: &mut Wire, wanted: &str| {
            for _ in 0..3 {
                assert_eq!(wire.value(SHOWN), wanted, "{way:?}");
                assert_eq!(wire.value("select pg_backend_pid()"), process, "{way:?}");
                thread::sleep(Duration::from_millis(2));
            }
        };
        for _ in 0..2 {
            shows(&mut one, "7s warning");
            shows(&mut two, "9s notice");
            shows(&mut three, "0 notice");
        }
        // One that fails is none, and one that is taken back.
        assert_eq!(kinds(&one.query("set statement_timeout to 'never'")), "EZ");
        shows(&mut one, "7s warning");
        one.query("set statement_timeout to default");
        shows(&mut two, "9s notice");
        shows(&mut one, "0 warning");
        two.query("discard all");
        shows(&mut two, "0 notice");
        shows(&mut one, "0 warning");
    }
}

/// As it stays or not may depend on what comes later, or on what is not known.
#[test]
fn settings_that_are_not_plain_keep_their_server() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 2);
        let (mut one, mut two) = (proxy.client(), proxy.client());
        one.query("set jit = off");
        for text in ["reset jit", "begin; set lock_timeout = '7s'; commit"] {
            one.query(text);
            let process = one.value("select pg_backend_pid()");
            two.query("begin");
            assert_ne!(
                two.value("select pg_backend_pid()"),
                process,
                "{way:?}: {text}"
            );
            two.query("commit");
        }
        assert_eq!(one.value("show jit"), two.value("show jit"), "{way:?}");
        assert_eq!(one.value("show lock_timeout"), "7s", "{way:?}");
        // Then there is nothing left of them.
        drop(one);
        let (mut three, mut four) = (proxy.client(), proxy.client());
        three.query("begin");
        for wire in [&mut three, &mut four] {
            assert_eq!(wire.value("show lock_timeout"), "0", "{way:?}");
        }
    }
}

#[test]
fn a_session_with_state_keeps_its_server() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 2);
        for state in ["set work_mem = '7MB'", "select 1; set work_mem = '7MB'"] {
            let (mut one, mut two) = (proxy.client(), proxy.client());
            one.query(state);
            for _ in 0..3 {
                assert_eq!(one.value("show work_mem"), "7MB", "{way:?}");
                assert_ne!(two.value("show work_mem"), "7MB", "{way:?}");
            }
            drop(one);
            // What it leaves is put right before another has it.
            let mut three = proxy.client();
            two.query("begin");
            assert_ne!(three.value("show work_mem"), "7MB", "{way:?}");
        }
        let mut one = proxy.client();
        one.query("create temporary table mine (a int)");
        let mut others = [proxy.client(), proxy.client()];
        for other in &mut others {
            assert_eq!(
                other.value("select to_regclass('mine') is null"),
                "t",
                "{way:?}"
            );
        }
        assert_eq!(one.value("select count(*) from mine"), "0");
    }
}

/// What ends with the transaction keeps no server.
#[test]
fn local_settings_keep_no_server() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let (mut one, mut two) = (proxy.client(), proxy.client());
        one.query("begin");
        one.query("set local work_mem = '7MB'");
        one.query("declare c cursor for select 1");
        one.query("commit");
        assert_ne!(two.value("show work_mem"), "7MB", "{way:?}");
    }
}

#[test]
fn a_failed_transaction_stays_failed() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 2);
        let mut wire = proxy.client();
        wire.query("begin");
        let status = |messages: Vec<(u8, Vec<u8>)>| messages.last().expect("ready").1[0];
        assert_eq!(status(wire.query("nonsense")), b'E');
        assert_eq!(status(wire.query("select 1")), b'E');
        assert_eq!(status(wire.query("rollback")), b'I');
        assert_eq!(wire.value("select 2"), "2");
    }
}

/// A client of the kernel's, so that its next query goes there.
fn settled(wire: &mut Wire) {
    for _ in 0..3 {
        assert_eq!(wire.value("select 1"), "1");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_a_select_leaves_is_no_other_clients() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        for (text, is_left, left) in [
            (
                "select 1 as a into temporary left_by",
                "select to_regclass('left_by') is not null",
                "t",
            ),
            (
                "select 1; create temp table left_by as select 1",
                "select to_regclass('left_by') is not null",
                "t",
            ),
            (
                "do 'begin create temp table left_by(); end'",
                "select to_regclass('left_by') is not null",
                "t",
            ),
            (
                "select pg_advisory_lock(7)",
                "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()",
                "1",
            ),
            (
                "select set_config('work_mem', '7MB', false)",
                "select current_setting('work_mem') = '7MB'",
                "t",
            ),
        ] {
            let mut one = proxy.client();
            settled(&mut one);
            one.query(text);
            assert_eq!(one.value(is_left), left, "{way:?}: {text}");
            drop(one);
            assert_ne!(proxy.client().value(is_left), left, "{way:?}: {text}");
        }
    }
}

#[test]
fn what_leaves_nothing_keeps_no_server() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let (mut one, mut two) = (proxy.client(), proxy.client());
        for text in [
            "select ';', 'into' -- ; into",
            "select 1 ; ; ",
            "select pg_advisory_xact_lock(7)",
            "begin; select 1; commit",
        ] {
            settled(&mut one);
            one.query(text);
            assert_eq!(two.value("select 2"), "2", "{way:?}: {text}");
        }
    }
}

/// A COPY by an extended query, whose first Sync the server passes over.
#[test]
fn a_server_that_has_copied_is_used_on() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let mut one = proxy.client();
        one.query("create table if not exists copied (a int)");
        let process = one.value("select pg_backend_pid()");
        let copy = [parse("", "copy copied from stdin"), execute(""), sync()].concat();
        let end = [message(b'c', b""), sync()].concat();
        for data in ["1\n", "none\n"] {
            one.send(&copy);
            one.until(b'G');
            one.send(&message(b'd', data.as_bytes()));
            thread::sleep(Duration::from_millis(50));
            one.send(&end);
            let told = one.until(b'Z');
            assert_eq!(
                kinds(&told),
                if data == "1\n" { "CZ" } else { "EZ" },
                "{way:?}"
            );
            let mut two = proxy.client();
            assert_eq!(two.value("select pg_backend_pid()"), process, "{way:?}");
        }
        // All of it at once.
        one.send(&[copy, message(b'd', b"2\n"), end].concat());
        assert_eq!(kinds(&one.until(b'Z')).chars().last(), Some('Z'), "{way:?}");
        assert_eq!(proxy.client().value("select 1"), "1");
    }
}

#[test]
fn a_statement_of_sql_that_is_let_go_closes_no_server() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let mut one = proxy.client();
        let process = one.value("select pg_backend_pid()");
        one.query("prepare mine as select 1");
        one.query("deallocate mine");
        drop(one);
        let mut two = proxy.client();
        assert_eq!(two.value("select pg_backend_pid()"), process, "{way:?}");
        // Only one that may be the proxy's own.
        two.query("deallocate \"bpfdb_none\"");
        assert_eq!(two.value("select 1"), "1");
    }
}
