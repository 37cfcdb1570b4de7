//! Commands that have a program of their own (`BPFDB_APART` in `include/bpfdb/commands.h`): the first of
//! them has it loaded, the server serves before it is there, and many of them come in one message.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;

use bpfdb::Engine;
use bpfdb_server::settings::{Secret, Settings};
use bpfdb_server::{Error, FrontEnd, Options, Server};
use bpfdb_tests::server::procedures::{self, ask, back_to_kernel};
use bpfdb_tests::server::{Client, TestServer, cgroup, kernel_answers, kernel_calls, wait_until};
use bpfdb_tests::server::{request, words};

/// More than one run of the program in the kernel may answer.
const MANY: usize = 100;

/// Clients of strings alone do not need it. Then, whoever answers, the replies are the same; in the end it
/// is the kernel.
#[test]
fn the_first_of_them_has_their_program_loaded() {
    cgroup::own();
    let engine = Engine::create(&bpfdb::Options::default()).expect("an engine");
    let mut options = Options::at(([127, 0, 0, 1], 0).into());
    options.settings.local_clients = cgroup::chosen();
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        let front_end = FrontEnd::load(&engine.joining(), &options.settings)?;
        let server = Server::start_loaded(&engine, &options, front_end, |_| Ok::<_, Error>(()))?;
        sender
            .send((server.address(), server.stopper(), server.loader()))
            .expect("the test waits");
        server.run()
    });
    let (address, stopper, loader) = receiver.recv().expect("a server");
    let mut client = Client::connect(address);
    assert_eq!(client.say("SET k 1"), "+OK\r\n");
    assert_eq!(client.say("INCRBYFLOAT k 1"), "$1\r\n2\r\n");
    assert_eq!(client.say("GET k"), "$1\r\n2\r\n");
    assert!(!loader.is_asked());
    let mut number = 0;
    wait_until("the kernel answers", || {
        number += 1;
        back_to_kernel(&mut client);
        let is_new = u32::from(number == 1);
        assert_eq!(
            client.say(&format!("HSET h f {number}")),
            format!(":{is_new}\r\n")
        );
        assert_eq!(client.say("HLEN h"), ":1\r\n");
        assert_eq!(client.say("HINCRBY h f 0"), format!(":{number}\r\n"));
        assert_eq!(client.say("APPEND s ."), format!(":{number}\r\n"));
        ["hset", "hlen", "hincrby", "append"]
            .iter()
            .all(|command| kernel_calls(&mut client, command) > 0)
    });
    assert!(loader.is_asked());
    stopper.stop();
    thread.join().expect("no panic").expect("a clean stop");
    // Nothing is left to be loaded.
    loader.wait();
}

/// A transaction that the kernel leaves to the daemon, because it lacks the program, has it loaded, too.
#[test]
fn one_in_a_transaction_has_their_program_loaded() {
    if !kernel_answers() {
        return;
    }
    let server = TestServer::start(&bpfdb::Options::default());
    // As it is, without what a client of tests does before.
    let mut stream = TcpStream::connect(server.address).expect("a connection");
    let block = [words("MULTI"), words("RPUSH l x"), words("EXEC")].concat();
    stream.write_all(&block).expect("sent");
    let expected = b"+OK\r\n+QUEUED\r\n*1\r\n:1\r\n";
    let mut replies = vec![0; expected.len()];
    stream.read_exact(&mut replies).expect("replies");
    assert_eq!(replies, expected);
    assert!(server.loader.is_asked());
}

/// Nothing is loaded for the next server on an engine, and the kernel knows nothing of the scripts, the clients
/// that waited, and the password of the one before.
#[test]
fn the_next_server_goes_on_with_the_programs() {
    if !kernel_answers() {
        return;
    }
    let server = TestServer::start(&bpfdb::Options::default());
    let address = server.address;
    let mut client = server.client();
    assert_eq!(client.say("RPUSH l 1"), ":1\r\n");
    let name = ask(
        &mut client,
        &["SCRIPT", "LOAD", "return redis.call('INCR', KEYS[1])"],
    );
    let name = String::from_utf8(name.text).expect("digits");
    let call = format!("EVALSHA {name} 1 n");
    wait_until("the kernel runs the script", || {
        back_to_kernel(&mut client);
        assert!(client.say(&call).starts_with(':'));
        procedures::kernel_calls(&mut client, &name) > 0
    });
    let mut waiting = server.client();
    waiting.send(&words("BLPOP filled 0"));
    wait_until("it waits", || {
        client
            .say("INFO clients")
            .contains("\nblocked_clients:1\r\n")
    });

    let server = server.start_next(Settings::default());
    assert!(waiting.is_closed());
    assert_eq!(server.address, address);
    assert!(server.loader.is_asked(), "its program is in its place");
    let mut client = server.client();
    assert_eq!(client.say("LRANGE l 0 -1"), "*1\r\n$1\r\n1\r\n");
    for _ in 0..3 {
        back_to_kernel(&mut client);
        assert!(client.say(&call).starts_with("-NOSCRIPT"));
    }
    wait_until("the kernel fills what was waited for", || {
        back_to_kernel(&mut client);
        client.say("RPUSH filled 1");
        kernel_calls(&mut client, "rpush") > 0
    });

    // What the kernel may answer is what the server says that is there.
    let server = server.start_next(Settings {
        require_pass: Secret("secret".into()),
        ..Settings::default()
    });
    for _ in 0..3 {
        assert!(server.client().say("GET n").starts_with("-NOAUTH"));
    }
    let server = server.start_next(Settings::default());
    let mut client = server.client();
    wait_until("the kernel answers", || {
        assert!(client.say("GET n").starts_with('$'));
        kernel_calls(&mut client, "get") > 0
    });
}

/// What the kernel does not answer anyhow needs no program.
#[test]
fn clients_of_the_daemon_load_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("bpfdb.sock");
    let settings = Settings {
        unix_socket: Some(socket.clone()),
        ..Settings::default()
    };
    let server = TestServer::start_with(&bpfdb::Options::default(), settings);
    let mut client = Client::connect_unix(&socket);
    assert_eq!(client.say("HSET h f 1"), ":1\r\n");
    assert_eq!(client.say("HGET h f"), "$1\r\n1\r\n");
    assert_eq!(client.say("MULTI"), "+OK\r\n");
    assert_eq!(client.say("HLEN h"), "+QUEUED\r\n");
    assert_eq!(client.say("EXEC"), "*1\r\n:1\r\n");
    assert!(!server.loader.is_asked());
}

/// The kernel bounds the tail calls of a run: the next run answers the rest of the message.
#[test]
fn many_of_them_come_in_one_message() {
    let server = TestServer::shared();
    let mut client = server.client();
    assert_eq!(client.say("RPUSH many 1 2 3"), ":3\r\n");
    wait_until("the kernel answers all of them", || {
        let before = kernel_calls(&mut client, "llen");
        back_to_kernel(&mut client);
        client.send(&request(&[b"LLEN", b"many"]).repeat(MANY));
        for _ in 0..MANY {
            assert_eq!(client.reply(), b":3\r\n");
        }
        !kernel_answers() || kernel_calls(&mut client, "llen") - before == MANY as u64
    });
}

/// A transaction in one message is the kernel's or the daemon's as a whole.
#[test]
fn many_of_them_are_in_one_transaction() {
    let server = TestServer::shared();
    let mut client = server.client();
    for count in [1, 31, 32, 33, MANY] {
        let mut block = words("MULTI");
        block.extend(words("RPUSH block x").repeat(count));
        block.extend(words("EXEC"));
        client.say("DEL block");
        back_to_kernel(&mut client);
        client.send(&block);
        assert_eq!(client.reply(), b"+OK\r\n");
        for _ in 0..count {
            assert_eq!(client.reply(), b"+QUEUED\r\n");
        }
        let lengths: String = (1..=count).map(|length| format!(":{length}\r\n")).collect();
        let reply = String::from_utf8(client.reply()).expect("text");
        assert_eq!(reply, format!("*{count}\r\n{lengths}"));
        assert_eq!(client.say("LLEN block"), format!(":{count}\r\n"));
    }
}
