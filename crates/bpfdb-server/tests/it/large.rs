//! Values longer than a slot of the engine: as in Redis, from kernel and daemon.

use bpfdb_tests::server as common;

use std::thread;
use std::time::{Duration, Instant};

use bpfdb_server::settings::{ClientMemory, Settings, Size};

use common::{Client, Redis, TestServer, bulk, request, show, wait_until};

const SLOT: usize = bpfdb::abi::BPFDB_VALUE_MAX as usize;

fn value(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|i| (i % 251) as u8 ^ (i >> 16) as u8 ^ seed)
        .collect()
}

fn options() -> bpfdb::Options {
    bpfdb::Options {
        memory_limit: 256 << 20,
        ..bpfdb::Options::default()
    }
}

/// Slots in use, when what has no holder has been given back.
fn slots(server: &TestServer) -> u64 {
    let now = || {
        server.engine.sweep().expect("sweep");
        server.engine.stats().expect("stats").slots_used()
    };
    // The timer may be in the middle of giving back: two looks tell.
    let (mut before, mut after) = (u64::MAX, now());
    while after != before {
        thread::sleep(Duration::from_millis(20));
        before = std::mem::replace(&mut after, now());
    }
    after
}

/// Seconds: a slow machine takes long from one of two servers to the other.
const CLOCKS_APART: i64 = 5;

/// The same to both: the same must come back.
struct Both {
    redis: Client,
    bpfdb: Client,
}

impl Both {
    fn ask(&mut self, words: &[&[u8]]) -> Vec<u8> {
        let expected = self.redis.ask(words);
        let reply = self.bpfdb.ask(words);
        let texts: Vec<String> = words
            .iter()
            .map(|word| show(&word[..word.len().min(40)]))
            .collect();
        assert_eq!(
            reply.len(),
            expected.len(),
            "{texts:?}: {}",
            show(&reply[..reply.len().min(100)])
        );
        assert!(reply == expected, "{texts:?}");
        reply
    }

    /// TTL of a key. The two were read at different moments.
    fn time_left(&mut self, key: &str) {
        let seconds = |client: &mut Client| -> i64 {
            let reply = client.say(&format!("TTL {key}"));
            let number = reply.trim_start_matches(':').trim_end();
            number.parse().unwrap_or_else(|_| panic!("{reply}"))
        };
        let (expected, left) = (seconds(&mut self.redis), seconds(&mut self.bpfdb));
        assert!(
            (expected - left).abs() <= CLOCKS_APART,
            "{expected}, {left}"
        );
        assert_eq!(expected < 0, left < 0, "{expected}, {left}");
    }

    fn say(&mut self, command: &str) -> Vec<u8> {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        self.ask(&words)
    }
}

#[test]
fn every_command_takes_them_as_redis_does() {
    let redis = Redis::start();
    let server = TestServer::lent(&options(), Settings::default());
    let mut both = Both {
        redis: Client::connect(redis.address),
        bpfdb: server.client(),
    };
    for len in [SLOT - 1, SLOT, SLOT + 1, 1 << 20, 20 << 20] {
        let (long, other) = (value(len, 1), value(len, 2));
        let last = (len - 1).to_string();
        both.ask(&[b"SET", b"k", &long]);
        both.say("GET k");
        both.say("STRLEN k");
        both.say("EXISTS k k absent");
        both.say("TYPE k");
        both.say("OBJECT ENCODING k");
        both.say("GETRANGE k 0 0");
        both.say("GETRANGE k 65530 65545");
        both.say("GETRANGE k -3 -1");
        both.say(&format!("GETRANGE k {last} {len}"));
        both.say("SUBSTR k 5 70000");
        both.say(&format!("GETBIT k {}", len * 8 - 1));
        both.say(&format!("GETBIT k {}", len * 8));
        both.say("BITCOUNT k");
        both.say("BITCOUNT k 65530 -1");
        both.say("BITPOS k 1 65536");
        both.say("MGET k absent k");
        both.say("INCR k");
        both.say("INCRBYFLOAT k 1");
        both.ask(&[b"SET", b"k", &other, b"NX"]);
        both.ask(&[b"SET", b"k", &other, b"XX", b"GET"]);
        both.ask(&[b"SETNX", b"k", &long]);
        both.ask(&[b"SETNX", b"n", &long]);
        both.ask(&[b"GETSET", b"k", &long]);
        both.ask(&[b"GETSET", b"k", b"short"]);
        both.ask(&[b"APPEND", b"k", &long]);
        both.say("APPEND k tail");
        both.say("GET k");
        both.say("SETRANGE k 3 xyz");
        both.say(&format!("SETRANGE k {} xyz", len + 100));
        both.say(&format!("SETBIT k {} 1", len * 8 + 3));
        both.say("GET k");
        both.say("EXPIRE k 1000");
        both.time_left("k");
        both.say("EXPIRE k 2000 GT");
        both.time_left("k");
        both.say("GET k");
        both.ask(&[b"SET", b"k", &long, b"KEEPTTL"]);
        both.time_left("k");
        both.say("PERSIST k");
        both.time_left("k");
        both.say("GETEX k EX 500");
        both.time_left("k");
        both.say("COPY k c");
        both.say("COPY k c");
        both.say("COPY k c REPLACE");
        both.time_left("c");
        both.say("RENAME c r");
        both.say("RENAMENX r k");
        both.say("GET r");
        both.say("EXPIREAT r 1");
        both.say("EXISTS r");
        both.ask(&[b"MSET", b"a", &long, b"b", &other]);
        both.ask(&[b"MSETNX", b"a", &long, b"z", &other]);
        both.say("BITOP XOR x a b");
        both.say("GET x");
        both.ask(&[b"SETEX", b"s", b"1000", &long]);
        both.ask(&[b"PSETEX", b"s", b"1000000", &other]);
        both.say("GETDEL s");
        both.say("GETDEL s");
        both.say("MULTI");
        both.ask(&[b"SET", b"m", &long]);
        both.say("STRLEN m");
        both.say("GET m");
        both.say("APPEND m x");
        both.say("EXEC");
        both.say("WATCH m");
        both.say("MULTI");
        both.say("STRLEN m");
        both.say("EXEC");
        both.say("LCS a b LEN");
        both.say("DEL k n a b x m absent");
    }
    let records = server.engine.stats().expect("stats").records;
    assert_eq!((records, slots(&server)), (0, 0));
}

#[test]
fn dump_and_restore_go_both_ways() {
    let redis = Redis::start();
    let server = TestServer::lent(&options(), Settings::default());
    let mut there = Client::connect(redis.address);
    let mut here = server.client();
    let payload = |reply: Vec<u8>| {
        let start = reply
            .iter()
            .position(|&byte| byte == b'\n')
            .expect("a header")
            + 1;
        reply[start..reply.len() - 2].to_vec()
    };
    for len in [SLOT + 1, 3 << 20] {
        let long = value(len, 7);
        assert_eq!(here.ask(&[b"SET", b"k", &long]), b"+OK\r\n");
        let dumped = payload(here.ask(&[b"DUMP", b"k"]));
        assert_eq!(
            there.ask(&[b"RESTORE", b"k", b"0", &dumped, b"REPLACE"]),
            b"+OK\r\n"
        );
        assert!(there.ask(&[b"GET", b"k"]) == bulk(&long));
        // Redis compresses.
        let dumped = payload(there.ask(&[b"DUMP", b"k"]));
        assert_eq!(
            here.ask(&[b"RESTORE", b"k", b"0", &dumped, b"REPLACE"]),
            b"+OK\r\n"
        );
        assert!(here.ask(&[b"GET", b"k"]) == bulk(&long));
    }
}

/// Whatever the kernel answers itself gives a large value back.
#[test]
fn the_kernel_meets_them() {
    if !common::kernel_answers() {
        return;
    }
    let server = TestServer::lent(&options(), Settings::default());
    let (mut setup, mut client) = (server.client(), server.client());
    let long = value(200_000, 3);
    let before = slots(&server);
    let fast = || {
        server
            .engine
            .counters()
            .expect("counters")
            .redis()
            .requests_by_kernel()
    };
    for (command, expected) in [
        ("SET k 1", "+OK\r\n"),
        ("DEL k", ":1\r\n"),
        ("SETEX k 100 1", "+OK\r\n"),
        ("MSET k 1 l 1", "+OK\r\n"),
        ("SET k 1 XX", "+OK\r\n"),
    ] {
        assert_eq!(setup.ask(&[b"SET", b"k", &long]), b"+OK\r\n");
        assert!(slots(&server) > before + 3);
        // Passed on, and then the connection goes back to the kernel.
        assert!(client.ask(&[b"GET", b"k"]) == bulk(&long), "{command}");
        assert_eq!(client.say("STRLEN k"), ":200000\r\n");
        assert_eq!(client.say("EXISTS k"), ":1\r\n");
        assert_eq!(client.say("MGET absent"), "*1\r\n$-1\r\n");
        assert_eq!(client.say("TTL k"), ":-1\r\n");
        // Answered in the kernel without copying.
        assert_eq!(client.say("EXPIRE k 100"), ":1\r\n");
        assert_eq!(client.say("TTL k"), ":100\r\n");
        assert!(client.ask(&[b"GET", b"k"]) == bulk(&long), "{command}");
        assert_eq!(client.say("APPEND k x"), ":200001\r\n");
        assert!(
            client
                .say("INCR k")
                .starts_with("-ERR value is not an integer")
        );
        wait_until("the kernel answers again", || {
            let answered = fast();
            assert_eq!(client.say("PING"), "+PONG\r\n");
            fast() > answered
        });
        assert_eq!(client.say(command), expected);
        client.say("DEL k l");
        assert_eq!(slots(&server), before, "after {command}");
    }
    // In a transaction that the kernel began.
    assert_eq!(setup.ask(&[b"SET", b"k", &long]), b"+OK\r\n");
    let with = slots(&server);
    assert_eq!(client.say("BEGIN"), "+OK\r\n");
    assert!(client.ask(&[b"GET", b"k"]) == bulk(&long));
    assert_eq!(client.say("EXPIRE k 100"), ":1\r\n");
    assert_eq!(client.say("APPEND k x"), ":200001\r\n");
    assert_eq!(client.say("SET k 1"), "+OK\r\n");
    assert_eq!(client.say("ROLLBACK"), "+OK\r\n");
    assert_eq!(slots(&server), with);
    assert!(client.ask(&[b"GET", b"k"]) == bulk(&long));
    assert_eq!(client.say("DEL k"), ":1\r\n");
    assert_eq!(slots(&server), before);
}

/// A value grows beyond a slot and shrinks again, in kernel and daemon.
#[test]
fn values_cross_the_limit_of_a_slot() {
    let server = TestServer::lent(&options(), Settings::default());
    let mut client = server.client();
    let mut expected = value(SLOT - 10, 9);
    assert_eq!(client.ask(&[b"SET", b"k", &expected]), b"+OK\r\n");
    for i in 0..20u8 {
        expected.extend_from_slice(&[i; 3]);
        let reply = client.ask(&[b"APPEND", b"k", &[i; 3]]);
        assert_eq!(reply, format!(":{}\r\n", expected.len()).as_bytes());
        assert!(client.ask(&[b"GET", b"k"]) == bulk(&expected), "{i}");
    }
    // Inside a transaction, whose failure this is not.
    assert_eq!(client.say("BEGIN"), "+OK\r\n");
    assert_eq!(client.ask(&[b"SET", b"t", &expected[..SLOT]]), b"+OK\r\n");
    assert_eq!(client.say("APPEND t x"), format!(":{}\r\n", SLOT + 1));
    assert_eq!(client.say("COMMIT"), "+OK\r\n");
    assert_eq!(client.say("STRLEN t"), format!(":{}\r\n", SLOT + 1));
    assert_eq!(
        client.say("MEMORY USAGE t"),
        format!(":{}\r\n", 64 + 64 + SLOT + 32)
    );
}

#[test]
fn a_bulk_string_beyond_the_limit() {
    let server = TestServer::shared();
    let mut client = server.client();
    client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870913\r\n");
    assert_eq!(
        show(&client.until_closed()),
        show(b"-ERR Protocol error: invalid bulk length\r\n")
    );
}

#[test]
fn out_of_memory_is_said_and_passes() {
    let server = TestServer::start(&bpfdb::Options {
        memory_limit: 64 << 20,
        ..bpfdb::Options::default()
    });
    let mut client = server.client();
    let before = slots(&server);
    let oom = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    let reply = client.ask(&[b"SET", b"k", &vec![b'x'; 100 << 20]]);
    assert_eq!(show(&reply), show(oom.as_bytes()));
    assert_eq!(slots(&server), before);
    assert_eq!(
        client.ask(&[b"SET", b"k", &vec![b'x'; 40 << 20]]),
        b"+OK\r\n"
    );
    let reply = client.ask(&[b"APPEND", b"k", b"x"]);
    assert_eq!(
        show(&reply),
        show(oom.as_bytes()),
        "there is no room for two"
    );
    assert_eq!(client.say("STRLEN k"), format!(":{}\r\n", 40 << 20));
    // Nothing has to be copied for these.
    assert_eq!(client.say("EXPIREAT k 33333333333"), ":1\r\n");
    assert_eq!(client.say("RENAME k l"), "+OK\r\n");
    assert_eq!(client.say("COPY l m"), ":1\r\n");
    assert_eq!(client.say("DEL l m"), ":2\r\n");
    assert_eq!(slots(&server), before);
}

#[test]
fn memory_comes_back_when_they_expire() {
    let server = TestServer::lent(&options(), Settings::default());
    let mut client = server.client();
    let before = slots(&server);
    for i in 0..10u32 {
        let key = format!("k{i}");
        let words: [&[u8]; 4] = [b"PSETEX", key.as_bytes(), b"300", &value(1 << 20, i as u8)];
        assert_eq!(client.ask(&words), b"+OK\r\n");
    }
    wait_until("all are gone", || {
        let stats = server.engine.stats().expect("stats");
        stats.classes.iter().map(|class| class.used).sum::<u64>() == before
    });
}

/// Clients that begin long requests or do not read long replies take the server no
/// more memory than it is allowed, and others do not notice.
#[test]
fn memory_of_the_server_is_bounded() {
    const BUDGET: u64 = 32;
    let server = TestServer::lent_new(
        &options(),
        Settings {
            max_client_memory: ClientMemory::Bytes(Size::mib(BUDGET)),
            ..Settings::default()
        },
    );
    let mut other = server.client();
    assert_eq!(
        other.ask(&[b"SET", b"long", &value(8 << 20, 1)]),
        b"+OK\r\n"
    );
    let mut greedy: Vec<Client> = (0..12).map(|_| server.client()).collect();
    for (i, client) in greedy.iter_mut().enumerate() {
        if i % 2 == 0 {
            // Eight megabytes of a request that does not end. It may be closed.
            let _ = std::io::Write::write_all(
                &mut client.stream,
                &[
                    &b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$500000000\r\n"[..],
                    &vec![b'x'; 8 << 20],
                ]
                .concat(),
            );
        } else {
            client.send(&request(&[b"GET", b"long"]));
        }
        assert_eq!(other.say("SET a 1"), "+OK\r\n");
        assert_eq!(other.say("STRLEN long"), format!(":{}\r\n", 8 << 20));
    }
    let field = |client: &mut Client, name: &str| {
        let info = client.say("INFO");
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.expect("the field")
            .trim()
            .parse::<u64>()
            .expect("a number")
    };
    wait_until("those that take most are closed", || {
        field(&mut other, "evicted_clients") >= 2
    });
    assert!(field(&mut other, "mem_clients_normal") <= BUDGET << 20);
}

/// The longest value there may be, through the server, while another client is served.
#[test]
#[ignore = "takes gigabytes of memory: make soak"]
fn soak_half_a_gigabyte_comes_and_goes() {
    const LEN: usize = 512 << 20;
    let server = TestServer::start(&bpfdb::Options {
        memory_limit: 1280 << 20,
        ..bpfdb::Options::default()
    });
    let (mut client, mut other) = (server.client(), server.client());
    other.say("SET small 1");
    let long = value(LEN, 3);
    let start = Instant::now();
    assert_eq!(client.ask(&[b"SET", b"half", &long]), b"+OK\r\n");
    let set = start.elapsed();
    assert_eq!(client.say("STRLEN half"), format!(":{LEN}\r\n"));
    assert_eq!(client.say("COPY half again"), ":1\r\n");
    // One byte more is too much.
    assert_eq!(
        client.say("APPEND half x"),
        "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n"
    );
    let start = Instant::now();
    client.send(&request(&[b"GET", b"again"]));
    let mut longest = Duration::ZERO;
    while start.elapsed() < Duration::from_millis(500) {
        let before = Instant::now();
        assert_eq!(other.say("GET small"), "$1\r\n1\r\n");
        longest = longest.max(before.elapsed());
    }
    assert!(client.reply() == bulk(&long), "another value");
    println!(
        "SET {set:?}, GET {:?}, another client waited {longest:?} at most",
        start.elapsed()
    );
    assert_eq!(client.say("DEL half again"), ":2\r\n");
    wait_until("the memory is back", || slots(&server) == 0);
}
