//! Clients on this machine: answered inside their own send(), or by TCP when
//! that is not possible, and nobody can tell which.

mod common;

use std::io::{self, Read, Seek, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_server::settings::{LocalClients, Settings};
use common::{Client, PATIENCE, TestServer, cgroup, netns, request, wait_until};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, setsockopt, sockopt};

/// Longer than what the kernel echoes: answered by the daemon.
const SLOW: usize = 600;

fn settings(bind: IpAddr) -> Settings {
    Settings {
        bind,
        local_clients: LocalClients::In(cgroup::own()),
        ..Settings::default()
    }
}

fn server() -> TestServer {
    start(&bpfdb::Options::default(), Ipv4Addr::LOCALHOST.into())
}

fn start(options: &bpfdb::Options, bind: IpAddr) -> TestServer {
    TestServer::start_as_told(options, settings(bind))
}

/// Requests answered inside a send() so far.
fn local(server: &TestServer) -> u64 {
    server
        .engine
        .stats()
        .expect("figures")
        .counters
        .requests_local
}

/// A client that is answered locally from its next request on: its first ones
/// may come before the server's end of the connection is established.
fn local_client(server: &TestServer) -> Client {
    let mut client = server.client();
    settle(server, &mut client);
    client
}

fn settle(server: &TestServer, client: &mut Client) {
    wait_until("requests are answered locally", || {
        let before = local(server);
        assert_eq!(client.say("PING"), "+PONG\r\n");
        local(server) > before
    });
}

/// What can be read now, without waiting.
fn at_hand(stream: &TcpStream) -> Vec<u8> {
    let mut buffer = [0; 65536];
    // SAFETY: the buffer is as long as told.
    let got = unsafe {
        libc::recv(
            stream.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            libc::MSG_DONTWAIT,
        )
    };
    buffer[..usize::try_from(got).unwrap_or(0)].to_vec()
}

fn send_with(stream: &TcpStream, bytes: &[u8], flags: i32) {
    // SAFETY: the bytes are as many as told.
    let sent = unsafe {
        libc::send(
            stream.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            flags,
        )
    };
    assert_eq!(sent, bytes.len() as isize);
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

// ---- It happens --------------------------------------------------------------

#[test]
fn the_reply_is_there_when_send_returns() {
    let server = server();
    let mut client = local_client(&server);
    let before = local(&server);
    for i in 0..100 {
        let value = format!("value {i}");
        client.send(&request(&[b"SET", b"here", value.as_bytes()]));
        assert_eq!(at_hand(&client.stream), b"+OK\r\n");
        client.send(&request(&[b"GET", b"here"]));
        assert_eq!(at_hand(&client.stream), bulk(value.as_bytes()));
    }
    assert_eq!(local(&server) - before, 200);
}

#[test]
fn every_command_of_the_kernel() {
    let server = server();
    let mut client = local_client(&server);
    let before = local(&server);
    for (command, reply) in [
        ("MSET a 1 b 2", "+OK\r\n"),
        ("MGET a b none", "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n"),
        ("INCRBY a 41", ":42\r\n"),
        ("APPEND b 3", ":2\r\n"),
        ("STRLEN b", ":2\r\n"),
        ("EXISTS a b none", ":2\r\n"),
        ("DEL a none", ":1\r\n"),
        ("ECHO hello", "$5\r\nhello\r\n"),
        ("BEGIN", "+OK\r\n"),
        ("SET c 1", "+OK\r\n"),
        ("ROLLBACK", "+OK\r\n"),
        ("GET c", "$-1\r\n"),
    ] {
        assert_eq!(client.say(command), reply, "{command}");
    }
    assert_eq!(local(&server) - before, 12);
}

#[test]
fn switched_off() {
    let server = TestServer::start_as_told(
        &bpfdb::Options::default(),
        Settings {
            local_clients: LocalClients::Off,
            ..Settings::default()
        },
    );
    let mut client = server.client();
    for _ in 0..20 {
        assert_eq!(client.say("PING"), "+PONG\r\n");
    }
    assert_eq!(local(&server), 0);
}

/// IPv4, IPv6, and IPv4 to a listener of IPv6, from another network namespace.
#[test]
fn from_another_network_namespace() {
    netns::isolated(|| {
        let server = Arc::new(start(
            &bpfdb::Options::default(),
            Ipv6Addr::UNSPECIFIED.into(),
        ));
        let port = server.address.port();
        let there = Arc::clone(&server);
        netns::connected(move || {
            for address in ["10.77.0.1", "fd77::1", "::ffff:10.77.0.1"] {
                let ip: IpAddr = address.parse().expect("an address");
                let mut client = Client::connect((ip, port).into());
                settle(&there, &mut client);
                let before = local(&there);
                assert_eq!(client.say("SET where there"), "+OK\r\n");
                assert_eq!(client.say("SELECT 0"), "+OK\r\n");
                assert_eq!(client.say("GET where"), "$5\r\nthere\r\n");
                assert!(local(&there) > before, "{address}");
            }
        });
    });
}

// ---- Who is meant --------------------------------------------------------------

fn bound_client(from: SocketAddr, to: SocketAddr) -> Client {
    let none = SockFlag::SOCK_CLOEXEC;
    let fd = nix::sys::socket::socket(AddressFamily::Inet, SockType::Stream, none, None)
        .expect("a socket");
    setsockopt(&fd, sockopt::ReuseAddr, &true).expect("set up");
    nix::sys::socket::bind(fd.as_raw_fd(), &SockaddrStorage::from(from)).expect("bound");
    nix::sys::socket::connect(fd.as_raw_fd(), &SockaddrStorage::from(to)).expect("connected");
    Client::from_stream(fd.into())
}

/// The same four numbers, in two network namespaces: one of the connections is
/// to somebody else's server, who must get the bytes.
#[test]
fn somebody_elses_server_with_the_same_addresses() {
    let server = server();
    let mut ours = local_client(&server);
    ours.say("SET whose ours");
    let from = ours.stream.local_addr().expect("connected");
    let to = server.address;

    netns::isolated(move || {
        let listener = TcpListener::bind(to).expect("the same port");
        let mut theirs = bound_client(from, to);
        let (mut end, _) = listener.accept().expect("connected");
        for _ in 0..40 {
            let bytes = request(&[b"GET", b"whose"]);
            theirs.send(&bytes);
            let mut got = vec![0; bytes.len()];
            end.read_exact(&mut got).expect("the bytes arrive");
            assert_eq!(got, bytes);
            end.write_all(b"$6\r\ntheirs\r\n").expect("sent");
            assert_eq!(theirs.reply(), b"$6\r\ntheirs\r\n");
        }
    });
    let before = local(&server);
    assert_eq!(ours.say("GET whose"), "$4\r\nours\r\n");
    assert_eq!(local(&server) - before, 1);
}

// ---- Both ways -----------------------------------------------------------------

#[test]
fn it_comes_back_by_itself() {
    let server = server();
    let mut client = local_client(&server);
    for round in 0..50 {
        let text = vec![b'x'; SLOW + round];
        assert_eq!(client.ask(&[b"ECHO", &text]), bulk(&text));
        settle(&server, &mut client);
        let before = local(&server);
        assert_eq!(client.say("PING"), "+PONG\r\n");
        assert_eq!(local(&server) - before, 1, "round {round}");
    }
}

#[test]
fn a_transaction_on_both_ways() {
    let server = server();
    let (mut a, mut b) = (local_client(&server), local_client(&server));
    let slow = vec![b's'; SLOW];
    let before = local(&server);
    assert_eq!(a.say("BEGIN"), "+OK\r\n");
    assert_eq!(a.say("SET both 1"), "+OK\r\n");
    assert_eq!(a.ask(&[b"ECHO", &slow]), bulk(&slow));
    assert_eq!(b.say("GET both"), "$-1\r\n");
    assert_eq!(a.say("SET both 2 XX"), "+OK\r\n");
    assert_eq!(a.say("GET both"), "$1\r\n2\r\n");
    assert!(b.say("SET both 9").starts_with("-CONFLICT"));
    assert_eq!(a.say("COMMIT"), "+OK\r\n");
    assert_eq!(b.say("GET both"), "$1\r\n2\r\n");
    assert!(local(&server) - before >= 4);
}

/// xorshift: the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// A request and its reply, of which no two are alike.
fn some_request(random: &mut Random, number: usize, counter: &mut u64) -> (Vec<u8>, Vec<u8>) {
    let mark = format!("m{number}");
    match random.below(30) {
        0 => {
            let text = mark.repeat(1 + SLOW / 2).into_bytes();
            (request(&[b"ECHO", &text]), bulk(&text))
        }
        1 => {
            let reply = format!("-ERR unknown command '{mark}', with args beginning with: \r\n");
            (request(&[mark.as_bytes()]), reply.into_bytes())
        }
        2 => (
            format!("ECHO {mark}\r\n").into_bytes(),
            bulk(mark.as_bytes()),
        ),
        3 => {
            let value = vec![b'v'; 20_000];
            (request(&[b"SET", b"long", &value]), b"+OK\r\n".to_vec())
        }
        4 => (request(&[b"STRLEN", b"long"]), b":20000\r\n".to_vec()),
        5 => (request(&[b"GET", b"long"]), bulk(&vec![b'v'; 20_000])),
        6..=8 => {
            *counter += 1;
            let reply = format!(":{counter}\r\n");
            (request(&[b"INCR", b"count"]), reply.into_bytes())
        }
        _ => (request(&[b"ECHO", mark.as_bytes()]), bulk(mark.as_bytes())),
    }
}

/// Deep pipelines of fast and slow requests, sent in pieces of any size and read
/// now and then.
#[test]
fn random_mixes_in_deep_pipelines() {
    let server = server();
    let before = local(&server);
    for seed in 1..30 {
        let mut random = Random(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15));
        let mut client = server.client();
        let (mut counter, mut number) = (0, 0);
        client.say("DEL count");
        client.ask(&[b"SET", b"long", &[b'v'; 20_000]]);
        for _ in 0..40 {
            let (mut bytes, mut expected) = (Vec::new(), Vec::new());
            for _ in 0..=random.below(40) {
                let (request, reply) = some_request(&mut random, number, &mut counter);
                number += 1;
                bytes.extend(request);
                expected.push(reply);
            }
            let mut rest = &bytes[..];
            let mut replies = expected.iter();
            while !rest.is_empty() {
                let len = if random.below(3) > 0 {
                    rest.len()
                } else {
                    1 + random.below(rest.len().min(3000))
                };
                client.send(&rest[..len]);
                rest = &rest[len..];
                if random.below(8) == 0 {
                    for reply in client.replies_at_hand() {
                        assert_eq!(Some(&reply), replies.next(), "seed {seed}");
                    }
                }
            }
            for reply in replies {
                assert_eq!(&client.reply(), reply, "seed {seed}");
            }
        }
    }
    assert!(local(&server) - before > 1_000, "{}", local(&server));
}

#[test]
fn byte_by_byte() {
    let server = server();
    let mut client = local_client(&server);
    for i in 0..50 {
        for byte in request(&[b"ECHO", format!("byte {i}").as_bytes()]) {
            client.send(&[byte]);
        }
        assert_eq!(client.reply(), bulk(format!("byte {i}").as_bytes()));
    }
    settle(&server, &mut client);
}

#[test]
fn more_to_come() {
    let server = server();
    let mut client = local_client(&server);
    for i in 0..50 {
        let text = format!("more {i}");
        let bytes = request(&[b"ECHO", text.as_bytes()]);
        for cut in [1, 9, bytes.len() - 1, bytes.len()] {
            send_with(&client.stream, &bytes[..cut], libc::MSG_MORE);
            send_with(&client.stream, &bytes[cut..], 0);
            // Nothing more comes for a whole one: it must not wait.
            assert_eq!(client.reply(), bulk(text.as_bytes()));
        }
    }
    settle(&server, &mut client);
}

// ---- Sizes ---------------------------------------------------------------------

#[test]
fn long_values_and_long_messages() {
    let server = server();
    let mut client = local_client(&server);
    for len in [0, 16, 17, 4096, 28_000, 40_000, 65_535, 65_536] {
        let value: Vec<u8> = (0..len).map(|i| i as u8).collect();
        assert_eq!(client.ask(&[b"SET", b"long", &value]), b"+OK\r\n", "{len}");
        assert_eq!(client.ask(&[b"GET", b"long"]), bulk(&value), "{len}");
    }
    // More than any buffer holds, by one send(); a thread reads meanwhile.
    let value = [b'l'; 1000];
    let bytes = request(&[b"SET", b"long", &value]).repeat(20_000);
    let mut sender = client.stream.try_clone().expect("a clone");
    let thread = thread::spawn(move || sender.write_all(&bytes).expect("sent"));
    for _ in 0..20_000 {
        assert_eq!(client.reply(), b"+OK\r\n");
    }
    thread.join().expect("no panic");
    assert_eq!(client.ask(&[b"GET", b"long"]), bulk(&value));
}

/// Blocking, from one thread: the replies to all of it wait in the kernel.
#[test]
fn a_bulk_load() {
    let server = server();
    for _ in 0..10 {
        let mut client = local_client(&server);
        client.send(&request(&[b"PING"]).repeat(300_000));
        for _ in 0..300_000 {
            assert_eq!(client.reply(), b"+PONG\r\n");
        }
        assert_eq!(client.say("GET none"), "$-1\r\n");
    }
}

/// What is not read is bounded, and nothing of it is lost.
#[test]
fn a_client_that_does_not_read() {
    let server = server();
    let mut client = local_client(&server);
    let text = [b'n'; 500];
    let (bytes, reply) = (request(&[b"ECHO", &text]), bulk(&text));
    let (before, mut sent) = (local(&server), 0);
    client
        .stream
        .set_write_timeout(Some(Duration::from_millis(500)))
        .expect("a time-out");
    while let Ok(some) = client.stream.write(&bytes[sent % bytes.len()..]) {
        sent += some;
        assert!(sent < 1 << 30, "somebody keeps everything");
    }
    let answered = local(&server) - before;
    let most = u64::from(bpfdb::abi::BPFDB_LOCAL_UNREAD_MAX) / reply.len() as u64 + 2;
    assert!(
        (most / 2..=most).contains(&answered),
        "{answered} of {most}"
    );
    assert_eq!(server.client().say("PING"), "+PONG\r\n");

    let mut rest = client.stream.try_clone().expect("a clone");
    let last = bytes[sent % bytes.len()..].to_vec();
    let thread = thread::spawn(move || rest.write_all(&last).expect("sent"));
    for _ in 0..=sent / bytes.len() {
        assert_eq!(client.reply(), reply);
    }
    thread.join().expect("no panic");
    assert_eq!(client.say("PING"), "+PONG\r\n");
}

// ---- Ways of sending and receiving ---------------------------------------------

#[test]
fn half_closed() {
    let server = server();
    for (pipeline, slow) in [
        (1, false),
        (1, true),
        (100, false),
        (100, true),
        (3000, false),
    ] {
        let mut client = local_client(&server);
        let last = vec![b'h'; if slow { SLOW } else { 1 }];
        for _ in 0..pipeline {
            client.send(&request(&[b"PING"]));
        }
        client.send(&request(&[b"ECHO", &last]));
        client
            .stream
            .shutdown(Shutdown::Write)
            .expect("half closed");
        let expected = [b"+PONG\r\n".repeat(pipeline), bulk(&last)].concat();
        assert_eq!(client.until_closed(), expected, "{pipeline} {slow}");
    }
}

/// Woken up once for each arrival, also for what arrives inside its own send().
#[test]
fn epoll_edge_triggered() {
    let server = server();
    let mut client = local_client(&server);
    let before = local(&server);
    client.stream.set_nonblocking(true).expect("set");
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).expect("epoll");
    let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
    epoll
        .add(client.stream.as_fd(), EpollEvent::new(flags, 0))
        .expect("added");
    for i in 0..500_usize {
        let text = vec![b'e'; if i % 7 == 6 { SLOW } else { 1 + i % 50 }];
        let (bytes, reply) = (request(&[b"ECHO", &text]), bulk(&text));
        let pipeline = 1 + i % 5;
        client
            .stream
            .write_all(&bytes.repeat(pipeline))
            .expect("sent");
        let mut got = Vec::new();
        while got.len() < reply.len() * pipeline {
            let mut events = [EpollEvent::empty()];
            let timeout = EpollTimeout::try_from(PATIENCE).expect("a time-out");
            let ready = epoll.wait(&mut events, timeout).expect("events");
            assert_eq!(ready, 1, "not told of a reply, round {i}");
            got.extend(at_hand(&client.stream));
        }
        assert_eq!(got, reply.repeat(pipeline));
    }
    assert!(local(&server) - before >= 6);
    client.stream.set_nonblocking(false).expect("set");
    settle(&server, &mut client);
}

#[test]
fn poll_and_the_number_of_bytes() {
    let server = server();
    let mut client = local_client(&server);
    client.send(&request(&[b"ECHO", b"poll"]));
    let mut entry = libc::pollfd {
        fd: client.stream.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one entry, as told.
    assert_eq!(unsafe { libc::poll(&raw mut entry, 1, 0) }, 1);
    assert_eq!(entry.revents, libc::POLLIN);
    let mut peeked = [0; 4];
    assert_eq!(client.stream.peek(&mut peeked).expect("peeked"), 4);
    assert_eq!(&peeked, b"$4\r\n");
    assert_eq!(client.reply(), b"$4\r\npoll\r\n");
}

/// The pages of a file are not ours to overwrite.
#[test]
fn a_file_is_sent() {
    let server = server();
    let mut client = local_client(&server);
    let bytes = request(&[b"ECHO", b"from a file"]).repeat(50);
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(&bytes).expect("written");
    let before = local(&server);
    for _ in 0..20 {
        let mut offset: libc::off_t = 0;
        while (offset as usize) < bytes.len() {
            let rest = bytes.len() - offset as usize;
            // SAFETY: the offset is written before the call returns.
            let sent = unsafe {
                libc::sendfile(
                    client.stream.as_raw_fd(),
                    file.as_raw_fd(),
                    &raw mut offset,
                    rest,
                )
            };
            assert!(sent > 0);
        }
        for _ in 0..50 {
            assert_eq!(client.reply(), bulk(b"from a file"));
        }
        let mut after = Vec::new();
        file.rewind().expect("rewound");
        file.read_to_end(&mut after).expect("read");
        assert_eq!(after, bytes);
    }
    assert!(local(&server) > before);
}

/// Who asks to be told when bytes were sent is told.
#[test]
fn without_copies() {
    let server = server();
    let mut client = local_client(&server);
    let on: i32 = 1;
    // SAFETY: an integer, as long as told.
    let set = unsafe {
        libc::setsockopt(
            client.stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ZEROCOPY,
            (&raw const on).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    assert_eq!(set, 0, "{}", io::Error::last_os_error());
    let before = local(&server);
    let bytes = request(&[b"ECHO", &[b'z'; 400]]);
    for _ in 0..20 {
        send_with(&client.stream, &bytes, libc::MSG_ZEROCOPY);
        assert_eq!(client.reply(), bulk(&[b'z'; 400]));
    }
    assert_eq!(local(&server), before);
}

#[test]
fn threads_that_share_a_connection() {
    let server = server();
    let client = local_client(&server);
    let reader = client.stream.try_clone().expect("a clone");
    let queue = Arc::new(Mutex::new((client, Vec::new())));
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                for i in 0..500 {
                    let len = if i % 50 == 0 { SLOW } else { 10 };
                    let text = format!("{thread}:{i}:{}", "t".repeat(len));
                    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                    queue.1.push(bulk(text.as_bytes()));
                    queue.0.send(&request(&[b"ECHO", text.as_bytes()]));
                }
            })
        })
        .collect();
    let mut replies = Client::from_stream(reader);
    let got: Vec<_> = (0..2000).map(|_| replies.reply()).collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert!(got == queue.lock().expect("not poisoned").1);
}

// ---- The end -------------------------------------------------------------------

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
    let server = server();
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
    assert_eq!(stats.counters.requests_local, before);
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
    let start = Instant::now();
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let engine = engine.clone();
            thread::spawn(move || {
                let mut round = 0;
                while start.elapsed() < Duration::from_secs(3) {
                    // They need nobody to accept them.
                    wait_until("the daemon has caught up", || {
                        round % 64 != 0 || engine.stats().expect("figures").sessions < 1000
                    });
                    let mut client = Client::connect(address);
                    let key = format!("{thread}");
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
        stats.sessions == 0 && stats.locks == 0
    });
    let mut client = local_client(&server);
    assert_eq!(client.say("EXISTS 0 1 2 3"), ":0\r\n");
}
