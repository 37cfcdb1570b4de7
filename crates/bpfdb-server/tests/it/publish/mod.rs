//! Publish and subscribe: messages that another connection has caused, on every path on which
//! requests are answered.
#![allow(unreachable_pub, reason = "the modules of one test")]

mod bounds;
mod monitor;
mod transactions;

use std::net::Ipv4Addr;
use std::thread;

use bpfdb_server::settings::{LocalClients, Settings};
use bpfdb_tests::server::lent;
use bpfdb_tests::server::{Client, TestServer, cgroup, kernel_calls, request, wait_until, words};

/// What a client is sent, as text.
fn next(client: &mut Client) -> String {
    String::from_utf8(client.reply()).expect("text")
}

/// Words as an array of bulk strings, behind a marker.
fn pushed(marker: char, words: &[&str]) -> String {
    let items = words
        .iter()
        .map(|word| format!("${}\r\n{word}\r\n", word.len()));
    let items: String = items.collect();
    format!("{marker}{}\r\n{items}", words.len())
}

fn message(channel: &str, text: &str) -> String {
    pushed('*', &["message", channel, text])
}

/// The reply to SUBSCRIBE and its kin.
fn confirmed(marker: char, word: &str, name: &str, number: usize) -> String {
    let [word, name] = [word, name].map(|it| format!("${}\r\n{it}\r\n", it.len()));
    format!("{marker}3\r\n{word}{name}:{number}\r\n")
}

fn subscribe(client: &mut Client, channel: &str) {
    let expected = confirmed('*', "subscribe", channel, 1);
    assert_eq!(client.say(&format!("SUBSCRIBE {channel}")), expected);
}

/// One that was answered before, listens, is idle, is sent something, and is answered again.
fn is_pushed_to(connect: &dyn Fn() -> Client) {
    let (mut listener, mut publisher) = (connect(), connect());
    for round in 0..3 {
        assert_eq!(listener.say("SET before 1"), "+OK\r\n");
        subscribe(&mut listener, "news");
        for number in 0..5 {
            let text = format!("{round} {number}");
            publisher.send(&request(&[b"PUBLISH", b"news", text.as_bytes()]));
            assert_eq!(next(&mut publisher), ":1\r\n");
            assert_eq!(next(&mut listener), message("news", &text));
            assert_eq!(publisher.say("GET before"), "$1\r\n1\r\n");
        }
        assert_eq!(listener.say("PING"), pushed('*', &["pong", ""]));
        let expected = confirmed('*', "unsubscribe", "news", 0);
        assert_eq!(listener.say("UNSUBSCRIBE"), expected);
        assert_eq!(publisher.say("PUBLISH news nobody"), ":0\r\n");
        for _ in 0..10 {
            assert_eq!(listener.say("GET before"), "$1\r\n1\r\n");
        }
    }
}

fn server(local_clients: LocalClients) -> bpfdb_tests::server::Lent {
    let settings = Settings {
        bind: Ipv4Addr::LOCALHOST.into(),
        local_clients,
        ..Settings::default()
    };
    TestServer::lent_as_told(&bpfdb::Options::default(), settings)
}

#[test]
fn over_tcp() {
    let server = server(LocalClients::Off);
    is_pushed_to(&|| server.client());
}

/// Clients that the kernel answers in their own `send()` before and after.
#[test]
fn in_their_own_send() {
    let server = server(LocalClients::In(cgroup::own()));
    is_pushed_to(&|| {
        let mut client = server.client();
        client.receive_until_known();
        client
    });
}

#[test]
fn over_the_unix_socket() {
    let server = lent::plain();
    is_pushed_to(&|| server.unix_client());
    // From one kind of socket to the other.
    let (mut unix, mut tcp) = (server.unix_client(), server.client());
    subscribe(&mut unix, "mixed");
    assert_eq!(tcp.say("PUBLISH mixed hi"), ":1\r\n");
    assert_eq!(next(&mut unix), message("mixed", "hi"));
}

/// The kernel answers until somebody listens to anything, and again when nobody does.
#[test]
fn while_nobody_listens() {
    let server = server(LocalClients::Off);
    let (mut listener, mut publisher) = (server.client(), server.client());
    let mut looks = server.client();
    let mut published = kernel_calls(&mut looks, "publish");
    let is_answered = |publisher: &mut Client, looks: &mut Client, before: &mut u64| {
        assert_eq!(publisher.say("PUBLISH quiet hi"), ":0\r\n");
        let block = ["MULTI", "PUBLISH quiet hi", "SET quiet:key 1", "EXEC"];
        let block = block.map(words);
        publisher.send(&block.concat());
        let replies: Vec<String> = (0..4).map(|_| next(publisher)).collect();
        assert_eq!(replies[3], "*2\r\n:0\r\n+OK\r\n");
        let now = kernel_calls(looks, "publish");
        let by_kernel = now - *before;
        *before = now;
        by_kernel
    };
    for (listen, end) in [
        ("SUBSCRIBE loud", "UNSUBSCRIBE"),
        ("PSUBSCRIBE l*", "PUNSUBSCRIBE l*"),
        ("SSUBSCRIBE loud", "RESET"),
    ] {
        let by_kernel = is_answered(&mut publisher, &mut looks, &mut published);
        // The block is the daemon's: a client may subscribe before it commits.
        assert_eq!(by_kernel, 1, "before {listen}");
        listener.say(listen);
        let by_kernel = is_answered(&mut publisher, &mut looks, &mut published);
        assert_eq!(by_kernel, 0, "after {listen}");
        listener.say(end);
    }
    subscribe(&mut listener, "last");
    drop(listener);
    wait_until("its subscription is gone", || {
        is_answered(&mut publisher, &mut looks, &mut published) > 0
    });
}

/// What is published in a transaction is for those, too, that subscribe before it commits.
#[test]
fn one_that_subscribes_before_the_commit() {
    let server = server(LocalClients::Off);
    let (mut listener, mut publisher) = (server.client(), server.client());
    assert_eq!(publisher.say("BEGIN"), "+OK\r\n");
    assert_eq!(publisher.say("PUBLISH late hi"), ":0\r\n");
    subscribe(&mut listener, "late");
    assert_eq!(publisher.say("COMMIT"), "+OK\r\n");
    assert_eq!(next(&mut listener), message("late", "hi"));
}

#[test]
fn each_in_its_protocol() {
    let server = TestServer::shared();
    let (mut old, mut new) = (server.client(), server.client());
    new.say("HELLO 3");
    subscribe(&mut old, "protocols");
    let expected = confirmed('>', "subscribe", "protocols", 1);
    assert_eq!(new.say("SUBSCRIBE protocols"), expected);
    let mut publisher = server.client();
    assert_eq!(publisher.say("PUBLISH protocols hi"), ":2\r\n");
    assert_eq!(next(&mut old), message("protocols", "hi"));
    let words = ["message", "protocols", "hi"];
    assert_eq!(next(&mut new), pushed('>', &words));
    // It may say anything, and hears itself before its reply.
    assert_eq!(new.say("SET protocol 3"), "+OK\r\n");
    assert_eq!(
        new.say("PUBLISH protocols own"),
        pushed('>', &["message", "protocols", "own"])
    );
    assert_eq!(next(&mut new), ":2\r\n");
    assert_eq!(next(&mut old), message("protocols", "own"));
}

#[test]
fn patterns() {
    let server = TestServer::shared();
    let (mut listener, mut publisher) = (server.client(), server.client());
    let expected = confirmed('*', "psubscribe", "weather.*", 1);
    assert_eq!(listener.say("PSUBSCRIBE weather.*"), expected);
    let expected = confirmed('*', "subscribe", "weather.rain", 2);
    assert_eq!(listener.say("SUBSCRIBE weather.rain"), expected);
    assert_eq!(publisher.say("PUBLISH weather.sun 1"), ":1\r\n");
    let by_pattern = |channel, text| pushed('*', &["pmessage", "weather.*", channel, text]);
    assert_eq!(next(&mut listener), by_pattern("weather.sun", "1"));
    // By both.
    assert_eq!(publisher.say("PUBLISH weather.rain 2"), ":2\r\n");
    assert_eq!(next(&mut listener), message("weather.rain", "2"));
    assert_eq!(next(&mut listener), by_pattern("weather.rain", "2"));
    assert_eq!(publisher.say("PUBLISH weather 3"), ":0\r\n");
    // A channel of a shard is another one, and no pattern matches it.
    assert_eq!(publisher.say("SPUBLISH weather.rain 4"), ":0\r\n");
    let of_shard = confirmed('*', "ssubscribe", "weather.rain", 1);
    assert_eq!(listener.say("SSUBSCRIBE weather.rain"), of_shard);
    assert_eq!(publisher.say("SPUBLISH weather.rain 5"), ":1\r\n");
    assert_eq!(
        next(&mut listener),
        pushed('*', &["smessage", "weather.rain", "5"])
    );
    assert_eq!(
        publisher.say("PUBSUB CHANNELS weather*"),
        "*1\r\n$12\r\nweather.rain\r\n"
    );
    assert_eq!(
        publisher.say("PUBSUB SHARDNUMSUB weather.rain"),
        "*2\r\n$12\r\nweather.rain\r\n:1\r\n"
    );
}

/// A listener that the daemon is answering meanwhile: messages stand between its replies, and those
/// of each publisher are in order.
#[test]
fn messages_and_replies_do_not_mix() {
    const MESSAGES: usize = 500;
    let server = TestServer::shared();
    let mut listener = server.client();
    listener.say("HELLO 3");
    listener.say("SUBSCRIBE busy");
    let address = server.address;
    let publish = move |name: u32| {
        let mut publisher = Client::connect(address);
        let texts = (0..MESSAGES).map(|number| format!("PUBLISH busy {name}:{number}"));
        publisher.send(&texts.flat_map(|text| words(&text)).collect::<Vec<u8>>());
        for _ in 0..MESSAGES {
            assert_eq!(next(&mut publisher), ":1\r\n");
        }
    };
    let echoes: Vec<String> = (0..MESSAGES)
        .map(|number| format!("echo {number}"))
        .collect();
    let mut replies = 0;
    let mut heard = [0; 2];
    thread::scope(|scope| {
        for name in 0..2 {
            scope.spawn(move || publish(name));
        }
        for echo in &echoes {
            listener.send(&request(&[b"ECHO", echo.as_bytes()]));
        }
        while replies < MESSAGES || heard != [MESSAGES; 2] {
            let got = next(&mut listener);
            let Some(rest) = got.strip_prefix(">3\r\n$7\r\nmessage\r\n$4\r\nbusy\r\n$") else {
                let echo = &echoes[replies];
                assert_eq!(got, format!("${}\r\n{echo}\r\n", echo.len()));
                replies += 1;
                continue;
            };
            let text = rest.split("\r\n").nth(1).expect("a text");
            let (name, number) = text.split_once(':').expect("both");
            let name: usize = name.parse().expect("a number");
            assert_eq!(number, heard[name].to_string(), "of {name}");
            heard[name] += 1;
        }
    });
}

#[test]
fn what_others_see_of_a_listener() {
    let server = TestServer::shared();
    let (mut listener, mut other) = (server.client(), server.client());
    for word in [
        "SUBSCRIBE a",
        "SUBSCRIBE b",
        "PSUBSCRIBE a*",
        "SSUBSCRIBE s",
    ] {
        listener.say(word);
    }
    let list = other.say("CLIENT LIST TYPE pubsub");
    assert_eq!(list.matches("id=").count(), 1, "{list}");
    assert!(
        list.contains(" flags=P db=0 sub=2 psub=1 ssub=1 "),
        "{list}"
    );
    let normal = other.say("CLIENT LIST TYPE normal");
    assert!(!normal.contains("flags=P"), "{normal}");
    let info = other.say("INFO");
    for field in [
        "pubsub_channels:2\r\n",
        "pubsub_patterns:1\r\n",
        "pubsubshard_channels:1\r\n",
        "pubsub_clients:1\r\n",
    ] {
        assert!(info.contains(field), "{field} in {info}");
    }
    assert_eq!(other.say("CLIENT KILL TYPE pubsub"), ":1\r\n");
    assert!(listener.is_closed());
    wait_until("its subscriptions are gone", || {
        other.say("INFO").contains("pubsub_channels:0\r\n")
    });
    assert_eq!(other.say("PUBLISH a x"), ":0\r\n");
    assert_eq!(other.say("PUBSUB NUMPAT"), ":0\r\n");
}

/// Messages come whatever CLIENT REPLY says, and so do the replies to SUBSCRIBE.
#[test]
fn client_reply_is_about_replies() {
    let server = TestServer::shared();
    let (mut listener, mut publisher) = (server.client(), server.client());
    listener.say("HELLO 3");
    listener.send(&words("CLIENT REPLY OFF"));
    let expected = confirmed('>', "subscribe", "silent", 1);
    assert_eq!(listener.say("SUBSCRIBE silent"), expected);
    listener.send(&words("SET silent 1"));
    assert_eq!(publisher.say("PUBLISH silent hi"), ":1\r\n");
    assert_eq!(
        next(&mut listener),
        pushed('>', &["message", "silent", "hi"])
    );
    assert_eq!(listener.say("CLIENT REPLY ON"), "+OK\r\n");
}
