//! One of two proxies of which one follows the other ends, or does not as it should: somebody serves all the same.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_proxy::settings::{AuthType, Settings};
use bpfdb_proxy::{Error, Proxy};
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockType, UnixAddr, accept, bind, connect, listen,
    recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::console::{ADMIN, await_shown, console, shown};
use crate::mirroring::{await_value, databases, with_table};
use crate::postgres::{self, PASSWORD, SECRETIVE, USER};
use crate::proxy::{TestProxy, Way};
use crate::succession::{await_end, settings, socket as takeover_socket, successor};
use crate::wire::{Wire, error, kinds, query, rows, start_packet};

const PATIENCE: Duration = Duration::from_secs(20);
/// Of the messages, which both proxies have to have.
const VERSION: [u8; 4] = 3u32.to_be_bytes();
/// A user that no account has.
const STRANGER: u32 = 54_321;

/// One end of the connection of two proxies.
struct Peer(OwnedFd);

fn unconnected() -> OwnedFd {
    let flags = SockFlag::SOCK_CLOEXEC;
    socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).expect("a socket")
}

impl Peer {
    fn of(fd: OwnedFd) -> Self {
        let limit = TimeVal::seconds(PATIENCE.as_secs() as i64);
        setsockopt(&fd, sockopt::ReceiveTimeout, &limit).expect("a limit");
        Self(fd)
    }

    /// A successor.
    fn come(path: &Path) -> Self {
        let fd = unconnected();
        let address = UnixAddr::new(path).expect("an address");
        connect(fd.as_raw_fd(), &address).expect("connected");
        Self::of(fd)
    }

    /// The next message, without its descriptor; empty: the other end is gone.
    fn receive(&self) -> Vec<u8> {
        let mut bytes = vec![0; 64 * 1024];
        let length = recv(self.0.as_raw_fd(), &mut bytes, MsgFlags::empty()).expect("a message");
        bytes.truncate(length);
        bytes
    }

    fn until(&self, kind: u8) {
        loop {
            let message = self.receive();
            assert!(!message.is_empty(), "it ended before {}", kind as char);
            if message[0] == kind {
                return;
            }
        }
    }

    fn send(&self, message: &[u8]) -> bool {
        send(self.0.as_raw_fd(), message, MsgFlags::MSG_NOSIGNAL).is_ok()
    }

    /// As far as a successor can go without having taken over.
    fn prepare(path: &Path) -> Self {
        let peer = Self::come(path);
        peer.until(b'E');
        assert!(peer.send(&[&b"R"[..], &VERSION].concat()));
        peer.until(b'P');
        peer
    }
}

/// A client that is not accepted yet.
fn knocks(port: u16) -> Wire {
    let mut wire = Wire::open(port);
    wire.send(&start_packet(USER, &[]));
    let limit = Some(Duration::from_millis(300));
    wire.socket.set_read_timeout(limit).expect("a limit");
    let early = wire.socket.peek(&mut [0]);
    assert!(early.is_err(), "it is accepted: {early:?}");
    wire.socket
        .set_read_timeout(Some(PATIENCE))
        .expect("a limit");
    wire
}

#[test]
fn a_successor_that_ends_on_the_way_changes_nothing() {
    for way in [Way::Kernel, Way::Plain] {
        let socket = takeover_socket();
        let mut proxy = TestProxy::with(way, settings(&socket.path));
        let mut wire = proxy.client();
        drop(Peer::come(&socket.path));
        assert_eq!(proxy.client().value("select 1"), "1");
        let peer = Peer::prepare(&socket.path);
        let mut waits = knocks(proxy.port);
        assert_eq!(wire.value("select 2"), "2");
        drop(peer);
        assert!(kinds(&waits.until(b'Z')).ends_with('Z'));
        assert_eq!(waits.value("select 3"), "3");
        // One of another version.
        let peer = Peer::come(&socket.path);
        peer.until(b'E');
        assert!(peer.send(b"R\0\0\0\x63"));
        assert!(peer.receive().is_empty());
        assert_eq!(proxy.client().value("select 4"), "4");
        // One that does as it should.
        let after = successor(way, &mut proxy, &socket.path);
        await_end(&proxy);
        assert_eq!(wire.value("select 5"), "5");
        assert_eq!(after.client().value("select 6"), "6");
    }
}

/// The files of the sockets would be gone that the successor is about to have.
#[test]
fn a_proxy_with_a_successor_closes_no_sockets() {
    let socket = takeover_socket();
    let proxy = TestProxy::with(Way::Plain, settings(&socket.path));
    let mut operator = console(proxy.port, ADMIN);
    let peer = Peer::come(&socket.path);
    peer.until(b'E');
    for what in ["WAIT_FOR_CLIENTS", "WAIT_FOR_SERVERS"] {
        let told = operator.query(&format!("SHUTDOWN {what}"));
        assert_eq!(error(&told, b'M'), "another proxy takes over", "{what}");
    }
    drop(peer);
    assert_eq!(proxy.client().value("select 1"), "1");
}

#[test]
fn a_successor_that_says_nothing_is_given_up() {
    let socket = takeover_socket();
    let proxy = TestProxy::with(Way::Plain, settings(&socket.path));
    let peer = Peer::prepare(&socket.path);
    let mut waits = knocks(proxy.port);
    assert!(kinds(&waits.until(b'Z')).ends_with('Z'));
    // It hears that it is too late.
    assert!(!peer.send(b"A"));
    assert_eq!(proxy.client().value("select 1"), "1");
}

/// Until a successor has said that a client is its own, it is not.
#[test]
fn a_client_that_is_not_adopted_stays() {
    let socket = takeover_socket();
    let proxy = TestProxy::with(Way::Plain, settings(&socket.path));
    let mut wire = proxy.client();
    wire.query("set application_name = 'mine'");
    let peer = Peer::prepare(&socket.path);
    assert!(peer.send(b"A"));
    peer.until(b'G');
    peer.until(b'C');
    // Nobody reads it meanwhile.
    wire.send(&query("show application_name"));
    assert!(peer.send(&[&b"S"[..], &wire.key].concat()));
    assert_eq!(rows(&wire.until(b'Z')), [["mine"]]);
    // It is sent again after a while. Its successor ends.
    peer.until(b'C');
    drop(peer);
    assert_eq!(wire.value("show application_name"), "mine");
    assert!(!proxy.has_ended());
    drop(wire);
    await_end(&proxy);
}

/// A predecessor of which the test says what it does.
fn follow(path: &Path, does: impl FnOnce(Peer) + Send) -> Result<(), Error> {
    let fd = unconnected();
    bind(fd.as_raw_fd(), &UnixAddr::new(path).expect("an address")).expect("bound");
    listen(&fd, Backlog::new(1).expect("a number")).expect("it listens");
    let fd = Peer::of(fd).0;
    let mut wanted = Settings {
        listen: vec!["127.0.0.1:0".parse().expect("an address")],
        ..Settings::default()
    };
    settings(path)(&mut wanted);
    thread::scope(|scope| {
        scope.spawn(move || {
            let accepted = accept(fd.as_raw_fd()).expect("it comes");
            // SAFETY: a new descriptor that is known here only.
            does(Peer::of(unsafe { OwnedFd::from_raw_fd(accepted) }));
        });
        Proxy::new(wanted).map(drop)
    })
}

fn hello(peer: &Peer, version: [u8; 4]) {
    assert!(peer.send(&[&b"V"[..], &version].concat()));
    peer.send(b"E");
}

#[test]
fn a_predecessor_that_ends_on_the_way_is_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let told = follow(&path("version"), |peer| hello(&peer, 99u32.to_be_bytes()));
    let told = told.expect_err("of another version").to_string();
    assert!(told.contains("version 99"), "{told}");
    follow(&path("at once"), drop).expect_err("it is gone");
    let ends_prepared = |peer: Peer| {
        hello(&peer, VERSION);
        assert_eq!(peer.receive(), [&b"R"[..], &VERSION].concat());
    };
    follow(&path("ready"), ends_prepared).expect_err("it is gone");
    let goes_on = |peer: Peer| {
        ends_prepared(Peer(peer.0.try_clone().expect("a copy")));
        let _ = nix::sys::socket::shutdown(peer.0.as_raw_fd(), nix::sys::socket::Shutdown::Read);
        assert!(peer.send(b"P"));
        assert!(peer.receive().is_empty());
    };
    follow(&path("goes on"), goes_on).expect_err("it has not heard of it");
    // From here on nobody else serves.
    let ends = |peer: Peer| {
        ends_prepared(Peer(peer.0.try_clone().expect("a copy")));
        assert!(peer.send(b"P"));
        assert_eq!(peer.receive(), b"A");
    };
    follow(&path("ends"), ends).expect("it serves");
}

#[test]
fn a_socket_that_others_may_have_made_is_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("takeover");
    let started = || {
        let mut wanted = Settings {
            listen: vec!["127.0.0.1:0".parse().expect("an address")],
            ..Settings::default()
        };
        settings(&path)(&mut wanted);
        Proxy::new(wanted).map(drop)
    };
    // What is no socket stays.
    fs::write(&path, "kept").expect("written");
    started().expect_err("there is a file");
    assert_eq!(fs::read_to_string(&path).expect("read"), "kept");
    fs::remove_file(&path).expect("removed");
    for mode in [0o777, 0o770] {
        fs::set_permissions(folder.path(), Permissions::from_mode(mode)).expect("set");
        let told = started().expect_err("others write there").to_string();
        assert!(told.contains("others may write"), "{told}");
    }
    // There nobody removes what is another's. But this is a stranger's.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).expect("set");
    let fd = unconnected();
    bind(fd.as_raw_fd(), &UnixAddr::new(&path).expect("an address")).expect("bound");
    let listener = thread::spawn(move || {
        let (same, user) = (-1i64, i64::from(STRANGER));
        // SAFETY: of this thread only, which ends.
        let done = unsafe { libc::syscall(libc::SYS_setresuid, same, user, same) };
        assert_eq!(done, 0);
        listen(&fd, Backlog::new(1).expect("a number")).expect("it listens");
        fd
    });
    let fd = listener.join().expect("it listens");
    let told = started().expect_err("a stranger's").to_string();
    assert!(told.contains("another user's"), "{told}");
    drop(fd);
}

/// What fails when the predecessor is still there takes nothing from it.
#[test]
fn a_successor_without_metrics_takes_nothing() {
    let socket = takeover_socket();
    let metrics: SocketAddr = ([127, 0, 0, 1], postgres::free_port()).into();
    let with = |metrics: SocketAddr| {
        let settings = settings(&socket.path);
        move |wanted: &mut Settings| {
            settings(wanted);
            wanted.administration.metrics = Some(metrics);
        }
    };
    let mut before = TestProxy::with(Way::Plain, with(metrics));
    let mut wire = before.client();
    let mut wanted = Settings {
        listen: vec![([127, 0, 0, 1], before.port).into()],
        ..Settings::default()
    };
    // Of no interface of this machine.
    with("192.0.2.1:1".parse().expect("an address"))(&mut wanted);
    let told = Proxy::new(wanted).map(drop).expect_err("no such address");
    assert!(told.to_string().contains("serve metrics"), "{told}");
    assert_eq!(before.client().value("select 1"), "1");
    assert!(crate::metrics::fetched(metrics, "/health").starts_with("HTTP/1.1 200"));
    // The address of the predecessor's own is free when that has gone.
    let ends = before.pass_ends();
    let after = TestProxy::beside(Way::Plain, ends, with(metrics));
    await_end(&before);
    assert_eq!(wire.value("select 2"), "2");
    assert_eq!(after.metrics, Some(metrics));
    assert!(crate::metrics::fetched(metrics, "/health").starts_with("HTTP/1.1 200"));
}

/// Servers of the successor let it in by what the predecessor has learnt.
#[test]
fn clients_are_adopted_whose_servers_want_a_proof() {
    let kept = format!("select rolpassword from pg_authid where rolname = '{SECRETIVE}'");
    let verifier = postgres::shared().direct(&kept);
    assert!(verifier.starts_with("SCRAM"));
    for is_in_file in [true, false] {
        let socket = takeover_socket();
        let change = || {
            let (settings, verifier) = (settings(&socket.path), verifier.clone());
            move |wanted: &mut Settings| {
                settings(wanted);
                wanted.auth_type = AuthType::Scram;
                if is_in_file {
                    wanted.users.insert(SECRETIVE.into(), verifier);
                } else {
                    wanted.auth_user = Some(USER.into());
                    wanted.auth_dbname = Some("postgres".into());
                }
            }
        };
        let mut before = TestProxy::with(Way::Plain, change());
        let mut wire = Wire::log_in(before.port, SECRETIVE, PASSWORD);
        assert_eq!(wire.value("select current_user"), SECRETIVE);
        let ends = before.pass_ends();
        let after = TestProxy::beside(Way::Plain, ends, change());
        await_end(&before);
        assert_eq!(wire.value("select current_user"), SECRETIVE);
        // It has no keys of others: a password is to be proven as before.
        let mut new = Wire::log_in(after.port, SECRETIVE, PASSWORD);
        assert_eq!(new.value("select 1"), "1");
    }
}

/// Databases that are paused, disabled or mirrored are so behind a successor.
#[test]
fn what_operators_have_said_holds_behind_a_successor() {
    let socket = takeover_socket();
    let change = |wanted: &mut Settings| {
        settings(&socket.path)(wanted);
        let database = wanted.databases[bpfdb_proxy::settings::ANY_DATABASE].clone();
        for name in ["postgres", "copy"] {
            wanted.databases.insert(name.into(), database.clone());
        }
    };
    let mut before = TestProxy::with(Way::Plain, change);
    let mut wire = before.client();
    let mut operator = console(before.port, ADMIN);
    assert_eq!(kinds(&operator.query("PAUSE postgres")), "CZ");
    assert_eq!(kinds(&operator.query("DISABLE postgres")), "CZ");
    assert_eq!(kinds(&operator.query("SET query_timeout = 77")), "CZ");
    assert_eq!(kinds(&operator.query("MIRROR postgres TO copy")), "CZ");
    let ends = before.pass_ends();
    let after = TestProxy::beside(Way::Plain, ends, change);
    await_end(&before);
    let mut operator = console(after.port, ADMIN);
    let state = |operator: &mut Wire| {
        let of = |operator: &mut Wire, column| shown(operator, "DATABASES", &["postgres"], column);
        [of(operator, "paused"), of(operator, "disabled")].concat()
    };
    assert_eq!(state(&mut operator), ["1", "1"]);
    let value = |operator: &mut Wire, name| shown(operator, "CONFIG", &[name], "value");
    assert_eq!(value(&mut operator, "query_timeout"), ["77"]);
    assert_eq!(
        shown(&mut operator, "MIRRORS", &["postgres"], "mirror"),
        ["copy"]
    );
    // It takes nobody new, and has dropped nobody.
    let mut refused = Wire::open(after.port);
    refused.send(&start_packet(USER, &[]));
    assert!(kinds(&refused.until(b'E')).ends_with('E'));
    wire.send(&query("select 7"));
    let begun = Instant::now();
    await_shown(
        &mut operator,
        "POOLS",
        &["postgres", USER],
        "cl_waiting",
        "1",
    );
    assert!(begun.elapsed() < PATIENCE);
    assert_eq!(kinds(&operator.query("RESUME postgres")), "CZ");
    assert_eq!(rows(&wire.until(b'Z')), [["7"]]);
}

/// The next session of a client at its mirror does not overtake the one before.
#[test]
fn a_client_stays_while_its_mirror_lags() {
    let [_, mut second] = with_table("mirror_lags");
    let socket = takeover_socket();
    let change = |wanted: &mut Settings| {
        settings(&socket.path)(wanted);
        wanted.databases = databases(postgres::shared().port, true);
    };
    let mut before = TestProxy::with(Way::Plain, change);
    let mut wire = before.client();
    let mut insert = |a: i32| {
        wire.query(&format!("insert into mirror_lags values ({a}, 'x')"));
    };
    second.query("begin");
    second.query("lock table mirror_lags");
    insert(1);
    insert(2);
    let ends = before.pass_ends();
    let after = TestProxy::beside(Way::Plain, ends, change);
    insert(3);
    second.query("commit");
    await_end(&before);
    insert(4);
    let all = "select string_agg(a::text, ' ' order by ctid) from mirror_lags";
    await_value(&mut second, all, "1 2 3 4");
    after.stop();
}
