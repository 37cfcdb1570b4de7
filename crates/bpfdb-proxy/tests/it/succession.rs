//! A proxy takes over from another one, and nobody notices.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_proxy::settings::Settings;

use crate::console::{ADMIN, console};
use crate::postgres::{self, USER};
use crate::proxy::{TestProxy, WAYS, Way};
use crate::wire::{Wire, cancel_request, error, execute, kinds, message, parse, query, rows, sync};

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn settings(path: &Path) -> impl Fn(&mut Settings) + use<> {
    let path = path.to_owned();
    move |settings| {
        settings.default_pool_size = 4;
        settings.administration.admin_users = vec![ADMIN.into()];
        settings.administration.takeover_socket = Some(path.clone());
    }
}

pub(crate) struct Socket {
    _folder: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

pub(crate) fn socket() -> Socket {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("takeover");
    Socket {
        _folder: folder,
        path,
    }
}

pub(crate) fn successor(way: Way, before: &mut TestProxy, path: &Path) -> TestProxy {
    let ends = before.pass_ends();
    let after = TestProxy::beside(way, ends, settings(path));
    assert_eq!(after.port, before.port, "it has the same listener");
    after
}

pub(crate) fn await_end(proxy: &TestProxy) {
    let begun = Instant::now();
    while !proxy.has_ended() {
        assert!(begun.elapsed() < PATIENCE, "the predecessor does not end");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn sessions_go_on_behind_a_successor() {
    for way in WAYS {
        let socket = socket();
        let mut before = TestProxy::with(way, settings(&socket.path));
        let named = |name| Wire::connect(before.port, USER, &[("application_name", name)]);
        let (mut idle, mut within) = (named("one"), named("two"));
        idle.query("set timezone to 'Asia/Tokyo'");
        idle.query("set lock_timeout = '7s'");
        idle.send(&[parse("mine", "select 7"), sync()].concat());
        idle.until(b'Z');
        within.query("begin");
        let process = within.value("select pg_backend_pid()");
        let after = successor(way, &mut before, &socket.path);
        let shown =
            "select current_setting('application_name') || ' ' || current_setting('timezone')";
        assert_eq!(idle.value(shown), "one Asia/Tokyo", "{way:?}");
        assert_eq!(idle.value("show lock_timeout"), "7s", "{way:?}");
        idle.send(&[execute("mine"), sync()].concat());
        assert_eq!(rows(&idle.until(b'Z')), [["7"]], "{way:?}");
        // A transaction ends where it has begun.
        assert_eq!(within.value("select pg_backend_pid()"), process, "{way:?}");
        assert!(!before.has_ended());
        within.query("commit");
        assert!(within.value(shown).starts_with("two "), "{way:?}");
        // Nobody is there any more.
        await_end(&before);
        assert_eq!(Wire::connect(after.port, USER, &[]).value("select 1"), "1");
        assert_eq!(idle.value("select 2"), "2");
        drop(before);
        // Its end has not taken the file of its successor.
        assert!(socket.path.exists());
        after.stop();
        assert!(!socket.path.exists());
    }
}

/// Transactions of many clients, while one proxy after the other takes over.
#[test]
fn no_transaction_fails_while_proxies_follow_each_other() {
    for way in WAYS {
        let socket = socket();
        let mut proxy = TestProxy::with(way, settings(&socket.path));
        let (port, ends) = (proxy.port, AtomicBool::new(false));
        thread::scope(|scope| {
            for client in 0..8 {
                let ends = &ends;
                scope.spawn(move || {
                    let mut wire = Wire::connect(port, USER, &[]);
                    let mut number = 0;
                    while !ends.load(Ordering::Relaxed) {
                        number += 1;
                        let tag = format!("{client}-{number}");
                        let text = format!("select '{tag}'");
                        if number % 3 == 0 {
                            wire.query("begin");
                            assert_eq!(wire.value(&text), tag);
                            wire.query("commit");
                        }
                        assert_eq!(wire.value(&text), tag);
                        if number % 50 == 0 {
                            wire = Wire::connect(port, USER, &[]);
                        }
                    }
                });
            }
            for _ in 0..3 {
                thread::sleep(Duration::from_millis(300));
                let after = successor(way, &mut proxy, &socket.path);
                await_end(&proxy);
                proxy = after;
            }
            ends.store(true, Ordering::Relaxed);
        });
    }
}

/// What the kernel has brought, and its client has not read, outlives the proxy.
#[test]
fn a_reply_that_is_not_read_is_kept() {
    let socket = socket();
    let mut before = TestProxy::with(Way::Kernel, settings(&socket.path));
    let mut wire = before.client();
    let begun = Instant::now();
    let mut probe = before.client();
    probe.value("select 1");
    // The kernel serves a client from a moment after its greeting on.
    for _ in 0..20 {
        assert_eq!(wire.value("select 1"), "1");
        thread::sleep(Duration::from_millis(5));
    }
    wire.send(&query("select 'kept'"));
    thread::sleep(Duration::from_millis(200));
    let after = successor(Way::Kernel, &mut before, &socket.path);
    await_end(&before);
    assert!(before.stop() > 0, "the kernel has served");
    assert_eq!(rows(&wire.until(b'Z')), [["kept"]]);
    assert_eq!(wire.value("select 2"), "2");
    assert!(begun.elapsed() < PATIENCE);
    drop(after);
}

/// A session with state stays where its server is; its requests to cancel go there.
#[test]
fn a_session_with_state_stays_until_it_leaves() {
    let socket = socket();
    let mut before = TestProxy::with(Way::Plain, settings(&socket.path));
    let mut pinned = before.client();
    pinned.query("set work_mem = '7MB'");
    let mut operator = console(before.port, ADMIN);
    let after = successor(Way::Plain, &mut before, &socket.path);
    assert_eq!(error(&operator.until(b'E'), b'C'), "57P01");
    assert_eq!(pinned.value("show work_mem"), "7MB");
    pinned.send(&query("select pg_sleep(60)"));
    let process = "select count(*) from pg_stat_activity where query = 'select pg_sleep(60)' and state = 'active'";
    let begun = Instant::now();
    while postgres::shared().direct(process) != "1" {
        assert!(begun.elapsed() < PATIENCE, "it does not sleep");
        thread::sleep(Duration::from_millis(20));
    }
    Wire::open(after.port).send(&cancel_request(&pinned.key));
    assert_eq!(error(&pinned.until(b'Z'), b'C'), "57014");
    assert!(!before.has_ended());
    pinned.send(&message(b'X', b""));
    await_end(&before);
}

/// One that does not come so far that it can serve takes nothing.
#[test]
fn a_successor_that_fails_changes_nothing() {
    let socket = socket();
    let before = TestProxy::with(Way::Plain, settings(&socket.path));
    let mut wire = before.client();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut wanted = Settings::default();
    settings(&socket.path)(&mut wanted);
    wanted.listen = vec![taken.local_addr().expect("its address")];
    let failed = bpfdb_proxy::Proxy::new(wanted).err().expect("it is taken");
    assert!(failed.to_string().contains("cannot listen on"), "{failed}");
    assert_eq!(wire.value("select 1"), "1");
    assert_eq!(before.client().value("select 2"), "2");
    assert!(kinds(&wire.query("begin")).ends_with("CZ"));
    assert!(!before.has_ended());
}
