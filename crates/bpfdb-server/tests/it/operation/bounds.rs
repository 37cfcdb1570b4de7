//! Time-outs, and bounds on connections and on memory.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use bpfdb_server::settings::{OutputLimit, OutputLimits, Secret, Settings, Size};
use bpfdb_tests::namespace;

use crate::operation::{info, number, server, start};
use bpfdb_tests::server::{Client, PATIENCE, TestServer, is_served, request, show, wait_until};

#[test]
fn idle_connections_are_closed_and_busy_ones_are_not() {
    const TIMEOUT: Duration = Duration::from_secs(2);
    let server = server(Settings {
        timeout: TIMEOUT.as_secs(),
        ..Settings::default()
    });
    // Until the machine has let the busy one be busy all the time.
    wait_until("one is busy while another is idle", || {
        let (mut idle, mut busy) = (server.client(), server.client());
        assert_eq!(idle.say("SET a 1"), "+OK\r\n");
        let (start, mut longest, mut served) = (Instant::now(), Duration::ZERO, true);
        while served && !idle.is_closed_already() {
            assert!(start.elapsed() < PATIENCE, "it may be idle for ever");
            let pause = Instant::now();
            std::thread::sleep(Duration::from_millis(100));
            // All of it is answered in the kernel.
            busy.send(&request(&[b"GET", b"a"]));
            served = busy.try_reply().is_ok_and(|reply| reply == b"$1\r\n1\r\n");
            longest = longest.max(pause.elapsed());
        }
        let undisturbed = longest < TIMEOUT / 2;
        assert!(served || !undisturbed, "closed after {longest:?}");
        undisturbed
    });
}

#[test]
fn maxclients_can_change_at_run_time() {
    let server = server(Settings::default());
    let mut client = server.client();
    assert_eq!(client.say("CONFIG SET maxclients 2"), "+OK\r\n");
    let mut second = server.client();
    assert_eq!(second.say("PING"), "+PONG\r\n");
    let mut third = server.client();
    let reply = third.until_closed();
    assert!(
        reply.ends_with(b"-ERR max number of clients reached\r\n"),
        "{}",
        show(&reply)
    );
    drop(second);
    wait_until("there is room", || is_served(server.address));
    assert_ne!(info(&mut client, "stats", "rejected_connections"), "0");
}

fn wait_for_disconnections(client: &mut Client, wanted: u32) {
    const FIELD: &str = "client_output_buffer_limit_disconnections";
    wait_until("slow readers are closed", || {
        info(client, "stats", FIELD) == wanted.to_string()
    });
}

#[test]
fn a_slow_reader_is_closed() {
    let server = server(Settings {
        output_limit: OutputLimits::of_normal(OutputLimit {
            hard: Size::mib(8),
            soft: Size::mib(1),
            seconds: 2,
        }),
        ..Settings::default()
    });
    let mut setup = server.client();
    let value = vec![b'v'; 60_000];
    setup.ask(&[b"set", b"big", &value]);
    // One reply beyond the hard limit.
    let mut greedy = server.client();
    let keys: Vec<&[u8]> = std::iter::once(&b"mget"[..])
        .chain(std::iter::repeat_n(&b"big"[..], 400))
        .collect();
    greedy.send(&request(&keys));
    wait_for_disconnections(&mut setup, 1);
    assert!(greedy.is_closed());
    // Replies above the soft limit that are not read for a while.
    let mut slow = server.client();
    let keys: Vec<&[u8]> = keys[..80].to_vec();
    slow.send(&request(&keys));
    wait_for_disconnections(&mut setup, 2);
    assert!(slow.is_closed());
    let kept = number(&mut setup, "memory", "mem_clients_normal");
    assert!(kept < 100_000, "{kept}");
}

/// Requests that never end: memory is bounded for all together, and the others
/// are served meanwhile.
#[test]
fn half_requests_are_bounded_together() {
    let path = namespace::files().folder.join("bpfdb.sock");
    let server = start(Settings {
        unix_socket: Some(path.clone()),
        ..Settings::default()
    });
    let mut setup = server.client();
    // Of 160 MiB: 8 MiB, for all together.
    let limits = "CONFIG SET maxmemory 160mb maxmemory-clients 5%";
    assert_eq!(setup.say(limits), "+OK\r\n");
    assert_eq!(
        setup.say("CONFIG GET maxmemory-clients"),
        "*2\r\n$17\r\nmaxmemory-clients\r\n$2\r\n5%\r\n"
    );
    let mut greedy = Vec::new();
    for _ in 0..40 {
        let mut stream = UnixStream::connect(&path).expect("a connection");
        // Arguments of an MSET whose last one does not come.
        let mut bytes = b"*100\r\n$4\r\nMSET\r\n".to_vec();
        for _ in 0..16 {
            bytes.extend_from_slice(b"$60000\r\n");
            bytes.resize(bytes.len() + 60_000, b'x');
            bytes.extend_from_slice(b"\r\n");
        }
        // It may be closed while it sends.
        let _ = stream.write_all(&bytes);
        greedy.push(stream);
        assert_eq!(setup.say("PING"), "+PONG\r\n");
        assert_eq!(setup.say("SELECT 0"), "+OK\r\n");
        let kept = number(&mut setup, "memory", "mem_clients_normal");
        assert!(kept <= 8 << 20, "{kept}");
    }
    let evicted = number(&mut setup, "stats", "evicted_clients");
    assert!(evicted > 20, "{evicted}");
    drop(greedy);
    wait_until("nothing is kept", || {
        info(&mut setup, "clients", "unix_clients") == "0"
    });
}

/// Small half requests cost little each.
#[test]
fn many_small_half_requests() {
    let server = TestServer::start_with(
        &bpfdb::Options {
            max_sessions: 3000,
            ..bpfdb::Options::default()
        },
        Settings {
            require_pass: Secret("secret".into()),
            ..Settings::default()
        },
    );
    let mut admin = server.client();
    admin.say("AUTH secret");
    let clients: Vec<Client> = (0..2000)
        .map(|_| {
            let mut client = server.client();
            client.send(b"*2\r\n$4\r\nAUTH\r\n$10000\r\nxxxxxxxxxx");
            client
        })
        .collect();
    wait_until("all are in", || {
        info(&mut admin, "clients", "connected_clients") == "2001"
    });
    let kept = number(&mut admin, "memory", "mem_clients_normal");
    assert!(kept < 2000 * 1024, "{kept}");
    assert_eq!(admin.say("SET a 1"), "+OK\r\n");
    drop(clients);
}
