//! Memory is full for each way by which clients write, and none of them gets an error.

use std::thread;

use bpfdb::Status;
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_server::settings::{EvictionPolicy, LocalClients, Settings};

use super::common::{Client, TestServer, request, wait_until};
use super::{LIMIT, OOM, count, evicted, fill, options, pipelined, settings, start, there};

const LEN: usize = 1000;
/// Some twice of what fits.
const MANY: usize = 60_000;

#[test]
fn through_tcp() {
    let settings = Settings {
        local_clients: LocalClients::Off,
        ..settings(EvictionPolicy::AllkeysLru)
    };
    let server = TestServer::lent_new_as_told(&options(), settings);
    let mut client = server.client();
    fill(&mut client, "k", MANY, LEN, &[]);
    assert!(evicted(&mut client) > MANY as u64 / 4);
}

/// Says it for each number, and expects a reply that is no error.
fn each(client: &mut Client, numbers: usize, words: impl Fn(usize) -> Vec<Vec<u8>>) {
    let requests = (0..numbers).map(|number| {
        let words = words(number);
        request(&words.iter().map(Vec::as_slice).collect::<Vec<_>>())
    });
    pipelined(client, requests, |number, reply| {
        assert!(
            !reply.starts_with(b"-"),
            "{number}: {}",
            super::common::show(&reply)
        );
    });
}

fn key(number: usize) -> Vec<u8> {
    format!("key:{number}").into_bytes()
}

#[test]
fn in_transactions() {
    let server = start(EvictionPolicy::AllkeysLru);
    let mut client = server.client();
    let value = vec![b'x'; 4 * LEN];
    for number in 0..MANY / 8 {
        let names = [key(number), key(MANY + number)];
        let requests = [
            request(&[b"BEGIN"]),
            request(&[b"SET", &names[0], &value]),
            request(&[b"GET", &names[0]]),
            request(&[b"SET", &names[1], &value]),
            request(&[b"COMMIT"]),
        ];
        // One by one: the kernel executes them.
        for request in &requests {
            client.send(request);
            let reply = client.reply();
            assert!(
                !reply.starts_with(b"-"),
                "{number}: {}",
                super::common::show(&reply)
            );
        }
    }
    assert!(evicted(&mut client) > 1000);
}

#[test]
fn in_blocks() {
    let server = start(EvictionPolicy::AllkeysLru);
    let mut client = server.client();
    let value = vec![b'x'; LEN];
    for number in 0..MANY / 4 {
        let mut requests = request(&[b"MULTI"]);
        for part in 0..4 {
            let name = key(4 * number + part);
            requests.extend(request(&[b"SET", &name, &value]));
        }
        requests.extend(request(&[b"EXEC"]));
        client.send(&requests);
        for _ in 0..5 {
            client.reply();
        }
        let reply = client.reply();
        assert!(reply.starts_with(b"*4"), "{}", super::common::show(&reply));
    }
    assert!(evicted(&mut client) > 1000);
}

#[test]
fn in_scripts_and_procedures() {
    let server = start(EvictionPolicy::AllkeysLru);
    let mut client = server.client();
    let value = vec![b'x'; 4 * LEN];
    // A loop that no compiled procedure has, so that it is interpreted.
    let script = b"for i = 1, 2 do redis.call('SET', KEYS[1] .. ':' .. i .. string.rep('y', i), ARGV[1]) end";
    each(&mut client, MANY / 8, |number| {
        vec![
            b"EVAL".to_vec(),
            script.to_vec(),
            b"1".to_vec(),
            key(number),
            value.clone(),
        ]
    });
    let interpreted = evicted(&mut client);
    assert!(interpreted > 1000, "{interpreted}");
    let library = "#!lua name=lib\n\
                   redis.register_function('put', function(keys, args) \
                   redis.call('SET', keys[1], args[1]) return 1 end)";
    client.ask(&[b"FUNCTION", b"LOAD", library.as_bytes()]);
    each(&mut client, MANY / 4, |number| {
        vec![
            b"FCALL".to_vec(),
            b"put".to_vec(),
            b"1".to_vec(),
            key(number),
            value.clone(),
        ]
    });
    assert!(evicted(&mut client) > interpreted + 1000);
}

/// A program that embeds the engine asks for memory, and not the evictor.
#[test]
fn through_the_library() {
    let server = start(EvictionPolicy::AllkeysLru);
    fill(&mut server.client(), "k", MANY, LEN, &[]);
    let mut session = server.engine.session().expect("session");
    session.never_wait();
    let value = vec![b'x'; 6 * LEN];
    for number in 0..MANY / 12 {
        wait_until("there is room", || {
            match session.set(&key(number), &value) {
                Ok(()) => true,
                Err(status) => {
                    assert_eq!(status, Status::MemoryPending, "{number}");
                    false
                }
            }
        });
    }
}

/// A script that finds no memory begins again for a second of its time, and is refused then.
#[test]
fn a_script_that_finds_no_memory_is_refused() {
    let server = start(EvictionPolicy::AllkeysLru);
    let (mut client, mut reader) = (server.client(), server.client());
    assert_eq!(client.say("CONFIG SET snapshot-max-age 0"), "+OK\r\n");
    fill(&mut client, "k", MANY / 2, LEN, &[]);
    // What is evicted stays in memory.
    reader.say("BEGIN READ ONLY");
    reader.say("GET k:0");
    let script = b"redis.call('EXISTS', KEYS[1]) for i = 1, 10000000 do end \
                   return redis.call('SET', KEYS[1], string.rep('v', 8000000))";
    let reply = client.ask(&[b"EVAL", script, b"1", b"k"]);
    let shown = super::common::show(&reply);
    assert_eq!(reply, OOM.as_bytes(), "{shown}");
    let info = client.say("INFO commandstats");
    let attempts: u64 = (info.split_once("cmdstat_exists:calls="))
        .and_then(|(_, rest)| rest.split(',').next())
        .and_then(|calls| calls.parse().ok())
        .expect("it is called");
    println!("{attempts} attempts");
    assert!(attempts < 200, "{attempts} attempts");
    assert_eq!(reader.say("COMMIT"), "+OK\r\n");
}

/// Of 1 MiB, one after the other.
fn large_values(client: &mut Client, numbers: usize) {
    for number in 0..numbers {
        let set = request(&[b"SET", &key(number), &vec![b'x'; 1 << 20]]);
        pipelined(client, [set], |_, reply| assert_eq!(reply, b"+OK\r\n"));
    }
}

#[test]
fn of_any_type_and_length() {
    let server = start(EvictionPolicy::AllkeysLru);
    let mut client = server.client();
    large_values(&mut client, 200);
    let large = evicted(&mut client);
    assert!(large > 100, "{large}");
    // What was large gives way to what is small, and the other way round.
    fill(&mut client, "small", MANY, LEN, &[]);
    large_values(&mut client, 100);
    each(&mut client, MANY, |number| {
        let field = format!("field{}", number % 3);
        let name = [b"h", &key(number / 3)[..]].concat();
        vec![b"HSET".to_vec(), name, field.into_bytes(), vec![b'x'; LEN]]
    });
    each(&mut client, MANY, |number| {
        let name = [b"s", &key(number / 100)[..]].concat();
        vec![
            b"XADD".to_vec(),
            name,
            b"*".to_vec(),
            b"f".to_vec(),
            vec![b'x'; LEN],
        ]
    });
}

#[test]
fn large_collections() {
    let server = start(EvictionPolicy::AllkeysLru);
    let mut client = server.client();
    let value = vec![b'x'; 200];
    // Each is some 800 KB; 100 of them are more than twice of what fits.
    for number in 0..100 {
        let name = format!("hash:{number}");
        for part in 0..40 {
            let mut words = vec![b"HSET".to_vec(), name.clone().into_bytes()];
            for field in 0..100 {
                words.push(format!("field{}", part * 100 + field).into_bytes());
                words.push(value.clone());
            }
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let reply = client.ask(&words);
            let shown = super::common::show(&reply);
            assert_eq!(reply, b":100\r\n", "{number}, {part}: {shown}");
        }
    }
    // The last one is whole; some are gone, and not all.
    assert_eq!(client.say("HLEN hash:99"), ":4000\r\n");
    let kept = count(&there(&mut client, "hash", 100));
    assert!((10..80).contains(&kept), "{kept}");
    for number in 0..100 {
        let len = client.say(&format!("HLEN hash:{number}"));
        assert!(len == ":4000\r\n" || len == ":0\r\n", "{number}: {len}");
    }
}

/// What was evicted is gone after a restart, and what was not is there.
#[test]
fn with_a_log() {
    let disk = SimulatedDisk::new(7);
    let policy = settings(EvictionPolicy::AllkeysLru);
    let server = TestServer::start_logged(&disk, policy.clone());
    let mut client = server.client();
    assert_eq!(
        client.say(&format!("CONFIG SET maxmemory {LIMIT}")),
        "+OK\r\n"
    );
    fill(&mut client, "k", MANY, LEN, &[]);
    assert!(evicted(&mut client) > 1000);
    // Of other sizes, for which pages are made free.
    fill(&mut client, "short", MANY, LEN / 20, &[]);
    fill(&mut client, "long", MANY / 10, 5 * LEN, &[]);
    client.say("CONFIG SET maxmemory-policy noeviction");
    let all = |client: &mut Client| ["k", "short", "long"].map(|name| there(client, name, MANY));
    let before = all(&mut client);
    server.stop();
    let server = TestServer::start_logged(&disk, policy);
    let after = all(&mut server.client());
    for (before, after) in before.iter().zip(&after) {
        assert!(before == after, "{} and {}", count(before), count(after));
    }
}

#[test]
fn locked_keys_stay_and_watched_ones_are_seen_to_go() {
    let server = start(EvictionPolicy::VolatileTtl);
    let (mut client, mut holder, mut watcher) = (server.client(), server.client(), server.client());
    // These two would go first.
    client.say("SET held 1 EX 1000");
    client.say("SET watched 1 EX 1000");
    holder.say("BEGIN");
    assert_eq!(holder.say("GET held"), "$1\r\n1\r\n");
    assert_eq!(watcher.say("WATCH watched"), "+OK\r\n");
    let filler = thread::scope(|scope| {
        let filler = scope.spawn(|| {
            let mut client = server.client();
            fill(&mut client, "k", MANY, LEN, &[b"EX", b"20000"]);
        });
        filler.join()
    });
    filler.expect("nothing was refused");
    wait_until("the watched key is evicted", || {
        fill(&mut client, "l", MANY / 10, LEN, &[b"EX", b"20000"]);
        client.say("EXISTS watched") == ":0\r\n"
    });
    assert_eq!(watcher.say("MULTI"), "+OK\r\n");
    watcher.say("SET seen 1");
    assert_eq!(watcher.say("EXEC"), "*-1\r\n");
    assert_eq!(holder.say("GET held"), "$1\r\n1\r\n");
    assert_eq!(holder.say("COMMIT"), "+OK\r\n");
    assert_eq!(client.say("EXISTS held"), ":1\r\n");
}

#[test]
fn a_snapshot_keeps_what_it_sees() {
    // Most of what there is: some of them go with whatever goes.
    const OLD: usize = 20_000;
    let server = start(EvictionPolicy::AllkeysRandom);
    let (mut client, mut reader) = (server.client(), server.client());
    // However long it takes here.
    assert_eq!(client.say("CONFIG SET snapshot-max-age 0"), "+OK\r\n");
    fill(&mut client, "old", OLD, LEN, &[]);
    reader.say("BEGIN READ ONLY");
    assert_eq!(count(&there(&mut reader, "old", OLD)), OLD);
    let mut gone = 0;
    for round in 0..20 {
        let name = format!("new{round}");
        let value = vec![b'x'; LEN];
        let set = |i: usize| request(&[b"SET", format!("{name}:{i}").as_bytes(), &value]);
        // Memory may be short: what the snapshot sees is kept.
        pipelined(&mut client, (0..1000).map(set), |_, _| {});
        // It is not idle.
        assert_eq!(reader.say("EXISTS old:0"), ":1\r\n");
        gone = OLD - count(&there(&mut client, "old", OLD));
        if gone > 0 {
            break;
        }
    }
    assert!(gone > 0, "{gone}");
    assert_eq!(count(&there(&mut reader, "old", OLD)), OLD);
    assert_eq!(reader.say("COMMIT"), "+OK\r\n");
}

/// What is evicted while a snapshot runs gives no room: the keys do not all go for a write that waits for some.
#[test]
fn a_snapshot_does_not_empty_the_cache() {
    const KEYS: usize = 24_000;
    let server = start(EvictionPolicy::AllkeysRandom);
    let (mut client, mut reader) = (server.client(), server.client());
    fill(&mut client, "k", KEYS, LEN, &[]);
    let before = count(&there(&mut client, "k", KEYS));
    reader.say("BEGIN READ ONLY");
    assert_eq!(count(&there(&mut reader, "k", 10)), 10);
    // They find no room, and end.
    let value = vec![b'x'; 4 << 20];
    for number in 0..4 {
        client.ask(&[b"SET", &key(number), &value]);
    }
    let after = count(&there(&mut client, "k", KEYS));
    println!("{before} keys, then {after}");
    assert!(after > before / 4, "{before} keys, then {after}");
    assert_eq!(reader.say("COMMIT"), "+OK\r\n");
    // And then there is room.
    wait_until("it is written", || {
        client.ask(&[b"SET", &key(0), &value]) == b"+OK\r\n"
    });
}

/// While there is always a snapshot, each keeps what was evicted while it ran, and nothing that had gone
/// before.
#[test]
fn snapshots_that_overlap_without_end_do_not_stop_it() {
    let server = start(EvictionPolicy::AllkeysLru);
    let mut client = server.client();
    let mut readers = [server.client(), server.client()];
    assert_eq!(client.say("CONFIG SET snapshot-max-age 0"), "+OK\r\n");
    fill(&mut client, "k", MANY, LEN, &[]);
    let begin = |reader: &mut Client| {
        assert_eq!(reader.say("BEGIN READ ONLY"), "+OK\r\n");
        reader.say("GET k:0");
    };
    begin(&mut readers[0]);
    let value = vec![b'x'; LEN];
    let mut number = 0;
    let mut set = |client: &mut Client| {
        number += 1;
        client.ask(&[b"SET", format!("l:{number}").as_bytes(), &value]) == b"+OK\r\n"
    };
    let mut before = evicted(&mut client);
    for round in 1..=4 {
        let refused = (0..MANY).any(|_| !set(&mut client));
        assert!(refused, "the snapshot keeps what goes");
        let after = evicted(&mut client);
        assert!(
            after > before,
            "round {round}: {before} evicted, then {after}"
        );
        before = after;
        begin(&mut readers[round % 2]);
        assert_eq!(readers[(round + 1) % 2].say("COMMIT"), "+OK\r\n");
        wait_until("what the older snapshot kept is free", || set(&mut client));
    }
    assert_eq!(readers[0].say("COMMIT"), "+OK\r\n");
    fill(&mut client, "m", MANY / 4, LEN, &[]);
}
