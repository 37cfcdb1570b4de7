//! Commands that have a program of their own (`BPFDB_APART` in `include/bpfdb/commands.h`): the server
//! serves before that program is there, and many of them come in one message.

use std::sync::mpsc;
use std::thread;

use bpfdb::Engine;
use bpfdb_server::{Error, FrontEnd, Options, Server};
use bpfdb_tests::server::procedures::back_to_kernel;
use bpfdb_tests::server::{Client, TestServer, cgroup, kernel_answers, kernel_calls, wait_until};
use bpfdb_tests::server::{request, words};

/// More than one run of the program in the kernel may answer.
const MANY: usize = 100;

/// Whoever answers, the replies are the same; in the end it is the kernel.
#[test]
fn they_are_answered_while_their_program_is_loaded() {
    cgroup::own();
    let engine = Engine::create(&bpfdb::Options::default()).expect("an engine");
    let mut options = Options::at(([127, 0, 0, 1], 0).into());
    options.settings.local_clients = cgroup::chosen();
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        let front_end = FrontEnd::load(&engine.joining(), &options.settings)?;
        let server = Server::start_loaded(&engine, &options, front_end, |_| Ok::<_, Error>(()))?;
        sender
            .send((server.address(), server.stopper()))
            .expect("the test waits");
        server.run()
    });
    let (address, stopper) = receiver.recv().expect("a server");
    let mut client = Client::connect(address);
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
    stopper.stop();
    thread.join().expect("no panic").expect("a clean stop");
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
