//! What a client leaves in the session of a server reaches no other client, however it has got there.

use std::thread;
use std::time::{Duration, Instant};

use bpfdb_proxy::settings::{ANY_DATABASE, Settings};

use crate::postgres;
use crate::proxy::{TestProxy, WAYS, Way};
use crate::wire::{Wire, execute, kinds, message, parse, sync};

const PATIENCE: Duration = Duration::from_secs(20);
const MEMORY: &str = "select current_setting('work_mem') = '7MB'";
const LOCKS: &str =
    "select count(*) > 0 from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()";

/// One that the kernel serves, where there are programs.
fn client(proxy: &TestProxy) -> Wire {
    let mut wire = proxy.client();
    for _ in 0..3 {
        assert_eq!(wire.value("select 1"), "1");
        thread::sleep(Duration::from_millis(10));
    }
    wire
}

/// Of a pool of one server.
fn is_no_other_clients(
    way: Way,
    proxy: &TestProxy,
    what: &str,
    is_left: &str,
    leaves: impl FnOnce(&mut Wire),
) {
    let mut one = client(proxy);
    leaves(&mut one);
    assert_eq!(one.value(is_left), "t", "{way:?}: {what}");
    drop(one);
    assert_eq!(proxy.client().value(is_left), "f", "{way:?}: {what}");
}

#[test]
fn what_any_text_sets_is_no_other_clients() {
    let long = format!(
        "select length('{}'), set_config('work_mem', '7MB', false)",
        "x".repeat(200_000)
    );
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        proxy
            .client()
            .query("create table if not exists told (what text); insert into told values ('it')");
        for (text, is_left) in [
            (
                "select set_config('work_mem', '7MB', false) where true",
                MEMORY,
            ),
            (
                "insert into told select set_config('work_mem', '7MB', false)",
                MEMORY,
            ),
            (
                "update told set what = 'it' returning set_config('work_mem', '7MB', false)",
                MEMORY,
            ),
            (
                "copy (select set_config('work_mem', '7MB', false)) to stdout",
                MEMORY,
            ),
            (
                "begin; declare c cursor for select set_config('work_mem', '7MB', false); fetch all from c; commit",
                MEMORY,
            ),
            (
                "update pg_settings set setting = '7168' where name = 'work_mem'",
                MEMORY,
            ),
            ("do $$begin set work_mem = '7MB'; end$$", MEMORY),
            (
                "do $$begin set work_mem = '7MB'; commit; perform 1 / 0; end$$",
                MEMORY,
            ),
            (
                "select pg_advisory_lock(7), 1 / (pg_backend_pid() - pg_backend_pid())",
                LOCKS,
            ),
            ("select u&\"pg\\005fadvisory\\005flock\"(7)", LOCKS),
            (&long, MEMORY),
        ] {
            let shown = &text[..text.len().min(100)];
            is_no_other_clients(way, &proxy, shown, is_left, |one| drop(one.query(text)));
        }
    }
}

#[test]
fn what_has_no_tag_is_no_other_clients() {
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let number = proxy
            .client()
            .value("select 'pg_advisory_lock(bigint)'::regprocedure::oid::int");
        let number: u32 = number.parse().expect("a number");
        // One argument, in the binary form, as the result.
        let call = [
            &number.to_be_bytes()[..],
            &[0, 1, 0, 1, 0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 7, 0, 1],
        ]
        .concat();
        is_no_other_clients(way, &proxy, "a call", LOCKS, |one| {
            one.send(&message(b'F', &call));
            assert_eq!(kinds(&one.until(b'Z')), "VZ", "{way:?}");
        });
        // One of two rows.
        let text = "select set_config('work_mem', '7MB', false) from generate_series(1, 2)";
        let bind = message(b'B', b"\0\0\0\0\0\0\0\0");
        let some = [
            parse("", text),
            bind,
            message(b'E', b"\0\0\0\0\x01"),
            sync(),
        ]
        .concat();
        is_no_other_clients(way, &proxy, "a part", MEMORY, |one| {
            one.send(&some);
            assert_eq!(kinds(&one.until(b'Z')), "12DsZ", "{way:?}");
        });
    }
}

/// The replies of a request come when the next one is on its way, of which no Sync has been sent.
#[test]
fn what_a_pipeline_leaves_is_no_other_clients() {
    let flush = message(b'H', b"");
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let made = "select to_regclass('pg_temp.made') is not null";
        for (what, text, is_left) in [
            ("a table", "create temporary table made as select 1", made),
            ("a value", "set work_mem = '7MB'", MEMORY),
        ] {
            is_no_other_clients(way, &proxy, what, is_left, |one| {
                one.send(&[parse("one", "select 1"), parse("two", text), sync()].concat());
                one.until(b'Z');
                let open = [execute("two"), flush.clone()].concat();
                one.send(&[execute("one"), sync(), open].concat());
                one.until(b'Z');
                one.until(b'C');
                one.send(&sync());
                one.until(b'Z');
            });
            // What follows within the same request is not all of it.
            is_no_other_clients(way, &proxy, what, is_left, |one| {
                one.send(&[parse("two", text), sync()].concat());
                one.until(b'Z');
                one.send(&[execute("two"), flush.clone()].concat());
                one.until(b'C');
                assert_eq!(kinds(&one.query("set jit = off")), "CZ", "{way:?}");
            });
        }
    }
}

/// A statement of the proxy's own that fails has not been for the client.
#[test]
fn nothing_is_done_before_a_session_is_prepared() {
    let direct = |statement: &str| postgres::shared().direct(statement);
    let prepares = "from pg_stat_activity where wait_event_type = 'Lock' and query like 'SET client_encoding%LATIN1%'";
    for way in WAYS {
        let proxy = TestProxy::start(way, 1);
        let mut one = proxy.client();
        one.query("drop table if exists prepared_for; create table prepared_for (encoding text)");
        one.query("set client_encoding to latin1");
        let process = one.value("select pg_backend_pid()");
        // A server that has not looked at encodings yet has to, which it cannot.
        let mut holds = Wire::connect(postgres::shared().port, postgres::USER, &[]);
        direct(&format!("select pg_terminate_backend({process}, 10000)"));
        thread::sleep(Duration::from_millis(200));
        holds.query("begin; lock table pg_conversion in access exclusive mode");
        one.send(&crate::wire::query(
            "insert into prepared_for values (current_setting('client_encoding'))",
        ));
        await_true(&format!("select count(*) > 0 {prepares}"));
        direct(&format!("select pg_cancel_backend(pid) {prepares}"));
        thread::sleep(Duration::from_millis(200));
        holds.query("commit");
        assert_eq!(kinds(&one.until(b'Z')), "CZ", "{way:?}");
        let told = "select string_agg(encoding, ',') from prepared_for";
        assert_eq!(one.value(told), "LATIN1", "{way:?}");
    }
}

fn await_true(statement: &str) {
    let begun = Instant::now();
    while postgres::shared().direct(statement) != "t" {
        assert!(begun.elapsed() < PATIENCE, "never: {statement}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// RESET would give a parameter the value with which the server has logged in.
#[test]
fn each_session_begins_with_the_query_of_its_database() {
    for way in WAYS {
        let port = postgres::shared().port;
        let database =
            format!("host=127.0.0.1 port={port} connect_query='set statement_timeout = 5000'");
        let proxy = TestProxy::with(way, |settings| {
            let database = database.parse().expect("a database");
            settings.databases.insert(ANY_DATABASE.to_owned(), database);
            settings.default_pool_size = 1;
        });
        for (text, shown) in [
            ("set statement_timeout = '7s'", "7s"),
            ("set statement_timeout to default", "0"),
            ("reset statement_timeout", "0"),
            ("set work_mem = '7MB'", "5s"),
            ("discard all", "0"),
        ] {
            let mut one = client(&proxy);
            one.query(text);
            assert_eq!(
                one.value("show statement_timeout"),
                shown,
                "{way:?}: {text}"
            );
            drop(one);
            assert_eq!(
                proxy.client().value("show statement_timeout"),
                "5s",
                "{way:?}: {text}"
            );
        }
    }
}

/// What puts servers right may leave some parameters as they are.
#[test]
fn settings_are_no_other_clients_whatever_resets_servers() {
    let prepared = [parse("mine", "select 41 + 1"), execute("mine"), sync()].concat();
    for way in WAYS {
        for reset in ["", "select 1", "reset work_mem", "Discard  All ;"] {
            let proxy = TestProxy::with(way, |settings: &mut Settings| {
                settings.server_reset_query = reset.into();
                settings.default_pool_size = 1;
            });
            let mut one = client(&proxy);
            one.query("begin; set lock_timeout = '7s'; commit");
            one.send(&prepared);
            one.until(b'Z');
            assert_eq!(one.value("show lock_timeout"), "7s", "{way:?}: {reset}");
            drop(one);
            let mut two = proxy.client();
            assert_eq!(two.value("show lock_timeout"), "0", "{way:?}: {reset}");
            two.send(&prepared);
            assert_eq!(kinds(&two.until(b'Z')), "12TDCZ", "{way:?}: {reset}");
        }
    }
}
