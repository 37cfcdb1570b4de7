//! The setting itself.

use bpfdb_tests::random::Random;
use bpfdb_tests::server::{Client, Redis, TestServer, kernel_answers, kernel_calls, wait_until};

use super::{Listener, silence};

const LETTERS: &[u8] = b"KEg$lshzxetmdnA";

/// Texts of letters, valid and not, are taken, refused and shown as by redis-server.
#[test]
fn letters_are_those_of_redis() {
    let (server, redis) = (TestServer::shared(), Redis::start());
    let mut clients = [server.client(), Client::connect(redis.address)];
    let mut random = Random::new(7);
    for _ in 0..300 {
        let count = random.below(LETTERS.len() + 1);
        let mut text: Vec<u8> = (0..count)
            .map(|_| LETTERS[random.below(LETTERS.len())])
            .collect();
        if random.one_in(10) {
            text.push(b'q');
        }
        let [ours, theirs] = clients.each_mut().map(|client| {
            let set = client.ask(&[b"CONFIG", b"SET", b"notify-keyspace-events", &text]);
            let get = client.ask(&[b"CONFIG", b"GET", b"notify-keyspace-events"]);
            [set, get].map(|reply| String::from_utf8(reply).expect("text"))
        });
        assert_eq!(ours, theirs, "{}", text.escape_ascii());
    }
    silence(&server);
}

/// Without K and E, and without the class of an event, nothing is published; the kernel answers again when the
/// setting is empty.
#[test]
fn nothing_else_is_published() {
    let server = TestServer::shared();
    let mut client = server.client();
    let mut listener = Listener::start(server.address, "Kl", false);
    client.say("SET text 1");
    client.say("RPUSH list 1");
    client.say("HSET hash f 1");
    assert_eq!(listener.heard_by_key(), ["list rpush"]);
    client.say("CONFIG SET notify-keyspace-events A");
    client.say("RPUSH list 1");
    client.say("CONFIG SET notify-keyspace-events Eg");
    client.say("DEL list");
    let channels: Vec<String> = listener
        .heard()
        .into_iter()
        .map(|it| it[1].clone())
        .collect();
    assert_eq!(channels, ["__keyevent@0__:del"]);
    silence(&server);
    let before = kernel_calls(&mut client, "set");
    wait_until("the kernel answers again", || {
        // INFO takes the connection to the daemon again.
        for _ in 0..20 {
            client.say("SET text 1");
        }
        !kernel_answers() || kernel_calls(&mut client, "set") > before
    });
    assert!(listener.heard().is_empty());
}
