//! What is shown of procedures: PROCEDURES, INFO, metrics.

use bpfdb_server::settings::{LocalClients, Settings};

use super::metrics::{http, metrics_address};
use crate::operation::{ask, info, number, server, text};
use bpfdb_tests::server::lent::plain;
use bpfdb_tests::server::{Client, cgroup, request, wait_until};

/// `slow` is not compiled, `add` is, and is given up for what is no number.
const LIBRARY: &str = "#!lua name=told
redis.register_function('add', function(keys, args)
  return redis.call('INCRBY', keys[1], args[1] + 1)
end)
redis.register_function('slow', function(keys, args)
  local parts = {}
  parts[1] = args[1]
  return table.concat(parts)
end)
";

fn load(client: &mut Client) {
    let reply = client.ask(&[b"FUNCTION", b"LOAD", LIBRARY.as_bytes()]);
    assert_eq!(reply, b"$4\r\ntold\r\n");
    wait_until("the library has a program", || {
        procedures(client).contains("\r\nkernel\r\n")
    });
}

fn procedures(client: &mut Client) -> String {
    String::from_utf8_lossy(&client.ask(&[b"PROCEDURES"])).into_owned()
}

/// The value of a field of one of them, as it stands in the reply.
fn field(page: &str, name: &str, field: &str) -> String {
    let (_, behind) = page
        .split_once(&format!("\r\nname\r\n${}\r\n{name}\r\n", name.len()))
        .unwrap_or_else(|| panic!("no {name} in {page}"));
    let (_, value) = behind
        .split_once(&format!("\r\n{field}\r\n"))
        .unwrap_or_else(|| panic!("no {field} in {behind}"));
    let mut lines = value.lines();
    match lines.next() {
        Some(head) if head.starts_with('$') => lines.next().unwrap_or_default().to_owned(),
        Some(head) => head.trim_start_matches(':').to_owned(),
        None => panic!("no value of {field} in {behind}"),
    }
}

/// Calls that the kernel runs, one that it gives up, and some that it never gets.
fn call(client: &mut Client) {
    for round in 1..=20 {
        let reply = client.say("FCALL add 1 counter 1");
        assert_eq!(reply, format!(":{}\r\n", 2 * round));
    }
    assert!(client.say("FCALL add 1 counter 1.5").starts_with("-ERR "));
    for _ in 0..3 {
        assert_eq!(client.say("FCALL slow 0 a"), "$1\r\na\r\n");
    }
}

#[test]
fn procedures_are_told_of() {
    let server = plain();
    let mut client = server.client();
    load(&mut client);
    // The kernel's next request may be the daemon's still.
    call(&mut server.client());

    let page = procedures(&mut client);
    assert_eq!(field(&page, "add", "path"), "kernel");
    assert_eq!(field(&page, "add", "kind"), "function");
    assert_eq!(field(&page, "slow", "path"), "daemon");
    assert_eq!(field(&page, "slow", "interpreted"), "3");
    let calls: u64 = field(&page, "add", "calls").parse().expect("a number");
    let interpreted: u64 = field(&page, "add", "interpreted")
        .parse()
        .expect("a number");
    assert_eq!(calls + interpreted, 21, "{page}");
    assert!(calls >= 15, "{page}");
    assert!(
        page.contains("$17\r\ntext_is_no_number\r\n:1\r\n"),
        "{page}"
    );
    assert!(page.contains("line 7: a table is changed"), "{page}");
    check_times(&mut server.client());

    let listing = ask(&mut client, "PROCEDURES LISTING add");
    assert!(listing.starts_with("function add: writes\n"), "{listing}");
    assert!(listing.contains("call INCRBY KEYS[1] r"), "{listing}");
    assert!(listing.contains("\n        r0: integer\n"), "{listing}");
    let line = "\n    3 |   return redis.call('INCRBY', keys[1], args[1] + 1)\n";
    assert!(listing.contains(line), "{listing}");
    assert!(listing.contains(": call rt_set\n"), "{listing}");
    for words in ["PROCEDURES LISTING slow", "PROCEDURES LISTING nothing"] {
        let reply = client.say(words);
        assert_eq!(reply, "-ERR no procedure of this name has a program\r\n");
    }
    assert_eq!(client.say("PROCEDURES LISTING"), "-ERR syntax error\r\n");
}

/// One call of some is timed: of two hundred surely one.
fn check_times(client: &mut Client) {
    /// No call of this body takes so long, however busy the machine is.
    const NANOSECONDS: u128 = 10_000_000_000;
    for _ in 0..200 {
        assert!(client.say("FCALL add 1 counter 1").starts_with(':'));
    }
    let page = procedures(client);
    let [mean, most] = ["mean_nanoseconds", "longest_nanoseconds"]
        .map(|name| field(&page, "add", name).parse::<u128>().expect("a number"));
    assert!(0 < mean && mean <= most && most < NANOSECONDS, "{page}");
}

/// A call that the kernel gives up is tried there once, wherever it stands.
#[test]
fn calls_that_are_given_up_are_counted_once() {
    for local_clients in [LocalClients::Off, LocalClients::In(cgroup::own())] {
        let server = server(Settings {
            local_clients,
            ..Settings::default()
        });
        let mut client = server.client();
        load(&mut client);
        let given_up = |client: &mut Client| {
            let field = "bpfdb_procedure_calls_given_up";
            number(client, "bpfdb", field)
        };
        let call = |amount: &str| request(&[b"FCALL", b"add", b"1", b"n", amount.as_bytes()]);
        for before in [0, 1, 20] {
            let message = [call("1").repeat(before), call("1.5"), call("1")].concat();
            // What a new connection asks first may be the daemon's.
            wait_until("the kernel gives up a call", || {
                let told = given_up(&mut client);
                let mut other = server.client();
                other.send(&message);
                for _ in 0..before + 2 {
                    other.reply();
                }
                let times = given_up(&mut client) - told;
                assert!(times <= 1, "{times}, behind {before}");
                times == 1
            });
        }
    }
}

#[test]
fn totals_stay_when_a_library_goes() {
    let server = server(Settings::default());
    let mut client = server.client();
    load(&mut client);
    call(&mut server.client());
    let totals = |client: &mut Client| {
        ["calls", "calls_interpreted", "calls_given_up"]
            .map(|name| number(client, "bpfdb", &format!("bpfdb_procedure_{name}")))
    };
    let before = totals(&mut client);
    assert_eq!(before[0] + before[1], 24, "{before:?}");
    assert_eq!(before[2], 1, "{before:?}");
    assert_eq!(info(&mut client, "bpfdb", "bpfdb_procedure_programs"), "1");
    assert!(number(&mut client, "bpfdb", "bpfdb_procedure_code_bytes") > 10_000);

    // They count since the server began.
    client.say("CONFIG RESETSTAT");
    assert_eq!(client.say("FUNCTION DELETE told"), "+OK\r\n");
    wait_until("the program is gone", || {
        info(&mut client, "bpfdb", "bpfdb_procedure_programs") == "0"
    });
    assert_eq!(totals(&mut client), before);
    assert_eq!(text(&client.ask(&[b"PROCEDURES"])), "");
}

#[test]
fn metrics_tell_of_procedures() {
    let server = server(Settings {
        metrics_address: Some(([127, 0, 0, 1], 0).into()),
        ..Settings::default()
    });
    let mut client = server.client();
    load(&mut client);
    call(&mut server.client());
    let address = metrics_address(&mut client);
    let scrape = || http(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let given_up = "bpfdb_procedure_deoptimisations_total{reason=\"text_is_no_number\"} 1";
    wait_until("the call that was given up is told of", || {
        scrape().lines().any(|line| line == given_up)
    });

    let page = scrape();
    let value = |series: &str| -> u64 {
        let line = page.lines().find_map(|line| line.strip_prefix(series));
        let line = line.unwrap_or_else(|| panic!("no {series} in {page}"));
        line.trim().parse().expect("a number")
    };
    let calls = |path| {
        value(&format!(
            "bpfdb_procedure_calls_total{{name=\"add\",kind=\"function\",path=\"{path}\"}}"
        ))
    };
    assert_eq!(calls("kernel") + calls("daemon"), 21);
    assert!(calls("kernel") >= 15);
    assert_eq!(
        value("bpfdb_procedure_retries_total{name=\"add\",kind=\"function\"}"),
        0
    );
    assert_eq!(value("bpfdb_procedure_programs"), 1);
    // One that has no program has no series: their number is bounded by that of programs.
    assert!(!page.contains("name=\"slow\""), "{page}");
}

/// Each of these reads one key, which is there, once: under a lock for what it writes, or in an attempt
/// that is given up.
const READERS: [(&str, &str); 5] = [
    (
        "exchange",
        "local old = redis.call('GET', keys[1]) redis.call('SET', keys[1], 3) return old",
    ),
    ("getset", "return redis.call('GETSET', keys[1], 3)"),
    ("set_get", "return redis.call('SET', keys[1], 3, 'GET')"),
    ("getdel", "return redis.call('GETDEL', keys[1])"),
    ("half", "return redis.call('GET', keys[1]) / 2"),
];

/// Whoever runs a call counts what it reads, and once.
#[test]
fn keyspace_hits_of_procedures() {
    const CALLS: u64 = 10;
    let server = plain();
    let mut client = server.client();
    let functions = READERS.map(|(name, body)| {
        format!("redis.register_function('{name}', function(keys) {body} end)\n")
    });
    let library = format!("#!lua name=told\n{}", functions.concat());
    client.ask(&[b"FUNCTION", b"LOAD", library.as_bytes()]);
    wait_until("all have a program", || {
        procedures(&mut client).matches("\r\nkernel\r\n").count() == READERS.len()
    });
    client.say("CONFIG RESETSTAT");
    let mut caller = server.client();
    for (name, _) in READERS {
        for _ in 0..CALLS {
            assert_eq!(caller.say("SET k 3"), "+OK\r\n");
            let reply = caller.say(&format!("FCALL {name} 1 k"));
            assert!(reply.contains('3') || reply == ":1\r\n", "{name}: {reply}");
        }
    }
    let page = procedures(&mut client);
    for (name, _) in READERS {
        let is_run = |what: &str| field(&page, name, what).parse::<u64>().expect("a number") > 0;
        assert!(
            is_run(if name == "half" {
                "interpreted"
            } else {
                "calls"
            }),
            "{page}"
        );
    }
    let all = CALLS * READERS.len() as u64;
    assert_eq!(number(&mut client, "stats", "keyspace_hits"), all);
    assert_eq!(number(&mut client, "stats", "keyspace_misses"), 0);
}
