//! Keys, values and messages at the limits.

use bpfdb_tests::server as common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::{AtEnd, Client, TestServer, bulk, request, show};

#[test]
fn values() {
    let server = TestServer::shared();
    let mut client = server.client();
    for len in [
        0, 1, 15, 16, 17, 28_671, 28_672, 28_673, 32_768, 65_535, 65_536,
    ] {
        let value: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        assert_eq!(client.ask(&[b"set", b"long", &value]), b"+OK\r\n", "{len}");
        assert_eq!(client.ask(&[b"get", b"long"]), bulk(&value), "{len}");
        assert_eq!(
            client.ask(&[b"strlen", b"long"]),
            format!(":{len}\r\n").as_bytes()
        );
        assert_eq!(
            client.ask(&[b"mget", b"long", b"absent"]),
            [b"*2\r\n".to_vec(), bulk(&value), b"$-1\r\n".to_vec()].concat()
        );
    }
}

#[test]
fn long_pipelines_of_long_values() {
    let server = TestServer::shared();
    let mut client = server.client();
    let value = vec![b'v'; 5000];
    let mut bytes = Vec::new();
    for i in 0..400u32 {
        bytes.extend(request(&[b"set", format!("pipe{i}").as_bytes(), &value]));
    }
    client.send(&bytes);
    for _ in 0..400 {
        assert_eq!(client.reply(), b"+OK\r\n");
    }
    // Requests are short and replies long: the kernel must make room, send in
    // parts, and at last leave the rest to the daemon.
    let bytes: Vec<u8> = (0..400u32)
        .flat_map(|i| request(&[b"get", format!("pipe{i}").as_bytes()]))
        .collect();
    client.send(&bytes);
    for i in 0..400 {
        assert_eq!(client.reply(), bulk(&value), "reply {i}");
    }
    assert_eq!(client.say("ping"), "+PONG\r\n");
}

/// Replies that are longer than what they are written over, of commands that still need
/// their request when the reply is there.
#[test]
fn long_pipelines_of_what_was_there() {
    let server = TestServer::shared();
    let mut client = server.client();
    let value = |i: usize| vec![b'a' + (i % 26) as u8; [3, 17, 700, 5000, 30_000][i % 5]];
    let key = |i: usize| format!("was{i}").into_bytes();
    let mut bytes = Vec::new();
    for i in 0..300 {
        bytes.extend(request(&[b"set", &key(i), &value(i), b"ex", b"9000"]));
        bytes.extend(request(&[b"getrange", &key(i), b"1", b"-1"]));
        bytes.extend(request(&[b"getex", &key(i), b"persist"]));
        bytes.extend(request(&[b"getset", &key(i), &value(i + 1)]));
        bytes.extend(request(&[
            b"set",
            &key(i),
            &value(i + 2),
            b"get",
            b"keepttl",
        ]));
        bytes.extend(request(&[b"getdel", &key(i)]));
        bytes.extend(request(&[b"getdel", &key(i)]));
    }
    let mut sender = Client::from_stream(client.stream.try_clone().expect("a clone"));
    thread::scope(|scope| {
        scope.spawn(move || sender.send(&bytes));
        for i in 0..300 {
            assert_eq!(client.reply(), b"+OK\r\n", "{i}");
            assert!(client.reply() == bulk(&value(i)[1..]), "{i}");
            for expected in [value(i), value(i), value(i + 1), value(i + 2)] {
                assert!(client.reply() == bulk(&expected), "{i}");
            }
            assert_eq!(client.reply(), b"$-1\r\n", "{i}");
        }
    });
}

/// Replies fill the send buffer while requests wait in the kernel. When there is room again,
/// the daemon is busy with other clients: what waits in the kernel is not sent to the client
/// in the place of the daemon's replies.
#[test]
fn requests_that_wait_behind_replies_of_the_daemon() {
    wait_behind_replies(4);
}

#[test]
#[ignore = "long: make soak"]
fn soak_requests_that_wait_behind_replies_of_the_daemon() {
    wait_behind_replies(60);
}

fn wait_behind_replies(rounds: usize) {
    const READS: usize = 60;
    const WRITES: usize = 300;
    let server = TestServer::shared();
    let mut client = server.client();
    let large = vec![b'L'; 30_000];
    assert_eq!(client.ask(&[b"set", b"waits", &large]), b"+OK\r\n");
    let requests = [
        request(&[b"get", b"waits"]).repeat(READS),
        request(&[b"set", b"arrives", &large]).repeat(WRITES),
    ]
    .concat();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| keep_busy(server.client(), &done));
        }
        let _at_end = AtEnd::of(&done);
        for round in 0..rounds {
            let mut sender = Client::from_stream(client.stream.try_clone().expect("a clone"));
            let requests = &requests;
            scope.spawn(move || sender.send(requests));
            thread::sleep(Duration::from_millis(30));
            for i in 0..READS {
                assert!(client.reply() == bulk(&large), "round {round}, {i}");
            }
            for i in 0..WRITES {
                assert!(client.reply() == b"+OK\r\n", "round {round}, {i}");
            }
        }
    });
}

/// Commands that the daemon executes in steps of a millisecond.
fn keep_busy(mut client: Client, done: &AtomicBool) {
    let (a, b) = (vec![b'a'; 2_000], vec![b'b'; 2_000]);
    client.ask(&[b"mset", b"busy-a", &a, b"busy-b", &b]);
    while !done.load(Ordering::Relaxed) {
        client.ask(&[b"lcs", b"busy-a", b"busy-b", b"len"]);
    }
}

#[test]
fn commands_of_many_keys() {
    let server = TestServer::shared();
    let mut client = server.client();
    let names: Vec<Vec<u8>> = (0..900).map(|i| format!("many{i}").into_bytes()).collect();
    let with = |name: &'static [u8], rest: Vec<&[u8]>| request(&[&[name][..], &rest].concat());
    let pairs: Vec<&[u8]> = names
        .iter()
        .flat_map(|name| [&name[..], b"value"])
        .collect();
    let keys: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();

    client.send(&with(b"mset", pairs));
    assert_eq!(client.reply(), b"+OK\r\n");
    client.send(&with(b"exists", keys.clone()));
    assert_eq!(client.reply(), b":900\r\n");
    client.send(&with(b"mget", keys.clone()));
    assert_eq!(
        client.reply().len(),
        b"*900\r\n".len() + 900 * bulk(b"value").len()
    );
    client.send(&with(b"del", keys));
    assert_eq!(client.reply(), b":900\r\n");
}

#[test]
fn more_keys_than_a_transaction_locks() {
    let server = TestServer::start(&bpfdb::Options {
        max_locks: 1400,
        ..bpfdb::Options::default()
    });
    let mut client = server.client();
    let names: Vec<Vec<u8>> = (0..1500).map(|i| format!("lots{i}").into_bytes()).collect();
    let mut words: Vec<&[u8]> = vec![b"mset"];
    words.extend(names.iter().flat_map(|name| [&name[..], b"value"]));
    let reply = client.ask(&words);
    assert!(
        reply.starts_with(b"-ERR the transaction holds too many locks"),
        "{}",
        show(&reply)
    );
    // All or nothing.
    assert_eq!(client.say("exists lots0 lots1 lots1499"), ":0\r\n");
}

/// As many keys as a pipeline or a command line has at a time, by each command that writes several:
/// all or nothing, and others are served meanwhile.
#[test]
fn commands_and_transactions_of_many_keys() {
    const KEYS: usize = 20_000;
    let server = TestServer::shared();
    let mut client = server.client();
    let names: Vec<Vec<u8>> = (0..KEYS).map(|i| format!("much{i}").into_bytes()).collect();
    let keys: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    let pairs: Vec<&[u8]> = keys.iter().flat_map(|name| [*name, b"value"]).collect();
    fn with<'a>(name: &'a [u8], rest: &[&'a [u8]]) -> Vec<&'a [u8]> {
        [&[name], rest].concat()
    }
    let all = format!(":{KEYS}\r\n");

    assert_eq!(client.ask(&with(b"mset", &pairs)), b"+OK\r\n");
    assert_eq!(client.ask(&with(b"exists", &keys)), all.as_bytes());
    assert_eq!(client.ask(&with(b"unlink", &keys)), all.as_bytes());
    assert_eq!(client.say("dbsize"), ":0\r\n");

    client.ask(&[b"multi"]);
    for name in &keys {
        assert_eq!(client.ask(&[b"set", name, b"1"]), b"+QUEUED\r\n");
    }
    let reply = client.ask(&[b"exec"]);
    assert!(
        reply.starts_with(format!("*{KEYS}\r\n+OK\r\n").as_bytes()),
        "{}",
        show(&reply[..80])
    );
    // Nothing is locked when the next command comes, of whomever.
    assert_eq!(server.client().ask(&with(b"mset", &pairs)), b"+OK\r\n");

    let script = "for i = 0, ARGV[1] - 1 do redis.call('SET', 'much' .. i, redis.call('GET', 'much' .. i) .. 2) end return 7";
    let count = KEYS.to_string();
    let reply = client.ask(&[b"eval", script.as_bytes(), b"0", count.as_bytes()]);
    assert_eq!(show(&reply), show(b":7\r\n"));
    assert_eq!(client.say("get much19999"), "$6\r\nvalue2\r\n");

    // Rolled back: nothing of it is left, and nothing is locked.
    assert_eq!(client.say("begin"), "+OK\r\n");
    assert_eq!(client.ask(&with(b"del", &keys)), all.as_bytes());
    assert_eq!(client.say("rollback"), "+OK\r\n");
    assert_eq!(client.say("dbsize"), all);
    assert_eq!(client.ask(&with(b"del", &keys)), all.as_bytes());
    assert_eq!(client.say("dbsize"), ":0\r\n");
}

/// MSETNX of many keys: all or nothing, by itself and in a transaction of the client's.
#[test]
fn many_keys_are_set_if_none_is_there() {
    const KEYS: usize = 5000;
    let server = TestServer::shared();
    let mut client = server.client();
    let names: Vec<Vec<u8>> = (0..KEYS)
        .map(|i| format!("fresh{i}").into_bytes())
        .collect();
    let mut set = vec![&b"msetnx"[..]];
    set.extend(names.iter().flat_map(|name| [&name[..], b"value"]));
    let keys: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    let count = |client: &mut Client| client.ask(&[&[&b"exists"[..]], &keys[..]].concat());
    let all = format!(":{KEYS}\r\n").into_bytes();

    // The last of them is there.
    client.say(&format!("set fresh{} own", KEYS - 1));
    assert_eq!(client.ask(&set), b":0\r\n");
    assert_eq!(count(&mut client), b":1\r\n");
    client.say(&format!("del fresh{}", KEYS - 1));
    assert_eq!(client.say("begin"), "+OK\r\n");
    assert_eq!(client.ask(&set), b":1\r\n");
    assert_eq!(client.ask(&set), b":0\r\n");
    assert_eq!(count(&mut client), all);
    assert_eq!(client.say("rollback"), "+OK\r\n");
    assert_eq!(count(&mut client), b":0\r\n");
    assert_eq!(client.ask(&set), b":1\r\n");
    assert_eq!(count(&mut client), all);
    assert_eq!(client.say("get fresh4321"), "$5\r\nvalue\r\n");
    // One key twice: as if it had been named once.
    let twice = [&set[..], &[b"twice", b"1", b"twice", b"2"]].concat();
    client.ask(&[&[&b"del"[..]], &keys[..]].concat());
    assert_eq!(client.ask(&twice), b":1\r\n");
    assert_eq!(client.say("get twice"), "$1\r\n2\r\n");
    client.ask(&[&[&b"del"[..], b"twice"], &keys[..]].concat());
}

/// BITOP of many and of long values.
#[test]
fn many_bits_are_combined() {
    let server = TestServer::shared();
    let mut client = server.client();
    // Each has a bit of its own.
    let names: Vec<Vec<u8>> = (0..3000).map(|i| format!("bit{i}").into_bytes()).collect();
    for (bit, name) in names.iter().enumerate() {
        let bit = bit.to_string();
        assert_eq!(
            client.ask(&[b"setbit", name, bit.as_bytes(), b"1"]),
            b":0\r\n"
        );
    }
    let keys: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    for (operation, bits) in [(&b"or"[..], 3000), (b"xor", 3000), (b"and", 0)] {
        let request = [&[&b"bitop"[..], operation, b"bits"], &keys[..]].concat();
        assert_eq!(client.ask(&request), b":375\r\n");
        assert_eq!(client.say("bitcount bits"), format!(":{bits}\r\n"));
    }
    // Longer than what is combined at a time, and not equally long.
    let long: Vec<u8> = (0..1_000_003).map(|i| (i % 253) as u8).collect();
    let short: Vec<u8> = (0..600_001).map(|i| (i % 241) as u8).collect();
    client.ask(&[b"mset", b"long", &long, b"short", &short]);
    let padded = |at: usize| short.get(at).copied().unwrap_or(0);
    type Join = fn(u8, u8) -> u8;
    let joins: [(&[u8], Join); 3] = [
        (b"and", |a, b| a & b),
        (b"or", |a, b| a | b),
        (b"xor", |a, b| a ^ b),
    ];
    for (operation, join) in joins {
        let expected: Vec<u8> = (0..long.len())
            .map(|at| join(long[at], padded(at)))
            .collect();
        for sources in [[&b"long"[..], b"short"], [b"short", b"long"]] {
            client.ask(&[&[&b"bitop"[..], operation, b"bits"], &sources[..]].concat());
            assert!(client.ask(&[b"get", b"bits"]) == bulk(&expected));
        }
    }
    client.say("bitop not bits long");
    let expected: Vec<u8> = long.iter().map(|byte| !byte).collect();
    assert!(client.ask(&[b"get", b"bits"]) == bulk(&expected));
    client.ask(&[&[&b"del"[..], b"bits", b"long", b"short"], &keys[..]].concat());
}

/// Memory is added while clients write, and none of them hears of it; then the
/// limit is reached, and gone again after deletions.
#[test]
fn memory_grows_to_its_limit() {
    const EACH: u32 = 1000;
    let server = TestServer::start(&bpfdb::Options {
        memory_limit: 128 << 20,
        memory_ahead: 0,
        ..bpfdb::Options::default()
    });
    let value = vec![b'm'; 1000];
    let mut client = server.client();
    let mut written = 0;
    let full = loop {
        let keys = written..written + EACH;
        let bytes: Vec<u8> = keys
            .flat_map(|i| request(&[b"set", format!("memory{i}").as_bytes(), &value]))
            .collect();
        client.send(&bytes);
        let replies: Vec<Vec<u8>> = (0..EACH).map(|_| client.reply()).collect();
        written += EACH;
        if let Some(other) = replies.into_iter().find(|reply| reply != b"+OK\r\n") {
            break other;
        }
    };
    assert_eq!(
        show(&full),
        show(b"-OOM command not allowed when used memory > 'maxmemory'.\r\n")
    );
    assert!(
        written > 60_000,
        "full after {written} records of 1000 bytes"
    );
    let errors = server.engine.stats().expect("stats").counters.statuses;
    assert!(errors[bpfdb::Status::OutOfMemory.code() as usize] > 0);
    assert_eq!(client.ask(&[b"get", b"memory0"]), bulk(&value));

    for i in 0..written {
        client.send(&request(&[b"del", format!("memory{i}").as_bytes()]));
    }
    for _ in 0..written {
        assert_eq!(client.reply()[0], b':');
    }
    common::wait_until("there is memory again", || {
        client.ask(&[b"set", b"again", &value]) == b"+OK\r\n"
    });
}

/// Whatever frees memory, and DEL of what is not there, is done when there is none.
#[test]
fn what_frees_memory_is_done_when_it_is_full() {
    const EACH: usize = 100;
    let server = TestServer::start(&bpfdb::Options {
        memory_limit: 32 << 20,
        memory_ahead: 0,
        ..bpfdb::Options::default()
    });
    let mut client = server.client();
    let name = |i: usize| format!("a key of more than 16 bytes {i}").into_bytes();
    let mut next = 0;
    // Of all lengths, so that no size class has room, until even short ones have none.
    let mut fill = |client: &mut Client| {
        for len in [20_000, 4000, 1000, 200, 50, 20] {
            while client.ask(&[b"set", &name(next), &vec![b'f'; len]]) == b"+OK\r\n" {
                next += 1;
            }
        }
    };
    let mut gone = 0;
    let mut some = || {
        gone += EACH;
        (gone - EACH..gone).map(name).collect::<Vec<_>>()
    };
    let absent: Vec<Vec<u8>> = (0..EACH).map(|i| name(1_000_000 + i)).collect();
    let many = |client: &mut Client, words: &[&[u8]], keys: &[Vec<u8>]| {
        let keys = keys.iter().map(Vec::as_slice);
        let words: Vec<&[u8]> = words.iter().copied().chain(keys).collect();
        String::from_utf8_lossy(&client.ask(&words)).into_owned()
    };

    fill(&mut client);
    for command in [b"del".as_slice(), b"unlink"] {
        assert_eq!(many(&mut client, &[command], &absent), ":0\r\n");
        assert_eq!(many(&mut client, &[command], &some()), ":100\r\n");
        fill(&mut client);
    }
    for key in some() {
        assert_eq!(client.ask(&[b"expire", &key, b"0"]), b":1\r\n");
    }
    fill(&mut client);

    client.say("multi");
    for key in some() {
        assert_eq!(client.ask(&[b"del", &key]), b"+QUEUED\r\n");
    }
    let deleted = format!("*{EACH}\r\n{}", ":1\r\n".repeat(EACH));
    assert_eq!(client.say("exec"), deleted);
    fill(&mut client);

    client.say("begin");
    assert_eq!(many(&mut client, &[b"del"], &absent), ":0\r\n");
    assert_eq!(many(&mut client, &[b"del"], &some()), ":100\r\n");
    assert_eq!(client.say("commit"), "+OK\r\n");
    fill(&mut client);

    let script = b"local n = 0 for _, key in ipairs(ARGV) do n = n + redis.call('del', key) end \
                   return n";
    let words: [&[u8]; 3] = [b"eval", script, b"0"];
    assert_eq!(many(&mut client, &words, &some()), ":100\r\n");
}
