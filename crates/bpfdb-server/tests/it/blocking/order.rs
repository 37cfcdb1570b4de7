//! Who is served first, and from which key.

use std::time::Instant;

use bpfdb_tests::server::{TestServer, request};

use super::{array, block, next, send, wait_for_blocked};

#[test]
fn who_waits_longest_is_served_first() {
    let server = TestServer::shared();
    let mut waiting: Vec<_> = (0..4).map(|_| server.client()).collect();
    for (number, client) in waiting.iter_mut().enumerate() {
        block(&server, client, "BLPOP order 0", number);
    }
    let mut pushing = server.client();
    assert_eq!(pushing.say("RPUSH order a b"), ":2\r\n");
    assert_eq!(next(&mut waiting[0]), array(&["order", "a"]));
    assert_eq!(next(&mut waiting[1]), array(&["order", "b"]));
    // Who comes again is the last one.
    block(&server, &mut waiting[0], "BRPOP order 0", 2);
    assert_eq!(pushing.say("RPUSH order c d e"), ":3\r\n");
    assert_eq!(next(&mut waiting[2]), array(&["order", "c"]));
    assert_eq!(next(&mut waiting[3]), array(&["order", "d"]));
    assert_eq!(next(&mut waiting[0]), array(&["order", "e"]));
    assert_eq!(pushing.say("EXISTS order"), ":0\r\n");
    wait_for_blocked(&server, 0);
}

#[test]
fn the_key_that_was_written_first_counts() {
    let server = TestServer::shared();
    let (mut waiting, mut pushing) = (server.client(), server.client());
    block(&server, &mut waiting, "BLPOP first second third first 0", 0);
    for command in ["MULTI", "RPUSH third 3", "RPUSH first 1"] {
        pushing.say(command);
    }
    assert_eq!(pushing.say("EXEC"), "*2\r\n:1\r\n:1\r\n");
    assert_eq!(next(&mut waiting), array(&["third", "3"]));
    // Where it need not wait, the first one with anything.
    pushing.say("RPUSH second 2");
    assert_eq!(waiting.say("BLPOP first second 0"), array(&["first", "1"]));
}

#[test]
fn nothing_is_executed_before_those_who_wait_are_served() {
    let server = TestServer::shared();
    let (mut waiting, mut pushing) = (server.client(), server.client());
    for _ in 0..20 {
        block(&server, &mut waiting, "BLPOP pipeline 0", 0);
        let pipeline = [
            request(&[b"RPUSH", b"pipeline", b"a"]),
            request(&[b"LPOP", b"pipeline"]),
            request(&[b"LLEN", b"pipeline"]),
        ];
        pushing.send(&pipeline.concat());
        assert_eq!(next(&mut pushing), ":1\r\n");
        assert_eq!(next(&mut pushing), "$-1\r\n");
        assert_eq!(next(&mut pushing), ":0\r\n");
        assert_eq!(next(&mut waiting), array(&["pipeline", "a"]));
    }
}

/// What comes behind a command that waits in its pipeline waits, too; and other waiting clients come
/// before it.
#[test]
fn what_is_behind_waits() {
    let server = TestServer::shared();
    let (mut a, mut b, mut pushing) = (server.client(), server.client(), server.client());
    let pipeline = [
        request(&[b"BLPOP", b"behind", b"0"]),
        request(&[b"LPOP", b"behind"]),
        request(&[b"PING"]),
    ];
    a.send(&pipeline.concat());
    wait_for_blocked(&server, 1);
    block(&server, &mut b, "BLPOP behind 0", 1);
    assert!(a.replies_at_hand().is_empty());
    assert_eq!(pushing.say("RPUSH behind 1 2"), ":2\r\n");
    assert_eq!(next(&mut a), array(&["behind", "1"]));
    assert_eq!(next(&mut b), array(&["behind", "2"]));
    assert_eq!(next(&mut a), "$-1\r\n");
    assert_eq!(next(&mut a), "+PONG\r\n");
}

#[test]
fn an_element_that_is_moved_serves_the_next_one() {
    let server = TestServer::shared();
    let [mut a, mut b, mut c, mut pushing] = std::array::from_fn(|_| server.client());
    block(&server, &mut c, "BLPOP chain:3 0", 0);
    block(&server, &mut b, "BRPOPLPUSH chain:2 chain:3 0", 1);
    block(&server, &mut a, "BLMOVE chain:1 chain:2 LEFT RIGHT 0", 2);
    assert_eq!(pushing.say("LPUSH chain:1 x"), ":1\r\n");
    assert_eq!(next(&mut a), "$1\r\nx\r\n");
    assert_eq!(next(&mut b), "$1\r\nx\r\n");
    assert_eq!(next(&mut c), array(&["chain:3", "x"]));
    assert_eq!(pushing.say("EXISTS chain:1 chain:2 chain:3"), ":0\r\n");
}

#[test]
fn those_who_take_several_take_what_there_is() {
    let server = TestServer::shared();
    let [mut a, mut b, mut c, mut pushing] = std::array::from_fn(|_| server.client());
    block(&server, &mut a, "BLMPOP 0 1 several LEFT COUNT 2", 0);
    block(&server, &mut b, "BLMPOP 0 2 none several RIGHT COUNT 5", 1);
    block(&server, &mut c, "BLPOP several 0", 2);
    assert_eq!(pushing.say("RPUSH several 1 2 3 4"), ":4\r\n");
    let reply = |words: &[&str]| format!("*2\r\n$7\r\nseveral\r\n{}", array(words));
    assert_eq!(next(&mut a), reply(&["1", "2"]));
    assert_eq!(next(&mut b), reply(&["4", "3"]));
    assert_eq!(pushing.say("RPUSH several 5"), ":1\r\n");
    assert_eq!(next(&mut c), array(&["several", "5"]));
}

/// Each type has its own; a value of another type serves no client.
#[test]
fn of_types() {
    let server = TestServer::shared();
    let [mut list, mut set, mut writer] = std::array::from_fn(|_| server.client());
    block(&server, &mut list, "BLPOP typed 0", 0);
    block(&server, &mut set, "BZPOPMIN typed 0", 1);
    writer.say("SET typed 1");
    writer.say("DEL typed");
    writer.say("SADD typed x");
    writer.say("DEL typed");
    assert_eq!(writer.say("ZADD typed 7 m 8 n"), ":2\r\n");
    assert_eq!(next(&mut set), array(&["typed", "m", "7"]));
    assert!(list.replies_at_hand().is_empty());
    writer.say("DEL typed");
    assert_eq!(writer.say("RPUSH typed x"), ":1\r\n");
    assert_eq!(next(&mut list), array(&["typed", "x"]));
    // The target of another type is an error when there is an element, which stays.
    writer.say("SET target 1");
    block(&server, &mut list, "BLMOVE typed target LEFT LEFT 0", 0);
    writer.say("RPUSH typed y");
    assert!(next(&mut list).starts_with("-WRONGTYPE"));
    assert_eq!(writer.say("LRANGE typed 0 -1"), array(&["y"]));
}

#[test]
fn times_end_in_their_order() {
    let server = TestServer::shared();
    let (mut early, mut late) = (server.client(), server.client());
    let begun = Instant::now();
    block(&server, &mut late, "BLPOP never 0.4", 0);
    send(&mut early, "BZPOPMIN never 0.1");
    assert_eq!(next(&mut early), "*-1\r\n");
    assert!(begun.elapsed().as_millis() >= 100);
    assert_eq!(next(&mut late), "*-1\r\n");
    assert!(begun.elapsed().as_millis() >= 400);
    // Nothing of it is left: an element stays.
    assert_eq!(late.say("RPUSH never x"), ":1\r\n");
    assert_eq!(late.say("LLEN never"), ":1\r\n");
    wait_for_blocked(&server, 0);
}
