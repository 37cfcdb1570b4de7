//! OBJECT IDLETIME and FREQ, and what counts as use.

use std::thread;
use std::time::Duration;

use bpfdb_server::settings::EvictionPolicy;

use super::common::{Client, bulk};
use super::start;

/// Seconds that a key was not used, as OBJECT replies.
fn idle(client: &mut Client, key: &str) -> u64 {
    let reply = client.say(&format!("OBJECT IDLETIME {key}"));
    let number = reply.strip_prefix(':').unwrap_or_else(|| panic!("{reply}"));
    number.trim().parse().expect("a number")
}

fn frequency(client: &mut Client, key: &str) -> u64 {
    let reply = client.say(&format!("OBJECT FREQ {key}"));
    let number = reply.strip_prefix(':').unwrap_or_else(|| panic!("{reply}"));
    number.trim().parse().expect("a number")
}

fn pause() {
    thread::sleep(Duration::from_millis(2200));
}

#[test]
fn errors_are_those_of_redis() {
    let server = start(EvictionPolicy::AllkeysLru);
    let mut client = server.client();
    client.say("SET k 1");
    let adjusts = "Please note that when switching between policies at runtime LRU and LFU data \
                   will take some time to adjust.\r\n";
    assert_eq!(client.say("OBJECT IDLETIME k"), ":0\r\n");
    assert_eq!(client.say("OBJECT IDLETIME none"), "$-1\r\n");
    assert_eq!(
        client.say("OBJECT FREQ k"),
        format!(
            "-ERR An LFU maxmemory policy is not selected, access frequency not tracked. {adjusts}"
        )
    );
    client.say("CONFIG SET maxmemory-policy allkeys-lfu");
    assert_eq!(client.say("OBJECT FREQ none"), "$-1\r\n");
    assert_eq!(
        client.say("OBJECT IDLETIME k"),
        format!("-ERR An LFU maxmemory policy is selected, idle time not tracked. {adjusts}")
    );
    client.say("CONFIG SET maxmemory-policy noeviction");
    assert!(
        client
            .say("OBJECT IDLETIME k")
            .starts_with("-ERR accesses are not recorded")
    );
    assert_eq!(
        client.say("CONFIG SET maxmemory-policy some"),
        "-ERR CONFIG SET failed (possibly related to argument 'maxmemory-policy') - argument(s) \
         must be one of the following: volatile-lru, volatile-lfu, volatile-random, volatile-ttl, \
         allkeys-lru, allkeys-lfu, allkeys-random, noeviction\r\n"
    );
}

#[test]
fn what_counts_as_use() {
    let server = start(EvictionPolicy::VolatileTtl);
    let (mut client, mut silent) = (server.client(), server.client());
    assert_eq!(silent.say("CLIENT NO-TOUCH ON"), "+OK\r\n");
    let looks = [
        "EXISTS",
        "TTL",
        "PTTL",
        "TYPE",
        "OBJECT ENCODING",
        "MEMORY USAGE",
    ];
    let uses = [
        "GET", "TOUCH", "STRLEN", "GETEX", "APPEND", "INCR", "GETSET", "DUMP",
    ];
    let keys = (0..looks.len() + uses.len() + 2).map(|i| format!("k{i}"));
    let keys: Vec<_> = keys.collect();
    for key in &keys {
        client.say(&format!("SET {key} 1"));
        assert_eq!(idle(&mut client, key), 0);
    }
    pause();
    let (looked, used) = keys.split_at(looks.len());
    for (key, look) in looked.iter().zip(looks) {
        client.say(&format!("{look} {key}"));
        assert!(idle(&mut client, key) >= 2, "{look}");
    }
    for (key, usage) in used.iter().zip(uses) {
        let behind = if matches!(usage, "APPEND" | "GETSET") {
            " 1"
        } else {
            ""
        };
        let words = format!("{usage} {key}{behind}");
        client.send(&super::common::words(&words));
        client.reply();
        assert!(idle(&mut client, key) < 2, "{usage}");
    }
    let [one, other] = &used[uses.len()..] else {
        panic!("two are left");
    };
    silent.say(&format!("GET {one}"));
    silent.say(&format!("EVAL return(redis.call('GET',KEYS[1])) 1 {one}"));
    assert!(idle(&mut client, one) >= 2);
    silent.say(&format!("TOUCH {one}"));
    assert!(idle(&mut client, one) < 2);
    // Through the daemon, too, and in a transaction.
    client.say("BEGIN");
    client.say(&format!("GET {other}"));
    client.say("COMMIT");
    assert!(idle(&mut client, other) < 2);
}

#[test]
fn counters_go_up_as_in_redis() {
    let server = start(EvictionPolicy::AllkeysLfu);
    let mut client = server.client();
    client.say("SET k 1");
    client.say("SET l 1");
    assert_eq!(frequency(&mut client, "k"), 5);
    for _ in 0..500 {
        client.say("GET k");
    }
    // Redis: the counter is 18 after a thousand uses, and 10 after a hundred.
    let now = frequency(&mut client, "k");
    assert!((9..=25).contains(&now), "{now}");
    assert_eq!(frequency(&mut client, "l"), 5);
    client.say("CONFIG SET lfu-log-factor 0");
    for _ in 0..300 {
        client.say("GET l");
    }
    assert_eq!(frequency(&mut client, "l"), 255);
    // One that is written keeps its counter.
    client.say("SET l 2");
    assert_eq!(frequency(&mut client, "l"), 255);
}

#[test]
fn restored_keys_have_the_use_that_they_had() {
    let server = start(EvictionPolicy::AllkeysLru);
    let mut client = server.client();
    client.say("SET k 1");
    let dump = client.ask(&[b"DUMP", b"k"]);
    let start = dump
        .iter()
        .position(|&byte| byte == b'\n')
        .expect("a length")
        + 1;
    let dump = dump[start..dump.len() - 2].to_vec();
    assert_eq!(bulk(&dump), client.ask(&[b"DUMP", b"k"]));
    let mut restore = |key: &[u8], words: [&[u8]; 2]| {
        let reply = client.ask(&[b"RESTORE", key, b"0", &dump, words[0], words[1]]);
        assert_eq!(reply, b"+OK\r\n");
    };
    restore(b"idle", [b"IDLETIME", b"1000"]);
    restore(b"other", [b"FREQ", b"200"]);
    let found = idle(&mut client, "idle");
    // What is noted is 17 ms coarse.
    assert!((999..1010).contains(&found), "{found}");
    assert!(idle(&mut client, "other") < 10);
    client.say("CONFIG SET maxmemory-policy volatile-lfu");
    let reply = client.ask(&[b"RESTORE", b"often", b"0", &dump, b"FREQ", b"200"]);
    assert_eq!(reply, b"+OK\r\n");
    assert_eq!(frequency(&mut client, "often"), 200);
}

#[test]
fn nothing_is_noted_without_a_policy() {
    let server = start(EvictionPolicy::NoEviction);
    let mut client = server.client();
    let mut session = server.engine.session().expect("session");
    client.say("SET k 1");
    client.say("GET k");
    assert_eq!(session.access_of(b"k"), Ok(Some(bpfdb::Access::Unknown)));
    assert_eq!(session.access_of(b"none"), Ok(None));
    client.say("CONFIG SET maxmemory-policy allkeys-lru");
    client.say("GET k");
    let noted = session.access_of(b"k").expect("read").expect("there");
    assert!(matches!(noted, bpfdb::Access::Idle(_)), "{noted:?}");
}
