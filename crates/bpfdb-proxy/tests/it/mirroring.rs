//! A second database gets what clients send; nobody waits for it.

use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_proxy::settings::{Database, PoolMode};

use crate::console::{ADMIN, await_shown, console, shown};
use crate::postgres::{self, OTHER, USER};
use crate::proxy::{TestProxy, WAYS, Way};
use crate::wire::{Wire, execute, execute_with, kinds, message, parse, query, rows, sync};

/// Shorter than any limit that the proxy has for servers.
const AT_ONCE: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(20);

/// The database `postgres` with a mirror at `port`, and the mirror switched on or not.
pub(crate) fn databases(port: u16, is_on: bool) -> HashMap<String, Database> {
    let own = postgres::shared().port;
    let mirror = if is_on { " mirror=copy" } else { "" };
    let first = format!("host=127.0.0.1 port={own}{mirror}");
    let second = format!("host=127.0.0.1 port={port} dbname={OTHER}");
    [("postgres", first), ("copy", second)]
        .map(|(name, text)| (name.to_owned(), text.parse().expect("a database")))
        .into()
}

fn start(way: Way, port: u16, is_on: bool, queue: usize) -> TestProxy {
    start_in(way, PoolMode::Transaction, port, is_on, queue)
}

fn start_in(way: Way, mode: PoolMode, port: u16, is_on: bool, queue: usize) -> TestProxy {
    postgres::with_other();
    TestProxy::with(way, |settings| {
        settings.pool_mode = mode;
        settings.databases = databases(port, is_on);
        settings.default_pool_size = 4;
        settings.mirror_queue = queue;
        settings.administration.admin_users = vec![ADMIN.into()];
    })
}

fn mirrored(way: Way) -> TestProxy {
    start(way, postgres::shared().port, true, 1 << 20)
}

/// Both databases without the proxy: the first one, and its mirror.
fn both() -> [Wire; 2] {
    let port = postgres::shared().port;
    ["postgres", OTHER].map(|database| Wire::connect_to(port, USER, database))
}

/// A table of this name, in both.
pub(crate) fn with_table(name: &str) -> [Wire; 2] {
    postgres::with_other();
    let mut both = both();
    for wire in &mut both {
        wire.query(&format!("drop table if exists {name}"));
        wire.query(&format!("create table {name} (a int, b text)"));
    }
    both
}

fn caught_up(proxy: &TestProxy) {
    let mut operator = console(proxy.port, ADMIN);
    await_shown(&mut operator, "MIRRORS", &["postgres"], "queued", "0");
}

fn lost(proxy: &TestProxy) -> u64 {
    let mut operator = console(proxy.port, ADMIN);
    let found = shown(&mut operator, "MIRRORS", &["postgres"], "lost");
    found[0].parse().expect("a number")
}

pub(crate) fn await_value(wire: &mut Wire, text: &str, value: &str) {
    let begun = Instant::now();
    loop {
        let found = wire.value(text);
        if found == value {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{text}: {found}, not {value}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_mirror_gets_every_transaction() {
    for way in WAYS {
        let [mut first, mut second] = with_table("mirror_all");
        let proxy = mirrored(way);
        let mut wire = proxy.client();
        let insert = |a: i32| format!("insert into mirror_all values ({a}, 'x')");
        wire.query(&insert(1));
        wire.query("begin");
        wire.query(&insert(2));
        wire.query("rollback");
        wire.query("begin");
        wire.query(&insert(3));
        wire.query("nonsense");
        wire.query("rollback");
        // A statement that one of its servers has, and the next one lacks.
        let text = "insert into mirror_all values (4, current_setting('work_mem'))";
        wire.send(&[parse("four", text), sync()].concat());
        wire.until(b'Z');
        wire.query("set work_mem = '7MB'");
        for _ in 0..3 {
            wire.send(&[execute("four"), sync()].concat());
            assert!(kinds(&wire.until(b'Z')).ends_with("CZ"));
        }
        wire.send(&crate::wire::query("copy mirror_all from stdin"));
        wire.until(b'G');
        let long = format!("5\t{}\n", "y".repeat(200_000));
        wire.send(&[message(b'd', long.as_bytes()), message(b'c', b"")].concat());
        assert_eq!(kinds(&wire.until(b'Z')), "CZ");
        wire.send(&[parse("", &insert(6)), execute(""), sync()].concat());
        wire.until(b'Z');
        // What is under way when its client leaves is sent all the same.
        wire.query(&insert(7));
        drop(wire);
        let shown = "select string_agg(a || '-' || md5(b), ' ' order by a) from mirror_all";
        let wanted = first.value(shown);
        assert_eq!(wanted.split(' ').count(), 7, "{wanted}");
        await_value(&mut second, shown, &wanted);
        caught_up(&proxy);
        assert_eq!(lost(&proxy), 0, "{way:?}");
    }
}

/// Longer than what is read from a client that has no server.
#[test]
fn long_messages_that_begin_transactions_are_mirrored() {
    let [mut first, mut second] = with_table("mirror_long");
    let proxy = start(Way::Plain, postgres::shared().port, true, 32 << 20);
    let mut wire = proxy.client();
    let long = "y".repeat(1 << 20);
    let insert = |a: i32| format!("insert into mirror_long values ({a}, '{long}')");
    assert_eq!(kinds(&wire.query(&insert(1))), "CZ");
    wire.send(&[parse("", &insert(2)), execute(""), sync()].concat());
    assert!(kinds(&wire.until(b'Z')).ends_with("CZ"));
    let with_parameter = parse("long", "insert into mirror_long values (3, $1)");
    wire.send(&[with_parameter, sync()].concat());
    wire.until(b'Z');
    let length = (long.len() as u32).to_be_bytes();
    let bind = [
        &b"\0long\0\0\0\0\x01"[..],
        &length,
        long.as_bytes(),
        b"\0\0",
    ]
    .concat();
    wire.send(&[message(b'B', &bind), message(b'E', b"\0\0\0\0\0"), sync()].concat());
    assert!(kinds(&wire.until(b'Z')).ends_with("CZ"));
    let shown = "select string_agg(a || '-' || md5(b), ' ' order by a) from mirror_long";
    let wanted = first.value(shown);
    assert_eq!(wanted.split(' ').count(), 3, "{wanted}");
    await_value(&mut second, shown, &wanted);
    assert_eq!(lost(&proxy), 0);
}

#[test]
fn many_clients_are_mirrored() {
    for (way, mode) in [
        (Way::Kernel, PoolMode::Transaction),
        (Way::Plain, PoolMode::Session),
    ] {
        let [mut first, mut second] = with_table("mirror_many");
        let port = postgres::shared().port;
        let proxy = start_in(way, mode, port, true, 1 << 20);
        thread::scope(|scope| {
            for client in 0..4 {
                let proxy = &proxy;
                scope.spawn(move || {
                    let mut wire = proxy.client();
                    if mode == PoolMode::Session {
                        wire.query("create temporary table mine (a int)");
                    }
                    for number in 0..50 {
                        wire.query("begin");
                        let number = client * 100 + number;
                        wire.query(&format!("insert into mirror_many values ({number}, 'x')"));
                        wire.query("commit");
                    }
                });
            }
        });
        let shown = "select count(*) || ' ' || sum(a) from mirror_many";
        let wanted = first.value(shown);
        assert!(wanted.starts_with("200 "));
        await_value(&mut second, shown, &wanted);
        caught_up(&proxy);
        assert_eq!(lost(&proxy), 0, "{way:?}");
        proxy.brought(100);
    }
}

/// Clients that find no server free wait in the kernel, as they do without a mirror: it gets what they have waited with.
#[test]
fn requests_that_wait_in_the_kernel_are_mirrored() {
    const CLIENTS: u64 = 12;
    const TIMES: u64 = 100;
    let [mut first, mut second] = with_table("mirror_waits");
    let proxy = mirrored(Way::Kernel);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let proxy = &proxy;
            scope.spawn(move || {
                let mut wire = proxy.client();
                for number in 0..TIMES {
                    let number = client * TIMES + number;
                    wire.query(&format!("insert into mirror_waits values ({number}, 'x')"));
                }
            });
        }
    });
    let shown = "select count(*) || ' ' || sum(a) from mirror_waits";
    let wanted = first.value(shown);
    await_value(&mut second, shown, &wanted);
    caught_up(&proxy);
    assert_eq!(lost(&proxy), 0);
    proxy.brought(CLIENTS * TIMES * 3 / 4);
}

/// Clients that the kernel serves do not wait for a process that stands still: what it has no room for meanwhile its
/// mirror loses, transactions as a whole.
#[test]
fn a_process_that_stands_still_holds_up_no_mirrored_client() {
    let [mut first, mut second] = with_table("mirror_still");
    postgres::with_other();
    let (begins, has_begun) = channel();
    let (goes_on, waits) = channel::<()>();
    let meanwhile = move || {
        begins.send(()).expect("it is awaited");
        let _ = waits.recv();
    };
    let proxy = TestProxy::that_reloads(Way::Kernel, meanwhile, |settings| {
        settings.databases = databases(postgres::shared().port, true);
        settings.administration.admin_users = vec![ADMIN.into()];
    });
    let mut wire = proxy.client();
    let mut number = 0;
    let mut put = |wire: &mut Wire| {
        number += 1;
        // Two requests, as one transaction.
        let insert = |half| {
            query(&format!(
                "insert into mirror_still values ({number}, '{half}')"
            ))
        };
        wire.send(&[query("begin"), insert(1), insert(2), query("commit")].concat());
        (0..4).for_each(|_| drop(wire.until(b'Z')));
    };
    for _ in 0..10 {
        put(&mut wire);
    }
    let mut operator = console(proxy.port, ADMIN);
    operator.send(&query("RELOAD"));
    has_begun.recv().expect("it reloads");
    // More than there is room for.
    for _ in 0..6000 {
        put(&mut wire);
    }
    drop(goes_on);
    operator.until(b'Z');
    caught_up(&proxy);
    // It gets what comes later.
    put(&mut wire);
    let count = "select count(distinct a) from mirror_still";
    let there = second.value(&format!("{count} where a <= 6010"));
    let there: u64 = there.parse().expect("a number");
    await_value(&mut second, &format!("{count} where a = 6011"), "1");
    assert_eq!(first.value(count), "6011");
    assert_eq!(lost(&proxy), 6010 - there);
    assert!(there > 10 && there < 6010, "{there}");
    let odd = "select count(*) from (select a from mirror_still group by a having count(*) <> 2) o";
    assert_eq!(second.value(odd), "0");
    proxy.brought(4 * 6000);
}

/// What a client has sent meanwhile its mirror gets at once, and in the same order.
#[test]
fn requests_of_a_client_keep_their_order() {
    const TIMES: usize = 400;
    let [_, mut second] = with_table("mirror_order");
    for way in WAYS {
        second.query("truncate mirror_order");
        let proxy = mirrored(way);
        let mut wire = proxy.client();
        wire.send(
            &[
                parse(
                    "add",
                    "insert into mirror_order values ($1::int, current_setting('work_mem'))",
                ),
                sync(),
            ]
            .concat(),
        );
        wire.until(b'Z');
        for number in 0..TIMES {
            match number % 4 {
                0 => wire.query(&format!("set work_mem = '{}kB'", 1001 + number)),
                1 => {
                    wire.send(&[execute_with("add", &number.to_string()), sync()].concat());
                    wire.until(b'Z')
                }
                2 => wire.query("begin; rollback"),
                _ => wire.query(&format!(
                    "update mirror_order set b = b || ' ' where a = {}",
                    number - 2
                )),
            };
        }
        let shown = "select count(*) || ' ' || count(*) filter (where b = (1000 + a) || 'kB ') from mirror_order";
        await_value(&mut second, shown, "100 100");
        caught_up(&proxy);
        assert_eq!(lost(&proxy), 0, "{way:?}");
    }
}

/// The same where clients wait for each other's server, in the kernel and in the process.
#[test]
fn requests_that_wait_keep_their_order() {
    const CLIENTS: usize = 6;
    const TIMES: usize = 200;
    let [mut first, mut second] = with_table("mirror_turns");
    let proxy = TestProxy::with(Way::Kernel, |settings| {
        settings.databases = databases(postgres::shared().port, true);
        settings.default_pool_size = 1;
        settings.administration.admin_users = vec![ADMIN.into()];
    });
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let proxy = &proxy;
            scope.spawn(move || {
                let mut wire = proxy.client();
                wire.query(&format!("insert into mirror_turns values ({client}, '')"));
                for number in 0..TIMES {
                    let text = format!(
                        "update mirror_turns set b = md5(b || {number}) where a = {client}"
                    );
                    match number % 7 {
                        // The kernel does not know what this is.
                        0 => wire.query(&format!("{text}; select 1")),
                        1 => {
                            wire.query("begin");
                            wire.query(&text);
                            wire.query("commit")
                        }
                        _ => wire.query(&text),
                    };
                }
            });
        }
    });
    let shown = "select string_agg(b, ' ' order by a) from mirror_turns";
    let wanted = first.value(shown);
    await_value(&mut second, shown, &wanted);
    caught_up(&proxy);
    assert_eq!(lost(&proxy), 0);
    proxy.brought(100);
}

#[test]
fn nobody_waits_for_a_mirror_that_is_not_there() {
    // One that takes connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = silent.local_addr().expect("its address").port();
    for (port, queue) in [(postgres::free_port(), 1 << 20), (silent, 1000)] {
        let proxy = start(Way::Plain, port, true, queue);
        let mut wire = proxy.client();
        let begun = Instant::now();
        for number in 0..200 {
            assert_eq!(wire.value(&format!("select {number}")), number.to_string());
        }
        assert!(begun.elapsed() < AT_ONCE);
        let mut operator = console(proxy.port, ADMIN);
        let begun = Instant::now();
        while shown(&mut operator, "MIRRORS", &["postgres"], "lost") == ["0"] {
            assert!(begun.elapsed() < PATIENCE, "nothing is lost");
            thread::sleep(Duration::from_millis(20));
        }
        let done = shown(&mut operator, "MIRRORS", &["postgres"], "transactions");
        assert_eq!(done, ["0"]);
    }
}

/// Each transaction puts two rows in: the mirror has both, or none.
#[test]
fn a_slow_mirror_loses_whole_transactions() {
    let [mut first, mut second] = with_table("mirror_slow");
    let proxy = start(Way::Kernel, postgres::shared().port, true, 5000);
    let mut wire = proxy.client();
    second.query("begin");
    second.query("lock table mirror_slow");
    let run = |wire: &mut Wire, numbers: std::ops::Range<i32>| {
        for number in numbers {
            wire.query("begin");
            for _ in 0..2 {
                let insert = format!("insert into mirror_slow values ({number}, 'x')");
                wire.query(&insert);
            }
            wire.query("commit");
        }
    };
    run(&mut wire, 0..200);
    assert!(lost(&proxy) > 0);
    let mut operator = console(proxy.port, ADMIN);
    let lag = shown(&mut operator, "MIRRORS", &["postgres"], "lag_us");
    assert!(lag[0].parse::<u64>().expect("a number") > 0);
    second.query("commit");
    caught_up(&proxy);
    // It gets what comes later.
    let begun = Instant::now();
    let last = "select count(*) from mirror_slow where a >= 200";
    while second.value(last) == "0" {
        run(&mut wire, 200..201);
        assert!(begun.elapsed() < PATIENCE, "nothing comes any more");
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(
        first.value("select count(*) from mirror_slow where a < 200"),
        "400"
    );
    let odd = "select count(*) from (select a from mirror_slow where a < 200 group by a having count(*) <> 2) o";
    assert_eq!(second.value(odd), "0");
    let there = second.value("select count(distinct a) from mirror_slow where a < 200");
    let there: u64 = there.parse().expect("a number");
    assert!(there > 0 && there < 200, "{there}");
}

#[test]
fn sessions_of_a_mirror_that_end_are_lost_and_begin_again() {
    let [_, mut second] = with_table("mirror_ends");
    let proxy = mirrored(Way::Plain);
    let mut wire = proxy.client();
    let insert = |wire: &mut Wire, number: i32| {
        wire.query(&format!("insert into mirror_ends values ({number}, 'x')"));
    };
    insert(&mut wire, 1);
    await_value(&mut second, "select count(*) from mirror_ends", "1");
    wire.query("begin");
    insert(&mut wire, 2);
    // Other tests have sessions there, too.
    let own = "from pg_stat_activity where datname = current_database() \
               and state = 'idle in transaction' and query like '%mirror_ends%'";
    let open = &format!("select count(*) {own}");
    await_value(&mut second, open, "1");
    second.query(&format!("select pg_terminate_backend(pid) {own}"));
    let begun = Instant::now();
    while lost(&proxy) == 0 {
        assert!(begun.elapsed() < PATIENCE, "nothing is lost");
        thread::sleep(Duration::from_millis(20));
    }
    // The client has noticed nothing.
    assert!(kinds(&wire.query("commit")).ends_with("CZ"));
    let begun = Instant::now();
    while second.value("select count(*) from mirror_ends where a = 3") == "0" {
        insert(&mut wire, 3);
        assert!(begun.elapsed() < PATIENCE, "nothing comes any more");
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(
        second.value("select count(*) from mirror_ends where a = 2"),
        "0"
    );
}

#[test]
fn a_mirror_is_switched_on_and_off() {
    let [_, mut second] = with_table("mirror_switched");
    let proxy = start(Way::Kernel, postgres::shared().port, false, 1 << 20);
    let mut wire = proxy.client();
    let mut operator = console(proxy.port, ADMIN);
    let mut put = |number: i32| {
        for _ in 0..20 {
            wire.query(&format!(
                "insert into mirror_switched values ({number}, 'x')"
            ));
        }
    };
    put(1);
    assert_eq!(kinds(&operator.query("MIRROR postgres TO copy")), "CZ");
    put(2);
    let told = operator.query("MIRROR postgres TO postgres");
    assert_eq!(kinds(&told), "EZ");
    caught_up(&proxy);
    assert_eq!(kinds(&operator.query("UNMIRROR postgres")), "CZ");
    put(3);
    let shown = "select a, count(*) from mirror_switched group by a order by a";
    assert_eq!(rows(&second.query(shown)), [["2", "20"]]);
    // The kernel serves it again.
    assert!(proxy.stop() > 0);
}

/// A statement whose Parse the mirror has lost is there with the next transaction that it gets.
#[test]
fn statements_outlive_a_loss() {
    let [_, mut second] = with_table("mirror_stale");
    let proxy = start(Way::Plain, postgres::shared().port, true, 5000);
    let mut wire = proxy.client();
    second.query("begin");
    second.query("lock table mirror_stale");
    let begun = Instant::now();
    while lost(&proxy) == 0 {
        wire.query("insert into mirror_stale values (1, 'x')");
        assert!(begun.elapsed() < PATIENCE, "nothing is lost");
    }
    let text = "insert into mirror_stale values (2, 'x')";
    wire.send(&[parse("late", text), sync()].concat());
    assert_eq!(kinds(&wire.until(b'Z')), "1Z");
    second.query("commit");
    caught_up(&proxy);
    let begun = Instant::now();
    while second.value("select count(*) from mirror_stale where a = 2") == "0" {
        wire.send(&[execute("late"), sync()].concat());
        assert!(kinds(&wire.until(b'Z')).ends_with("CZ"));
        assert!(begun.elapsed() < PATIENCE, "the statement does not come");
        thread::sleep(Duration::from_millis(50));
    }
    let mut operator = console(proxy.port, ADMIN);
    let errors = |operator: &mut Wire| shown(operator, "MIRRORS", &["postgres"], "errors");
    assert_eq!(errors(&mut operator), ["0"]);
    // What fails there is counted.
    second.query("drop table mirror_stale");
    wire.query("insert into mirror_stale values (3, 'x')");
    await_shown(&mut operator, "MIRRORS", &["postgres"], "errors", "1");
}

/// Clients that come, send and leave while the mirror stands still: their shadows are bounded, and make room.
#[test]
fn shadows_of_clients_that_are_gone_make_room() {
    const CLIENTS: usize = 200;
    let [_, mut second] = with_table("mirror_left");
    let proxy = start(Way::Plain, postgres::shared().port, true, 50_000);
    second.query("begin");
    second.query("lock table mirror_left");
    for number in 0..CLIENTS {
        let mut wire = proxy.client();
        wire.query(&format!("insert into mirror_left values ({number}, 'x')"));
        wire.send(&message(b'X', b""));
    }
    let mut operator = console(proxy.port, ADMIN);
    let found = shown(&mut operator, "MIRRORS", &["postgres"], "clients");
    let there: usize = found[0].parse().expect("a number");
    assert!(there < CLIENTS / 2, "{there}");
    // The transaction of one that is there is not lost for them.
    let mut wire = proxy.client();
    let before = wire.query("insert into mirror_left values (1000, 'x')");
    assert_eq!(kinds(&before), "CZ");
    second.query("commit");
    caught_up(&proxy);
    let last = "select count(*) from mirror_left where a = 1000";
    await_value(&mut second, last, "1");
    assert!(lost(&proxy) > 0);
}
