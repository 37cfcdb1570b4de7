//! MULTI … EXEC of very many commands: others are served meanwhile, and it is one
//! transaction all the same.

use bpfdb_tests::server as common;

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt};

use common::{Client, Lent, TestServer, wait_until, words};

const COMMANDS: usize = 60_000;
/// The longest that another client may wait; a step takes a millisecond.
const PATIENCE: Duration = Duration::from_millis(20);

/// Close without a farewell.
const ABORT: linger = linger {
    l_onoff: 1,
    l_linger: 0,
};

fn server() -> Lent {
    TestServer::shared()
}

/// Queues so many commands, of which every second is for user space only.
fn queue(client: &mut Client, commands: usize) {
    let pair = [words("INCR sum"), words("INCRBYFLOAT float 1")].concat();
    let bytes = [words("MULTI"), pair.repeat(commands / 2)].concat();
    let mut sender = client.stream.try_clone().expect("a clone");
    let thread = thread::spawn(move || sender.write_all(&bytes).expect("sent"));
    assert_eq!(client.reply(), b"+OK\r\n");
    for _ in 0..commands {
        assert_eq!(client.reply(), b"+QUEUED\r\n");
    }
    thread.join().expect("no panic");
}

/// What EXEC says then, if the first sum is this.
fn result(commands: usize, first: usize) -> Vec<u8> {
    let mut reply = format!("*{commands}\r\n").into_bytes();
    for i in first..first + commands / 2 {
        let float = i.to_string();
        write!(reply, ":{i}\r\n${}\r\n{float}\r\n", float.len()).expect("in memory");
    }
    reply
}

/// A median and the longest of the waits of a client of user space during `work`.
fn waits(other: &mut Client, mut is_over: impl FnMut() -> bool) -> Vec<Duration> {
    let mut waits = Vec::new();
    while !is_over() {
        let start = Instant::now();
        assert_eq!(other.say("LASTSAVE").as_bytes()[0], b':');
        waits.push(start.elapsed());
    }
    waits.sort_unstable();
    waits
}

#[test]
fn others_are_served_meanwhile() {
    let server = server();
    let (mut a, mut b) = (server.client(), server.client());
    b.say("LASTSAVE");
    queue(&mut a, COMMANDS);
    // How long a busy machine makes a client wait.
    let mut looks = 0;
    let quiet = waits(&mut b, || {
        looks += 1;
        looks > 100
    });
    let patience = PATIENCE + 4 * quiet[quiet.len() / 2];
    let begun = Instant::now();
    a.send(&words("EXEC"));
    let reader = thread::spawn(move || (a.reply(), begun.elapsed()));
    let waits = waits(&mut b, || reader.is_finished());
    let (reply, time) = reader.join().expect("no panic");
    assert!(reply == result(COMMANDS, 1), "another result");
    assert_eq!(
        b.say("MGET sum float"),
        "*2\r\n$5\r\n30000\r\n$5\r\n30000\r\n"
    );
    // The machine may stand still for a moment, but not as long as the work takes.
    let (most, nearly) = (waits[waits.len() - 1], waits[waits.len() * 99 / 100]);
    assert!(waits.len() > 20, "{} in {time:?}", waits.len());
    assert!(nearly < patience, "{nearly:?}, {patience:?}");
    assert!(most < (time / 4).max(patience), "{most:?} of {time:?}");
}

/// No client sees a part of it; one that needs a key of it, in user space, gets it afterwards.
#[test]
fn it_is_one_transaction() {
    let server = server();
    let (mut a, mut b, mut c) = (server.client(), server.client(), server.client());
    for client in [&mut b, &mut c] {
        client.say("LASTSAVE");
    }
    queue(&mut a, COMMANDS / 4);
    queue(&mut b, COMMANDS / 4);
    let (first, second) = (COMMANDS / 8, COMMANDS / 4);
    a.send(&words("EXEC"));
    b.send(&words("EXEC"));
    let mut seen = Vec::new();
    while seen.last() != Some(&second) {
        let reply = c.say("GETEX sum");
        let number = reply
            .split("\r\n")
            .nth(1)
            .and_then(|text| text.parse().ok());
        seen.push(number.unwrap_or(0));
    }
    assert!(seen.iter().all(|sum| [0, first, second].contains(sum)));
    assert_eq!(
        c.say("INCRBYFLOAT float 1"),
        format!("${}\r\n{}\r\n", (second + 1).to_string().len(), second + 1)
    );
    let mut replies = [a.reply(), b.reply()];
    replies.sort_unstable_by_key(|reply| reply.ends_with(format!("\r\n{second}\r\n").as_bytes()));
    assert!(replies[0] == result(COMMANDS / 4, 1));
    assert!(replies[1] == result(COMMANDS / 4, first + 1));
}

/// One that waits for the end of it gets no CONFLICT.
#[test]
fn commands_wait_for_the_end() {
    let server = server();
    let (mut a, mut b) = (server.client(), server.client());
    b.say("LASTSAVE");
    queue(&mut a, COMMANDS / 2);
    a.send(&words("EXEC"));
    thread::sleep(Duration::from_millis(30));
    let sum = COMMANDS / 4 + 1;
    let reply = b.say("INCRBYFLOAT float 1");
    assert_eq!(reply, format!("${}\r\n{sum}\r\n", sum.to_string().len()));
    assert!(a.reply() == result(COMMANDS / 2, 1));
}

/// Its client is killed, or goes, in the middle.
#[test]
fn it_is_rolled_back_when_its_client_goes() {
    let server = server();
    let mut b = server.client();
    b.say("SET sum 5");
    for killed in [true, false] {
        let mut a = server.client();
        let id = a.say("CLIENT ID").trim()[1..].to_owned();
        queue(&mut a, COMMANDS);
        a.send(&words("EXEC"));
        thread::sleep(Duration::from_millis(20));
        if killed {
            assert_eq!(b.say(&format!("CLIENT KILL ID {id}")), ":1\r\n");
            assert!(a.is_closed());
        } else {
            // Reset. What was sent before an orderly end is executed.
            setsockopt(&a.stream, sockopt::Linger, &ABORT).expect("set up");
            drop(a);
        }
        wait_until("its locks are gone", || {
            server.engine.stats().expect("figures").locks == 0
        });
        assert_eq!(b.say("MGET sum float"), "*2\r\n$1\r\n5\r\n$-1\r\n");
    }
}

/// No write in the middle of a pause.
#[test]
fn a_pause_begins_after_it() {
    let server = server();
    let (mut a, mut b) = (server.client(), server.client());
    queue(&mut a, COMMANDS / 4);
    a.send(&words("EXEC"));
    thread::sleep(Duration::from_millis(5));
    assert_eq!(b.say("CLIENT PAUSE 100000 WRITE"), "+OK\r\n");
    let sum = b.say("GET sum");
    thread::sleep(Duration::from_millis(100));
    assert_eq!(b.say("GET sum"), sum);
    assert_eq!(b.say("CLIENT UNPAUSE"), "+OK\r\n");
    assert!(a.reply() == result(COMMANDS / 4, 1));
}
