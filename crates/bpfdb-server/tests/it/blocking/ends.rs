//! What ends the waiting besides an element.

use std::net::Shutdown;

use bpfdb_tests::server::{Client, TestServer, lent};

use super::{array, block, next, send, wait_for_blocked};

fn id(client: &mut Client) -> String {
    let reply = client.say("CLIENT ID");
    reply.trim().trim_start_matches(':').to_owned()
}

#[test]
fn client_unblock() {
    let server = TestServer::shared();
    let (mut waiting, mut ruling) = (server.client(), server.client());
    let id = id(&mut waiting);
    let unblock = |how: &str| format!("CLIENT UNBLOCK {id}{how}");
    assert_eq!(ruling.say(&unblock("")), ":0\r\n");
    for (how, expected) in [
        ("", "*-1\r\n"),
        (" timeout", "*-1\r\n"),
        (
            " ERROR",
            "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n",
        ),
    ] {
        block(
            &server,
            &mut waiting,
            "BLMOVE unblocked other LEFT LEFT 0",
            0,
        );
        assert_eq!(ruling.say(&unblock(how)), ":1\r\n");
        assert_eq!(next(&mut waiting), expected);
        assert_eq!(ruling.say(&unblock(how)), ":0\r\n");
    }
    // It is a client as any other again, and takes nothing.
    assert_eq!(waiting.say("RPUSH unblocked x"), ":1\r\n");
    assert_eq!(ruling.say("LLEN unblocked"), ":1\r\n");
}

#[test]
fn client_kill() {
    let server = TestServer::shared();
    let (mut waiting, mut ruling) = (server.client(), server.client());
    let id = id(&mut waiting);
    block(&server, &mut waiting, "BZPOPMIN killed 60", 0);
    let list = ruling.say(&format!("CLIENT LIST ID {id}"));
    assert!(
        list.contains(" flags=b ") && list.contains(" cmd=bzpopmin "),
        "{list}"
    );
    assert_eq!(ruling.say(&format!("CLIENT KILL ID {id}")), ":1\r\n");
    assert!(waiting.is_closed());
    wait_for_blocked(&server, 0);
    assert_eq!(ruling.say("ZADD killed 1 x"), ":1\r\n");
    assert_eq!(ruling.say("ZCARD killed"), ":1\r\n");
}

/// Nothing is taken for one that is gone, although that has not been noticed yet.
fn vanishes(server: &TestServer, connect: &dyn Fn() -> Client) {
    let mut pushing = server.client();
    for round in 0..30 {
        let (mut gone, mut stays) = (connect(), connect());
        block(server, &mut gone, "BLPOP vanished 0", 0);
        block(server, &mut stays, "BLPOP vanished 60", 1);
        if round % 2 == 0 {
            drop(gone);
        } else {
            // Half of it, as in Redis.
            gone.stream.shutdown(Shutdown::Write).expect("shut");
        }
        assert_eq!(pushing.say("RPUSH vanished x"), ":1\r\n");
        assert_eq!(next(&mut stays), array(&["vanished", "x"]));
        wait_for_blocked(server, 0);
    }
    assert_eq!(pushing.say("EXISTS vanished"), ":0\r\n");
}

#[test]
fn the_client_vanishes() {
    let server = TestServer::shared();
    vanishes(&server, &|| server.client());
    vanishes(&server, &|| {
        let mut client = server.client();
        client.receive_until_known();
        client
    });
    let server = lent::plain();
    vanishes(&server, &|| server.unix_client());
}

/// With requests behind the one that waits, which are not executed.
#[test]
fn the_client_vanishes_with_requests() {
    let server = TestServer::shared();
    let mut waiting = server.client();
    block(&server, &mut waiting, "BLPOP requests 0", 0);
    send(&mut waiting, "RPUSH requests:behind x");
    drop(waiting);
    wait_for_blocked(&server, 0);
    let mut client = server.client();
    assert_eq!(client.say("EXISTS requests:behind"), ":0\r\n");
}

/// A server stops while clients wait.
#[test]
fn the_server_stops() {
    let server = TestServer::start(&bpfdb::Options::default());
    let (mut a, mut b) = (server.client(), server.client());
    block(&server, &mut a, "BLPOP stops 0", 0);
    block(&server, &mut b, "BLPOP stops 1000", 1);
    server.stop();
    assert!(a.is_closed() && b.is_closed());
}
