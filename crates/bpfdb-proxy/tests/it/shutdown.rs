//! How the proxy ends: by signals, and by the words of the console.

use std::collections::HashMap;
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_proxy::Proxy;
use bpfdb_proxy::settings::{ANY_DATABASE, Settings};
use nix::sys::signal::Signal;

use crate::configuration::Program;
use crate::console::{ADMIN, console};
use crate::postgres;
use crate::proxy::{TestProxy, WAYS, Way};
use crate::wire::{Wire, error, kinds, query, rows};

const PATIENCE: Duration = Duration::from_secs(20);
/// A proxy that is to end now would have ended within this time.
const MOMENT: Duration = Duration::from_millis(300);

#[test]
fn a_proxy_ends_as_pgbouncer_does() {
    let file = "[databases]\npostgres = host=127.0.0.1 port={port}\n[pgbouncer]\nauth_type = trust\npool_mode = transaction\n";
    let program = Program::start(file);
    let mut client = program.client();
    client.query("begin");
    program.signal(Signal::SIGTERM);
    assert_eq!(error(&client.until(0), b'C'), "57P01");
    assert!(program.ended());
    let program = Program::start(file);
    let (mut client, mut idle) = (program.client(), program.client());
    client.query("begin");
    program.signal(Signal::SIGINT);
    assert_eq!(client.value("select 1"), "1");
    assert_eq!(kinds(&client.query("commit")), "CZ");
    // The transaction was the last.
    assert_eq!(error(&idle.until(0), b'C'), "57P01");
    assert!(program.ended());
}

/// Its own threads, such as the one that looks names up, do not count.
#[test]
fn a_proxy_that_nobody_can_stop_any_more_ends() {
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let settings = Settings {
            listen: vec!["127.0.0.1:0".parse().expect("an address")],
            databases: HashMap::from([(
                ANY_DATABASE.to_owned(),
                "host=localhost".parse().expect("a database"),
            )]),
            ..Settings::default()
        };
        let (mut proxy, stopper) = Proxy::new(settings).expect("a proxy");
        drop(stopper);
        proxy.run().expect("it runs");
        sender.send(()).expect("it is awaited");
    });
    receiver.recv_timeout(PATIENCE).expect("it ends");
}

/// Its servers go with it, also those that it has to have at least.
#[test]
fn a_database_that_is_gone_from_the_file_keeps_no_servers() {
    const ROLE: &str = "gone_with_it";
    let shared = postgres::shared();
    shared.direct(&format!("create role {ROLE} login"));
    let settings = "[pgbouncer]\nauth_type = trust\npool_mode = transaction\n";
    let gone = format!(
        "[databases]\ngone = host=127.0.0.1 port={{port}} dbname=postgres user={ROLE} min_pool_size=2\n"
    );
    let program = Program::start(&format!(
        "{gone}postgres = host=127.0.0.1 port={{port}}\n{settings}"
    ));
    let mut client = Wire::connect_to(program.port, postgres::USER, "gone");
    assert_eq!(client.value("select 1"), "1");
    let count = format!("select count(*) from pg_stat_activity where usename = '{ROLE}'");
    let await_servers = |wanted: &str| {
        let begun = Instant::now();
        while shared.direct(&count) != wanted {
            assert!(begun.elapsed() < PATIENCE, "there are not {wanted}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    await_servers("2");
    program.write(&format!(
        "[databases]\npostgres = host=127.0.0.1 port={{port}}\n{settings}"
    ));
    program.signal(Signal::SIGHUP);
    assert_eq!(error(&client.until(0), b'C'), "57P01");
    await_servers("0");
    // None is opened again.
    thread::sleep(2 * MOMENT);
    assert_eq!(shared.direct(&count), "0");
    assert_eq!(program.client().value("select 1"), "1");
}

fn start(way: Way, servers: usize) -> TestProxy {
    TestProxy::with(way, |settings| {
        settings.default_pool_size = servers;
        settings.administration.admin_users = vec![ADMIN.into()];
    })
}

fn await_end(proxy: &TestProxy) {
    let begun = Instant::now();
    while !proxy.has_ended() {
        assert!(begun.elapsed() < PATIENCE, "it does not end");
        thread::sleep(Duration::from_millis(10));
    }
}

fn shut_down(operator: &mut Wire, what: &str) {
    let told = operator.query(&format!("SHUTDOWN {what}"));
    assert_eq!(kinds(&told), "CZ", "{told:?}");
}

/// Nobody is accepted, and another proxy could be.
fn listens_no_more(proxy: &TestProxy) {
    let address = ("127.0.0.1", proxy.port);
    TcpStream::connect(address).expect_err("nobody listens");
    let another = TcpListener::bind(address).expect("the port is free");
    drop(another);
}

#[test]
fn a_proxy_waits_for_its_clients() {
    for way in WAYS {
        let proxy = start(way, 1);
        let (mut one, mut two) = (proxy.client(), proxy.client());
        assert_eq!(two.value("select 2"), "2");
        one.query("begin");
        let mut operator = console(proxy.port, ADMIN);
        shut_down(&mut operator, "WAIT_FOR_CLIENTS");
        listens_no_more(&proxy);
        // Those who are there are served on, also if they have to wait for a server.
        two.send(&query("select 3"));
        assert_eq!(one.value("select 1"), "1", "{way:?}");
        assert_eq!(kinds(&one.query("commit")), "CZ", "{way:?}");
        assert_eq!(rows(&two.until(b'Z')), [["3"]], "{way:?}");
        let refused = operator.query("RESUME");
        assert_eq!(error(&refused, b'M'), "pooler is not paused/suspended");
        drop(one);
        thread::sleep(MOMENT);
        assert_eq!(two.value("select 4"), "4", "{way:?}");
        drop(two);
        // An operator who looks on does not count.
        assert_eq!(error(&operator.until(0), b'C'), "57P01", "{way:?}");
        await_end(&proxy);
    }
}

#[test]
fn a_proxy_waits_for_its_servers() {
    for way in WAYS {
        let proxy = start(way, 1);
        let (mut one, mut two, mut idle) = (proxy.client(), proxy.client(), proxy.client());
        one.query("begin");
        two.send(&query("select 2"));
        let mut operator = console(proxy.port, ADMIN);
        shut_down(&mut operator, "WAIT_FOR_SERVERS");
        listens_no_more(&proxy);
        // No server will be free for it any more.
        assert_eq!(error(&two.until(0), b'C'), "57P01", "{way:?}");
        for command in ["SHUTDOWN WAIT_FOR_CLIENTS", "RESUME"] {
            let refused = operator.query(command);
            assert_eq!(error(&refused, b'M'), "pooler is shutting down");
        }
        thread::sleep(MOMENT);
        assert_eq!(one.value("select 1"), "1", "{way:?}");
        assert_eq!(kinds(&one.query("commit")), "CZ", "{way:?}");
        assert_eq!(error(&idle.until(0), b'C'), "57P01", "{way:?}");
        await_end(&proxy);
    }
}

/// A pause that was there before would keep clients from leaving.
#[test]
fn a_pause_can_be_taken_back_while_clients_are_awaited() {
    for way in WAYS {
        let proxy = start(way, 1);
        let mut client = proxy.client();
        assert_eq!(client.value("select 1"), "1");
        let mut operator = console(proxy.port, ADMIN);
        assert_eq!(kinds(&operator.query("PAUSE")), "CZ", "{way:?}");
        shut_down(&mut operator, "WAIT_FOR_CLIENTS");
        client.send(&query("select 2"));
        assert_eq!(kinds(&operator.query("RESUME")), "CZ", "{way:?}");
        assert_eq!(rows(&client.until(b'Z')), [["2"]], "{way:?}");
        drop(client);
        await_end(&proxy);
    }
}

#[test]
fn a_signal_has_a_proxy_wait_for_servers_only() {
    use nix::sys::signal::Signal;

    let program = Program::start(&format!(
        "[databases]\npostgres = host=127.0.0.1 port={{port}}\n[pgbouncer]\nauth_type = trust\n\
         pool_mode = transaction\nadmin_users = {ADMIN}\n"
    ));
    let mut client = program.client();
    client.query("begin");
    shut_down(&mut console(program.port, ADMIN), "WAIT_FOR_CLIENTS");
    program.signal(Signal::SIGINT);
    assert_eq!(kinds(&client.query("commit")), "CZ");
    assert_eq!(error(&client.until(0), b'C'), "57P01");
    assert!(program.ended());
}

/// It would keep it until it leaves, which may be never.
#[test]
fn a_client_that_keeps_a_server_for_nothing_is_ended() {
    for way in WAYS {
        let proxy = start(way, 1);
        let mut client = proxy.client();
        client.query("set work_mem = '7MB'");
        assert_eq!(client.value("show work_mem"), "7MB");
        client.query("begin");
        let mut operator = console(proxy.port, ADMIN);
        shut_down(&mut operator, "WAIT_FOR_SERVERS");
        thread::sleep(MOMENT);
        assert_eq!(client.value("select 1"), "1", "{way:?}");
        assert_eq!(kinds(&client.query("commit")), "CZ", "{way:?}");
        assert_eq!(error(&client.until(0), b'C'), "57P01", "{way:?}");
        await_end(&proxy);
    }
}

/// The transaction is over when the database has sent its reply, of which much is still here.
#[test]
fn the_last_reply_arrives() {
    const SIZE: usize = 24 << 20;
    for way in WAYS {
        let proxy = start(way, 1);
        let mut client = proxy.client();
        client.send(&query(&format!("select repeat('x', {SIZE})")));
        client.socket.peek(&mut [0]).expect("its beginning");
        shut_down(&mut console(proxy.port, ADMIN), "WAIT_FOR_SERVERS");
        let (mut received, mut piece) = (Vec::new(), vec![0; 64 << 10]);
        let begun = Instant::now();
        loop {
            match client.socket.read(&mut piece) {
                Ok(0) => break,
                Ok(bytes) => received.extend_from_slice(&piece[..bytes]),
                // So a read may end of a socket whose bytes come past TCP (docs/proxy.md).
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    assert!(begun.elapsed() < PATIENCE, "{way:?}: nothing comes");
                }
                Err(error) => panic!("{way:?}: {error}, behind {} bytes", received.len()),
            }
            // Slower than the proxy would be with the rest.
            thread::sleep(Duration::from_millis(3));
        }
        assert!(received.len() > SIZE, "{way:?}: {}", received.len());
        let ready = b"Z\0\0\0\x05I";
        let is_there = received[SIZE..]
            .windows(ready.len())
            .any(|bytes| bytes == ready);
        assert!(is_there, "{way:?}");
        await_end(&proxy);
    }
}

#[test]
fn a_proxy_that_waits_can_be_ended_at_once() {
    let proxy = start(Way::Plain, 1);
    let mut client = proxy.client();
    client.query("begin");
    let mut operator = console(proxy.port, ADMIN);
    shut_down(&mut operator, "WAIT_FOR_CLIENTS");
    shut_down(&mut operator, "WAIT_FOR_SERVERS");
    operator.send(&query("SHUTDOWN"));
    assert_eq!(error(&client.until(0), b'C'), "57P01");
    await_end(&proxy);
}

#[test]
fn files_of_unix_sockets_go_when_nobody_is_accepted() {
    let folder = tempfile::tempdir().expect("a folder");
    let proxy = TestProxy::with(Way::Plain, |settings| {
        settings.administration.admin_users = vec![ADMIN.into()];
        settings.unix_socket_dirs = vec![folder.path().to_owned()];
    });
    let file = folder.path().join(format!(".s.PGSQL.{}", proxy.port));
    assert!(file.exists());
    let mut client = proxy.client();
    shut_down(&mut console(proxy.port, ADMIN), "WAIT_FOR_CLIENTS");
    assert!(!file.exists());
    assert_eq!(client.value("select 1"), "1");
}
