//! What is put into itself, again and again: blocks, scripts that call scripts, arrays of arrays.

use bpfdb_tests::server::{Client, Redis, TestServer, show, words};

const DEEP: usize = 10_000;

/// The replies to a block of which each command would begin or end another one.
fn blocks_in_blocks(client: &mut Client, depth: usize) -> Vec<String> {
    let mut bytes = words("MULTI").repeat(depth);
    bytes.extend(words("SET nested 1"));
    bytes.extend(words("EXEC").repeat(depth));
    client.send(&bytes);
    (0..2 * depth + 1).map(|_| show(&client.reply())).collect()
}

#[test]
fn blocks_are_not_nested() {
    let (server, redis) = (TestServer::shared(), Redis::start());
    let (mut ours, mut theirs) = (server.client(), Client::connect(redis.address));
    for depth in [1, 2, DEEP] {
        let replies = blocks_in_blocks(&mut ours, depth);
        assert_eq!(replies, blocks_in_blocks(&mut theirs, depth), "{depth}");
    }
    assert_eq!(ours.say("GET nested"), theirs.say("GET nested"));
    // Nor is a block a part of a transaction, or the other way round.
    assert_eq!(ours.say("MULTI"), "+OK\r\n");
    assert!(ours.say("BEGIN").starts_with("-ERR"));
    assert!(ours.say("DISCARD").starts_with('+'));
    assert_eq!(ours.say("BEGIN"), "+OK\r\n");
    assert!(ours.say("MULTI").starts_with("-ERR"));
    assert_eq!(ours.say("ROLLBACK"), "+OK\r\n");
}

/// A script calls no script, no function and no block, however deep it says so.
#[test]
fn scripts_are_not_nested() {
    let (server, redis) = (TestServer::shared(), Redis::start());
    let (mut ours, mut theirs) = (server.client(), Client::connect(redis.address));
    let inner = "return redis.pcall('eval', ARGV[1], 0, ARGV[1])";
    for script in [
        inner,
        "return redis.pcall('multi')",
        "return redis.pcall('exec')",
        "return redis.pcall('fcall', 'f', 0)",
        "return redis.pcall('evalsha', 'a', 0)",
    ] {
        let ask: [&[u8]; 4] = [b"EVAL", script.as_bytes(), b"0", inner.as_bytes()];
        let replies = [&mut ours, &mut theirs].map(|client| show(&client.ask(&ask)));
        assert_eq!(replies[0], replies[1], "{script}");
        assert!(replies[0].starts_with("-ERR"), "{}", replies[0]);
    }
    // Tables in tables, and what recurses for ever, are bounded.
    for script in [
        "local t = {} for i = 1, 100000 do t = {t} end return t",
        "local t = {} for i = 1, 100000 do t = {t} end return cjson.encode(t)",
        "return cjson.decode(string.rep('[', 100000) .. string.rep(']', 100000))",
        "local function f() return 1 + f() end return f()",
    ] {
        let reply = ours.ask(&[b"EVAL", script.as_bytes(), b"0"]);
        assert!(reply.len() < 1 << 20, "{script}: {} bytes", reply.len());
        assert_eq!(ours.say("PING"), "+PONG\r\n", "behind {script}");
    }
}

/// An array in the place of a word is no request: the connection ends, and nothing is kept of it.
#[test]
fn requests_are_not_nested() {
    let server = TestServer::shared();
    let mut client = server.client();
    client.send(&b"*1\r\n".repeat(DEEP));
    let said = client.until_closed();
    let expected = "-ERR Protocol error: expected '$', got '*'\r\n";
    assert_eq!(show(&said), show(expected.as_bytes()));
    assert_eq!(server.client().ask(&[b"ECHO", b"hi"]), b"$2\r\nhi\r\n");
}
