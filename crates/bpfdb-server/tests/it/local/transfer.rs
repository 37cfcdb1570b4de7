//! Sizes, and ways of sending and receiving.

use std::io::{self, Read, Seek, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::local::{SLOW, at_hand, local, local_client, send_with, server, settle};
use bpfdb_tests::server::{Client, PATIENCE, bulk, request};

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
    load(1);
}

#[test]
#[ignore = "long: make soak"]
fn soak_a_bulk_load() {
    load(10);
}

fn load(rounds: usize) {
    let server = server();
    for _ in 0..rounds {
        let mut client = local_client(&server);
        client.send(&request(&[b"PING"]).repeat(300_000));
        for _ in 0..300_000 {
            assert_eq!(client.reply(), b"+PONG\r\n");
        }
        assert_eq!(client.say("GET none"), "$-1\r\n");
    }
}

/// What waits in its own queue is bounded; the rest goes through TCP, and nothing is lost.
#[test]
fn a_client_that_does_not_read() {
    const COUNT: usize = 20_000;
    let server = server();
    let mut client = local_client(&server);
    let text = [b'n'; 500];
    let (bytes, reply) = (request(&[b"ECHO", &text]), bulk(&text));
    let before = local(&server);
    // More than all buffers of both sockets: the daemon keeps the rest of the replies.
    for _ in 0..COUNT {
        client.send(&bytes);
    }
    let answered = local(&server) - before;
    let most = u64::from(bpfdb::abi::BPFDB_LOCAL_UNREAD_MAX) / reply.len() as u64 + 2;
    assert!(
        (most / 2..=most).contains(&answered),
        "{answered} of {most}"
    );
    assert_eq!(server.client().say("PING"), "+PONG\r\n");

    for _ in 0..COUNT {
        assert_eq!(client.reply(), reply);
    }
    assert_eq!(client.say("PING"), "+PONG\r\n");
}

/// Its requests come one at a time, so that the daemon has nothing left to do when the send buffer
/// has become full: the connection stays the daemon's, for the kernel's worker could not get on.
#[test]
fn a_client_that_does_not_read_and_pauses() {
    const MORE: usize = 10_000;
    let server = server();
    let (mut client, mut other) = (local_client(&server), server.client());
    let text = [b'p'; 2000];
    let (bytes, reply) = (request(&[b"ECHO", &text]), bulk(&text));
    let within = bpfdb::abi::BPFDB_SEND_BUFFER as usize * 2 / reply.len();
    for _ in 0..within {
        client.send(&bytes);
        // Answered by the daemon, after what came before.
        other.say("CLIENT ID");
    }
    client.send(&bytes.repeat(MORE));
    for _ in 0..within + MORE {
        assert_eq!(client.reply(), reply);
    }
    assert_eq!(client.say("PING"), "+PONG\r\n");
}

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
            match epoll.wait(&mut events, timeout) {
                // The process was stopped meanwhile.
                Err(Errno::EINTR) => continue,
                ready => assert_eq!(ready, Ok(1), "not told of a reply, round {i}"),
            }
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
    // SAFETY: one entry, as given.
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

/// A client that asks for a notification when bytes were sent gets it.
#[test]
fn without_copies() {
    let server = server();
    let mut client = local_client(&server);
    let on: i32 = 1;
    // SAFETY: an integer, as long as given.
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
