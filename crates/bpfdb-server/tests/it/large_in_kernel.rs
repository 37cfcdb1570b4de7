//! Commands on one element of a large collection, which the kernel's program `redis_large` answers
//! (`bpf/redis/large.bpf.h`). Kernel and daemon work on the same pages: what either has written, the other reads, and both
//! say what Redis says.

mod cold;
mod ends;
mod places;

use std::path::Path;
use std::thread;

use bpfdb_server::settings::Settings;
use bpfdb_tests::random::Random;
use bpfdb_tests::server::procedures::back_to_kernel;
use bpfdb_tests::server::{
    Client, Lent, Redis, Reply, TestServer, kernel_answers, kernel_calls, show, wait_until, words,
};
use tempfile::TempDir;

/// More than a page has, and many pages.
const MANY: usize = 4000;

/// A server whose kernel has both programs, and where the daemon answers by itself.
struct Both {
    server: Lent,
    folder: TempDir,
}

impl Both {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = Settings {
            unix_socket: Some(socket(folder.path())),
            ..Settings::default()
        };
        let server = TestServer::lent_new(&bpfdb::Options::default(), settings);
        server.loader.wait();
        server.large_loader.wait();
        Self { server, folder }
    }

    fn kernel(&self) -> Client {
        Client::connect(self.server.address)
    }

    fn daemon(&self) -> Client {
        Client::connect_unix(&socket(self.folder.path()))
    }
}

fn socket(folder: &Path) -> std::path::PathBuf {
    folder.join("bpfdb.sock")
}

/// The words of an element by its number.
type WordsOf = fn(usize) -> String;

/// The commands that make one of each type, `h`, `s`, `l` and `z`, with this many elements.
fn filling(count: usize) -> Vec<String> {
    let each: [(&str, WordsOf); 4] = [
        ("HSET h", |n| format!("f{n} {n}")),
        ("SADD s", |n| format!("m{n}")),
        ("RPUSH l", |n| format!("e{n}")),
        ("ZADD z", |n| format!("{} m{n}", n % 97)),
    ];
    let mut commands = Vec::new();
    for (command, words_of) in each {
        for start in (0..count).step_by(500) {
            let all: Vec<String> = (start..count.min(start + 500)).map(words_of).collect();
            commands.push(format!("{command} {}", all.join(" ")));
        }
    }
    commands
}

fn fill(client: &mut Client) {
    for command in filling(MANY) {
        let reply = client.say(&command);
        assert!(!reply.starts_with('-'), "{reply}");
    }
}

/// Each with its reply, in this order.
const ANSWERED: &[(&str, &str)] = &[
    ("HGET h f7", "$1\r\n7\r\n"),
    ("HGET h absent", "$-1\r\n"),
    ("HEXISTS h f7", ":1\r\n"),
    ("HSTRLEN h f1234", ":4\r\n"),
    (
        "HMGET h f1 absent f3999",
        "*3\r\n$1\r\n1\r\n$-1\r\n$4\r\n3999\r\n",
    ),
    ("HLEN h", ":4000\r\n"),
    ("HSET h f7 other", ":0\r\n"),
    ("HGET h f7", "$5\r\nother\r\n"),
    ("HMSET h f7 again", "+OK\r\n"),
    ("HSETNX h f7 never", ":0\r\n"),
    ("HINCRBY h f8 -10", ":-2\r\n"),
    ("HDEL h f8", ":1\r\n"),
    ("HDEL h f8", ":0\r\n"),
    ("HSET h f8 8", ":1\r\n"),
    ("HLEN h", ":4000\r\n"),
    ("SISMEMBER s m1", ":1\r\n"),
    ("SREM s m1", ":1\r\n"),
    ("SADD s m1", ":1\r\n"),
    ("SADD s m1", ":0\r\n"),
    ("SCARD s", ":4000\r\n"),
    ("RPOP l", "$5\r\ne3999\r\n"),
    ("RPUSH l e3999", ":4000\r\n"),
    ("LPOP l", "$2\r\ne0\r\n"),
    ("LPUSH l e0", ":4000\r\n"),
    ("LLEN l", ":4000\r\n"),
    ("LINDEX l 0", "$2\r\ne0\r\n"),
    ("LINDEX l -1", "$5\r\ne3999\r\n"),
    ("LINDEX l 2000", "$5\r\ne2000\r\n"),
    ("LINDEX l 4000", "$-1\r\n"),
    ("LINDEX l -4001", "$-1\r\n"),
    ("LRANGE l 0 1", "*2\r\n$2\r\ne0\r\n$2\r\ne1\r\n"),
    ("LRANGE l 9 8", "*0\r\n"),
    ("ZCARD z", ":4000\r\n"),
    ("ZSCORE z m98", "$1\r\n1\r\n"),
    ("ZSCORE z absent", "$-1\r\n"),
    ("ZRANGE z 0 1", "*2\r\n$2\r\nm0\r\n$5\r\nm1067\r\n"),
    ("ZREVRANGE z 0 1", "*2\r\n$4\r\nm969\r\n$3\r\nm96\r\n"),
    ("ZREVRANGE z -2 -1", "*2\r\n$5\r\nm1067\r\n$2\r\nm0\r\n"),
    ("ZREVRANGE z 9 8", "*0\r\n"),
    ("ZRANK z m0", ":0\r\n"),
    ("ZRANK z m1067", ":1\r\n"),
    ("ZRANK z absent", "$-1\r\n"),
    ("ZRANK z m969", ":3999\r\n"),
    ("ZREVRANK z m969", ":0\r\n"),
    ("ZREVRANK z m0", ":3999\r\n"),
    ("ZREVRANK z absent", "$-1\r\n"),
];

fn name(command: &str) -> String {
    let name = command.split(' ').next().expect("a word");
    name.to_ascii_lowercase()
}

/// INFO kernelstats counts them: no bucket or leaf is so full, or so empty, that a page comes or goes.
#[test]
fn the_kernel_answers_commands_on_one_element() {
    let both = Both::start();
    let (mut client, mut other) = (both.kernel(), both.kernel());
    fill(&mut other);
    back_to_kernel(&mut client);
    for (command, expected) in ANSWERED {
        // The daemon is asked for figures in between, by a connection of its own.
        let before = kernel_calls(&mut other, &name(command));
        assert_eq!(&client.say(command), expected, "{command}");
        let calls = kernel_calls(&mut other, &name(command)) - before;
        assert_eq!(calls, u64::from(kernel_answers()), "{command}");
    }
}

/// A client that only reads, and was refused before the program was there, comes back to the kernel; so does one that
/// has read what is beyond it.
#[test]
fn clients_that_only_read_come_back() {
    let server = TestServer::start(&bpfdb::Options::default());
    let (mut client, mut other) = (server.client(), server.client());
    fill(&mut other);
    let read = |client: &mut Client, times: usize| {
        for _ in 0..times {
            assert_eq!(client.say("HGET h f7"), "$1\r\n7\r\n");
        }
    };
    read(&mut client, 20);
    server.large_loader.wait();
    for _ in 0..2 {
        let before = kernel_calls(&mut other, "hget");
        wait_until("the kernel answers", || {
            read(&mut client, 50);
            kernel_calls(&mut other, "hget") >= before + 50 || !kernel_answers()
        });
        // Of many leaves.
        for _ in 0..20 {
            assert!(client.say("LRANGE l 0 2000").starts_with("*2001"));
        }
    }
}

/// One look-up is one hit, whoever answers it.
#[test]
fn hits_are_counted_once() {
    let both = Both::start();
    let mut client = both.kernel();
    fill(&mut client);
    for look_up in [
        "HGET h f1",
        "HMGET h f1 f2",
        "HLEN h",
        "LRANGE l 0 2000",
        "LINDEX l 5",
    ] {
        let hits = |client: &mut Client| {
            let info = client.say("INFO stats");
            let line = info
                .lines()
                .find_map(|line| line.strip_prefix("keyspace_hits:"));
            line.and_then(|hits| hits.parse::<u64>().ok())
                .expect("a number")
        };
        let before = hits(&mut client);
        back_to_kernel(&mut client);
        client.say(look_up);
        assert_eq!(hits(&mut client) - before, 1, "{look_up}");
    }
}

/// The same in a transaction that comes in one message, and undone if it fails there.
#[test]
fn blocks_are_answered_as_a_whole() {
    let both = Both::start();
    let mut client = both.kernel();
    fill(&mut client);
    back_to_kernel(&mut client);
    let before = kernel_calls(&mut client, "hincrby");
    back_to_kernel(&mut client);
    let block = [
        "MULTI",
        "HINCRBY h f1 5",
        "RPUSH l last",
        "SADD s m1 m2",
        "EXEC",
    ];
    client.send(&block.map(words).concat());
    let replies: Vec<Vec<u8>> = block.iter().map(|_| client.reply()).collect();
    assert_eq!(show(&replies[4]), show(b"*3\r\n:6\r\n:4001\r\n:0\r\n"));
    // SADD of two is the daemon's, and so is all of the block.
    assert_eq!(kernel_calls(&mut client, "hincrby"), before);
    back_to_kernel(&mut client);
    let block = ["MULTI", "HINCRBY h f1 5", "RPOP l", "HGET h f1", "EXEC"];
    client.send(&block.map(words).concat());
    let replies: Vec<Vec<u8>> = block.iter().map(|_| client.reply()).collect();
    assert_eq!(
        show(&replies[4]),
        show(b"*3\r\n:11\r\n$4\r\nlast\r\n$2\r\n11\r\n")
    );
    let calls = kernel_calls(&mut client, "hincrby") - before;
    assert_eq!(calls, u64::from(kernel_answers()));
    let mut daemon = both.daemon();
    assert_eq!(daemon.say("LLEN l"), format!(":{MANY}\r\n"));
    assert_eq!(daemon.say("HGET h f1"), "$2\r\n11\r\n");
}

/// In a client's own transaction writes are the daemon's, and reads see what it has written.
#[test]
fn a_transaction_sees_its_own_writes() {
    let both = Both::start();
    let (mut client, mut other) = (both.kernel(), both.kernel());
    fill(&mut client);
    assert_eq!(client.say("BEGIN"), "+OK\r\n");
    assert_eq!(client.say("HSET h f5 mine"), ":0\r\n");
    assert_eq!(client.say("HGET h f5"), "$4\r\nmine\r\n");
    assert_eq!(client.say("LPUSH l mine"), format!(":{}\r\n", MANY + 1));
    assert_eq!(client.say("LINDEX l 0"), "$4\r\nmine\r\n");
    assert_eq!(other.say("HGET h f5"), "$1\r\n5\r\n");
    assert_eq!(other.say("LLEN l"), format!(":{MANY}\r\n"));
    assert_eq!(other.say("LINDEX l 0"), "$2\r\ne0\r\n");
    assert_eq!(client.say("ROLLBACK"), "+OK\r\n");
    assert_eq!(client.say("HGET h f5"), "$1\r\n5\r\n");
    assert_eq!(client.say("LINDEX l 0"), "$2\r\ne0\r\n");
    // A snapshot stays as it was.
    assert_eq!(client.say("BEGIN READ ONLY"), "+OK\r\n");
    assert_eq!(client.say("HGET h f5"), "$1\r\n5\r\n");
    assert_eq!(other.say("HSET h f5 theirs"), ":0\r\n");
    assert_eq!(other.say("RPOP l"), "$5\r\ne3999\r\n");
    assert_eq!(client.say("HGET h f5"), "$1\r\n5\r\n");
    assert_eq!(client.say("LLEN l"), format!(":{MANY}\r\n"));
    assert_eq!(client.say("LINDEX l -1"), "$5\r\ne3999\r\n");
    assert_eq!(client.say("COMMIT"), "+OK\r\n");
    assert_eq!(client.say("HGET h f5"), "$6\r\ntheirs\r\n");
}

/// A value: integers, short ones, and longer ones than a narrow entry has.
fn value(random: &mut Random) -> String {
    match random.below(40) {
        0 => "x".repeat(255),
        1 => "y".repeat(256 + random.below(6000)),
        2..=9 => random.below(1000).to_string(),
        _ => "v".repeat(random.below(80)),
    }
}

/// A command on one element; elements are those of [`filling`], and others.
fn chosen(random: &mut Random) -> String {
    let element = random.below(MANY * 5 / 4);
    let long = "z".repeat(if random.one_in(30) {
        250 + random.below(12)
    } else {
        0
    });
    let place = random.below(2 * MANY) as i64 - MANY as i64;
    match random.below(33) {
        0..=2 => format!("HSET h f{element}{long} {}", value(random)),
        3 => format!("HSETNX h f{element}{long} {}", value(random)),
        4 => format!("HINCRBY h f{element} {place}"),
        5..=6 => format!("HDEL h f{element}{long}"),
        7..=8 => format!("HGET h f{element}{long}"),
        9 => format!("HMGET h f{element} f{}{long} f1", random.below(MANY)),
        10 => format!("HSTRLEN h f{element}"),
        11 => "HLEN h".into(),
        12..=14 => format!("SADD s m{element}{long}"),
        15..=16 => format!("SREM s m{element}{long}"),
        17 => format!("SISMEMBER s m{element}{long}"),
        18 => "SCARD s".into(),
        19 => format!("LPUSH l {}", value(random)),
        20 => format!("RPUSH l {}", value(random)),
        21 => "LPOP l".into(),
        22 => "RPOP l".into(),
        23 => format!("LINDEX l {place}"),
        24 => format!("LRANGE l {place} {}", place + random.below(20) as i64),
        25 => format!("ZSCORE z m{element}{long}"),
        26 => format!("ZADD z {} m{element}{long}", place % 100),
        27 => format!("ZINCRBY z {} m{element}", place % 100),
        28 => format!("ZREM z m{element}{long}"),
        29 => format!("ZRANK z m{element}{long}"),
        30 => format!("ZREVRANK z m{element}"),
        31 => format!("ZREVRANGE z {place} {}", place + random.below(20) as i64),
        _ => format!("ZRANGE z {place} {}", place + random.below(20) as i64),
    }
}

/// Whatever is in the collections; that of hashes and sets in any order.
fn contents(client: &mut Client) -> Vec<Vec<String>> {
    let asked = [
        ("HGETALL h", 2),
        ("SMEMBERS s", 1),
        ("LRANGE l 0 -1", 0),
        ("ZRANGE z 0 -1 WITHSCORES", 0),
        ("HLEN h", 0),
        ("SCARD s", 0),
        ("LLEN l", 0),
        ("ZCARD z", 0),
        ("OBJECT ENCODING s", 0),
    ];
    let told = |(command, together): (&str, usize)| {
        let bytes = client.ask(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        let (reply, _) = Reply::parse(&bytes).expect("a whole reply");
        if together == 0 {
            return vec![format!("{reply:?}")];
        }
        let pairs = reply.items.chunks(together);
        let mut elements: Vec<String> = pairs.map(|pair| format!("{pair:?}")).collect();
        elements.sort();
        elements
    };
    asked.map(told).into()
}

/// Each command is the kernel's or the daemon's by chance, and Redis's.
fn agree_by_chance(steps: usize, seed: u64) {
    let both = Both::start();
    agree([both.kernel(), both.daemon()], steps, seed);
}

fn agree([mut kernel, mut daemon]: [Client; 2], steps: usize, seed: u64) {
    let redis = Redis::start();
    let mut redis = Client::connect(redis.address);
    for command in filling(MANY) {
        assert_eq!(kernel.say(&command), redis.say(&command));
    }
    let mut random = Random::new(seed);
    for step in 0..steps {
        let command = chosen(&mut random);
        let ours = if random.one_in(4) {
            &mut daemon
        } else {
            &mut kernel
        };
        assert_eq!(
            ours.say(&command),
            redis.say(&command),
            "seed {seed}, step {step}: {command}"
        );
    }
    let expected = contents(&mut redis);
    assert_eq!(contents(&mut daemon), expected, "seed {seed}");
    assert_eq!(contents(&mut kernel), expected, "seed {seed}");
    for command in [
        "hset", "hincrby", "hdel", "hget", "sadd", "srem", "lpush", "rpop", "lindex",
    ] {
        assert!(
            !kernel_answers() || kernel_calls(&mut kernel, command) > 0,
            "{command}"
        );
    }
}

#[test]
fn kernel_and_daemon_agree_with_redis() {
    let seed = std::env::var("BPFDB_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    agree_by_chance(6000, seed.unwrap_or(11));
}

/// Clients of all ways at once: no change is lost, none is made twice.
#[test]
fn clients_at_once_lose_nothing() {
    const CLIENTS: usize = 8;
    const ROUNDS: usize = 300;
    let both = Both::start();
    fill(&mut both.kernel());
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let both = &both;
            scope.spawn(move || {
                let mut client = if number == 0 {
                    both.daemon()
                } else {
                    both.kernel()
                };
                let mut random = Random::new(number as u64);
                for round in 0..ROUNDS {
                    assert!(client.say("HINCRBY h count 1").starts_with(':'));
                    let field = random.below(MANY);
                    let set = format!("HSET h own{number} {round}");
                    assert!(client.say(&set).starts_with(':'));
                    let read = client.say(&format!("HGET h own{number}"));
                    assert!(read.ends_with(&format!("\r\n{round}\r\n")), "{read}");
                    let others = client.say(&format!("HGET h f{field}"));
                    assert!(others.ends_with(&format!("\r\n{field}\r\n")), "{others}");
                    assert!(
                        client
                            .say(&format!("RPUSH l {number}-{round}"))
                            .starts_with(':')
                    );
                    assert!(client.say("LPOP l").starts_with('$'));
                }
            });
        }
    });
    let mut daemon = both.daemon();
    let total = CLIENTS * ROUNDS;
    assert!(
        daemon
            .say("HGET h count")
            .ends_with(&format!("\r\n{total}\r\n"))
    );
    assert_eq!(daemon.say("HLEN h"), format!(":{}\r\n", MANY + 1 + CLIENTS));
    assert_eq!(daemon.say("LLEN l"), format!(":{MANY}\r\n"));
    let all = daemon.say("LRANGE l 0 -1");
    for number in 0..CLIENTS {
        let last = format!("\r\n{number}-{}\r\n", ROUNDS - 1);
        assert!(all.contains(&last), "{last:?}");
    }
}

/// What the kernel writes is noticed by whoever watches the collection.
#[test]
fn a_watched_one_is_noticed() {
    let both = Both::start();
    let (mut client, mut other) = (both.kernel(), both.kernel());
    fill(&mut client);
    for write in ["HSET h f1 new", "HINCRBY h f2 1", "HDEL h f3"] {
        assert_eq!(client.say("WATCH h"), "+OK\r\n");
        back_to_kernel(&mut other);
        assert!(other.say(write).starts_with(':'));
        assert_eq!(client.say("MULTI"), "+OK\r\n");
        assert_eq!(client.say("HLEN h"), "+QUEUED\r\n");
        assert_eq!(client.say("EXEC"), "*-1\r\n", "{write}");
    }
    assert_eq!(client.say("WATCH h"), "+OK\r\n");
    assert_eq!(other.say("HSET l f1 new").get(..6), Some("-WRONG"));
    assert_eq!(other.say("HDEL h absent"), ":0\r\n");
    assert_eq!(client.say("MULTI"), "+OK\r\n");
    assert_eq!(client.say("HLEN h"), "+QUEUED\r\n");
    assert_eq!(client.say("EXEC"), format!("*1\r\n:{}\r\n", MANY - 1));
}

/// An expiry stays with what the kernel writes.
#[test]
fn an_expiry_stays() {
    let both = Both::start();
    let mut client = both.kernel();
    fill(&mut client);
    for (key, write) in [
        ("h", "HSET h f1 new"),
        ("s", "SADD s new"),
        ("l", "RPUSH l new"),
    ] {
        assert_eq!(client.say(&format!("EXPIRE {key} 1000")), ":1\r\n");
        back_to_kernel(&mut client);
        assert!(client.say(write).starts_with(':'));
        let left = client.say(&format!("TTL {key}"));
        assert!(left == ":1000\r\n" || left == ":999\r\n", "{left}");
        assert_eq!(client.say(&format!("PEXPIRE {key} -1")), ":1\r\n");
    }
    assert_eq!(client.say("HGET h f1"), "$-1\r\n");
    assert_eq!(client.say("LLEN l"), ":0\r\n");
    assert_eq!(client.say("SCARD s"), ":0\r\n");
}
