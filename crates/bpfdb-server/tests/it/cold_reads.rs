//! A file with values answers slowly: those who need these wait, each for its own, and nobody else does.

use std::thread;
use std::time::Duration;

use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_server::settings::Settings;
use bpfdb_tests::server::{Client, Lent, TestServer, request, show, wait_until};

use super::groups::figure;

const KEYS: usize = 24;

/// A server with so many keys in files, whose reads can be held.
struct Held {
    // Reads go on when it is given back.
    server: Lent,
    client: Client,
}

fn key(number: usize) -> String {
    format!("key:{number}")
}

fn value(number: usize) -> String {
    format!("{number:0100}")
}

fn bulk(value: &str) -> String {
    format!("${}\r\n{value}\r\n", value.len())
}

fn get(number: usize) -> Vec<u8> {
    request(&[b"GET", key(number).as_bytes()])
}

impl Held {
    fn new() -> Self {
        Self::with(Settings::default())
    }

    fn with(settings: Settings) -> Self {
        Self::on(TestServer::lent_tiered(settings))
    }

    fn on(server: Lent) -> Self {
        let mut client = server.client();
        for number in 0..KEYS {
            let set = client.say(&format!("SET {} {}", key(number), value(number)));
            assert_eq!(set, "+OK\r\n");
        }
        assert_eq!(client.say("SET hot 1"), "+OK\r\n");
        until_cold(&mut client, KEYS);
        Self { server, client }
    }

    fn disk(&self) -> &SimulatedDisk {
        self.server.disk()
    }

    fn hold(&self) {
        self.disk().hold_reads(true);
    }

    fn release(&self) {
        self.disk().hold_reads(false);
    }

    /// Waits until so many reads of values are under way, which takes the server's thread for one moment.
    fn until_reading(&mut self, reads: usize) {
        let disk = self.disk().clone();
        wait_until("values are read", || disk.waiting_reads() >= reads);
        self.is_served();
        assert_eq!(disk.waiting_reads(), reads);
    }

    /// Others are served meanwhile, by the daemon.
    fn is_served(&mut self) {
        let reply = self.client.say("MGET hot none");
        assert_eq!(reply, "*2\r\n$1\r\n1\r\n$-1\r\n");
        figure(&mut self.client, "tier_values");
    }

    fn is_there(&mut self, key: &str, value: &str) {
        assert_eq!(self.client.say(&format!("GET {key}")), bulk(value));
    }

    fn nothing_has_come(&self, client: &mut Client) {
        let replies = client.replies_at_hand();
        assert!(replies.is_empty(), "{}", show(&replies.concat()));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

fn until_cold(client: &mut Client, keys: usize) {
    wait_until("values are in files", || {
        figure(client, "tier_values") == keys as u64
    });
}

fn text(reply: &[u8]) -> &str {
    std::str::from_utf8(reply).expect("text")
}

#[test]
fn values_of_several_clients_are_read_at_the_same_time() {
    const CLIENTS: usize = 8;
    let mut held = Held::new();
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| held.server.client()).collect();
    held.hold();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&get(number));
    }
    held.until_reading(CLIENTS);
    // Those who want the same wait for the same read.
    let mut other = held.server.client();
    other.send(&get(0));
    held.until_reading(CLIENTS);
    clients
        .iter_mut()
        .for_each(|client| held.nothing_has_come(client));
    held.release();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(text(&client.reply()), bulk(&value(number)));
    }
    assert_eq!(text(&other.reply()), bulk(&value(0)));
}

#[test]
fn values_of_one_request_are_read_at_the_same_time() {
    const READ: usize = 20;
    let all: String = (0..READ).map(|number| bulk(&value(number))).collect();
    let array = format!("*{READ}\r\n{all}");
    let keys: Vec<String> = (0..READ).map(key).collect();
    let keys = keys.join(" ");
    let script = "local all = {} for i, key in ipairs(KEYS) do all[i] = redis.call('GET', key) end return all";
    let pipeline: Vec<u8> = (0..READ).flat_map(get).collect();
    let words = |text: String| {
        let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        request(&words)
    };
    let eval = {
        let rest = format!("{READ} {keys}");
        let rest = rest.split(' ').map(str::as_bytes);
        let words: Vec<&[u8]> = [&b"EVAL"[..], script.as_bytes()]
            .into_iter()
            .chain(rest)
            .collect();
        request(&words)
    };
    let block = [request(&[b"MULTI"]), pipeline.clone(), request(&[b"EXEC"])].concat();
    let queued = "+OK\r\n".to_owned() + &"+QUEUED\r\n".repeat(READ);
    let cases = [
        (words(format!("MGET {keys}")), array.clone()),
        (pipeline, all),
        (eval, array.clone()),
        (block, queued + &array),
    ];
    for (bytes, expected) in cases {
        let mut held = Held::new();
        let mut client = held.server.client();
        held.hold();
        client.send(&bytes);
        held.until_reading(READ);
        held.release();
        let mut replies = Vec::new();
        while replies.len() < expected.len() {
            replies.extend(client.reply());
        }
        assert_eq!(text(&replies), expected);
    }
}

#[test]
fn replies_of_a_pipeline_come_in_its_order() {
    let mut held = Held::new();
    let mut client = held.server.client();
    held.hold();
    let words: [&[&[u8]]; 5] = [
        &[b"GET", b"key:1"],
        &[b"PING"],
        &[b"APPEND", b"key:2", b"x"],
        &[b"GET", b"hot"],
        &[b"STRLEN", b"key:2"],
    ];
    client.send(&words.map(request).concat());
    held.until_reading(1);
    held.nothing_has_come(&mut client);
    held.release();
    let expected = bulk(&value(1)) + "+PONG\r\n:101\r\n$1\r\n1\r\n:101\r\n";
    let mut replies = Vec::new();
    while replies.len() < expected.len() {
        replies.extend(client.reply());
    }
    assert_eq!(text(&replies), expected);
}

#[test]
fn what_is_written_during_a_read_wins_and_waits_for_none() {
    let mut held = Held::new();
    let until = "SET short-lived 00000000000000000000000000000000000000000000000000000000000000000000000 PX 8000";
    assert_eq!(held.client.say(until), "+OK\r\n");
    until_cold(&mut held.client, KEYS + 1);
    let mut readers: Vec<Client> = (0..5).map(|_| held.server.client()).collect();
    let mut writer = held.server.client();
    held.hold();
    let requests: [&[&[u8]]; 5] = [
        &[b"GET", b"key:0"],
        &[b"GET", b"key:1"],
        &[b"GET", b"short-lived"],
        // It has no lock while its value is read.
        &[b"APPEND", b"key:2", b"x"],
        &[b"GET", b"key:3"],
    ];
    for (reader, words) in readers.iter_mut().zip(requests) {
        reader.send(&request(words));
    }
    held.until_reading(5);
    assert_eq!(writer.say("SET key:0 new"), "+OK\r\n");
    assert_eq!(writer.say("DEL key:1"), ":1\r\n");
    assert_eq!(writer.say("SET key:2 y"), "+OK\r\n");
    assert_eq!(writer.say("DEL key:3"), ":1\r\n");
    assert_eq!(writer.say(&format!("SET key:3 {}", value(33))), "+OK\r\n");
    wait_until("it has expired", || {
        writer.say("EXISTS short-lived") == ":0\r\n"
    });
    held.release();
    let expected = [
        bulk("new"),
        "$-1\r\n".into(),
        "$-1\r\n".into(),
        ":2\r\n".into(),
        bulk(&value(33)),
    ];
    for (reader, expected) in readers.iter_mut().zip(expected) {
        assert_eq!(text(&reader.reply()), expected);
    }
    assert_eq!(writer.say("GET key:2"), bulk("yx"));
}

#[test]
fn an_error_of_the_disk_is_one_of_its_key() {
    let mut held = Held::new();
    let mut clients: Vec<Client> = (0..3).map(|_| held.server.client()).collect();
    held.hold();
    clients[0].send(&get(0));
    clients[1].send(&request(&[b"MGET", b"key:1", b"hot"]));
    clients[2].send(&request(&[b"APPEND", b"key:2", b"x"]));
    held.until_reading(3);
    let disk = held.disk().clone();
    for name in disk.names().iter().filter(|name| name.contains("run-")) {
        let len = disk.contents(name).expect("a file").len();
        (0..len)
            .step_by(4096)
            .for_each(|block| disk.spoil(name, block));
    }
    held.server.spoil();
    held.release();
    for client in &mut clients {
        let reply = client.reply();
        assert!(reply.starts_with(b"-TIER_UNAVAILABLE"), "{}", show(&reply));
        assert_eq!(client.say("GET hot"), "$1\r\n1\r\n");
    }
    assert_eq!(held.client.say("SET key:0 new"), "+OK\r\n");
    assert_eq!(clients[0].say("GET key:0"), bulk("new"));
}

#[test]
fn clients_that_vanish_during_their_reads_leave_nothing() {
    let mut held = Held::new();
    let mut clients: Vec<Client> = (0..KEYS).map(|_| held.server.client()).collect();
    held.hold();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&get(number));
    }
    held.until_reading(KEYS);
    drop(clients);
    held.is_served();
    held.release();
    for number in 0..KEYS {
        assert_eq!(
            held.client.say(&format!("GET {}", key(number))),
            bulk(&value(number))
        );
    }
    wait_until("they are gone", || {
        figure(&mut held.client, "connected_clients") == 1
    });
}

#[test]
fn a_transaction_of_a_client_holds_nobody_up_that_reads() {
    let mut held = Held::new();
    let (mut a, mut b) = (held.server.client(), held.server.client());
    assert_eq!(a.say("BEGIN"), "+OK\r\n");
    assert_eq!(a.say("SET own 1"), "+OK\r\n");
    assert_eq!(b.say("BEGIN READ ONLY"), "+OK\r\n");
    assert_eq!(b.say("GET hot"), "$1\r\n1\r\n");
    held.hold();
    a.send(&get(0));
    b.send(&request(&[b"MGET", b"key:1", b"key:2"]));
    held.until_reading(3);
    assert_eq!(held.client.say("SET key:1 new"), "+OK\r\n");
    held.release();
    assert_eq!(text(&a.reply()), bulk(&value(0)));
    // Its snapshot is of before.
    let both = format!("*2\r\n{}{}", bulk(&value(1)), bulk(&value(2)));
    assert_eq!(text(&b.reply()), both);
    assert_eq!(a.say("COMMIT"), "+OK\r\n");
    assert_eq!(b.say("COMMIT"), "+OK\r\n");
    assert_eq!(
        held.client.say("MGET own key:1"),
        "*2\r\n$1\r\n1\r\n$3\r\nnew\r\n"
    );
}

/// A client that is gone has sent it, and so it is done.
#[test]
fn what_a_client_has_sent_before_its_end_is_done_after_a_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cold.sock");
    let mut held = Held::with(Settings {
        unix_socket: Some(path.clone()),
        ..Settings::default()
    });
    let mut client = Client::connect_unix(&path);
    held.hold();
    client.send(&request(&[b"APPEND", b"key:0", b"x"]));
    held.until_reading(1);
    drop(client);
    held.is_served();
    held.release();
    let appended = value(0) + "x";
    wait_until("it is appended", || {
        held.client.say("GET key:0") == bulk(&appended)
    });
}

/// That a key is locked is told by the command that meets it, and not by what looks for cold values beside.
#[test]
fn a_lock_beside_a_cold_value_is_a_conflict() {
    let mut held = Held::new();
    let (mut a, mut b) = (held.server.client(), held.server.client());
    assert_eq!(a.say("BEGIN"), "+OK\r\n");
    assert_eq!(a.say("SET hot 2"), "+OK\r\n");
    assert_eq!(b.say("BEGIN"), "+OK\r\n");
    let reply = b.say("MGET key:0 hot");
    assert!(reply.starts_with("-CONFLICT"), "{reply}");
    assert_eq!(b.say("ROLLBACK"), "+OK\r\n");
    assert_eq!(a.say("COMMIT"), "+OK\r\n");
    held.is_there("hot", "2");
}

/// However often it is executed.
#[test]
fn a_key_that_is_missed_beside_a_cold_value_is_told_once() {
    let held = Held::new();
    let (mut client, mut listener) = (held.server.client(), held.server.client());
    let set = client.say("CONFIG SET notify-keyspace-events Em");
    assert_eq!(set, "+OK\r\n");
    let subscribed = listener.say("SUBSCRIBE __keyevent@0__:keymiss");
    assert!(subscribed.contains("subscribe"), "{subscribed}");
    let reply = client.say("MGET none key:0 key:1");
    let both = bulk(&value(0)) + &bulk(&value(1));
    assert_eq!(reply, format!("*3\r\n$-1\r\n{both}"));
    assert_eq!(client.say("MGET other"), "*1\r\n$-1\r\n");
    for key in ["none", "other"] {
        let told = listener.reply();
        assert!(text(&told).ends_with(&bulk(key)), "{}", show(&told));
    }
}

/// More keys than are read in one step.
#[test]
fn a_long_request_goes_on_where_it_was() {
    const MANY: usize = 1000;
    let server = TestServer::lent_tiered_first(Settings::default());
    let mut client = server.client();
    let words = |name: &str, with_values: bool| {
        let mut words = vec![name.as_bytes().to_vec()];
        for number in 0..MANY {
            words.push(key(number).into_bytes());
            words.extend(with_values.then(|| value(number).into_bytes()));
        }
        words
    };
    let ask = |client: &mut Client, words: &[Vec<u8>]| {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        client.ask(&words)
    };
    assert_eq!(ask(&mut client, &words("MSET", true)), b"+OK\r\n");
    until_cold(&mut client, MANY);
    let before = figure(&mut client, "keyspace_hits");
    let all: String = (0..MANY).map(|number| bulk(&value(number))).collect();
    let reply = ask(&mut client, &words("MGET", false));
    assert_eq!(text(&reply), format!("*{MANY}\r\n{all}"));
    assert_eq!(figure(&mut client, "keyspace_hits"), before + MANY as u64);
}

/// However often a command is executed again, it has found its key once.
#[test]
fn each_value_is_found_once() {
    let mut held = Held::on(TestServer::lent_tiered_first(Settings::default()));
    let before = figure(&mut held.client, "keyspace_hits");
    assert_eq!(held.client.say("GET key:0"), bulk(&value(0)));
    assert_eq!(figure(&mut held.client, "keyspace_hits"), before + 1);
    let three: String = (1..4).map(|number| bulk(&value(number))).collect();
    let reply = held.client.say("MGET key:1 key:2 key:3");
    assert_eq!(reply, format!("*3\r\n{three}"));
    assert_eq!(figure(&mut held.client, "keyspace_hits"), before + 4);
    held.client.send(&(4..8).flat_map(get).collect::<Vec<_>>());
    for number in 4..8 {
        assert_eq!(text(&held.client.reply()), bulk(&value(number)));
    }
    assert_eq!(figure(&mut held.client, "keyspace_hits"), before + 8);
}

/// A transaction of others that goes on for long is none of its business.
#[test]
fn blocks_are_executed_again_from_their_beginning() {
    let mut held = Held::new();
    let mut client = held.server.client();
    held.hold();
    let words: [&[&[u8]]; 6] = [
        &[b"MULTI"],
        &[b"INCR", b"count"],
        &[b"APPEND", b"key:0", b"x"],
        &[b"GET", b"key:1"],
        &[b"INCR", b"count"],
        &[b"EXEC"],
    ];
    client.send(&words.map(request).concat());
    held.until_reading(2);
    // It holds no lock meanwhile.
    assert_eq!(held.client.say("INCR count"), ":1\r\n");
    thread::sleep(Duration::from_millis(20));
    held.release();
    let expected = format!(
        "+OK\r\n{}*4\r\n:2\r\n:101\r\n{}:3\r\n",
        "+QUEUED\r\n".repeat(4),
        bulk(&value(1))
    );
    let mut replies = Vec::new();
    while replies.len() < expected.len() {
        replies.extend(client.reply());
    }
    assert_eq!(text(&replies), expected);
    assert_eq!(held.client.say("GET count"), "$1\r\n3\r\n");
}
