//! Scripts that projects send, called often enough to run in the kernel: the same replies and data as
//! in Redis. Those of redis-py are as they are; the others are written after what such projects do. (The
//! package `limits`, with its own scripts, is a client in bpfdb-apps.)

use super::common::redis_py::{EXTEND, RELEASE};
use super::common::{Client, Redis, Reply};
use super::{all_kernel_calls, ask, back_to_kernel, is, server, wait_until};
use bpfdb_tests::programs::Random;

/// redis-py's lock has this one, too.
const REACQUIRE: &str = r#"
    local token = redis.call('get', KEYS[1])
    if not token or token ~= ARGV[1] then
        return 0
    end
    redis.call('pexpire', KEYS[1], ARGV[2])
    return 1
"#;
/// What Redis's own page on distributed locks recommends, and clients of Redlock send.
const UNLOCK: &str = r#"if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("del",KEYS[1])
else
    return 0
end"#;
/// A limit for each window, after the page of INCR.
const WINDOW: &str = r#"
local current
current = redis.call("incr",KEYS[1])
if current == 1 then
    redis.call("expire",KEYS[1],ARGV[2])
end
return current
"#;
/// A limit of a window that slides.
const SLIDING: &str = r#"
local now, window = tonumber(ARGV[2]), 10
local slot = math.floor(now / window)
local key = KEYS[1] .. ':'
local current = tonumber(redis.call('GET', key .. slot) or 0)
local previous = tonumber(redis.call('GET', key .. slot - 1) or 0)
local rest = window - now % window
if math.floor(previous * rest / window) + current >= 7 then
  return 0
end
current = redis.call('INCR', key .. slot)
redis.call('EXPIRE', key .. slot, window * 20)
return current
"#;

const SCRIPTS: [&str; 6] = [RELEASE, EXTEND, REACQUIRE, UNLOCK, WINDOW, SLIDING];
const CALLS: usize = 300;
/// Milliseconds between two servers and between two of their clocks.
const TOLERANCE: i64 = 2_000;

/// A step: a plain command, or a call of a script.
fn step(random: &mut Random, names: &[String]) -> Vec<String> {
    let token = random.one(&["mine", "other"]);
    let words = match random.below(8) {
        0 => vec!["set", "lock", token, "nx", "px", "100000"],
        1 => vec!["set", "lock", token],
        _ => {
            let number = random.below(names.len());
            let key = if SCRIPTS[number] == WINDOW {
                "window"
            } else {
                "lock"
            };
            let time = random.one(&["50000", "70000"]);
            let adds = random.one(&["0", "1"]);
            vec!["EVALSHA", &names[number], "1", key, token, time, adds]
        }
    };
    words.into_iter().map(String::from).collect()
}

fn state(client: &mut Client) -> (Reply, Vec<i64>) {
    let values = ask(
        client,
        &["MGET", "lock", "window", "lock:5000", "lock:7000"],
    );
    let times = ["lock", "window", "lock:5000", "lock:7000"].map(|key| {
        let left = ask(client, &["PTTL", key]).number();
        left.expect("a number")
    });
    (values, times.to_vec())
}

fn agree(ours: &[i64], theirs: &[i64]) -> bool {
    let mut both = ours.iter().zip(theirs);
    both.all(|(a, b)| (a - b).abs() <= TOLERANCE && (*a < 0) == (*b < 0))
}

/// Until the kernel runs all of them.
fn warm(client: &mut Client, names: &[String]) {
    wait_until("the scripts are compiled", || {
        for name in names {
            let words = ["EVALSHA", name, "1", "nothing", "x", "1", "0"];
            ask(client, &words);
        }
        let all = ask(client, &["PROCEDURES"]);
        let in_kernel = all.items.iter().filter(|one| is(one, "path", "kernel"));
        in_kernel.count() == names.len()
    });
    ask(client, &["FLUSHALL"]);
    back_to_kernel(client);
}

#[test]
fn scripts_of_projects_mean_what_they_mean_in_redis() {
    let (server, redis) = (server(), Redis::start());
    let mut clients = [server.client(), Client::connect(redis.address)];
    let load = |client: &mut Client| {
        SCRIPTS.map(|text| {
            let name = ask(client, &["SCRIPT", "LOAD", text]).text;
            String::from_utf8(name).expect("digits")
        })
    };
    let [names, theirs] = clients.each_mut().map(load);
    assert_eq!(names, theirs);
    warm(&mut clients[0], &names);
    let before = all_kernel_calls(&mut clients[0]);
    let mut random = Random::new(11);
    for _ in 0..CALLS {
        let words = step(&mut random, &names);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        back_to_kernel(&mut clients[0]);
        let [ours, theirs] = clients.each_mut().map(|client| ask(client, &words));
        assert_eq!(ours, theirs, "{words:?}");
        let [ours, theirs] = clients.each_mut().map(state);
        assert_eq!(ours.0, theirs.0, "data after {words:?}");
        assert!(agree(&ours.1, &theirs.1), "{ours:?} {theirs:?}: {words:?}");
    }
    let in_kernel = all_kernel_calls(&mut clients[0]) - before;
    println!(
        "the kernel answered {in_kernel} of some {} calls",
        CALLS * 3 / 4
    );
    assert!(in_kernel as usize > CALLS / 2, "{in_kernel}");
}
