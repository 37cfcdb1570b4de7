//! A database of several hosts, one of which is the primary.

use std::thread;
use std::time::{Duration, Instant};

use bpfdb_proxy::settings::{ANY_DATABASE, Database};

use crate::console::{ADMIN, console, shown};
use crate::postgres::{self, Postgres, USER};
use crate::proxy::{TestProxy, Way};
use crate::wire::{Wire, error, kinds, query};

const PATIENCE: Duration = Duration::from_secs(20);

fn before(way: Way, first: &Postgres, second: &Postgres, target: &str) -> TestProxy {
    TestProxy::with(way, |settings| {
        let text = format!(
            "host=127.0.0.1,127.0.0.1 port={},{} target_session_attrs={target}",
            first.port, second.port
        );
        let database = text.parse::<Database>().expect("a database");
        settings.databases = [(ANY_DATABASE.to_owned(), database)].into();
        settings.default_pool_size = 3;
        settings.administration.admin_users = vec![ADMIN.into()];
    })
}

fn is_standby(wire: &mut Wire) -> String {
    wire.value("select pg_is_in_recovery()")
}

#[test]
fn the_host_that_is_meant_is_found() {
    let primary = postgres::of_its_own();
    let standby = primary.standby();
    for (target, wanted) in [
        ("read-write", "f"),
        ("primary", "f"),
        ("standby", "t"),
        ("read-only", "t"),
    ] {
        for (first, second) in [(&primary, &standby), (&standby, &primary)] {
            let proxy = before(Way::Plain, first, second, target);
            assert_eq!(is_standby(&mut proxy.client()), wanted, "{target}");
        }
    }
    // Without a choice the first one that is there.
    let proxy = before(Way::Plain, &standby, &primary, "any");
    assert_eq!(is_standby(&mut proxy.client()), "t");
    drop(proxy);
    standby.end_at_once();
    let proxy = before(Way::Plain, &standby, &primary, "any");
    assert_eq!(is_standby(&mut proxy.client()), "f");
}

#[test]
fn clients_without_a_transaction_notice_no_failover() {
    for way in [Way::Kernel, Way::Plain] {
        let primary = postgres::of_its_own();
        let standby = primary.standby();
        let proxy = before(way, &standby, &primary, "read-write");
        let mut idle = proxy.client();
        let mut within = proxy.client();
        idle.query("create table kept (a int)");
        idle.query("insert into kept values (1)");
        within.query("begin");
        within.query("insert into kept values (2)");
        // What has not reached the standby is lost with the primary.
        let begun = Instant::now();
        while standby.direct("select to_regclass('kept') is not null") != "t"
            || standby.direct("select count(*) from kept") != "1"
        {
            assert!(begun.elapsed() < PATIENCE, "the standby has nothing");
            thread::sleep(Duration::from_millis(20));
        }
        primary.end_at_once();
        // It waits for the next primary.
        idle.send(&query("insert into kept values (3)"));
        // Its transaction is gone, and so is its connection.
        within.send(&query("insert into kept values (4)"));
        let told = within.until(b'Z');
        let state = error(&told, b'C');
        assert!(
            state == "08006" || state.starts_with("57P0"),
            "{way:?}: {state}"
        );
        thread::sleep(Duration::from_millis(500));
        assert_eq!(standby.direct("select pg_promote()"), "t");
        assert_eq!(kinds(&idle.until(b'Z')), "CZ", "{way:?}");
        let all = "select string_agg(a::text, ' ' order by a) from kept";
        assert_eq!(idle.value(all), "1 3", "{way:?}");
        assert_eq!(Wire::connect(proxy.port, USER, &[]).value(all), "1 3");
        let mut operator = console(proxy.port, ADMIN);
        let hosts = shown(&mut operator, "DATABASES", &["postgres"], "host");
        assert_eq!(hosts, ["127.0.0.1,127.0.0.1"]);
    }
}

/// A standby that is meant, and becomes the primary, is not used any more.
#[test]
fn a_standby_that_is_promoted_is_left() {
    let primary = postgres::of_its_own();
    let (first, second) = (primary.standby(), primary.standby());
    let proxy = before(Way::Plain, &first, &second, "standby");
    let mut wire = proxy.client();
    let port = "select current_setting('port')";
    assert_eq!(wire.value(port), first.port.to_string());
    assert_eq!(first.direct("select pg_promote()"), "t");
    let begun = Instant::now();
    while wire.value(port) == first.port.to_string() {
        assert!(begun.elapsed() < PATIENCE, "the new primary is still used");
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(wire.value(port), second.port.to_string());
}

/// What a host says of the user, the others would say, too.
#[test]
fn a_user_that_is_refused_does_not_wait_for_another_host() {
    let shared = postgres::shared();
    let proxy = before(Way::Plain, shared, shared, "any");
    let mut wire = Wire::open(proxy.port);
    wire.send(&crate::wire::start_packet("nobody_there", &[]));
    let told = wire.until(b'Z');
    assert_eq!(error(&told, b'C'), "28000");
}

/// Hosts may know different users: the user hears that it is refused when none lets it in.
#[test]
fn a_host_that_refuses_a_user_is_passed_over() {
    let (own, shared) = (postgres::of_its_own(), postgres::shared());
    shared.direct("create role passed_over login");
    let proxy = before(Way::Plain, &own, shared, "any");
    let mut wire = Wire::connect(proxy.port, "passed_over", &[]);
    let port = "select current_setting('port')";
    assert_eq!(wire.value(port), shared.port.to_string());
}

/// A password that the proxy does not have is not looked for at one host after the other without end.
#[test]
fn a_login_that_no_host_can_take_ends() {
    let shared = postgres::shared();
    let proxy = before(Way::Plain, shared, shared, "read-write");
    let mut wire = Wire::open(proxy.port);
    wire.send(&crate::wire::start_packet(postgres::SECRETIVE, &[]));
    let told = wire.until(b'Z');
    assert_eq!(error(&told, b'C'), "08006");
    assert!(error(&told, b'M').contains("none is known"));
}

/// Two hosts that both say that they are the primary: no pool goes on with the one that another pool has left.
#[test]
fn all_pools_of_a_database_leave_a_host_together() {
    for (way, user) in [(Way::Kernel, "leaves_one"), (Way::Plain, "leaves_two")] {
        let (first, second) = (postgres::of_its_own(), postgres::shared());
        second.direct(&format!("create role {user} login"));
        let proxy = before(way, &first, second, "read-write");
        let (mut idle, mut within) = (proxy.client(), proxy.client());
        let port = "select current_setting('port')";
        within.query("begin");
        for wire in [&mut idle, &mut within] {
            assert_eq!(wire.value(port), first.port.to_string(), "{way:?}");
        }
        // The first host does not know this user.
        let mut other = Wire::connect(proxy.port, user, &[]);
        assert_eq!(other.value(port), second.port.to_string(), "{way:?}");
        assert_eq!(idle.value(port), second.port.to_string(), "{way:?}");
        // A transaction ends where it has begun.
        assert_eq!(within.value(port), first.port.to_string(), "{way:?}");
        within.query("commit");
        assert_eq!(within.value(port), second.port.to_string(), "{way:?}");
    }
}
