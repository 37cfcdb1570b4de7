//! Transactions: waiting clients are served when they are over, and in them no command waits.

use std::thread;

use bpfdb_tests::server::TestServer;

use super::{MOMENT, array, block, next, send, wait_for_blocked};

#[test]
fn after_a_block() {
    let server = TestServer::shared();
    let (mut waiting, mut pushing) = (server.client(), server.client());
    block(&server, &mut waiting, "BLPOP block 0", 0);
    for command in ["MULTI", "LPUSH block 1", "LPUSH block 2", "LPUSH block 3"] {
        pushing.say(command);
    }
    assert_eq!(pushing.say("EXEC"), "*3\r\n:1\r\n:2\r\n:3\r\n");
    assert_eq!(next(&mut waiting), array(&["block", "3"]));
    // In one message: the kernel would execute it.
    pushing.say("DEL block");
    block(&server, &mut waiting, "BLPOP block 0", 0);
    let block_at_once = ["MULTI", "RPUSH block 1", "RPUSH other 2", "EXEC"];
    let words = block_at_once.map(|command| {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        bpfdb_tests::server::request(&words)
    });
    pushing.send(&words.concat());
    assert_eq!(next(&mut waiting), array(&["block", "1"]));
    for expected in [
        "+OK\r\n",
        "+QUEUED\r\n",
        "+QUEUED\r\n",
        "*2\r\n:1\r\n:1\r\n",
    ] {
        assert_eq!(next(&mut pushing), expected);
    }
}

#[test]
fn after_one_that_takes_back_what_it_has_pushed() {
    let server = TestServer::shared();
    let (mut waiting, mut pushing) = (server.client(), server.client());
    block(&server, &mut waiting, "BLPOP back 0", 0);
    for command in ["MULTI", "LPUSH back 1", "DEL back"] {
        pushing.say(command);
    }
    assert_eq!(pushing.say("EXEC"), "*2\r\n:1\r\n:1\r\n");
    thread::sleep(MOMENT);
    assert!(waiting.replies_at_hand().is_empty());
    pushing.say("RPUSH back 2");
    assert_eq!(next(&mut waiting), array(&["back", "2"]));
}

#[test]
fn after_a_script() {
    let server = TestServer::shared();
    let (mut waiting, mut pushing) = (server.client(), server.client());
    block(&server, &mut waiting, "BLPOP script 0", 0);
    let script = &b"redis.call('LPUSH', KEYS[1], 1, 2) return redis.call('LPUSH', KEYS[1], 3)"[..];
    assert_eq!(pushing.ask(&[b"EVAL", script, b"1", b"script"]), b":3\r\n");
    assert_eq!(next(&mut waiting), array(&["script", "3"]));
}

/// A transaction of BEGIN that has pushed before a client waits, or after, and that commits or does not.
#[test]
fn after_commit() {
    let server = TestServer::shared();
    for waits_first in [true, false] {
        for (end, is_served) in [("ROLLBACK", false), ("COMMIT", true)] {
            let (mut waiting, mut pushing) = (server.client(), server.client());
            if waits_first {
                block(&server, &mut waiting, "BLPOP open 0", 0);
            }
            assert_eq!(pushing.say("BEGIN"), "+OK\r\n");
            assert_eq!(pushing.say("RPUSH open x"), ":1\r\n");
            // As a rule the kernel's.
            pushing.say("GET elsewhere");
            if !waits_first {
                block(&server, &mut waiting, "BLPOP open 0", 0);
            }
            thread::sleep(MOMENT);
            assert!(waiting.replies_at_hand().is_empty(), "not committed");
            assert_eq!(pushing.say(end), "+OK\r\n");
            if !is_served {
                thread::sleep(MOMENT);
                assert!(waiting.replies_at_hand().is_empty(), "rolled back");
                assert_eq!(pushing.say("RPUSH open x"), ":1\r\n");
            }
            assert_eq!(next(&mut waiting), array(&["open", "x"]));
        }
    }
}

#[test]
fn nobody_waits_in_them() {
    let server = TestServer::shared();
    let mut client = server.client();
    assert_eq!(client.say("BEGIN"), "+OK\r\n");
    assert_eq!(client.say("BLPOP inside 0"), "*-1\r\n");
    assert_eq!(client.say("ROLLBACK"), "+OK\r\n");
    assert_eq!(client.say("MULTI"), "+OK\r\n");
    assert_eq!(client.say("BLMOVE inside other LEFT LEFT 0"), "+QUEUED\r\n");
    assert_eq!(client.say("EXEC"), "*1\r\n$-1\r\n");
}

/// What waits is paused like any other write, and so are clients that would be served.
#[test]
fn during_a_pause() {
    let server = TestServer::shared();
    let [mut waiting, mut late, mut pushing, mut ruling] = std::array::from_fn(|_| server.client());
    block(&server, &mut waiting, "BLPOP paused 0", 0);
    block(&server, &mut late, "BLPOP paused 0.05", 1);
    assert_eq!(ruling.say("CLIENT PAUSE 600000 WRITE"), "+OK\r\n");
    assert_eq!(next(&mut late), "*-1\r\n");
    send(&mut pushing, "RPUSH paused x");
    wait_for_blocked(&server, 2);
    thread::sleep(MOMENT);
    assert!(waiting.replies_at_hand().is_empty());
    assert_eq!(ruling.say("CLIENT UNPAUSE"), "+OK\r\n");
    assert_eq!(next(&mut pushing), ":1\r\n");
    assert_eq!(next(&mut waiting), array(&["paused", "x"]));
}

/// A lock that another client has in the moment of the first attempt changes nothing of that.
#[test]
fn a_key_of_another_type_behind_a_lock() {
    let server = TestServer::shared();
    let (mut holder, mut waiter) = (server.client(), server.client());
    holder.say("SET behind:lock v");
    for command in ["BEGIN", "SET behind:lock w"] {
        assert_eq!(holder.say(command), "+OK\r\n");
    }
    let refused = waiter.say("BLPOP behind:lock 5");
    assert!(refused.starts_with("-WRONGTYPE"), "{refused}");
    holder.say("ROLLBACK");
    holder.say("DEL behind:lock");
}
