//! `bpfdb procedures`, beside a server with a library.

use crate::common;

use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Instant;

use bpfdb_tests::process::dies_with_us;
use common::{BINARY, PATIENCE, Served, alone};
use serde_json::{Value as Json, json};

const LIBRARY: &str = "#!lua name=shop
redis.register_function('sell', function(keys, args)
  return redis.call('DECRBY', keys[1], args[1])
end)
redis.register_function('list', function(keys, args)
  return redis.call('LRANGE', keys[1], 0, -1)
end)
";
/// As EVALSHA calls it.
const SCRIPT: &str = "return redis.call('GET', KEYS[1])";

fn run(server: &Served, arguments: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    let port = server.port.to_string();
    let command = command
        .args(["procedures", "--port", &port])
        .args(arguments);
    dies_with_us(command.stdin(Stdio::null()))
        .output()
        .expect("bpfdb runs")
}

fn prints(server: &Served, arguments: &[&str]) -> String {
    let output = run(server, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn json_of(server: &Served, name: &str) -> Option<Json> {
    let all: Json = serde_json::from_str(&prints(server, &["--json"])).expect("JSON");
    let mut all = all.as_array().expect("a list").clone().into_iter();
    all.find(|one| one["name"] == name)
}

fn wait_for(server: &Served, name: &str) {
    let start = Instant::now();
    while json_of(server, name).is_none_or(|one| one["path"] != "kernel") {
        assert!(
            start.elapsed() < PATIENCE,
            "{name} does not get into the kernel"
        );
        thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// The words of the table's line that begins so.
fn line<'a>(table: &'a str, name: &str) -> Vec<&'a str> {
    let mut lines = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line = lines.find(|words| words.first() == Some(&name));
    line.unwrap_or_else(|| panic!("no {name} in {table}"))
}

#[test]
fn procedures_are_shown() {
    alone();
    let server = Served::start(0, &[]);
    let nothing = "no functions, and no script that was called often\n";
    assert_eq!(prints(&server, &[]), nothing);

    assert_eq!(server.ask(&["FUNCTION", "LOAD", LIBRARY]), "shop");
    wait_for(&server, "sell");
    let mut client = common::Connection::open(server.port);
    for left in (0..100).rev() {
        let sold = client.ask(&["FCALL", "sell", "1", "stock", "1"]);
        assert_eq!(sold, format!(":{}", left - 100));
    }
    let name = server.ask(&["SCRIPT", "LOAD", SCRIPT]);
    for _ in 0..8 {
        assert_eq!(client.ask(&["EVALSHA", &name, "1", "stock"]), "-100");
    }
    wait_for(&server, &name);

    let table = prints(&server, &[]);
    let head = "name kind path calls daemon retries deoptimised mean longest verified bytes";
    let first = table.lines().next().expect("a line");
    assert_eq!(first.split_whitespace().collect::<Vec<_>>().join(" "), head);
    let sell = line(&table, "sell");
    assert_eq!(sell[1..3], ["function", "kernel"]);
    let counts = |place: usize| sell[place].parse::<u64>().expect("a number");
    assert_eq!(counts(3) + counts(4), 100, "{table}");
    assert!(counts(3) > 0, "{table}");
    assert_eq!(
        line(&table, "list")[1..],
        ["function", "daemon", "-", "0", "-", "-", "-", "-", "-", "-"]
    );
    assert_eq!(line(&table, &name)[1..3], ["script", "kernel"]);
    let reason = "\nfunction list\n  line 6: LRANGE with 3 arguments is the interpreter's\n";
    assert!(table.ends_with(reason), "{table}");

    let sell = json_of(&server, "sell").expect("it is there");
    assert_eq!(sell["kind"], "function");
    assert_eq!(sell["deoptimisations"], json!({}));
    assert!(
        sell["verified_instructions"].as_u64() > Some(1000),
        "{sell}"
    );
    let list = json_of(&server, "list").expect("it is there");
    assert_eq!(
        list["reasons"],
        json!(["line 6: LRANGE with 3 arguments is the interpreter's"])
    );

    let listing = prints(&server, &["sell"]);
    assert!(listing.starts_with("function sell: writes\n"), "{listing}");
    assert!(
        listing.contains("    3   r0 = call DECRBY KEYS[1] ARGV[1]\n"),
        "{listing}"
    );
    let source = "    3 |   return redis.call('DECRBY', keys[1], args[1])\n      | ";
    assert!(listing.contains(source), "{listing}");
    assert!(prints(&server, &[&name]).starts_with("script: reads\n"));
    assert_eq!(prints(&server, &["list"]), reason);
    let unknown = run(&server, &["nobody"]);
    let told = String::from_utf8(unknown.stderr).expect("text");
    assert!(
        !unknown.status.success() && told.contains("no function or script nobody"),
        "{told}"
    );
    server.stop();
}

/// redis-cli with these words and this input: what it prints.
fn redis_cli(server: &Served, words: &[&str], input: Stdio) -> String {
    let mut command = Command::new("redis-cli");
    let command = command.args(["-p", &server.port.to_string()]).args(words);
    let output = dies_with_us(command.stdin(input)).output();
    let output = output.expect("redis-cli of the package redis-tools");
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout)
        .expect("text")
        .trim()
        .to_owned()
}

/// The commands of examples/procedures/README.md, one after the other.
#[test]
fn a_library_is_loaded_called_and_seen_in_the_kernel() {
    alone();
    let server = Served::start(0, &[]);
    let library = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/procedures/voter.lua"
    );
    let library = std::fs::File::open(library).expect("the example");
    let loaded = redis_cli(&server, &["-x", "FUNCTION", "LOAD"], library.into());
    assert_eq!(loaded, "voter");
    wait_for(&server, "vote");

    let say = |words: &[&str]| redis_cli(&server, words, Stdio::null());
    assert_eq!(say(&["SET", "voter:contestant:07", "Edwina Burnam"]), "OK");
    let keys = [
        "voter:area:415",
        "voter:contestant:07",
        "voter:phone:4155550123",
    ];
    let call = [
        &["FCALL", "vote", "3"],
        &keys[..],
        &["4155550123", "07", "2"],
    ]
    .concat();
    assert_eq!([say(&call), say(&call), say(&call)], ["0", "0", "2"]);

    let table = prints(&server, &[]);
    let vote = line(&table, "vote");
    assert_eq!(vote[1..3], ["function", "kernel"]);
    let counts = |place: usize| vote[place].parse::<u64>().expect("a number");
    assert!(counts(3) > 0 && counts(3) + counts(4) == 3, "{table}");
    server.stop();
}

#[test]
fn a_server_may_ask_for_a_password() {
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("password");
    std::fs::write(&file, "secret\n").expect("written");
    let file = file.to_str().expect("text");
    let server = Served::start(0, &["--requirepass", "secret"]);
    let refused = run(&server, &[]);
    let told = String::from_utf8(refused.stderr).expect("text");
    assert!(
        !refused.status.success() && told.contains("NOAUTH"),
        "{told}"
    );
    assert!(prints(&server, &["--password-file", file]).starts_with("no functions"));
    let both = run(&server, &["--json", "name"]);
    assert!(!both.status.success());
    server.stop();
}
