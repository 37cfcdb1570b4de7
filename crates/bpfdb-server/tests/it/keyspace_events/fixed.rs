//! Chosen commands on both servers, and what only bpfdb has.

use std::thread;

use bpfdb_tests::server::{Client, Redis, TestServer, procedures, wait_until};

use super::{Heard, Listener, silence};

/// Of commands that are not generated (`generated/commands.rs`), or whose events are many.
const COMMANDS: &str = "\
    SET a 1 EX 100|SET a 2 PXAT 1|SET a 1 NX|SET a 2 NX|SET a 3 XX GET KEEPTTL|SET none 1 XX|SET none2 1 GET|GETSET none3 1|\
    GETEX a EX 100|GETEX a PERSIST|GETEX a PERSIST|GETEX a EXAT 1|GETEX absent EX 1|GETDEL absent|SET a 1|GETDEL a|\
    SETEX a 100 v|PSETEX a 100000 v|MSET b 1 b 2 c 3|MSETNX b 1 x 2|MSETNX m1 1 m2 2|APPEND a x|APPEND a2 x|\
    SETRANGE a 1 zz|SETRANGE absent 0 \"\"|SETBIT bits 1 1|SETBIT bits 1 1|BITFIELD bits SET u8 0 1|BITFIELD bits GET u8 0|\
    BITFIELD bits INCRBY u8 0 1 SET u8 8 2|BITOP OR dest bits absent|BITOP AND dest absent absent2|BITOP AND none absent|\
    INCR n|DECRBY n 4|INCRBYFLOAT n 1.5|INCR a|EXPIRE n 100|EXPIRE n 100 NX|EXPIRE n -1|EXPIRE n 10|PERSIST b|EXPIRE b 10|PERSIST b|\
    PFADD h1 a b|PFADD h1 a|PFCOUNT h1|PFCOUNT h1 absent|PFMERGE h2 h1|PFMERGE h1 h2 absent|PFADD h3|\
    RPUSH l 3 1 2|SORT l STORE l2|SORT l STORE l2|SORT absent STORE l2|SORT absent STORE l2|SORT l BY w_* GET g_* STORE l3|\
    GEOADD g 13 38 p|GEOADD g 13 38 p|GEOADD g XX CH 14 38 p|GEOSEARCHSTORE gs g FROMMEMBER p BYRADIUS 10 m|\
    GEOSEARCHSTORE gs g FROMLONLAT 0 0 BYRADIUS 1 m|GEORADIUS g 14 38 10 m STORE gr|GEORADIUS g 0 0 1 m STORE gr|\
    XADD s 1-1 f v|XADD s NOMKSTREAM 1-2 f v|XADD absent NOMKSTREAM 1-2 f v|XADD s MAXLEN 2 1-3 f v|XADD s MAXLEN 9 1-4 f v|\
    XDEL s 1-2|XDEL s 1-3|XTRIM s MAXLEN 1|XTRIM s MAXLEN 1|XSETID s 9-9|XGROUP CREATE s grp 0|XGROUP CREATE new grp $ MKSTREAM|\
    XGROUP CREATECONSUMER s grp one|XGROUP CREATECONSUMER s grp one|XGROUP SETID s grp 0|XREADGROUP GROUP grp two STREAMS s >|\
    XREADGROUP GROUP grp two STREAMS s >|XREADGROUP GROUP grp three STREAMS s 0|XACK s grp 1-4|XGROUP SETID s grp 0|\
    XREADGROUP GROUP grp two STREAMS s >|XCLAIM s grp four 0 1-4|XCLAIM s grp four 0 1-4|XAUTOCLAIM s grp five 0 0|\
    XGROUP DELCONSUMER s grp four|XGROUP DELCONSUMER s grp four|XGROUP DESTROY s grp|XGROUP DESTROY s grp|XRANGE absent - +|XLEN absent|\
    XREAD STREAMS s 0|XREAD STREAMS absent 0|XREAD STREAMS absent $|\
    SADD s1 a b c|SADD s1 a|SMOVE s1 s2 a|SMOVE s1 s2 absent|SADD s1 a|SMOVE s1 s2 a|SREM s1 b|SMOVE s1 s2 c|SMOVE absent s2 c|\
    SUNIONSTORE su s2 absent|SINTERSTORE su s2 absent|SINTERSTORE su s2 absent|SDIFFSTORE su s2 absent|SPOP su 9|SMOVE s2 s2 a|\
    RPUSH l a|LMOVE l l LEFT RIGHT|LMOVE l m LEFT RIGHT|RPOPLPUSH m m|RPOPLPUSH l m|LMOVE absent m LEFT LEFT|LMPOP 2 absent m RIGHT|\
    BLPOP m 1|RPUSH m 1 2 3|BRPOP m 1|BLMOVE m o LEFT LEFT 1|BRPOPLPUSH m o 1|BLMPOP 1 2 m o RIGHT COUNT 2|LPUSHX absent 1|\
    RPUSH t 1 2 3|LTRIM t 0 -1|LTRIM t 0 1|LTRIM t 5 6|LTRIM absent 0 1|RPUSH t 1|LSET t 0 1|LREM t 0 9|LINSERT t BEFORE 1 0|LINSERT t BEFORE 9 0|\
    LPOP t 0|LPOP t 9|LPOP t|\
    ZADD z 1 a 2 b 3 c|ZADD z 1 a|ZADD z INCR 1 a|ZINCRBY z 0 a|ZINCRBY z 1 a|ZADD z XX INCR 1 absent|ZADD z GT INCR -1 a|ZPOPMIN z|\
    BZPOPMAX z 1|ZMPOP 1 z MAX|ZADD z 1 a 2 b 3 c|BZMPOP 1 1 z MIN COUNT 9|ZADD z 1 a 2 b 3 c|ZRANGESTORE zr z 0 1|ZRANGESTORE zr z 9 9|\
    ZUNIONSTORE zu 2 z absent|ZINTERSTORE zu 2 z absent|ZDIFFSTORE zd 1 z|ZREMRANGEBYRANK z 0 0|ZREMRANGEBYSCORE z 2 2|ZREMRANGEBYLEX zd - +|ZREM z c|\
    HSET h f 1|HSET h f 1|HSETNX h f 1|HSETNX h g 1|HMSET h f 2|HINCRBY h f 0|HINCRBYFLOAT h f 1|HDEL h absent|HDEL h f g|HGET h f|HGETALL h|\
    SET r 1|RENAME r r|RENAME r r2|SET r 1|RENAME r2 r|RENAMENX r r3|SET r 1|RENAMENX r r3|RENAME absent r|COPY r c1|COPY r c1|COPY r c1 REPLACE|COPY absent c2|\
    MOVE r 3|COPY r3 r DB 3|COPY r3 r DB 3 REPLACE|MOVE absent 3|SELECT 3|SET in3 1|MOVE r 0|DEL r in3|SELECT 0|SWAPDB 0 3|SET swapped 1|SWAPDB 0 3|SET back 1|\
    MGET absent back absent|EXISTS absent back absent|TOUCH absent|TTL absent|TYPE absent|OBJECT ENCODING absent|STRLEN absent|\
    GETRANGE absent 0 1|LRANGE absent 0 1|HMGET absent f|SMEMBERS absent|ZSCORE absent m|LCS absent absent2|DUMP absent|WATCH absent|UNWATCH|\
    DEL a b absent|UNLINK c back|UNLINK absent|FLUSHDB|SET after 1|FLUSHALL|\
    EVAL return{redis.call('set','e','1'),redis.call('rpush','el','1')} 0|\
    MULTI|SET q 1|RPUSH ql 1|GET absent|EXEC|MULTI|SET q 2|DISCARD";

/// Both say the same of each command.
#[test]
fn events_of_chosen_commands() {
    for resp3 in [false, true] {
        let (server, redis) = (TestServer::shared(), Redis::start());
        let mut sides = [redis.address, server.address].map(|address| {
            (
                Client::connect(address),
                Listener::start(address, "KEg$lshztmn", resp3),
            )
        });
        let mut different = Vec::new();
        for command in COMMANDS.split('|').map(str::trim) {
            let words: Vec<&[u8]> = command
                .split(' ')
                .map(|word| if word == "\"\"" { b"" } else { word.as_bytes() })
                .collect();
            let [theirs, ours] = sides.each_mut().map(|(client, listener)| {
                client.ask(&words);
                listener.heard()
            });
            if theirs != ours {
                different.push(format!("{command}\n redis {theirs:?}\n bpfdb {ours:?}"));
            }
        }
        assert!(different.is_empty(), "{}", different.join("\n"));
        silence(&server);
    }
}

/// Events of a transaction come when it commits, in its order, and never if it is rolled back.
#[test]
fn events_of_transactions() {
    let server = TestServer::shared();
    let mut client = server.client();
    let mut listener = Listener::start(server.address, "KA", false);
    client.say("BEGIN");
    client.say("SET a 1");
    client.say("RPUSH l x");
    client.say("LPOP l");
    assert!(listener.heard().is_empty());
    client.say("COMMIT");
    assert_eq!(
        listener.heard_by_key(),
        ["a set", "l rpush", "l lpop", "l del"]
    );
    client.say("BEGIN");
    client.say("SET a 2");
    client.say("ROLLBACK");
    client.say("MULTI");
    client.say("SET a 3");
    client.say("DISCARD");
    assert!(listener.heard().is_empty());
    // A script that fails is rolled back.
    client.ask(&[b"EVAL", b"redis.call('set', 'a', 1) error('x')", b"0"]);
    assert!(listener.heard().is_empty());
    client.ask(&[
        b"EVAL",
        b"redis.call('set', 'a', 1) redis.call('del', 'a')",
        b"0",
    ]);
    assert_eq!(listener.heard_by_key(), ["a set", "a del"]);
    silence(&server);
}

/// Transactions that conflict are tried again, and publish what they have done once.
#[test]
fn events_of_attempts_come_once() {
    let server = TestServer::shared();
    let mut listener = Listener::start(server.address, "Kh$", false);
    const CLIENTS: usize = 4;
    const TIMES: usize = 50;
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            let mut client = server.client();
            scope.spawn(move || {
                for _ in 0..TIMES {
                    client.send(b"MULTI\r\nINCR n\r\nHINCRBY h f 1\r\nEXEC\r\n");
                    for _ in 0..4 {
                        client.reply();
                    }
                }
            });
        }
    });
    let expected: Vec<&str> = (0..CLIENTS * TIMES)
        .flat_map(|_| ["n incrby", "h hincrby"])
        .collect();
    assert_eq!(listener.heard_by_key(), expected);
    silence(&server);
}

/// What a client gets that has waited.
#[test]
fn events_of_clients_that_wait() {
    let server = TestServer::shared();
    let mut listener = Listener::start(server.address, "KA", true);
    let (mut waits, mut pushes) = (server.client(), server.client());
    waits.send(b"BLMOVE list other LEFT RIGHT 0\r\n");
    wait_until("it waits", || {
        let info = pushes.ask(&[b"INFO", b"clients"]);
        String::from_utf8_lossy(&info).contains("blocked_clients:1\r\n")
    });
    pushes.say("RPUSH list x");
    waits.reply();
    let expected = ["list rpush", "other rpush", "list lpop", "list del"];
    assert_eq!(listener.heard_by_key(), expected);
    silence(&server);
}

/// Compiled procedures are left to the interpreter, as long as events are published.
#[test]
fn events_of_procedures() {
    let server = TestServer::shared();
    let mut client = server.client();
    let library = "#!lua name=events\n\
        redis.register_function('write', function(keys) return redis.call('SET', keys[1], 1) end)";
    procedures::load(&mut client, library);
    procedures::settle(&mut client);
    let call = |client: &mut Client| client.say("FCALL write 1 key");
    assert_eq!(call(&mut client), "+OK\r\n");
    let mut listener = Listener::start(server.address, "KA", false);
    for _ in 0..3 {
        assert_eq!(call(&mut client), "+OK\r\n");
        assert_eq!(listener.heard_by_key(), ["key set"]);
    }
    silence(&server);
    assert_eq!(call(&mut client), "+OK\r\n");
    assert!(listener.heard().is_empty());
    client.say("FUNCTION FLUSH");
}

/// A client that hears of its own writes hears it before the reply.
#[test]
fn events_of_its_own() {
    let server = TestServer::shared();
    let mut client = server.client();
    let mut other = Listener::start(server.address, "Kg", false);
    client.say("HELLO 3");
    client.say("SUBSCRIBE __keyspace@0__:own");
    client.say("SET own 1");
    let heard = client.say("DEL own");
    assert!(heard.starts_with(">3\r\n$7\r\nmessage\r\n"), "{heard}");
    assert_eq!(client.reply(), b":1\r\n");
    let expected: Vec<Heard> = vec![
        ["__key*__:*", "__keyspace@0__:own", "del"]
            .map(str::to_owned)
            .to_vec(),
    ];
    assert_eq!(other.heard(), expected);
    silence(&server);
}
