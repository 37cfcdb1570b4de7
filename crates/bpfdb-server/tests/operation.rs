//! What an operator and a client's first minute need: AUTH, CLIENT, CONFIG,
//! INFO, SLOWLOG, the Unix-domain socket, metrics, time-outs and bounds.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use bpfdb_server::settings::{OutputLimit, Secret, Settings, Size};
use common::{Client, TestServer, request, show, wait_until};

fn start(settings: Settings) -> TestServer {
    TestServer::start_with(&bpfdb::Options::default(), settings)
}

/// The text of a bulk reply.
fn bulk(reply: &[u8]) -> String {
    let text = String::from_utf8_lossy(reply);
    let (_, body) = text.split_once("\r\n").unwrap_or_default();
    body.trim_end_matches("\r\n").to_owned()
}

fn ask(client: &mut Client, command: &str) -> String {
    let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    bulk(&client.ask(&words))
}

/// A field of INFO.
fn info(client: &mut Client, section: &str, field: &str) -> String {
    let page = ask(client, &format!("INFO {section}"));
    let prefix = format!("{field}:");
    page.lines()
        .find_map(|line| line.strip_prefix(&prefix))
        .unwrap_or_else(|| panic!("no {field} in {page}"))
        .to_owned()
}

// ---- AUTH -----------------------------------------------------------------------

#[test]
fn a_stranger_can_only_say_who_it_is() {
    let server = start(Settings {
        require_pass: Secret("secret".into()),
        ..Settings::default()
    });
    let mut client = server.client();
    for command in [
        "GET a",
        "SET a 1",
        "PING",
        "ECHO x",
        "MULTI",
        "BEGIN",
        "CONFIG GET *",
        "CLIENT LIST",
        "INFO",
        "SHUTDOWN",
        "COMMAND",
    ] {
        assert_eq!(
            client.say(command),
            "-NOAUTH Authentication required.\r\n",
            "{command}"
        );
    }
    assert!(client.say("HELLO").starts_with("-NOAUTH HELLO must be"));
    assert!(
        client
            .say("HELLO 3 AUTH default x")
            .starts_with("-WRONGPASS")
    );
    for wrong in ["AUTH x", "AUTH default x", "AUTH other secret"] {
        assert!(client.say(wrong).starts_with("-WRONGPASS"), "{wrong}");
    }
    assert!(client.say("AUTH a b c").starts_with("-ERR syntax error"));
    assert_eq!(client.say("RESET"), "+RESET\r\n");
    assert!(client.say("GET a").starts_with("-NOAUTH"));
    assert_eq!(client.say("AUTH secret"), "+OK\r\n");
    assert_eq!(client.say("SET a 1"), "+OK\r\n");
    assert_eq!(client.say("RESET"), "+RESET\r\n");
    assert!(client.say("GET a").starts_with("-NOAUTH"));
    assert_eq!(client.say("AUTH default secret"), "+OK\r\n");
    assert_eq!(client.say("GET a"), "$1\r\n1\r\n");

    // In one message with what follows: the kernel must not answer before.
    let mut pipelined = server.client();
    pipelined.send(&[request(&[b"get", b"a"]), request(&[b"auth", b"secret"])].concat());
    pipelined.send(&request(&[b"get", b"a"]));
    assert!(pipelined.reply().starts_with(b"-NOAUTH"));
    assert_eq!(pipelined.reply(), b"+OK\r\n");
    assert_eq!(pipelined.reply(), b"$1\r\n1\r\n");

    // Let in, it is answered in the kernel.
    let before = server.engine.counters().expect("figures").requests_fast();
    for _ in 0..100 {
        assert_eq!(pipelined.say("GET a"), "$1\r\n1\r\n");
    }
    let after = server.engine.counters().expect("figures").requests_fast();
    assert!(after - before >= 90, "{}", after - before);
}

#[test]
fn a_stranger_may_say_little() {
    let server = start(Settings {
        require_pass: Secret("secret".into()),
        ..Settings::default()
    });
    for (bytes, error) in [
        (
            "*11\r\n",
            "-ERR Protocol error: unauthenticated multibulk length\r\n",
        ),
        (
            "*2\r\n$4\r\nAUTH\r\n$16385\r\n",
            "-ERR Protocol error: unauthenticated bulk length\r\n",
        ),
    ] {
        let mut client = server.client();
        client.send(bytes.as_bytes());
        assert_eq!(client.reply(), error.as_bytes());
        assert!(client.is_closed());
    }
    let mut client = server.client();
    assert!(
        client
            .ask(&[b"auth", &[b'x'; 16384]])
            .starts_with(b"-WRONGPASS")
    );
}

#[test]
fn the_password_can_change_at_run_time() {
    let server = start(Settings::default());
    let mut admin = server.client();
    assert!(
        admin
            .say("AUTH x")
            .starts_with("-ERR AUTH <password> called without any")
    );
    assert_eq!(admin.say("SET a 1"), "+OK\r\n");
    for round in 0..20 {
        assert_eq!(admin.say("CONFIG SET requirepass new"), "+OK\r\n");
        // Whoever connects from now on is asked.
        let mut stranger = server.client();
        assert!(stranger.say("GET a").starts_with("-NOAUTH"), "{round}");
        assert_eq!(stranger.say("AUTH new"), "+OK\r\n");
        // Who was in stays in.
        assert_eq!(admin.say("GET a"), "$1\r\n1\r\n");
        let mut left_out = server.client();
        assert!(left_out.say("GET a").starts_with("-NOAUTH"), "{round}");
        assert_eq!(
            admin.ask(&[b"config", b"set", b"requirepass", b""]),
            b"+OK\r\n"
        );
        assert_eq!(left_out.say("GET a"), "$1\r\n1\r\n");
        assert_eq!(server.client().say("GET a"), "$1\r\n1\r\n");
    }
}

// ---- CLIENT ----------------------------------------------------------------------

#[test]
fn clients_are_listed_and_killed() {
    let server = start(Settings::default());
    let (mut a, mut b) = (server.client(), server.client());
    assert_eq!(b.say("CLIENT SETNAME bee"), "+OK\r\n");
    assert_eq!(b.say("CLIENT SETINFO LIB-NAME lib"), "+OK\r\n");
    assert_eq!(b.say("CLIENT SETINFO LIB-VER 1.2"), "+OK\r\n");
    assert!(
        b.say("CLIENT SETINFO LIB-X 1")
            .starts_with("-ERR Unrecognized option 'LIB-X'")
    );
    assert!(
        b.say("CLIENT SETINFO LIB-NAME a\nb")
            .starts_with("-ERR lib-name cannot contain")
    );
    let id = b.say("CLIENT ID").trim()[1..].to_owned();

    let list = ask(&mut a, "CLIENT LIST");
    assert_eq!(list.lines().count(), 2, "{list}");
    let line = list
        .lines()
        .find(|line| line.contains("name=bee"))
        .expect("listed");
    let peer = b.stream.local_addr().expect("an address").to_string();
    for part in [
        format!("id={id} "),
        format!("addr={peer} "),
        format!("laddr={} ", server.address),
        "lib-name=lib lib-ver=1.2".into(),
        "cmd=client|id ".into(),
        "resp=2 ".into(),
        "flags=N ".into(),
        "multi=-1 ".into(),
        "user=default ".into(),
    ] {
        assert!(line.contains(&part), "{part} in {line}");
    }
    assert_eq!(ask(&mut a, "CLIENT INFO").lines().count(), 1);
    let one = ask(&mut a, &format!("CLIENT LIST ID {id}"));
    assert!(one.starts_with(&format!("id={id} ")) && one.lines().count() == 1);
    assert_eq!(ask(&mut a, "CLIENT LIST TYPE pubsub"), "");
    assert_eq!(ask(&mut a, "CLIENT LIST TYPE normal").lines().count(), 2);
    assert_eq!(
        a.say("CLIENT LIST TYPE odd"),
        "-ERR Unknown client type 'odd'\r\n"
    );
    assert_eq!(a.say("CLIENT LIST ID x"), "-ERR Invalid client ID\r\n");

    // MULTI and RESP3 are seen.
    b.say("MULTI");
    b.say("GET a");
    assert!(ask(&mut a, "CLIENT LIST").contains("flags=x db=0 sub=0 psub=0 ssub=0 multi=1 "));
    b.say("DISCARD");

    assert_eq!(a.say("CLIENT KILL 1.2.3.4:5"), "-ERR No such client\r\n");
    assert_eq!(
        a.say("CLIENT KILL ID 0"),
        "-ERR client-id should be greater than 0\r\n"
    );
    assert_eq!(a.say("CLIENT KILL TYPE replica"), ":0\r\n");
    assert_eq!(a.say(&format!("CLIENT KILL ID {id}")), ":1\r\n");
    assert!(b.is_closed());

    // The kernel has this one; it is closed too, and its transaction with it.
    let mut c = server.client();
    assert_eq!(c.say("BEGIN"), "+OK\r\n");
    assert_eq!(c.say("SET locked 1"), "+OK\r\n");
    let peer = c.stream.local_addr().expect("an address");
    assert_eq!(a.say(&format!("CLIENT KILL {peer}")), "+OK\r\n");
    assert!(c.is_closed());
    wait_until("the lock is gone", || a.say("SET locked 2") == "+OK\r\n");
    assert_eq!(a.say("CLIENT KILL SKIPME no"), ":1\r\n");
    assert!(a.is_closed());
}

#[test]
fn replies_can_be_turned_off() {
    let server = start(Settings::default());
    let mut client = server.client();
    client.send(&request(&[b"client", b"reply", b"skip"]));
    client.send(&request(&[b"set", b"a", b"1"]));
    assert_eq!(client.say("GET a"), "$1\r\n1\r\n");
    client.send(&request(&[b"client", b"reply", b"off"]));
    for i in 0..50 {
        client.send(&request(&[b"set", b"a", format!("{i}").as_bytes()]));
        client.send(&request(&[b"nonsense"]));
    }
    client.send(&request(&[b"client", b"reply", b"on"]));
    assert_eq!(client.reply(), b"+OK\r\n");
    assert_eq!(client.say("GET a"), "$2\r\n49\r\n");
    assert!(
        client
            .say("CLIENT REPLY maybe")
            .starts_with("-ERR syntax error")
    );
}

#[test]
fn what_is_refused_is_refused_in_the_words_that_clients_know() {
    let server = start(Settings::default());
    let mut client = server.client();
    for (command, reply) in [
        ("CLIENT TRACKING off", "+OK\r\n"),
        ("CLIENT GETREDIR", ":-1\r\n"),
        ("CLIENT NO-EVICT on", "+OK\r\n"),
        ("CLIENT NO-TOUCH off", "+OK\r\n"),
        ("CLIENT NO-TOUCH maybe", "-ERR syntax error\r\n"),
        ("WAIT 1 0", ":0\r\n"),
        ("REPLICAOF NO ONE", "+OK\r\n"),
        ("ROLE", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"),
        ("SHUTDOWN ABORT", "-ERR No shutdown in progress.\r\n"),
        (
            "CLIENT MAINT_NOTIFICATIONS ON",
            "-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.\r\n",
        ),
    ] {
        assert_eq!(client.say(command), reply, "{command}");
    }
    for command in ["CLIENT TRACKING on", "REPLICAOF a 1", "DEBUG SLEEP 1"] {
        assert!(client.say(command).starts_with("-ERR "), "{command}");
    }
    for command in [
        "CLIENT HELP",
        "CONFIG HELP",
        "SLOWLOG HELP",
        "LATENCY HELP",
        "MEMORY HELP",
    ] {
        let reply = client.say(command);
        assert!(reply.starts_with('*') && reply.contains("HELP"), "{reply}");
    }
    assert!(client.say("CLIENT TRACKINGINFO").contains("off"));
    assert!(client.say("TIME").starts_with("*2\r\n$10\r\n"));
    assert!(client.say("LASTSAVE").starts_with(':'));
}

// ---- CONFIG ----------------------------------------------------------------------

#[test]
fn settings_are_read_and_changed_all_or_nothing() {
    let server = start(Settings::default());
    let mut client = server.client();
    assert_eq!(
        client.say("CONFIG GET TIMEOUT save"),
        "*4\r\n$7\r\ntimeout\r\n$1\r\n0\r\n$4\r\nsave\r\n$0\r\n\r\n"
    );
    assert!(client.say("CONFIG GET slowlog-*").starts_with("*4\r\n"));
    let port = server.address.port();
    assert!(client.say("CONFIG GET port").contains(&port.to_string()));
    assert!(client.say("CONFIG GET maxmemory").contains("1073741824"));
    assert_eq!(client.say("CONFIG GET nothing"), "*0\r\n");

    assert_eq!(
        client.say("CONFIG SET timeout 7 slowlog-max-len 3"),
        "+OK\r\n"
    );
    for (command, error) in [
        (
            "CONFIG SET timeout 9 nonsense 1",
            "-ERR Unknown option or number of arguments for CONFIG SET - 'nonsense'\r\n",
        ),
        (
            "CONFIG SET timeout 9 port 1",
            "-ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable config\r\n",
        ),
        (
            "CONFIG SET timeout 9 timeout 10",
            "-ERR CONFIG SET failed (possibly related to argument 'timeout') - duplicate parameter\r\n",
        ),
        (
            "CONFIG SET timeout 9 slowlog-max-len x",
            "-ERR CONFIG SET failed (possibly related to argument 'slowlog-max-len') - argument couldn't be parsed into an integer\r\n",
        ),
        (
            "CONFIG SET timeout -1",
            "-ERR CONFIG SET failed (possibly related to argument 'timeout') - argument couldn't be parsed into an integer\r\n",
        ),
        (
            "CONFIG SET timeout",
            "-ERR wrong number of arguments for 'config|set' command\r\n",
        ),
        (
            "CONFIG REWRITE",
            "-ERR The server is running without a config file\r\n",
        ),
    ] {
        assert_eq!(client.say(command), error, "{command}");
    }
    assert_eq!(
        client.say("CONFIG GET timeout"),
        "*2\r\n$7\r\ntimeout\r\n$1\r\n7\r\n"
    );
    // What is always so may be set to that.
    assert_eq!(client.say("CONFIG SET appendonly no"), "+OK\r\n");
    assert!(
        client
            .say("CONFIG SET appendonly yes")
            .starts_with("-ERR CONFIG SET failed")
    );
    assert!(
        client
            .say("CONFIG SET maxclients 60000")
            .starts_with("-ERR CONFIG SET failed")
    );
    assert_eq!(client.say("CONFIG RESETSTAT"), "+OK\r\n");
}

// ---- INFO, SLOWLOG, LATENCY, MEMORY ------------------------------------------------

#[test]
fn info_tells_what_happened() {
    let server = start(Settings::default());
    let mut client = server.client();
    client.say("SET a 1");
    client.say("SET a 1 NX");
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
    assert!(set.ends_with(",kernel_calls=1"), "{set}");
    let set = info(&mut client, "commandstats", "cmdstat_config|set");
    assert!(
        set.ends_with("rejected_calls=0,failed_calls=1,kernel_calls=0"),
        "{set}"
    );
    let get = info(&mut client, "commandstats", "cmdstat_get");
    assert!(
        get.ends_with("rejected_calls=1,failed_calls=0,kernel_calls=0"),
        "{get}"
    );
    assert!(info(&mut client, "latencystats", "latency_percentiles_usec_set").starts_with("p50="));
    let all: u64 = info(&mut client, "stats", "total_commands_processed")
        .parse()
        .expect("a number");
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

/// Whoever answers, each command is counted once.
#[test]
fn what_the_kernel_answers_is_counted() {
    let server = start(Settings::default());
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
        counters.requests_fast()
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
    let number = |client: &mut Client, section: &str, name: &str| -> u64 {
        info(client, section, name).parse().expect("a number")
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
    assert!(commit.contains(",failed_calls=10,"), "{commit}");
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
    let server = start(Settings {
        slowlog_threshold: 0,
        slowlog_len: 2,
        require_pass: Secret("secret".into()),
        ..Settings::default()
    });
    let mut client = server.client();
    assert_eq!(client.say("AUTH secret"), "+OK\r\n");
    client.say("CLIENT SETNAME slow");
    client.say("CONFIG SET requirepass other");
    client.say("SET a 1 NX");
    let log = client.say("SLOWLOG GET");
    assert!(log.starts_with("*2\r\n*6\r\n"), "{log}");
    assert!(log.contains("*4\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n$2\r\nNX\r\n"));
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
    client.say("SET a 1 NX");
    assert_eq!(client.say("SLOWLOG LEN"), ":0\r\n");
}

#[test]
fn latency_and_memory() {
    let server = start(Settings::default());
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
    client.say("SET a 1 NX");
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
        b":1216\r\n"
    );
    assert_eq!(client.say("MEMORY USAGE none"), "$-1\r\n");
    assert_eq!(client.say("MEMORY PURGE"), "+OK\r\n");
    assert!(client.say("MEMORY STATS").contains("keys.count"));
    assert!(client.say("MEMORY DOCTOR").contains("No problem"));
}

// ---- Unix-domain socket -------------------------------------------------------------

/// What a Client reads and writes is a TcpStream; this one is not.
fn talk(stream: &mut UnixStream, bytes: &[u8], until: usize) -> Vec<u8> {
    stream.write_all(bytes).expect("sent");
    let mut got = Vec::new();
    let mut chunk = [0; 4096];
    while got.len() < until {
        let len = stream.read(&mut chunk).expect("a reply");
        assert!(len > 0, "closed after {}", show(&got));
        got.extend_from_slice(&chunk[..len]);
    }
    got
}

#[test]
fn a_unix_socket_has_the_same_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("bpfdb.sock");
    let server = start(Settings {
        unix_socket: Some(path.clone()),
        ..Settings::default()
    });
    let mut tcp = server.client();
    assert_eq!(tcp.say("SET a tcp"), "+OK\r\n");
    let mut unix = UnixStream::connect(&path).expect("a connection");
    unix.set_read_timeout(Some(common::PATIENCE)).expect("set");
    assert_eq!(
        talk(&mut unix, &request(&[b"get", b"a"]), 9),
        b"$3\r\ntcp\r\n"
    );
    // A transaction of its own, that conflicts with others.
    talk(&mut unix, &request(&[b"begin"]), 5);
    talk(&mut unix, &request(&[b"set", b"a", b"unix"]), 5);
    assert!(tcp.say("SET a 2").starts_with("-CONFLICT"));
    assert_eq!(tcp.say("GET a"), "$3\r\ntcp\r\n");
    talk(&mut unix, &request(&[b"commit"]), 5);
    assert_eq!(tcp.say("GET a"), "$4\r\nunix\r\n");

    let pipeline = request(&[b"incr", b"n"]).repeat(10_000);
    let mut writer = unix.try_clone().expect("a second handle");
    let sender = std::thread::spawn(move || writer.write_all(&pipeline));
    let expected: String = (1..=10_000).map(|n| format!(":{n}\r\n")).collect();
    let got = talk(&mut unix, b"", expected.len());
    assert!(got == expected.as_bytes());
    sender.join().expect("no panic").expect("sent");

    let list = ask(&mut tcp, "CLIENT LIST");
    assert!(
        list.contains(&format!("addr={}:0 ", path.display())),
        "{list}"
    );
    assert!(list.contains("flags=U "), "{list}");

    // What is sent is executed, although nobody waits for the reply.
    let mut hasty = UnixStream::connect(&path).expect("a connection");
    hasty
        .write_all(&request(&[b"set", b"hasty", b"1"]))
        .expect("sent");
    drop(hasty);
    wait_until("it is executed", || tcp.say("GET hasty") == "$1\r\n1\r\n");

    // What it leaves open is rolled back.
    talk(&mut unix, &request(&[b"begin"]), 5);
    talk(&mut unix, &request(&[b"set", b"a", b"lost"]), 5);
    drop(unix);
    wait_until("the lock is gone", || tcp.say("SET a 3") == "+OK\r\n");
    assert_eq!(info(&mut tcp, "clients", "unix_clients"), "0");
    let engine = server.engine.clone();
    drop(tcp);
    server.stop();
    assert!(!path.exists());
    assert_eq!(engine.stats().expect("figures").sessions, 0);
}

// ---- Metrics --------------------------------------------------------------------------

fn http(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream
        .set_read_timeout(Some(common::PATIENCE))
        .expect("set");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("a response");
    text
}

fn metrics_address(client: &mut Client) -> std::net::SocketAddr {
    let reply = client.say("CONFIG GET metrics-address");
    let text = reply.lines().last().expect("a value");
    text.parse().unwrap_or_else(|_| panic!("{reply}"))
}

#[test]
fn metrics_are_served() {
    let server = start(Settings {
        metrics_address: Some(([127, 0, 0, 1], 0).into()),
        ..Settings::default()
    });
    let mut client = server.client();
    client.say("SET a 1");
    client.say("SET a 1 NX");
    client.say("NONSENSE");
    let address = metrics_address(&mut client);
    let page = http(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(page.ends_with("# EOF\n"), "{page}");
    for line in [
        "bpfdb_records 1",
        "bpfdb_connections 1",
        "bpfdb_error_replies_total 1",
        "bpfdb_command_duration_seconds_count{command=\"set\"} 1",
        "bpfdb_errors_total{error=\"conflict\"} 0",
        "bpfdb_command_duration_seconds_bucket{le=\"+Inf\",command=\"set\"} 1",
    ] {
        assert!(page.lines().any(|other| other == line), "{line} in {page}");
    }
    for name in [
        "bpfdb_requests_total{path=\"kernel\"}",
        "bpfdb_operations_total{operation=\"set\"}",
    ] {
        assert!(page.contains(name), "{name} in {page}");
    }
    for (path, code) in [
        ("/health", "200"),
        ("/ready", "200"),
        ("/", "404"),
        ("/metrics?x=1", "200"),
    ] {
        let text = http(address, &format!("GET {path} HTTP/1.1\r\n\r\n"));
        assert!(
            text.starts_with(&format!("HTTP/1.1 {code} ")),
            "{path}: {text}"
        );
    }
    assert!(http(address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    let head = http(address, "HEAD /health HTTP/1.1\r\n\r\n");
    assert!(head.ends_with("\r\n\r\n"), "{head}");
    assert!(http(address, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
    let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(10_000));
    assert!(http(address, &long).starts_with("HTTP/1.1 400"));
    // One that says nothing does not keep others away for long.
    let silent = TcpStream::connect(address).expect("a connection");
    assert!(http(address, "GET /health HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
    drop(silent);
    server.stop();
    assert!(TcpStream::connect(address).is_err());
}

// ---- Time-outs and bounds ---------------------------------------------------------------

#[test]
fn idle_connections_are_closed_and_busy_ones_are_not() {
    let server = start(Settings {
        timeout: 2,
        ..Settings::default()
    });
    let (mut idle, mut busy) = (server.client(), server.client());
    assert_eq!(idle.say("SET a 1"), "+OK\r\n");
    let start = Instant::now();
    // All of it is answered in the kernel.
    while start.elapsed() < Duration::from_secs(5) {
        assert_eq!(busy.say("GET a"), "$1\r\n1\r\n");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(idle.is_closed());
    assert_eq!(busy.say("GET a"), "$1\r\n1\r\n");
}

#[test]
fn maxclients_can_change_at_run_time() {
    let server = start(Settings::default());
    let mut client = server.client();
    assert_eq!(client.say("CONFIG SET maxclients 2"), "+OK\r\n");
    let mut second = server.client();
    assert_eq!(second.say("PING"), "+PONG\r\n");
    let mut third = server.client();
    let reply = third.until_closed();
    assert!(
        reply.ends_with(b"-ERR max number of clients reached\r\n"),
        "{}",
        show(&reply)
    );
    drop(second);
    wait_until("there is room", || {
        let mut fourth = server.client();
        fourth.stream.write_all(&request(&[b"ping"])).expect("sent");
        fourth.reply() == b"+PONG\r\n"
    });
    assert_ne!(info(&mut client, "stats", "rejected_connections"), "0");
}

#[test]
fn a_slow_reader_is_closed() {
    let server = start(Settings {
        output_limit: OutputLimit {
            hard: Size::mib(8),
            soft: Size::mib(1),
            seconds: 2,
        },
        ..Settings::default()
    });
    let mut setup = server.client();
    let value = vec![b'v'; 60_000];
    setup.ask(&[b"set", b"big", &value]);
    // One reply beyond the hard limit.
    let mut greedy = server.client();
    let keys: Vec<&[u8]> = std::iter::once(&b"mget"[..])
        .chain(std::iter::repeat_n(&b"big"[..], 400))
        .collect();
    greedy.send(&request(&keys));
    std::thread::sleep(Duration::from_millis(500));
    assert!(greedy.is_closed());
    // Replies above the soft limit that are not read for a while.
    let mut slow = server.client();
    let keys: Vec<&[u8]> = keys[..80].to_vec();
    slow.send(&request(&keys));
    std::thread::sleep(Duration::from_secs(6));
    assert!(slow.is_closed());
    wait_until("both are counted", || {
        info(
            &mut setup,
            "stats",
            "client_output_buffer_limit_disconnections",
        ) == "2"
    });
    let kept: u64 = info(&mut setup, "memory", "mem_clients_normal")
        .parse()
        .expect("a number");
    assert!(kept < 100_000, "{kept}");
}

/// Requests that never end: memory is bounded for all together, and the others
/// are served meanwhile.
#[test]
fn half_requests_are_bounded_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("bpfdb.sock");
    let server = start(Settings {
        max_client_memory: Size::mib(8),
        unix_socket: Some(path.clone()),
        ..Settings::default()
    });
    let mut setup = server.client();
    let mut greedy = Vec::new();
    for _ in 0..40 {
        let mut stream = UnixStream::connect(&path).expect("a connection");
        // Arguments of an MSET whose last one does not come.
        let mut bytes = b"*100\r\n$4\r\nMSET\r\n".to_vec();
        for _ in 0..16 {
            bytes.extend_from_slice(b"$60000\r\n");
            bytes.resize(bytes.len() + 60_000, b'x');
            bytes.extend_from_slice(b"\r\n");
        }
        // It may be closed while it sends.
        let _ = stream.write_all(&bytes);
        greedy.push(stream);
        assert_eq!(setup.say("PING"), "+PONG\r\n");
        assert_eq!(setup.say("SELECT 0"), "+OK\r\n");
        let kept: u64 = info(&mut setup, "memory", "mem_clients_normal")
            .parse()
            .expect("a number");
        assert!(kept <= 8 << 20, "{kept}");
    }
    let evicted: u32 = info(&mut setup, "stats", "evicted_clients")
        .parse()
        .expect("a number");
    assert!(evicted > 20, "{evicted}");
    drop(greedy);
    wait_until("nothing is kept", || {
        info(&mut setup, "clients", "unix_clients") == "0"
    });
}

/// Small half requests cost little each.
#[test]
fn many_small_half_requests() {
    let server = TestServer::start_with(
        &bpfdb::Options {
            max_sessions: 3000,
            ..bpfdb::Options::default()
        },
        Settings {
            require_pass: Secret("secret".into()),
            ..Settings::default()
        },
    );
    let mut admin = server.client();
    admin.say("AUTH secret");
    let clients: Vec<Client> = (0..2000)
        .map(|_| {
            let mut client = server.client();
            client.send(b"*2\r\n$4\r\nAUTH\r\n$10000\r\nxxxxxxxxxx");
            client
        })
        .collect();
    wait_until("all are in", || {
        info(&mut admin, "clients", "connected_clients") == "2001"
    });
    let kept: u64 = info(&mut admin, "memory", "mem_clients_normal")
        .parse()
        .expect("a number");
    assert!(kept < 2000 * 1024, "{kept}");
    assert_eq!(admin.say("SET a 1"), "+OK\r\n");
    drop(clients);
}
