//! Each policy against its meaning.

use bpfdb_server::settings::EvictionPolicy;

use super::common::{Client, request, wait_until};
use super::{LIMIT, OOM, count, evicted, fill, pipelined, start, there};

/// Some three times of what fits.
const MANY: usize = 36_000;
const LEN: usize = 2000;

#[test]
fn volatile_policies_leave_keys_without_expiry() {
    for policy in [
        EvictionPolicy::VolatileLru,
        EvictionPolicy::VolatileLfu,
        EvictionPolicy::VolatileRandom,
        EvictionPolicy::VolatileTtl,
    ] {
        let server = start(policy);
        let mut client = server.client();
        fill(&mut client, "kept", 2000, LEN, &[]);
        fill(&mut client, "volatile", MANY, LEN, &[b"EX", b"10000"]);
        assert_eq!(
            count(&there(&mut client, "kept", 2000)),
            2000,
            "{}",
            policy.word()
        );
        // The evictor goes on for a moment.
        let mut gone = 0;
        wait_until("what is evicted is gone", || {
            gone = MANY - count(&there(&mut client, "volatile", MANY));
            evicted(&mut client) == gone as u64
        });
        assert!(gone > MANY / 2, "{}: {gone}", policy.word());
    }
}

#[test]
fn what_lost_its_expiry_stays() {
    let server = start(EvictionPolicy::VolatileTtl);
    let mut client = server.client();
    // The first that would go.
    fill(&mut client, "first", 100, LEN, &[b"EX", b"1000"]);
    for i in 0..100 {
        assert_eq!(client.say(&format!("PERSIST first:{i}")), ":1\r\n");
    }
    fill(&mut client, "volatile", MANY, LEN, &[b"EX", b"10000"]);
    assert_eq!(count(&there(&mut client, "first", 100)), 100);
}

#[test]
fn nothing_to_evict_is_out_of_memory() {
    let server = start(EvictionPolicy::VolatileLru);
    let mut client = server.client();
    let value = vec![b'x'; LEN];
    let set =
        |client: &mut Client, i: usize| client.ask(&[b"SET", format!("k:{i}").as_bytes(), &value]);
    let full = (0..MANY).find(|&i| {
        let reply = set(&mut client, i);
        assert!(reply == OOM.as_bytes() || reply == b"+OK\r\n");
        reply == OOM.as_bytes()
    });
    let full = full.expect("memory is full at some time");
    assert!(full > MANY / 5, "{full}");
    // Here and there a slot is free.
    let refused = (full..full + 100).filter(|&i| set(&mut client, i) == OOM.as_bytes());
    let refused = refused.count();
    assert!(refused > 50, "{refused}");
    // A script gets the same words, be it compiled or not.
    for script in [
        "return redis.call('SET', KEYS[1], ARGV[1])",
        "for i = 1, 2 do redis.call('SET', KEYS[1] .. string.rep('y', i), ARGV[1]) end",
    ] {
        let mut replies = (0..100).map(|i| {
            let key = format!("script:{i}");
            client.ask(&[b"EVAL", script.as_bytes(), b"1", key.as_bytes(), &value])
        });
        let refused = replies.find(|reply| reply.starts_with(b"-"));
        assert_eq!(refused.as_deref(), Some(OOM.as_bytes()), "{script}");
    }
    assert_eq!(evicted(&mut client), 0);
    // DEL works, and what was refused works afterwards.
    for i in 0..100 {
        client.say(&format!("DEL k:{i}"));
    }
    assert_eq!(client.say("SET small 1"), "+OK\r\n");
    // So does another policy.
    let policy = "CONFIG SET maxmemory-policy allkeys-random";
    assert_eq!(client.say(policy), "+OK\r\n");
    fill(&mut client, "k", MANY, LEN, &[]);
    assert!(evicted(&mut client) > 0);
    assert_eq!(
        client.say("CONFIG SET maxmemory-policy noeviction"),
        "+OK\r\n"
    );
    let mut refused = 0;
    let set = |i: usize| request(&[b"SET", format!("k:{i}").as_bytes(), &value]);
    pipelined(&mut client, (MANY..2 * MANY).map(set), |_, reply| {
        refused += usize::from(reply == OOM.as_bytes());
    });
    assert!(refused > MANY / 2, "{refused}");
}

/// As in Redis a block with a command that needs memory is refused as a whole. One that needs none is executed.
#[test]
fn a_block_without_memory_is_refused_as_a_whole() {
    let server = start(EvictionPolicy::VolatileLru);
    let mut client = server.client();
    let value = vec![b'x'; LEN];
    let mut set = |i: usize| client.ask(&[b"SET", format!("k:{i}").as_bytes(), &value]);
    assert!(
        (0..MANY).any(|i| set(i) == OOM.as_bytes()),
        "memory is full at some time"
    );
    // More than all that may be free here and there.
    let large = vec![b'x'; LIMIT as usize / 2];
    let block = |client: &mut Client, requests: &[&[&[u8]]]| {
        client.say("MULTI");
        for words in requests {
            assert_eq!(client.ask(words), b"+QUEUED\r\n");
        }
        client.say("EXEC")
    };
    let (first, second): ([&[u8]; 3], [&[u8]; 3]) =
        ([b"SET", b"k:0", b"1"], [b"SET", b"l", &large]);
    let told = block(&mut client, &[&first, &second, &[b"GET", b"k:0"]]);
    let text = OOM.trim_start_matches('-');
    assert_eq!(
        told,
        format!("-EXECABORT Transaction discarded because of: {text}")
    );
    assert_eq!(client.say("STRLEN k:0"), format!(":{LEN}\r\n"));
    let told = block(&mut client, &[&[b"STRLEN", b"k:0"], &[b"DEL", b"k:1"]]);
    assert_eq!(told, format!("*2\r\n:{LEN}\r\n:1\r\n"));
}

#[test]
fn the_nearest_expiry_goes_first() {
    let server = start(EvictionPolicy::VolatileTtl);
    let mut client = server.client();
    let value = vec![b'x'; LEN];
    // In an order that has nothing to do with the time: the first of them are no more likely to go.
    let time = |i: usize| 10_000 + i * 7919 % MANY;
    let set = |i: usize| {
        let (key, time) = (format!("k:{i}"), time(i).to_string());
        request(&[b"SET", key.as_bytes(), &value, b"EX", time.as_bytes()])
    };
    pipelined(&mut client, (0..MANY).map(set), |i, reply| {
        assert_eq!(reply, b"+OK\r\n", "{i}");
    });
    let found = there(&mut client, "k", MANY);
    let of = |far: bool| {
        let kept = |&i: &usize| found[i] && (time(i) >= 10_000 + MANY / 2) == far;
        (0..MANY).filter(kept).count()
    };
    let (near, far) = (of(false), of(true));
    assert!(far > 10 * near, "{near} near, {far} far");
}

#[test]
fn what_is_used_stays() {
    for policy in [
        EvictionPolicy::AllkeysLru,
        EvictionPolicy::AllkeysLfu,
        EvictionPolicy::VolatileLru,
        EvictionPolicy::VolatileLfu,
    ] {
        const HOT: usize = 2000;
        let server = start(policy);
        let mut client = server.client();
        let get = |i: usize| request(&[b"GET", format!("hot:{}", i % HOT).as_bytes()]);
        fill(&mut client, "hot", HOT, LEN, &[b"EX", b"10000"]);
        pipelined(&mut client, (0..20 * HOT).map(get), |_, _| {});
        for round in 0..20 {
            let name = format!("cold{round}");
            fill(&mut client, &name, MANY / 20, LEN, &[b"EX", b"10000"]);
            pipelined(&mut client, (0..2 * HOT).map(get), |_, _| {});
        }
        let kept = count(&there(&mut client, "hot", HOT));
        assert!(kept > HOT * 95 / 100, "{}: {kept}", policy.word());
        assert!(evicted(&mut client) > MANY as u64 / 2);
    }
}

#[test]
fn any_key_goes_at_random() {
    let server = start(EvictionPolicy::AllkeysRandom);
    let mut client = server.client();
    // In all databases.
    for database in [0, 9] {
        assert_eq!(client.say(&format!("SELECT {database}")), "+OK\r\n");
        fill(&mut client, "k", MANY / 2, LEN, &[]);
    }
    // The evictor goes on for a moment.
    let (mut first, mut ninth) = (0, 0);
    wait_until("what is evicted is gone", || {
        client.say("SELECT 9");
        ninth = count(&there(&mut client, "k", MANY / 2));
        client.say("SELECT 0");
        first = count(&there(&mut client, "k", MANY / 2));
        evicted(&mut client) == (MANY - first - ninth) as u64
    });
    // Those that were there longer have gone more often; but some have stayed.
    assert!(
        first > 100 && ninth > first && ninth < MANY / 2,
        "{first}, {ninth}"
    );
}

/// When as many have gone as there were, some two thirds of these have: chance also takes what came later. If
/// the hand took all that it meets, all of them had gone.
#[test]
fn what_came_first_goes_by_chance() {
    const OLD: usize = 12_000;
    let server = start(EvictionPolicy::AllkeysRandom);
    let mut client = server.client();
    fill(&mut client, "old", OLD, LEN, &[]);
    let mut batch = 0;
    while evicted(&mut client) < OLD as u64 {
        fill(&mut client, &format!("new{batch}"), 500, LEN, &[]);
        batch += 1;
    }
    let stayed = count(&there(&mut client, "old", OLD));
    println!("{stayed} of {OLD} stayed");
    assert!((OLD / 6..OLD / 2).contains(&stayed), "{stayed}");
}

#[test]
fn records_of_the_server_stay() {
    let server = start(EvictionPolicy::AllkeysRandom);
    let mut client = server.client();
    let library = "#!lua name=lib\nredis.register_function('f', function() return 7 end)";
    let reply = client.ask(&[b"FUNCTION", b"LOAD", library.as_bytes()]);
    assert_eq!(reply, b"$3\r\nlib\r\n");
    assert_eq!(client.say("SWAPDB 3 4"), "+OK\r\n");
    fill(&mut client, "k", MANY, LEN, &[]);
    fill(&mut client, "l", MANY, LEN, &[]);
    assert!(evicted(&mut client) > MANY as u64);
    server.engine.sweep().expect("sweep");
    let mut session = server.engine.session().expect("session");
    assert!(session.head(bpfdb::FUNCTIONS_KEY).expect("read").is_some());
    assert_eq!(client.say("FCALL f 0"), ":7\r\n");
}
