//! What takes too long, and how many servers there may be.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_proxy::settings::{PoolMode, Settings, UserSettings};

use crate::postgres;
use crate::proxy::{TestProxy, WAYS, Way};
use crate::wire::{Wire, error, execute, kinds, message, parse, query, rows, sync};

const SHORT: Duration = Duration::from_millis(400);
const PROCESS: &str = "select pg_backend_pid()";

/// State and text of the error with which a connection ends.
fn told(wire: &mut Wire) -> (String, String) {
    let messages = wire.until(0);
    (error(&messages, b'C'), error(&messages, b'M'))
}

fn pair(state: &str, text: &str) -> (String, String) {
    (state.to_owned(), text.to_owned())
}

/// A client whose next query goes the way of the test.
fn settled(proxy: &TestProxy) -> Wire {
    let mut wire = proxy.client();
    for _ in 0..3 {
        assert_eq!(wire.value("select 1"), "1");
        thread::sleep(Duration::from_millis(10));
    }
    wire
}

fn until_none(what: &str) {
    let begun = Instant::now();
    let count = format!("select count(*) from pg_stat_activity where {what}");
    while postgres::shared().direct(&count) != "0" {
        assert!(begun.elapsed() < Duration::from_secs(10), "still: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_query_takes_so_long_at_most() {
    for way in WAYS {
        let proxy = TestProxy::with(way, |settings| settings.query_timeout = SHORT);
        let mut wire = settled(&proxy);
        let process = wire.value(PROCESS);
        // Many short ones are no long one.
        for _ in 0..8 {
            wire.query("select pg_sleep(0.1)");
        }
        wire.send(&query("select pg_sleep(30)"));
        assert_eq!(told(&mut wire), pair("57014", "query timeout"), "{way:?}");
        until_none(&format!("pid = {process} and state = 'active'"));
    }
}

#[test]
fn a_transaction_stands_still_so_long_at_most() {
    for way in WAYS {
        let proxy = TestProxy::with(way, |settings| settings.idle_transaction_timeout = SHORT);
        let mut wire = settled(&proxy);
        let process = wire.value(PROCESS);
        wire.query("begin");
        for _ in 0..8 {
            thread::sleep(Duration::from_millis(100));
            wire.query("select 1");
        }
        let wanted = pair("25P03", "idle transaction timeout");
        assert_eq!(told(&mut wire), wanted, "{way:?}");
        until_none(&format!("pid = {process} and state like 'idle in%'"));
    }
}

#[test]
fn a_transaction_lasts_so_long_at_most() {
    const LIMIT: Duration = Duration::from_millis(1500);
    for way in WAYS {
        let proxy = TestProxy::with(way, |settings| settings.transaction_timeout = LIMIT);
        let mut wire = settled(&proxy);
        // Many short ones are no long one.
        for _ in 0..4 {
            wire.query("begin");
            thread::sleep(Duration::from_millis(500));
            wire.query("commit");
        }
        let process = wire.value(PROCESS);
        let begun = Instant::now();
        wire.query("begin");
        while begun.elapsed() < LIMIT * 2 / 3 {
            thread::sleep(Duration::from_millis(100));
            wire.query("select 1");
        }
        let last = Instant::now();
        let wanted = pair("25P04", "transaction timeout");
        assert_eq!(told(&mut wire), wanted, "{way:?}");
        // It counts from BEGIN on, and not from the last query on.
        assert!(
            begun.elapsed() >= LIMIT && last.elapsed() < LIMIT,
            "{way:?}"
        );
        until_none(&format!("pid = {process} and state like 'idle in%'"));
        // A query without BEGIN is one, too.
        let mut wire = settled(&proxy);
        let process = wire.value(PROCESS);
        wire.send(&query("select pg_sleep(30)"));
        assert_eq!(told(&mut wire), wanted, "{way:?}");
        until_none(&format!("pid = {process} and state = 'active'"));
        // And one whose end does not come, of which nothing was sent but a Parse.
        let mut wire = settled(&proxy);
        wire.send(&parse("", "select 1"));
        assert_eq!(told(&mut wire), wanted, "{way:?}");
    }
}

/// Data that come behind the error of their COPY begin nothing: they have no answer.
#[test]
fn a_copy_that_has_failed_is_no_transaction() {
    const LIMIT: Duration = Duration::from_secs(1);
    for way in WAYS {
        let proxy = TestProxy::with(way, |settings| {
            settings.transaction_timeout = LIMIT;
            settings.pool_mode = PoolMode::Session;
        });
        let mut wire = settled(&proxy);
        let table = format!("failed_{way:?}");
        wire.query(&format!("drop table if exists {table}"));
        wire.query(&format!("create table {table} (a int)"));
        let copy = query(&format!("copy {table} from stdin"));
        let row = |text: &[u8]| message(b'd', text);
        // The data come behind its error, or in front of it, or the COPY does not begin at all.
        wire.send(&copy);
        wire.until(b'G');
        wire.send(&row(b"bad\n"));
        assert_eq!(kinds(&wire.until(b'Z')), "EZ", "{way:?}");
        wire.send(&[row(b"1\n"), message(b'c', b"")].concat());
        thread::sleep(2 * LIMIT);
        assert_eq!(wire.value("select 1"), "1", "{way:?}");
        let early = query("copy there_is_none from stdin");
        wire.send(&[early, row(b"1\n"), message(b'c', b"")].concat());
        assert_eq!(kinds(&wire.until(b'Z')), "EZ", "{way:?}");
        thread::sleep(2 * LIMIT);
        assert_eq!(wire.value("select 2"), "2", "{way:?}");
        // A batch that has begun behind the Sync of another one is a transaction.
        let first = [parse("", "select 3"), execute(""), sync()].concat();
        let second = [
            parse("", "select pg_sleep(60)"),
            execute(""),
            message(b'H', b""),
        ]
        .concat();
        wire.send(&[first, second].concat());
        assert_eq!(
            told(&mut wire),
            pair("25P04", "transaction timeout"),
            "{way:?}"
        );
    }
}

/// A client that goes on sending is no less late.
#[test]
fn a_copy_without_an_end_is_ended() {
    for way in WAYS {
        let proxy = TestProxy::with(way, |settings| {
            settings.transaction_timeout = Duration::from_secs(1);
            settings.query_timeout = Duration::from_secs(1);
        });
        let mut wire = settled(&proxy);
        let table = format!("endless_{way:?}");
        wire.query(&format!("drop table if exists {table}"));
        wire.query(&format!("create table {table} (a text)"));
        wire.send(&query(&format!("copy {table} from stdin")));
        assert_eq!(kinds(&wire.until(b'G')), "G", "{way:?}");
        let begun = Instant::now();
        // Each of them is something new.
        while wire.socket.write_all(&message(b'd', b"a row\n")).is_ok() {
            let is_late = begun.elapsed() > Duration::from_secs(15);
            assert!(!is_late, "{way:?}: it is still copied");
            thread::sleep(Duration::from_millis(50));
        }
        until_none(&format!("query like 'copy {table}%' and state = 'active'"));
        assert_eq!(
            proxy
                .client()
                .value(&format!("select count(*) from {table}")),
            "0"
        );
    }
}

#[test]
fn users_have_times_and_pools_of_their_own() {
    for way in WAYS {
        let proxy = TestProxy::with(way, |settings| {
            let own = UserSettings {
                pool_size: Some(1),
                query_timeout: Some(2 * SHORT),
                // As long as it takes to open a server, at least.
                query_wait_timeout: Some(4 * SHORT),
                ..UserSettings::default()
            };
            settings.administration.users = [(postgres::USER.to_owned(), own)].into();
        });
        let mut wire = settled(&proxy);
        wire.send(&query("select pg_sleep(30)"));
        assert_eq!(told(&mut wire), pair("57014", "query timeout"), "{way:?}");
        // Others take their time.
        let mut other = Wire::connect(proxy.port, "root", &[]);
        assert_eq!(other.value("select 1 from pg_sleep(1.5)"), "1", "{way:?}");
        let (mut holds, mut waits) = (settled(&proxy), settled(&proxy));
        holds.query("begin");
        waits.send(&query("select 1"));
        assert_eq!(told(&mut waits).1, "query_wait_timeout", "{way:?}");
    }
}

#[test]
fn a_database_has_times_of_its_own() {
    let own = "server_lifetime=0.4 query_wait_timeout=1.6 pool_size=1";
    let proxy = before(own, |settings| {
        settings.query_wait_timeout = Duration::from_secs(60)
    });
    let mut others = Wire::connect_to(proxy.port, postgres::USER, postgres::OTHER);
    let mut wire = proxy.client();
    let (first, of_other) = (wire.value(PROCESS), others.value(PROCESS));
    thread::sleep(2 * SHORT);
    assert_ne!(wire.value(PROCESS), first);
    assert_eq!(others.value(PROCESS), of_other);
    wire.query("begin");
    let mut waits = proxy.client();
    let begun = Instant::now();
    waits.send(&query("select 1"));
    assert_eq!(told(&mut waits).1, "query_wait_timeout");
    // That of all databases is much longer.
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_client_does_nothing_so_long_at_most() {
    for way in WAYS {
        let proxy = TestProxy::with(way, |settings| settings.client_idle_timeout = SHORT);
        let mut wire = settled(&proxy);
        for _ in 0..8 {
            thread::sleep(Duration::from_millis(100));
            assert_eq!(wire.value("select 1"), "1");
        }
        wire.query("begin");
        thread::sleep(2 * SHORT);
        wire.query("commit");
        assert_eq!(
            told(&mut wire),
            pair("57P05", "client_idle_timeout"),
            "{way:?}"
        );
    }
}

#[test]
fn servers_become_so_old_and_rest_for_so_long() {
    for way in WAYS {
        let proxy = TestProxy::with(way, |settings| {
            settings.server_lifetime = SHORT;
            settings.default_pool_size = 1;
        });
        let mut wire = settled(&proxy);
        wire.query("begin");
        let first = wire.value(PROCESS);
        thread::sleep(2 * SHORT);
        assert_eq!(wire.value(PROCESS), first, "{way:?}");
        wire.query("commit");
        thread::sleep(SHORT / 2);
        assert_ne!(wire.value(PROCESS), first, "{way:?}");
        drop(proxy);
        let proxy = TestProxy::with(way, |settings| settings.server_idle_timeout = SHORT);
        let mut wire = settled(&proxy);
        let process = wire.value(PROCESS);
        for _ in 0..8 {
            thread::sleep(Duration::from_millis(100));
            assert_eq!(wire.value(PROCESS), process, "{way:?}");
        }
        until_none(&format!("pid = {process}"));
        assert_eq!(wire.value("select 2"), "2", "{way:?}");
    }
}

#[test]
fn a_pool_has_a_reserve_for_those_who_wait_long() {
    for way in WAYS {
        let with_reserve = |reserve| {
            TestProxy::with(way, |settings| {
                settings.default_pool_size = 1;
                settings.reserve_pool_size = reserve;
                settings.reserve_pool_timeout = SHORT;
                settings.query_wait_timeout = 5 * SHORT;
            })
        };
        let proxy = with_reserve(1);
        let (mut holds, mut waits) = (settled(&proxy), settled(&proxy));
        holds.query("begin");
        let begun = Instant::now();
        assert_eq!(waits.value("select 1"), "1", "{way:?}");
        assert!(begun.elapsed() >= SHORT, "{way:?}");
        drop(proxy);
        let proxy = with_reserve(0);
        let (mut holds, mut waits) = (settled(&proxy), settled(&proxy));
        holds.query("begin");
        waits.send(&query("select 1"));
        assert_eq!(told(&mut waits).1, "query_wait_timeout", "{way:?}");
    }
}

#[test]
fn pools_share_what_a_user_may_have() {
    postgres::with_other();
    for way in WAYS {
        let proxy = TestProxy::with(way, |settings| {
            settings.max_user_connections = 1;
            settings.query_wait_timeout = Duration::from_secs(10);
        });
        let named = format!("quotas {way:?}");
        let more = [("database", postgres::OTHER), ("application_name", &named)];
        let other = || Wire::connect(proxy.port, postgres::USER, &more);
        let name = "select current_database()";
        let mut one = settled(&proxy);
        // The server that nobody uses makes room, on either side.
        let mut two = other();
        assert_eq!(two.value(name), postgres::OTHER, "{way:?}");
        assert_eq!(one.value(name), "postgres", "{way:?}");
        one.query("begin");
        two.send(&query(name));
        thread::sleep(SHORT);
        let held =
            format!("select count(*) from pg_stat_activity where application_name = '{named}'");
        assert_eq!(postgres::shared().direct(&held), "0", "{way:?}");
        one.query("commit");
        assert_eq!(rows(&two.until(b'Z')), [[postgres::OTHER]], "{way:?}");
    }
}

#[test]
fn databases_have_so_many_servers_for_all_users() {
    let proxy = TestProxy::with(Way::Plain, |settings| {
        settings.max_db_connections = 2;
        settings.query_wait_timeout = SHORT;
    });
    // Of another pool of the same database.
    let mut three = Wire::connect(proxy.port, postgres::USER, &[("extra_float_digits", "1")]);
    let (mut one, mut two) = (proxy.client(), proxy.client());
    one.query("begin");
    two.query("begin");
    three.send(&query("select 1"));
    assert_eq!(told(&mut three).1, "query_wait_timeout");
    one.query("commit");
}

/// A database in the settings, and another one without these.
fn before(own: &str, change: impl FnOnce(&mut Settings)) -> TestProxy {
    postgres::with_other();
    TestProxy::with(Way::Plain, |settings| {
        let place = format!("host=127.0.0.1 port={}", postgres::shared().port);
        for (name, more) in [("postgres", own), (postgres::OTHER, "")] {
            let database = format!("{place} {more}").parse().expect("a database");
            settings.databases.insert(name.into(), database);
        }
        settings.query_wait_timeout = 10 * SHORT;
        change(settings);
    })
}

/// Has a second client of the database its turn while a first one is within a transaction?
fn has_room_for_two(proxy: &TestProxy, database: &str) -> bool {
    let mut holds = Wire::connect_to(proxy.port, postgres::USER, database);
    // Of a pool of its own.
    let more = [("database", database), ("extra_float_digits", "1")];
    let mut waits = Wire::connect(proxy.port, postgres::USER, &more);
    holds.query("begin");
    waits.send(&query("select 1"));
    let told = waits.until(b'Z');
    let is_served = kinds(&told).ends_with('Z');
    assert!(is_served || error(&told, b'M') == "query_wait_timeout");
    is_served
}

#[test]
fn databases_and_users_have_limits_of_their_own() {
    let proxy = before("max_db_connections=1", |_| {});
    assert!(!has_room_for_two(&proxy, "postgres"));
    assert!(has_room_for_two(&proxy, postgres::OTHER));
    let proxy = before("max_db_connections=0", |settings| {
        settings.max_db_connections = 1
    });
    assert!(has_room_for_two(&proxy, "postgres"));
    assert!(!has_room_for_two(&proxy, postgres::OTHER));
    let proxy = before("", |settings| {
        let user = UserSettings {
            max_user_connections: Some(1),
            ..UserSettings::default()
        };
        let users = &mut settings.administration.users;
        users.insert(postgres::USER.into(), user);
    });
    assert!(!has_room_for_two(&proxy, "postgres"));
    let proxy = before("reserve_pool=1 pool_size=1", |settings| {
        settings.reserve_pool_timeout = SHORT;
    });
    let (mut holds, mut waits) = (proxy.client(), proxy.client());
    holds.query("begin");
    assert_eq!(waits.value("select 1"), "1");
}

#[test]
fn a_pool_has_so_many_servers_at_least() {
    const ROLE: &str = "filled";
    let shared = postgres::shared();
    shared.direct(&format!("create role {ROLE} login"));
    let count = format!("select count(*) from pg_stat_activity where usename = '{ROLE}'");
    let which = format!(
        "select string_agg(pid::text, ' ' order by pid) from pg_stat_activity where usename = '{ROLE}'"
    );
    let await_two = || {
        let begun = Instant::now();
        while shared.direct(&count) != "2" {
            let is_late = begun.elapsed() > Duration::from_secs(10);
            assert!(!is_late, "{} servers", shared.direct(&count));
            thread::sleep(Duration::from_millis(50));
        }
    };
    for way in WAYS {
        let proxy = TestProxy::with(way, |settings| {
            settings.min_pool_size = 2;
            settings.server_idle_timeout = SHORT;
        });
        let mut wire = Wire::connect(proxy.port, ROLE, &[]);
        assert_eq!(wire.value("select 1"), "1");
        await_two();
        // Neither is closed for having rested, and opened again.
        let both = shared.direct(&which);
        thread::sleep(3 * SHORT);
        assert_eq!(shared.direct(&which), both, "{way:?}");
        let kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity where usename";
        shared.direct(&format!("{kill} = '{ROLE}'"));
        await_two();
        // Pools without clients keep none.
        let mut others: Vec<Wire> = (1..4)
            .map(|digits| {
                Wire::connect(
                    proxy.port,
                    ROLE,
                    &[("extra_float_digits", &digits.to_string())],
                )
            })
            .collect();
        for wire in &mut others {
            assert_eq!(wire.value("select 1"), "1", "{way:?}");
        }
        drop((wire, others));
        until_none(&format!("usename = '{ROLE}'"));
        drop(proxy);
    }
}

/// Those who wait in the process have their turn in the order in which they came.
#[test]
fn who_waits_longest_is_served_first() {
    for way in [Way::Slow, Way::Plain] {
        let proxy = TestProxy::start(way, 1);
        let mut holds = proxy.client();
        let mut waiting: Vec<Wire> = (0..6).map(|_| proxy.client()).collect();
        holds.query("create table if not exists turns (at serial, client int)");
        holds.query("truncate turns restart identity");
        holds.query("begin");
        for (number, wire) in waiting.iter_mut().enumerate() {
            wire.send(&query(&format!(
                "insert into turns (client) values ({number})"
            )));
            thread::sleep(Duration::from_millis(30));
        }
        holds.query("commit");
        for wire in &mut waiting {
            wire.until(b'Z');
        }
        let order = holds.value("select string_agg(client::text, ',' order by at) from turns");
        assert_eq!(order, "0,1,2,3,4,5", "{way:?}");
    }
}
