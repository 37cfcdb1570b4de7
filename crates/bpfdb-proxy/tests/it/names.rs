//! Names of hosts that mean something else after a while.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_proxy::settings::ANY_DATABASE;
use bpfdb_tests::namespace::files;
use bpfdb_tests::server::netns;
use nix::mount::{MsFlags, mount};

use crate::console::{ADMIN, console, shown};
use crate::postgres::{self, Postgres, USER};
use crate::proxy::{TestProxy, Way};
use crate::wire::{Wire, error, query, start_packet};

const PATIENCE: Duration = Duration::from_secs(20);
const NAME: &str = "database.test";
const AT: &str = "select host(inet_server_addr())";

/// The file of the names of hosts that this thread, and what it starts, sees.
struct Hosts(PathBuf);

impl Hosts {
    fn new() -> Self {
        let file = files().folder.join("hosts");
        let hosts = Self(file);
        hosts.say(&[]);
        let none: Option<&str> = None;
        mount(Some(&hosts.0), "/etc/hosts", none, MsFlags::MS_BIND, none).expect("in its place");
        hosts
    }

    /// The addresses of [`NAME`].
    fn say(&self, addresses: &[&str]) {
        let lines = addresses
            .iter()
            .map(|address| format!("{address} {NAME}\n"));
        fs::write(&self.0, lines.collect::<String>()).expect("written");
    }
}

/// In a network and with names of its own.
fn alone(work: impl FnOnce(Hosts) + Send + 'static) {
    // It is in the network of all tests.
    postgres::shared();
    netns::isolated(|| work(Hosts::new()));
}

fn before(postgres: &Postgres) -> TestProxy {
    let text = format!("host={NAME} port={}", postgres.port);
    TestProxy::that_reloads(
        Way::Plain,
        || {},
        |settings| {
            let database = text.parse().expect("a database");
            settings.databases = [(ANY_DATABASE.to_owned(), database)].into();
            settings.administration.admin_users = vec![ADMIN.into()];
            settings.dns_max_ttl = Duration::from_millis(100);
            settings.dns_nxdomain_ttl = Duration::from_millis(100);
        },
    )
}

/// What a client hears that is not let in.
fn refusal(proxy: &TestProxy) -> (String, String) {
    let mut wire = Wire::open(proxy.port);
    wire.send(&start_packet(USER, &[]));
    let told = wire.until(b'Z');
    (error(&told, b'C'), error(&told, b'M'))
}

fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_host_that_moves_is_followed() {
    alone(|hosts| {
        let postgres = postgres::of_its_own();
        hosts.say(&["127.0.0.1"]);
        let proxy = before(&postgres);
        let (mut idle, mut within) = (proxy.client(), proxy.client());
        within.query("begin");
        for wire in [&mut idle, &mut within] {
            assert_eq!(wire.value(AT), "127.0.0.1");
        }
        hosts.say(&["::1"]);
        await_that("it is at its former address", || idle.value(AT) == "::1");
        // A transaction ends where it has begun.
        assert_eq!(within.value(AT), "127.0.0.1");
        within.query("commit");
        assert_eq!(within.value(AT), "::1");
        let mut operator = console(proxy.port, ADMIN);
        let addresses = shown(&mut operator, "DNS_HOSTS", &[NAME], "addrs");
        assert_eq!(addresses, ["::1"]);
        // What nobody knows any more is where it was, also when the settings are read again.
        hosts.say(&[]);
        operator.query("RELOAD");
        assert_eq!(idle.value(AT), "::1");
        thread::sleep(Duration::from_millis(500));
        for command in ["RECONNECT", "RELOAD"] {
            operator.query(command);
            assert_eq!(idle.value(AT), "::1");
        }
        // And it is followed from there on.
        hosts.say(&["127.0.0.1"]);
        await_that("it is at its former address", || {
            idle.value(AT) == "127.0.0.1"
        });
    });
}

#[test]
fn a_host_may_appear_later() {
    alone(|hosts| {
        let postgres = postgres::of_its_own();
        let proxy = before(&postgres);
        let (state, told) = refusal(&proxy);
        assert_eq!(state, "08006");
        assert!(told.contains("its name cannot be looked up"), "{told}");
        hosts.say(&["127.0.0.1"]);
        let is_there = || {
            let mut operator = console(proxy.port, ADMIN);
            shown(&mut operator, "DNS_HOSTS", &[NAME], "addrs") == ["127.0.0.1"]
        };
        await_that("it is not found", is_there);
        assert_eq!(proxy.client().value(AT), "127.0.0.1");
    });
}

/// The database elsewhere may have been set up otherwise.
#[test]
fn clients_are_greeted_as_the_host_says_that_is_used_now() {
    alone(|hosts| {
        let postgres = postgres::of_its_own();
        hosts.say(&["127.0.0.1"]);
        let proxy = before(&postgres);
        let zone = || Wire::started_with(proxy.port, &[])["TimeZone"].clone();
        let first = zone();
        assert_ne!(first, "Asia/Tokyo");
        postgres.direct(&format!("alter role {USER} set timezone = 'Asia/Tokyo'"));
        // Those of the servers that are there count for as long as it stays where it is.
        assert_eq!(zone(), first);
        hosts.say(&["::1"]);
        let mut operator = console(proxy.port, ADMIN);
        await_that("it is at its former address", || {
            shown(&mut operator, "DNS_HOSTS", &[NAME], "addrs") == ["::1"]
        });
        assert_eq!(zone(), "Asia/Tokyo");
    });
}

/// As `localhost` has two where a database listens at one of them.
#[test]
fn all_addresses_of_a_host_are_tried() {
    alone(|hosts| {
        let postgres = postgres::of_its_own_with(&["-c", "listen_addresses=127.0.0.1"]);
        hosts.say(&["::1", "127.0.0.1"]);
        let proxy = before(&postgres);
        assert_eq!(proxy.client().value(AT), "127.0.0.1");
        drop(proxy);
        hosts.say(&["::1", "127.0.0.9"]);
        let proxy = before(&postgres);
        let begun = Instant::now();
        let (state, told) = refusal(&proxy);
        assert_eq!(state, "08006");
        assert!(told.contains("Connection refused"), "{told}");
        // There is no other host that could be awaited.
        assert!(begun.elapsed() < PATIENCE);
    });
}

/// However many of them wait for it.
#[test]
fn clients_of_a_host_without_a_database_are_told() {
    alone(|hosts| {
        hosts.say(&["::1", "127.0.0.1"]);
        for clients in [1, 2, 5] {
            let postgres = postgres::of_its_own();
            let proxy = before(&postgres);
            let mut all: Vec<Wire> = (0..clients).map(|_| proxy.client()).collect();
            postgres.end_at_once();
            for wire in &mut all {
                wire.send(&query("select 1"));
            }
            for wire in &mut all {
                let told = wire.until(b'Z');
                assert_eq!(error(&told, b'C'), "08006", "of {clients}");
            }
        }
    });
}
