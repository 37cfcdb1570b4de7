//! What a program does with redis-rs and its default settings.

use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::{Client, Commands, Connection, ExpireOption, RedisResult, Value};

use bpfdb_tests::server::{PATIENCE, TestServer};

fn client(server: &TestServer) -> Client {
    Client::open(format!("redis://{}", server.address)).expect("an address")
}

#[test]
fn redis_rs() {
    let server = TestServer::shared();
    let client = client(&server);
    let mut connection = client.get_connection().expect("a connection");
    values(&mut connection).expect("values");
    errors(&mut connection);
    expiry(&mut connection).expect("expiry");
    pipeline(&mut connection).expect("pipeline");
    scan(&mut connection).expect("scan");
    transaction(&client, &mut connection).expect("transaction");
    reconnect(&client, connection).expect("reconnect");

    let resp3 = format!("redis://{}/?protocol=resp3", server.address);
    let mut connection = Client::open(resp3)
        .and_then(|client| client.get_connection())
        .expect("RESP3");
    values(&mut connection).expect("values in RESP3");
}

fn values(c: &mut Connection) -> RedisResult<()> {
    assert_eq!(c.ping::<String>()?, "PONG");
    c.set::<_, _, ()>("rs:a", 1)?;
    assert_eq!(c.get::<_, i64>("rs:a")?, 1);
    assert_eq!(c.get::<_, Option<i64>>("rs:absent")?, None);
    assert_eq!(c.incr::<_, _, i64>("rs:a", 41)?, 42);
    assert_eq!(c.append::<_, _, usize>("rs:b", "x".repeat(100))?, 100);
    assert_eq!(c.strlen::<_, usize>("rs:b")?, 100);
    c.mset::<_, _, ()>(&[("rs:c", "c"), ("rs:d", "")])?;
    let all: Vec<Option<String>> = c.mget(&["rs:c", "rs:d", "rs:e"])?;
    assert_eq!(all, [Some("c".into()), Some(String::new()), None]);
    assert!(!c.set_nx::<_, _, bool>("rs:a", 2)?);
    assert_eq!(c.getset::<_, _, i64>("rs:a", 3)?, 42);
    assert_eq!(c.exists::<_, i64>(&["rs:a", "rs:a", "rs:e"])?, 2);
    assert_eq!(c.del::<_, i64>(&["rs:a", "rs:b", "rs:c", "rs:d"])?, 4);

    let long: Vec<u8> = (0..51_200).map(|i| i as u8).collect();
    c.set::<_, _, ()>(b"rs:\0long\r\n\xff", &long)?;
    assert!(c.get::<_, Vec<u8>>(b"rs:\0long\r\n\xff")? == long);
    Ok(())
}

fn errors(c: &mut Connection) {
    c.set::<_, _, ()>("rs:text", "no number").expect("set");
    for words in [&["NONSENSE", "x"][..], &["GET"], &["INCR", "rs:text"]] {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        let error = command.query::<Value>(c).expect_err("an error");
        assert!(error.code() == Some("ERR"), "{error}");
    }
}

fn expiry(c: &mut Connection) -> RedisResult<()> {
    c.pset_ex::<_, _, ()>("rs:short", 1, 50)?;
    c.set_ex::<_, _, ()>("rs:long", 1, 1000)?;
    assert!((990..=1000).contains(&c.ttl::<_, i64>("rs:long")?));
    assert!(c.persist::<_, bool>("rs:long")?);
    assert_eq!(c.ttl::<_, i64>("rs:long")?, -1);
    let more = redis::cmd("EXPIRE")
        .arg("rs:long")
        .arg(1000)
        .arg(ExpireOption::GT)
        .query::<bool>(c)?;
    assert!(!more);
    let start = Instant::now();
    while c.get::<_, Option<i64>>("rs:short")?.is_some() {
        assert!(start.elapsed() < PATIENCE);
        sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn pipeline(c: &mut Connection) -> RedisResult<()> {
    let mut pipe = redis::pipe();
    for i in 0..1000 {
        pipe.set(format!("rs:pipe:{i}"), i).ignore();
        pipe.get(format!("rs:pipe:{i}"));
    }
    let replies: Vec<i64> = pipe.query(c)?;
    assert!(replies.into_iter().eq(0..1000));
    Ok(())
}

fn scan(c: &mut Connection) -> RedisResult<()> {
    let keys = c.scan_match::<_, String>("rs:pipe:*")?;
    let found: std::collections::BTreeSet<String> = keys.collect::<RedisResult<_>>()?;
    assert_eq!(found.len(), 1000);
    Ok(())
}

fn transaction(client: &Client, c: &mut Connection) -> RedisResult<()> {
    let (m, _): (i64, Value) = redis::pipe()
        .atomic()
        .set("rs:m", 1)
        .ignore()
        .incr("rs:m", 1)
        .get("rs:m")
        .query(c)?;
    assert_eq!(m, 2);

    // Tried again as long as another client changes what is watched.
    let mut other = client.get_connection()?;
    other.set::<_, _, ()>("rs:w", 10)?;
    let mut tries = 0;
    let (doubled,): (i64,) = redis::transaction(c, &["rs:w"], |c, pipe| {
        let value: i64 = c.get("rs:w")?;
        tries += 1;
        if tries == 1 {
            other.set::<_, _, ()>("rs:w", 11)?;
        }
        pipe.set("rs:w", 2 * value).ignore().get("rs:w").query(c)
    })?;
    assert_eq!((doubled, tries), (22, 2));
    Ok(())
}

fn reconnect(client: &Client, mut c: Connection) -> RedisResult<()> {
    let id: i64 = redis::cmd("CLIENT").arg("ID").query(&mut c)?;
    let mut killer = client.get_connection()?;
    let killed: i64 = redis::cmd("CLIENT")
        .arg(&["KILL", "ID", &id.to_string()])
        .query(&mut killer)?;
    assert_eq!(killed, 1);
    // A connection that is lost says so, and its client makes another one.
    let lost = c.get::<_, i64>("rs:w").expect_err("it was killed");
    assert!(lost.is_connection_dropped(), "{lost}");
    let mut c = client.get_connection()?;
    assert_eq!(c.get::<_, i64>("rs:w")?, 22);
    Ok(())
}
