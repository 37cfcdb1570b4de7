//! INFO, SLOWLOG, LATENCY, MEMORY.

use std::thread;
use std::time::{Duration, Instant};

use bpfdb_server::settings::{Secret, Settings};
use bpfdb_tests::settings::is_emulated;

use crate::operation::{ask, info, number, server, start};
use bpfdb_tests::server::lent::plain;
use bpfdb_tests::server::{Client, Redis, request, wait_until};

#[test]
fn info_tells_what_happened() {
    let server = plain();
    let mut client = server.client();
    client.say("SET a 1");
    // What is said twice is for user space.
    client.say("SET a 1 KEEPTTL KEEPTTL");
    client.say("NONSENSE");
    client.say("GET");
    client.say("CONFIG SET port 1");
    assert_eq!(info(&mut client, "server", "redis_mode"), "standalone");
    assert_eq!(info(&mut client, "clients", "connected_clients"), "1");
    assert_eq!(info(&mut client, "replication", "role"), "master");
    assert_eq!(info(&mut client, "stats", "total_error_replies"), "3");
    assert_eq!(info(&mut client, "errorstats", "errorstat_ERR"), "count=3");
    assert_eq!(
        info(&mut client, "keyspace", "db0"),
        "keys=1,expires=0,avg_ttl=0"
    );
    let set = info(&mut client, "commandstats", "cmdstat_set");
    assert!(set.starts_with("calls=2,usec="), "{set}");
    assert_eq!(set.matches("calls=").count(), 3, "{set}");
    assert_eq!(
        info(&mut client, "kernelstats", "kernelstat_set"),
        "calls=1,failed_calls=0"
    );
    let set = info(&mut client, "commandstats", "cmdstat_config|set");
    assert!(set.ends_with("rejected_calls=0,failed_calls=1"), "{set}");
    let get = info(&mut client, "commandstats", "cmdstat_get");
    assert!(get.ends_with("rejected_calls=1,failed_calls=0"), "{get}");
    assert!(info(&mut client, "latencystats", "latency_percentiles_usec_set").starts_with("p50="));
    let all = number(&mut client, "stats", "total_commands_processed");
    assert!(all >= 10, "{all}");

    let default = ask(&mut client, "INFO");
    assert!(default.starts_with("# Server\r\n") && !default.contains("# Commandstats"));
    assert!(ask(&mut client, "INFO everything").contains("# Commandstats"));
    assert_eq!(ask(&mut client, "INFO nonsense"), "");
    let two = ask(&mut client, "INFO cpu cluster");
    assert!(two.contains("# CPU") && two.contains("# Cluster") && !two.contains("# Stats"));

    client.say("CONFIG RESETSTAT");
    assert_eq!(info(&mut client, "stats", "total_error_replies"), "0");
    assert!(!ask(&mut client, "INFO errorstats").contains("errorstat_"));
}

/// The fields that Redis exporters and dashboards read. Left out are some that have
/// no meaning here.
#[test]
fn info_has_the_fields_of_redis() {
    const WITHOUT_MEANING: &[&str] = &[
        "redis_build_id",
        "atomicvar_api",
        "gcc_version",
        "hz",
        "configured_hz",
        "lru_clock",
        "expired_stale_perc",
        "expired_time_cap_reached_count",
        "expire_cycle_cpu_milliseconds",
        "total_reads_processed",
        "total_writes_processed",
        "reply_buffer_shrinks",
        "reply_buffer_expands",
    ];
    fn fields(page: &str) -> Vec<(String, String)> {
        let mut section = String::new();
        let mut fields = Vec::new();
        for line in page.lines() {
            if let Some(title) = line.strip_prefix("# ") {
                section = title.to_owned();
            } else if let Some((field, _)) = line.split_once(':') {
                fields.push((section.clone(), field.to_owned()));
            }
        }
        fields
    }

    let server = start(Settings::default());
    let redis = Redis::start();
    let mut client = server.client();
    for i in 0..100 {
        client.say(&format!("SET key{i} {i}"));
    }
    let ours = fields(&ask(&mut client, "INFO"));
    let theirs = fields(&ask(&mut Client::connect(redis.address), "INFO"));
    assert!(theirs.len() > 100);
    let missing: Vec<_> = theirs
        .iter()
        .filter(|field| !WITHOUT_MEANING.contains(&field.1.as_str()))
        .filter(|field| !ours.contains(field))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");

    let mut figure = |section, name| -> f64 {
        let text = info(&mut client, section, name);
        text.trim_end_matches('%').parse().expect("a number")
    };
    assert!(figure("stats", "total_net_input_bytes") > 3000.0);
    assert!(figure("stats", "total_net_output_bytes") > 500.0);
    assert!(figure("persistence", "rdb_changes_since_last_save") >= 100.0);
    // Each asks anew.
    let used = figure("memory", "used_memory");
    assert!(figure("memory", "used_memory_peak") >= used);
    assert!(figure("memory", "allocator_frag_ratio") >= 1.0);
    assert!(figure("memory", "used_memory_dataset_perc") > 50.0);
    // Hardly anything is stored, and nothing was deleted.
    for ratio in ["mem_fragmentation_ratio", "allocator_rss_ratio"] {
        let ratio = figure("memory", ratio);
        assert!((1.0..1.5).contains(&ratio), "{ratio}");
    }
}

/// To within this of what it was; requests and replies that are under way count too.
const NEARLY: u64 = 1 << 20;

fn falls_to(client: &mut Client, field: &str, most: u64) {
    let start = Instant::now();
    while number(client, "memory", field) > most {
        let elapsed = start.elapsed();
        assert!(elapsed < Duration::from_secs(20), "{field} is above {most}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn used_memory_is_what_the_data_takes() {
    let server = server(Settings::default());
    let mut client = server.client();
    let before = number(&mut client, "memory", "used_memory");
    client.ask(&[b"SET", b"large", &vec![b'x'; 20 << 20]]);
    assert!(number(&mut client, "memory", "used_memory") > 20 << 20);
    client.say("DEL large");
    falls_to(&mut client, "used_memory", before + NEARLY);

    let value = vec![b'x'; 1000];
    for number in 0..20_000 {
        client.ask(&[b"SET", format!("key:{number}").as_bytes(), &value]);
    }
    assert!(number(&mut client, "memory", "used_memory") > 20_000_000);
    client.say("FLUSHALL");
    falls_to(&mut client, "used_memory", before + NEARLY);
    assert_eq!(client.say("MEMORY PURGE"), "+OK\r\n");
    let kept = number(&mut client, "memory", "mem_kept_for_reuse");
    assert!(kept < NEARLY, "{kept}");
}

/// `1.72M`, as parsers of Redis's INFO expect.
#[test]
fn sizes_for_people_are_as_redis_writes_them() {
    let server = plain();
    let page = ask(&mut server.client(), "INFO memory");
    let human = page.lines().filter_map(|line| line.split_once("_human:"));
    assert_eq!(human.clone().count(), 8);
    for (field, text) in human {
        let number = text.trim_end_matches(['B', 'K', 'M', 'G', 'T']);
        let decimals = number.split_once('.').map_or(0, |(_, behind)| behind.len());
        assert_eq!(text.len(), number.len() + 1, "{field}:{text}");
        assert!(number.parse::<f64>().is_ok(), "{field}:{text}");
        assert_eq!(decimals, if text.ends_with('B') { 0 } else { 2 }, "{text}");
    }
}

/// Whoever answers, each command is counted once.
#[test]
fn what_the_kernel_answers_is_counted() {
    let server = plain();
    let mut client = server.client();
    let pipeline = [
        request(&[b"set", b"a", b"1"]),
        request(&[b"get", b"a"]),
        request(&[b"get", b"a"]),
        request(&[b"get", b"absent"]),
        request(&[b"incr", b"absent"]),
        request(&[b"mget", b"a", b"absent", b"nowhere"]),
        request(&[b"commit"]),
        request(&[b"ping"]),
    ];
    let rounds = || {
        let mut client = server.client();
        for _ in 0..10 {
            client.send(&pipeline.concat());
            for _ in 0..pipeline.len() {
                client.reply();
            }
            assert_eq!(client.say("DEL absent"), ":1\r\n");
        }
    };
    rounds();
    client.say("CONFIG RESETSTAT");
    let of_kernel = || {
        let counters = server.engine.counters().expect("figures");
        counters.redis().requests_by_kernel()
    };
    let before = of_kernel();
    rounds();
    let in_kernel = of_kernel() - before;
    assert!(in_kernel >= 60, "the kernel answers most: {in_kernel}");

    let calls = |client: &mut Client, name: &str| -> u64 {
        let line = info(client, "commandstats", &format!("cmdstat_{name}"));
        let number = line
            .strip_prefix("calls=")
            .and_then(|l| l.split(',').next());
        number.and_then(|n| n.parse().ok()).expect("a number")
    };
    for (name, expected) in [
        ("set", 10),
        ("get", 30),
        ("incr", 10),
        ("mget", 10),
        ("commit", 10),
        ("ping", 10),
        ("del", 10),
    ] {
        assert_eq!(calls(&mut client, name), expected, "{name}");
    }
    let commit = info(&mut client, "commandstats", "cmdstat_commit");
    assert!(commit.ends_with(",failed_calls=10"), "{commit}");
    assert_eq!(info(&mut client, "errorstats", "errorstat_ERR"), "count=10");
    assert_eq!(number(&mut client, "stats", "total_error_replies"), 10);
    // GET found twice and MGET twice; GET missed once and MGET once.
    assert_eq!(number(&mut client, "stats", "keyspace_hits"), 40);
    assert_eq!(number(&mut client, "stats", "keyspace_misses"), 20);
    let all = number(&mut client, "stats", "total_commands_processed");
    assert!((90..130).contains(&all), "{all}");

    // Those that change the key as well.
    client.say("CONFIG RESETSTAT");
    client.say("GETSET a 2");
    client.say("GETDEL a");
    client.say("GETEX a PERSIST");
    client.say("SET a 1 GET");
    assert_eq!(number(&mut client, "stats", "keyspace_hits"), 2);
    assert_eq!(number(&mut client, "stats", "keyspace_misses"), 2);
}

#[test]
fn slow_commands_are_kept() {
    let server = server(Settings {
        slowlog_threshold: 0,
        slowlog_len: 2,
        require_pass: Secret("secret".into()),
        ..Settings::default()
    });
    let mut client = server.client();
    assert_eq!(client.say("AUTH secret"), "+OK\r\n");
    client.say("CLIENT SETNAME slow");
    client.say("CONFIG SET requirepass other");
    client.say("SET a 1 GET");
    let log = client.say("SLOWLOG GET");
    assert!(log.starts_with("*2\r\n*6\r\n"), "{log}");
    assert!(log.contains("*4\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n$3\r\nGET\r\n"));
    assert!(log.contains("\r\nslow\r\n"));
    assert!(!log.contains("secret") && !log.contains("other"), "{log}");
    assert!(client.say("SLOWLOG GET 1").starts_with("*1\r\n"));
    assert!(
        client
            .say("SLOWLOG GET -2")
            .starts_with("-ERR count should be")
    );
    assert_eq!(client.say("SLOWLOG RESET"), "+OK\r\n");
    assert_eq!(
        client.say("CONFIG SET slowlog-log-slower-than -1"),
        "+OK\r\n"
    );
    client.say("SLOWLOG RESET");
    client.say("SET a 1 GET");
    assert_eq!(client.say("SLOWLOG LEN"), ":0\r\n");
}

#[test]
fn latency_and_memory() {
    let server = plain();
    let mut client = server.client();
    assert_eq!(client.say("LATENCY LATEST"), "*0\r\n");
    assert_eq!(client.say("LATENCY HISTORY command"), "*0\r\n");
    assert_eq!(client.say("LATENCY RESET"), ":0\r\n");
    assert!(
        client
            .say("LATENCY GRAPH command")
            .starts_with("-ERR No samples available")
    );
    assert!(client.say("LATENCY DOCTOR").starts_with('$'));
    client.say("SET a 1 GET");
    let histogram = client.say("LATENCY HISTOGRAM set");
    assert!(
        histogram.starts_with(
            "*2\r\n$3\r\nset\r\n*4\r\n$5\r\ncalls\r\n:1\r\n$14\r\nhistogram_usec\r\n*2\r\n"
        ),
        "{histogram}"
    );

    client.ask(&[b"set", b"short", b"x"]);
    client.ask(&[b"set", b"long", &[b'x'; 1000]]);
    client.ask(&[b"set", &[b'k'; 100], &[b'x'; 1000]]);
    assert_eq!(client.say("MEMORY USAGE short"), ":64\r\n");
    assert_eq!(client.say("MEMORY USAGE long SAMPLES 5"), ":1088\r\n");
    assert_eq!(
        client.ask(&[b"memory", b"usage", &[b'k'; 100]]),
        b":1200\r\n"
    );
    assert_eq!(client.say("MEMORY USAGE none"), "$-1\r\n");
    assert_eq!(client.say("MEMORY PURGE"), "+OK\r\n");
    assert!(client.say("MEMORY STATS").contains("keys.count"));
    assert!(client.say("MEMORY DOCTOR").contains("No problem"));
}

/// As in Redis, what GET finds expired counts, once; and FLUSHALL leaves nothing.
#[test]
fn expired_keys() {
    let server = start(Settings::default());
    let mut client = server.client();
    let now = server.engine.now_ms();
    // Stopped, the clock keeps the sweeper from coming before the test looks.
    server.engine.stop_clock(now);
    for way in ["GET expired:0", "GETEX expired:0"] {
        let before = number(&mut client, "stats", "expired_keys");
        for key in 0..20 {
            client.say(&format!("SET expired:{key} 1 PX 100"));
        }
        client.say("SET lasting 1 PX 5000");
        server.engine.stop_clock(server.engine.now_ms() + 200);
        assert_eq!(client.say("DBSIZE"), ":21\r\n");
        for _ in 0..3 {
            assert_eq!(client.say(way), "$-1\r\n");
            // INFO clears the others away, for about a millisecond each time: in that an emulated
            // processor does not come to the last page.
            if is_emulated() {
                server.engine.sweep().expect("it is swept");
            }
            wait_until("all are cleared away", || {
                number(&mut client, "stats", "expired_keys") >= before + 20
            });
            assert_eq!(number(&mut client, "stats", "expired_keys"), before + 20);
        }
        assert_eq!(
            info(&mut client, "keyspace", "db0"),
            "keys=1,expires=1,avg_ttl=0"
        );
    }
    for key in 0..1000 {
        client.say(&format!("SET expired:{key} 1 PX 100"));
        client.say(&format!("SET key:{key} 1"));
    }
    server.engine.stop_clock(server.engine.now_ms() + 200);
    assert_eq!(client.say("FLUSHALL"), "+OK\r\n");
    assert_eq!(client.say("DBSIZE"), ":0\r\n");
    assert_eq!(number(&mut client, "stats", "expired_keys"), 1040);
}
