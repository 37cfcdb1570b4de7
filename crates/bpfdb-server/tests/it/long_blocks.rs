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

/// Waits of a client of user space and of the kernel, in order.
fn waits(other: &mut Client, mut is_over: impl FnMut() -> bool) -> Vec<Duration> {
    let mut waits = Vec::new();
    while !is_over() {
        let start = Instant::now();
        assert_eq!(other.say("LASTSAVE").as_bytes()[0], b':');
        assert_eq!(other.say("GET elsewhere").as_bytes()[0], b'$');
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
    assert!(
        nearly < (time / 8).max(patience),
        "{nearly:?}, {patience:?}"
    );
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

/// Locks of one transaction; others are served while they are taken and while they are released.
fn many_keys_are_one_transaction(keys: usize) {
    let server = TestServer::start(&bpfdb::Options {
        memory_limit: 1 << 30,
        ..bpfdb::Options::default()
    });
    let locks = || server.engine.stats().expect("figures").locks;
    let (mut a, mut b) = (server.client(), server.client());
    assert_eq!(b.say("SET elsewhere 1"), "+OK\r\n");
    let mut bytes = format!("*{}\r\n$4\r\nMSET\r\n", 2 * keys + 1).into_bytes();
    for i in 0..keys {
        write!(bytes, "$7\r\n{i:07}\r\n$1\r\nv\r\n").expect("in memory");
    }
    let last = keys - 1;
    // How long a client waits at most, of how long the work takes.
    let mut during = |work: &mut (dyn FnMut() + Send), is_over: &dyn Fn() -> bool| {
        let begun = Instant::now();
        thread::scope(|scope| {
            let worker = scope.spawn(work);
            let waits = waits(&mut b, || worker.is_finished() && is_over());
            let (most, whole) = (waits[waits.len() - 1], begun.elapsed());
            // The machine may stand still for a moment of a short time; a client that nobody serves meanwhile has one
            // reply or two.
            let is_served = waits.len() > 10;
            assert!(
                is_served || most < (whole / 4).max(PATIENCE),
                "{most:?} of {whole:?}"
            );
            println!("{keys} keys: {most:?} of {whole:?}");
        });
    };
    assert_eq!(a.say("BEGIN"), "+OK\r\n");
    let mut write_all = || {
        a.send(&bytes);
        assert_eq!(a.reply(), b"+OK\r\n");
    };
    during(&mut write_all, &|| true);
    assert!(locks() >= keys as u64, "{}", locks());
    let mut c = server.client();
    assert_eq!(c.say(&format!("EXISTS 0000000 {last:07}")), ":0\r\n");
    during(&mut || assert_eq!(a.say("COMMIT"), "+OK\r\n"), &|| {
        locks() == 0
    });
    assert_eq!(c.say(&format!("EXISTS 0000000 {last:07}")), ":2\r\n");
    assert_eq!(c.say("DBSIZE"), format!(":{}\r\n", keys + 1));
}

#[test]
fn a_hundred_thousand_keys_are_one_transaction() {
    many_keys_are_one_transaction(100_000);
}

/// As many as are promised.
#[test]
#[ignore = "takes ten seconds of a processor"]
fn soak_a_million_keys_are_one_transaction() {
    many_keys_are_one_transaction(1_000_000);
}
