//! CONFLICT has a reason, and LOCKS shows the holders.

use bpfdb_tests::server as common;

use bpfdb::ConflictCause;
use common::{Client, TestServer};

fn id(client: &mut Client) -> u64 {
    let reply = client.say("CLIENT ID");
    reply[1..].trim_end().parse().expect("a number")
}

fn clients<const N: usize>(server: &TestServer) -> [Client; N] {
    std::array::from_fn(|_| server.client())
}

/// How often each cause was counted.
fn counted(server: &TestServer) -> [u64; ConflictCause::ALL.len() + 1] {
    server.engine.counters().expect("counters").conflicts
}

/// Replies that INFO has counted, by kernel and daemon.
fn replies(client: &mut Client, cause: ConflictCause) -> u64 {
    let field = format!("bpfdb_conflict_replies_{}:", cause.name());
    let info = client.say("INFO bpfdb");
    let line = info.lines().find_map(|line| line.strip_prefix(&field));
    line.expect("the field").parse().expect("a number")
}

#[test]
fn a_writer_is_named() {
    let server = TestServer::shared();
    let [mut holder, mut a, mut b] = clients(&server);
    holder.say("BEGIN");
    holder.say("SET written 1");
    a.say("BEGIN");
    let said = a.say("GET written");
    let outside = b.say("SET written 2");
    let before = counted(&server)[ConflictCause::Written as usize];
    b.say("SET written 2");
    assert!(counted(&server)[ConflictCause::Written as usize] > before);
    let id = id(&mut holder);
    let why = "-CONFLICT another transaction has locked this key to write it";
    assert_eq!(
        said,
        format!("{why}; ROLLBACK and run the transaction again; held by client {id}\r\n")
    );
    assert_eq!(
        outside,
        format!("{why}; run the command again; held by client {id}\r\n")
    );
    // Nothing of the reply before is in the one after, and the connection is in order.
    assert!(
        a.say("GET written")
            .starts_with("-ERR the transaction has failed")
    );
    assert_eq!(a.say("ROLLBACK"), "+OK\r\n");
    assert_eq!(holder.say("COMMIT"), "+OK\r\n");
    assert_eq!(a.say("GET written"), "$1\r\n1\r\n");
}

#[test]
fn every_conflict_of_a_pipeline_is_whole() {
    let server = TestServer::shared();
    let [mut holder, mut other] = clients(&server);
    holder.say("BEGIN");
    holder.say("SET k 1");
    let block = common::words("BEGIN");
    let get = common::words("GET k");
    let end = common::words("ROLLBACK");
    let pipeline = [block, get, end].concat().repeat(50);
    other.send(&pipeline);
    let id = id(&mut holder);
    for _ in 0..50 {
        assert_eq!(other.reply(), b"+OK\r\n");
        let said = String::from_utf8(other.reply()).expect("text");
        assert!(
            said.ends_with(&format!("; held by client {id}\r\n")),
            "{said}"
        );
        assert_eq!(other.reply(), b"+OK\r\n");
    }
}

#[test]
fn readers_are_found_by_locks() {
    let server = TestServer::shared();
    let [mut first, mut second, mut writer] = clients(&server);
    writer.say("SET read 1");
    for reader in [&mut first, &mut second] {
        reader.say("BEGIN");
        assert_eq!(reader.say("GET read"), "$1\r\n1\r\n");
    }
    let before = counted(&server)[ConflictCause::Read as usize];
    assert_eq!(
        writer.say("SET read 2"),
        "-CONFLICT a transaction that is not over has read this key; run the command again\r\n"
    );
    assert!(counted(&server)[ConflictCause::Read as usize] > before);

    let said = writer.say("LOCKS read");
    assert_eq!(said.matches("$4\r\nread\r\n").count(), 2, "{said}");
    for reader in [&mut first, &mut second] {
        let id = id(reader);
        assert!(
            said.contains(&format!("$6\r\nclient\r\n:{id}\r\n")),
            "{said}"
        );
        assert_eq!(reader.say("COMMIT"), "+OK\r\n");
    }
    assert_eq!(writer.say("LOCKS read"), "*0\r\n");
    assert_eq!(writer.say("SET read 2"), "+OK\r\n");
}

#[test]
fn a_session_of_no_client_is_not_named() {
    let server = TestServer::shared();
    let mut session = server.engine.session().expect("a session");
    session.begin().expect("begin");
    session.set(b"embedded", b"1").expect("set");
    let mut client = server.client();
    for command in ["SET embedded 2", "GETSET embedded 2"] {
        assert_eq!(
            client.say(command),
            "-CONFLICT another transaction has locked this key to write it; run the command \
             again\r\n"
        );
    }
    client.say("BEGIN");
    assert_eq!(
        client.say("GET embedded"),
        "-CONFLICT another transaction has locked this key to write it; ROLLBACK and run the \
         transaction again\r\n"
    );
    let said = client.say("LOCKS embedded");
    let index = session.index();
    let expected = format!(
        "*1\r\n*12\r\n$6\r\nclient\r\n$-1\r\n$4\r\naddr\r\n$-1\r\n$4\r\nname\r\n$-1\r\n\
         $7\r\nsession\r\n:{index}\r\n$4\r\nidle\r\n:0\r\n$4\r\nmode\r\n$5\r\nwrite\r\n"
    );
    assert_eq!(said, expected);
    assert_eq!(client.say("ROLLBACK"), "+OK\r\n");
}

/// However often a command is tried, its client gets one reply.
#[test]
fn replies_are_counted_once_each() {
    let server = TestServer::shared();
    let [mut holder, mut other, mut looks] = clients(&server);
    holder.say("BEGIN");
    holder.say("SET k 1");
    let refused = [
        "SET k 2",
        "INCR k",
        "SETNX k 2",
        "MSET k 2 l 2",
        "GETSET k 2",
    ];
    for (count, command) in refused.iter().enumerate() {
        assert_eq!(replies(&mut looks, ConflictCause::Written), count as u64);
        assert!(other.say(command).starts_with("-CONFLICT "), "{command}");
    }
    other.say("BEGIN");
    assert!(other.say("GET k").starts_with("-CONFLICT "));
    let all = refused.len() as u64 + 1;
    assert_eq!(replies(&mut looks, ConflictCause::Written), all);
    assert_eq!(replies(&mut looks, ConflictCause::Read), 0);
    looks.say("CONFIG RESETSTAT");
    assert_eq!(replies(&mut looks, ConflictCause::Written), 0);
}

#[test]
fn exec_says_why_too() {
    let server = TestServer::shared();
    let [mut holder, mut other] = clients(&server);
    holder.say("BEGIN");
    holder.say("SET block 1");
    other.say("MULTI");
    other.say("SET block 2");
    let said = other.say("EXEC");
    let id = id(&mut holder);
    assert_eq!(
        said,
        format!(
            "-CONFLICT another transaction has locked this key to write it; the transaction was \
             rolled back, run it again; held by client {id}\r\n"
        )
    );
    holder.say("ROLLBACK");
}
