//! What is published in a transaction is sent when that commits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bpfdb_tests::server::{Client, TestServer, words};

use super::{message, next, pushed, subscribe};

/// Nothing was sent to the listener before what it is sent now.
fn hears_next(publisher: &mut Client, listener: &mut Client, channel: &str) {
    let mark = format!("PUBLISH {channel} mark");
    assert_eq!(publisher.say(&mark), ":1\r\n");
    assert_eq!(next(listener), message(channel, "mark"));
}

#[test]
fn of_a_client() {
    let server = TestServer::shared();
    let (mut listener, mut publisher, mut third) =
        (server.client(), server.client(), server.client());
    subscribe(&mut listener, "open");
    for (end, is_sent) in [("COMMIT", true), ("ROLLBACK", false), ("RESET", false)] {
        assert_eq!(publisher.say("BEGIN"), "+OK\r\n");
        publisher.say("SET open:key 1");
        assert_eq!(publisher.say("PUBLISH open inside"), ":1\r\n");
        // The connection stays with the daemon, which has the message.
        publisher.say("GET open:key");
        hears_next(&mut third, &mut listener, "open");
        publisher.say(end);
        if is_sent {
            assert_eq!(next(&mut listener), message("open", "inside"));
        }
        hears_next(&mut publisher, &mut listener, "open");
    }
}

#[test]
fn of_multi() {
    let server = TestServer::shared();
    let (mut listener, mut publisher) = (server.client(), server.client());
    subscribe(&mut listener, "multi");
    for command in [
        "MULTI",
        "PUBLISH multi 1",
        "SET multi:key x",
        "PUBLISH multi 2",
    ] {
        publisher.say(command);
    }
    assert_eq!(publisher.say("EXEC"), "*3\r\n:1\r\n+OK\r\n:1\r\n");
    assert_eq!(next(&mut listener), message("multi", "1"));
    assert_eq!(next(&mut listener), message("multi", "2"));
    // A key that was watched has changed: nothing is executed.
    publisher.say("WATCH multi:key");
    server.client().say("SET multi:key y");
    for command in ["MULTI", "PUBLISH multi 3"] {
        publisher.say(command);
    }
    assert_eq!(publisher.say("EXEC"), "*-1\r\n");
    hears_next(&mut publisher, &mut listener, "multi");
}

/// One that hears itself: before the reply to EXEC, not within.
#[test]
fn of_multi_to_oneself() {
    let server = TestServer::shared();
    let mut client = server.client();
    client.say("HELLO 3");
    client.say("SUBSCRIBE oneself");
    for command in ["MULTI", "PUBLISH oneself 1"] {
        client.say(command);
    }
    assert_eq!(
        client.say("EXEC"),
        pushed('>', &["message", "oneself", "1"])
    );
    assert_eq!(next(&mut client), "*1\r\n:1\r\n");
}

/// The same if EXEC takes many steps: its message keeps its place among those of others, which are
/// sent meanwhile. A witness says which that is.
#[test]
fn of_multi_to_oneself_among_others() {
    const COMMANDS: usize = 40_000;
    let server = TestServer::shared();
    let (mut client, mut witness) = (server.client(), server.client());
    client.say("HELLO 3");
    client.say("SUBSCRIBE places");
    subscribe(&mut witness, "places");
    let address = server.address;
    let is_over = AtomicBool::new(false);
    let heard: Vec<String> = thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = Client::connect(address);
            for number in 0..1_000_000 {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                other.say(&format!("PUBLISH places {number}"));
            }
        });
        let ping = words("PING");
        let block = [
            words("MULTI"),
            words("PUBLISH places own"),
            ping.repeat(COMMANDS),
        ];
        client.send(&[block.concat(), words("EXEC")].concat());
        let end = format!("*{}\r\n", COMMANDS + 1);
        let all = std::iter::repeat_with(|| next(&mut client));
        let heard = all.take_while(|got| !got.starts_with(&end));
        let heard = heard.filter(|got| got.starts_with('>')).collect();
        is_over.store(true, Ordering::Relaxed);
        heard
    });
    assert!(heard.iter().any(|got| got.ends_with("own\r\n")));
    for got in heard {
        assert_eq!(got.replacen('>', "*", 1), next(&mut witness));
    }
}

#[test]
fn of_scripts() {
    let server = TestServer::shared();
    let (mut listener, mut publisher) = (server.client(), server.client());
    subscribe(&mut listener, "script");
    let script: &[u8] =
        b"redis.call('SET', KEYS[1], 1); return redis.call('PUBLISH', 'script', ARGV[1])";
    assert_eq!(
        publisher.ask(&[b"EVAL", script, b"1", b"script:key", b"hi"]),
        b":1\r\n"
    );
    assert_eq!(next(&mut listener), message("script", "hi"));
    // An error rolls the script back, which Redis does not do.
    let script: &[u8] = b"redis.call('PUBLISH', 'script', 'never'); error('end')";
    assert_eq!(publisher.ask(&[b"EVAL", script, b"0"])[0], b'-');
    hears_next(&mut publisher, &mut listener, "script");
    let script: &[u8] = b"return redis.call('PUBLISH', 'script', 'never')";
    let refused = publisher.ask(&[b"EVAL_RO", script, b"0"]);
    let refused = String::from_utf8(refused).expect("text");
    assert!(
        refused.starts_with("-ERR Write commands are not allowed from read-only scripts."),
        "{refused}"
    );
    hears_next(&mut publisher, &mut listener, "script");
}
