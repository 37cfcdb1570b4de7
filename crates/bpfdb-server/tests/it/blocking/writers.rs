//! Whoever writes: in the kernel, on each path; in the daemon; by the engine itself.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::thread;

use bpfdb::ValueType;
use bpfdb_server::settings::{LocalClients, Settings};
use bpfdb_tests::server::{
    Client, Lent, TestServer, cgroup, kernel_answers, kernel_calls, lent, wait_until,
};

use super::{array, block, next, send};
use crate::groups::figure;

const CONSUMERS: usize = 8;
const PRODUCERS: usize = 4;
const ELEMENTS: usize = 250;

fn server(local_clients: LocalClients) -> Lent {
    let settings = Settings {
        bind: Ipv4Addr::LOCALHOST.into(),
        local_clients,
        ..Settings::default()
    };
    TestServer::lent_as_told(&bpfdb::Options::default(), settings)
}

/// Every element is taken once, while pushes of the kernel and clients that begin to wait meet.
fn exactly_once(connect: &(dyn Fn() -> Client + Sync), push: &str, pop: &str) {
    let taken = thread::scope(|scope| {
        let consumers: Vec<_> = (0..CONSUMERS)
            .map(|_| scope.spawn(|| consume(&mut connect(), pop)))
            .collect();
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|number| scope.spawn(move || produce(&mut connect(), number, push)))
            .collect();
        producers
            .into_iter()
            .for_each(|producer| producer.join().expect("no panic"));
        // One for each that ends it.
        let mut last = connect();
        for number in 0..CONSUMERS {
            let words = push.replace("ELEMENT", &format!("end{number}"));
            assert!(last.say(&words).starts_with(':'), "{words}");
        }
        let taken = consumers.into_iter();
        let taken = taken.flat_map(|consumer| consumer.join().expect("no panic"));
        taken.collect::<Vec<String>>()
    });
    let all: BTreeSet<&String> = taken.iter().collect();
    assert_eq!(all.len(), taken.len(), "each once");
    assert_eq!(taken.len(), PRODUCERS * ELEMENTS, "all of them");
}

fn produce(client: &mut Client, number: usize, push: &str) {
    for element in 0..ELEMENTS {
        let words = push.replace("ELEMENT", &format!("{number}.{element}"));
        let reply = client.say(&words);
        assert!(reply.starts_with(':'), "{reply}");
    }
}

/// Until it takes an element that says that it is the end.
fn consume(client: &mut Client, pop: &str) -> Vec<String> {
    let mut taken = Vec::new();
    loop {
        let reply = client.say(pop);
        let element = reply.split("\r\n").nth(4).expect("an element").to_owned();
        if element.starts_with("end") {
            return taken;
        }
        taken.push(element);
    }
}

fn on_every_command(connect: &(dyn Fn() -> Client + Sync)) {
    exactly_once(connect, "RPUSH once ELEMENT", "BLPOP once 0");
    // Ends have the highest score; the others are taken before.
    exactly_once(connect, "ZADD zonce 1 ELEMENT", "BZPOPMIN zonce 0");
}

#[test]
fn over_tcp() {
    let server = server(LocalClients::Off);
    on_every_command(&|| server.client());
}

#[test]
fn in_their_own_send() {
    let server = server(LocalClients::In(cgroup::own()));
    on_every_command(&|| {
        let mut client = server.client();
        client.receive_until_known();
        client
    });
}

#[test]
fn over_the_unix_socket() {
    let server = lent::plain();
    on_every_command(&|| server.unix_client());
}

/// Commands of the daemon that make a list or a sorted set.
#[test]
fn of_the_daemon() {
    let server = TestServer::shared();
    let (mut waiting, mut writer) = (server.client(), server.client());
    for (before, write) in [
        ("RPUSH from a", "RENAME from made"),
        ("RPUSH from a", "COPY from made"),
        ("RPUSH from a", "LMOVE from made LEFT RIGHT"),
        ("RPUSH from a", "RPOPLPUSH from made"),
        ("DEL from", "LPUSH made a"),
    ] {
        writer.say("DEL from");
        writer.say(before);
        block(&server, &mut waiting, "BLPOP made 0", 0);
        writer.say(write);
        assert_eq!(next(&mut waiting), array(&["made", "a"]), "{write}");
    }
    for (before, write) in [
        ("ZADD from 3 a", "RENAMENX from made"),
        ("ZADD from 3 a", "ZUNIONSTORE made 1 from"),
        ("ZADD from 3 a", "ZRANGESTORE made from 0 -1"),
        ("DEL from", "ZINCRBY made 3 a"),
        ("DEL from", "ZADD made NX 3 a"),
    ] {
        writer.say("DEL from");
        writer.say(before);
        block(&server, &mut waiting, "BZPOPMAX made 0", 0);
        writer.say(write);
        assert_eq!(next(&mut waiting), array(&["made", "a", "3"]), "{write}");
    }
    let from = "RPUSH from a";
    writer.say("DEL from");
    writer.say(from);
    let dump = writer.ask(&[b"DUMP", b"from"]);
    let start = dump.iter().position(|&byte| byte == b'\n').expect("a line") + 1;
    block(&server, &mut waiting, "BLPOP made 0", 0);
    let restored = writer.ask(&[b"RESTORE", b"made", b"0", &dump[start..dump.len() - 2]]);
    assert_eq!(restored, b"+OK\r\n");
    assert_eq!(next(&mut waiting), array(&["made", "a"]));
}

/// A list that is too large for the kernel.
#[test]
fn a_large_list() {
    let server = TestServer::shared();
    let (mut waiting, mut writer) = (server.client(), server.client());
    let long = vec![b'x'; 100_000];
    assert_eq!(writer.ask(&[b"RPUSH", b"large", &long]), b":1\r\n");
    block(&server, &mut waiting, "BLPOP made 0", 0);
    assert_eq!(writer.say("RENAME large made"), "+OK\r\n");
    assert_eq!(
        waiting.reply().len(),
        array(&["made", ""]).len() + long.len() + 5
    );
}

/// One that knows nothing of servers: it is found after a while.
#[test]
fn of_the_engine() {
    let server = TestServer::shared();
    let (mut waiting, mut writer) = (server.client(), server.client());
    let mut session = server.engine.session().expect("a session");
    for round in 0..3 {
        writer.say("RPUSH model a");
        let model = session.entry_of_any_type(b"model").expect("read");
        let list = model.expect("a list").value;
        block(
            &server,
            &mut waiting,
            &format!("BLPOP none engine{round} 0"),
            0,
        );
        let key = format!("engine{round}");
        session
            .set_typed(key.as_bytes(), ValueType::LIST, &list, None)
            .expect("written");
        assert!(next(&mut waiting).starts_with(&format!("*2\r\n$7\r\n{key}\r\n$1\r\na")));
        writer.say("DEL model");
    }
}

/// Replies of synchronous clients.
#[test]
fn what_is_taken_is_durable() {
    let (disk, server) = lent::logged();
    let (mut waiting, mut writer) = (server.client(), server.client());
    assert_eq!(waiting.say("CLIENT DURABILITY SYNC"), "+OK\r\n");
    block(&server, &mut waiting, "BLPOP durable 0", 0);
    disk.hold(true);
    send(&mut writer, "RPUSH durable x");
    thread::sleep(super::MOMENT);
    assert!(waiting.replies_at_hand().is_empty(), "it is not durable");
    disk.hold(false);
    assert_eq!(next(&mut waiting), array(&["durable", "x"]));
    assert_eq!(next(&mut writer), ":1\r\n");
}

/// Who wakes others stays with the daemon, which would get the next push as well.
#[test]
fn who_pushes_again_and_again() {
    const ROUNDS: usize = 20;
    let server = TestServer::shared();
    let (mut waiting, mut writer) = (server.client(), server.client());
    let mut asking = server.client();
    let passed = |asking: &mut Client| figure(asking, "bpfdb_events_connections_passed") as usize;
    passed(&mut asking);
    let before = passed(&mut asking);
    for _ in 0..ROUNDS {
        // Asks by a connection of its own, which is one that is handed over.
        block(&server, &mut waiting, "BLPOP again 0", 0);
        assert_eq!(writer.say("RPUSH again x"), ":1\r\n");
        assert_eq!(next(&mut waiting), array(&["again", "x"]));
    }
    let writers = passed(&mut asking) - before - ROUNDS;
    assert!(
        writers < ROUNDS / 2,
        "the writer was handed over {writers} times"
    );
    // It comes back when nobody waits.
    assert_eq!(writer.say("RPUSH again x"), ":1\r\n");
    wait_until("the kernel answers", || {
        let calls = kernel_calls(&mut asking, "rpush");
        writer.say("RPUSH again x");
        kernel_calls(&mut asking, "rpush") > calls || !kernel_answers()
    });
}
