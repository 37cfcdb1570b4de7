//! The end of servers, connections and clients.

use std::io::Write;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use crate::local::{SLOW, local, local_client, server, settle, start};
use bpfdb_tests::server::{Client, cgroup, request, wait_until};

fn programs_attached() -> u32 {
    let folder = std::fs::File::open(cgroup::own()).expect("the cgroup");
    let mut options = libbpf_sys::bpf_prog_query_opts {
        sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    // SAFETY: the options are as long as they say.
    let result = unsafe {
        libbpf_sys::bpf_prog_query_opts(
            folder.as_raw_fd(),
            libbpf_sys::BPF_CGROUP_SOCK_OPS,
            &raw mut options,
        )
    };
    assert_eq!(result, 0);
    // SAFETY: filled in by the call.
    unsafe { options.__bindgen_anon_1.prog_cnt }
}

/// Clients that did not close keep nothing of a server that has stopped.
#[test]
fn stopped() {
    let server = start(&bpfdb::Options::default(), Ipv4Addr::LOCALHOST.into());
    assert!(programs_attached() >= 1);
    let mut idle = local_client(&server);
    let mut open = local_client(&server);
    assert_eq!(open.say("BEGIN"), "+OK\r\n");
    assert_eq!(open.say("SET never 1"), "+OK\r\n");
    let mut unread = local_client(&server);
    unread.send(&request(&[b"SET", b"last", b"1"]));
    let engine = server.engine.clone();
    let before = local(&server);
    server.stop();

    assert_eq!(unread.reply(), b"+OK\r\n");
    for client in [&mut idle, &mut open, &mut unread] {
        assert!(client.is_closed());
        // It may fail at once, or the next one does.
        let _ = client.stream.write(&request(&[b"SET", b"never", b"2"]));
    }
    let stats = engine.stats().expect("figures");
    assert_eq!(stats.counters.redis().net.requests_local, before);
    assert_eq!((stats.sessions, stats.locks), (0, 0));
    let mut session = engine.session().expect("a session");
    assert_eq!(session.get(b"never"), Ok(None));
    assert_eq!(session.get(b"last"), Ok(Some(b"1".to_vec())));
}

/// Nothing is answered after the killer has heard that it is done.
#[test]
fn killed() {
    let server = server();
    let mut killer = local_client(&server);
    for _ in 0..20 {
        let mut victim = local_client(&server);
        let id = victim.say("CLIENT ID");
        settle(&server, &mut victim);
        let id = id.trim_start_matches(':').trim_end();
        assert_eq!(killer.say(&format!("CLIENT KILL ID {id}")), ":1\r\n");
        let before = local(&server);
        let _ = victim.stream.write(&request(&[b"PING"]));
        assert_eq!(local(&server), before);
        assert!(victim.is_closed());
    }
}

/// The client goes while it is answered in its send(): its session goes too.
#[test]
fn clients_come_and_go() {
    let server = start(
        &bpfdb::Options {
            max_sessions: 4096,
            ..bpfdb::Options::default()
        },
        Ipv4Addr::LOCALHOST.into(),
    );
    let (address, engine) = (server.address, &server.engine);
    // Those of the log, if there is one, and perhaps one with which the server is at work just now.
    let before = engine.stats().expect("figures").sessions;
    let start = Instant::now();
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let engine = engine.clone();
            thread::spawn(move || {
                let mut round = 0;
                while start.elapsed() < Duration::from_secs(3) {
                    // They need not be accepted.
                    wait_until("the daemon has caught up", || {
                        round % 64 != 0 || engine.stats().expect("figures").sessions < 1000
                    });
                    let mut client = Client::connect(address);
                    let key = format!("{thread}");
                    // Others are answered by the server's worker.
                    if round % 4 == 0 {
                        client.receive_until_known();
                    }
                    client.send(&request(&[b"BEGIN"]));
                    client.send(&request(&[b"SET", key.as_bytes(), b"x"]));
                    client.send(&request(&[b"PING"]).repeat(round % 20));
                    if round % 3 == 0 {
                        client.send(&request(&[b"ECHO", &[b'c'; SLOW]]));
                    }
                    // With replies unread, or not.
                    if round % 2 == 0 {
                        assert_eq!(client.reply(), b"+OK\r\n", "round {round}");
                    }
                    round += 1;
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    wait_until("every session is closed", || {
        let stats = server.engine.stats().expect("figures");
        stats.sessions <= before && stats.locks == 0
    });
    let mut client = local_client(&server);
    assert_eq!(client.say("EXISTS 0 1 2 3"), ":0\r\n");
}
