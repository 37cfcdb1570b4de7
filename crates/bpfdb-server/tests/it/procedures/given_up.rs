//! Whatever the kernel gives up, it leaves nothing of, and the interpreter answers.

use std::time::{Duration, Instant};

use bpfdb::{DEOPTIMISATIONS, FUNCTIONS_KEY};
use bpfdb_tests::settings::is_emulated;

use super::common::{Client, Reply, TestServer};
use super::{ask, back_to_kernel, is, load, parsed, server, shown, until_in_kernel};

/// What comes after a write and has no meaning in the kernel; the reason, an argument that
/// brings it about, and what the interpreter makes of the call: its reply, or part of an error.
const GUARDS: &[(&str, &str, &str, &str)] = &[
    ("text_is_no_number", "return args[1] + 1", "x", "arithmetic"),
    ("text_is_no_number", "return args[1] * 2", "1.5", "3"),
    (
        "number_too_large",
        "return args[1] + 1",
        "9007199254740992",
        "9007199254740992",
    ),
    ("fraction", "return args[1] / 2", "3", "1"),
    // A time in millions of years, of which the product has no 64 bits.
    (
        "number_too_large",
        "redis.call('SET', keys[2], 'v', 'EXAT', 72057594037928)
         return redis.call('PEXPIRETIME', keys[2]) * 256",
        "x",
        "-9223372036854775808",
    ),
    // Lua begins with first - step + step.
    (
        "number_too_large",
        "for i = args[1], -9007199254740990 do return i end",
        "-9007199254740992",
        "-9007199254740991",
    ),
    (
        "fraction",
        "return args[1] % 0",
        "3",
        "-9223372036854775808",
    ),
    (
        "number_too_large",
        "return args[1] % 3",
        "-9007199254740991",
        "1",
    ),
    (
        "value",
        "local s = args[1] for i = 1, 11 do s = s .. s end return {s, s}",
        "0123456789",
        "20480",
    ),
    (
        "time",
        "return redis.call('SET', keys[2], 'v', 'NX', 'EX', args[1])",
        "0",
        "invalid expire",
    ),
    ("minus_zero", "return 0 * args[1]", "-5", "0"),
    ("type", "return #args[2]", "x", "length"),
    (
        "fuel",
        "local n = 0 while true do n = n + 1 if n == 100000 then break end end return n",
        "x",
        "100000",
    ),
    (
        "heap",
        "local s = args[1] for i = 1, 20 do s = s .. s end return #s",
        "x",
        "1048576",
    ),
    ("key", "return redis.call('GET', '')", "x", ""),
    (
        "number_in_text",
        "return '' .. (args[1] + 0)",
        "100000000000000",
        "1e+14",
    ),
    (
        "time",
        "return redis.call('EXPIRE', keys[1], args[1])",
        "-1",
        "1",
    ),
    ("line", "return redis.status_reply(args[1])", "a\nb", "a b"),
    (
        "counter",
        "return redis.call('INCR', keys[2])",
        "x",
        "integer",
    ),
    (
        "value_type",
        "redis.call('HSET', 'h', 'f', 1) return redis.call('GET', 'h')",
        "x",
        "WRONGTYPE",
    ),
    (
        "collection",
        "local s = args[1] for i = 1, 9 do s = s .. s end
         redis.call('HSET', 'h', 'f', s) return redis.call('HSTRLEN', 'h', 'f')",
        "x",
        "512",
    ),
];

/// Whoever adds a reason adds what brings it about. (That a program is replaced at the moment of a call
/// nobody can bring about at will: replaced.rs does it under load. No client can set a value of
/// another type than a string: value_types.rs does it by the engine.)
#[test]
fn every_reason_has_a_guard() {
    let has_guard = |reason: &str| GUARDS.iter().any(|guard| guard.0 == reason);
    let names = DEOPTIMISATIONS.iter().map(|one| one.name);
    let others: Vec<&str> = names.filter(|name| !has_guard(name)).collect();
    assert_eq!(others, ["missed", "waited_for"]);
}

#[test]
fn every_guard_leaves_nothing_behind() {
    let server = server();
    guards_leave_nothing(&mut server.client());
}

/// Nor where the daemon has the kernel run the call.
#[test]
fn every_guard_leaves_nothing_behind_for_clients_of_the_daemon() {
    let server = server();
    guards_leave_nothing(&mut server.unix_client());
}

/// All of them in one library, and so in one program: the verifier takes a while for each.
fn guards_leave_nothing(client: &mut Client) {
    let function = |(number, (_, body, ..)): (usize, &(&str, &str, &str, &str))| {
        format!(
            "redis.register_function('g{number}', function(keys, args)
             redis.call('SET', keys[1], 'new') redis.call('APPEND', keys[3], 'x')
             {body} end)\n"
        )
    };
    let functions: String = GUARDS.iter().enumerate().map(function).collect();
    load(client, &format!("#!lua name=lib\n{functions}"));
    for (number, (reason, body, argument, expected)) in GUARDS.iter().enumerate() {
        let name = format!("g{number}");
        let words = ["FCALL", &name, "3", "a", "b", "c", argument];
        super::wait_until("the kernel gives the call up", || {
            for key in ["a", "c"] {
                ask(client, &["SET", key, "old"]);
            }
            ask(client, &["SET", "b", "words"]);
            back_to_kernel(client);
            let reply = ask(client, &words);
            let told = reply.to_string();
            assert!(told.contains(expected), "{body}: {told}");
            // Once, by the interpreter; or not at all, if it was an error there.
            let once = if reply.is_error() { "old" } else { "oldx" };
            if reply.is_error() {
                assert_eq!(ask(client, &["GET", "a"]).text, b"old", "{body}");
            }
            let third = ask(client, &["GET", "c"]);
            assert_eq!(third.text, once.as_bytes(), "{body}");
            given_up(client, &name, reason) > 0
        });
    }
}

/// How often the kernel gave up a call for this reason.
fn given_up(client: &mut Client, name: &str, reason: &str) -> i64 {
    let shown = shown(client, name);
    let reasons = shown.field("deoptimisations").expect("a field");
    reasons.field(reason).and_then(Reply::number).unwrap_or(0)
}

/// The same for any reason.
fn all_given_up(client: &mut Client, name: &str) -> i64 {
    let shown = shown(client, name);
    let errors = shown.field("errors").and_then(Reply::number).unwrap_or(0);
    let reasons = shown.field("deoptimisations").expect("a field");
    errors + reasons.items.iter().filter_map(Reply::number).sum::<i64>()
}

/// A loop without end is ended in the kernel within 2 ms, and then by the interpreter at its limit.
#[test]
fn endless_loops_end() {
    const CALLS: usize = 20;
    /// 2 ms in the kernel, a slice of a millisecond in the daemon, and the way to both.
    const MOST: Duration = Duration::from_millis(10);
    let server = server();
    let mut client = server.client();
    client.say("CONFIG SET busy-reply-threshold 1");
    load(
        &mut client,
        "#!lua name=lib\nredis.register_function('ever', function() while true do end end)\n\
         redis.register_function('calls', function(keys) while true do redis.call('INCR', keys[1]) end end)",
    );
    for name in ["ever", "calls"] {
        let mut times = Vec::new();
        super::wait_until("the kernel gives calls up", || {
            back_to_kernel(&mut client);
            let before = given_up(&mut client, name, "fuel");
            back_to_kernel(&mut client);
            let begun = Instant::now();
            let reply = ask(&mut client, &["FCALL", name, "1", "n"]);
            let took = begun.elapsed();
            assert!(reply.is_error(), "{reply}");
            if given_up(&mut client, name, "fuel") > before {
                times.push(took);
            }
            times.len() >= CALLS
        });
        // Others have the processors, too.
        let shortest = times.iter().min().expect("some");
        assert!(*shortest < MOST || is_emulated(), "{name}: {times:?}");
    }
    assert_eq!(client.say("GET n"), "$-1\r\n");
}

/// A conflict is tried again in the kernel, then by the daemon; with a lock that a client keeps, both
/// end.
#[test]
fn a_locked_key_is_a_conflict_after_some_tries() {
    let server = server();
    let (mut client, mut holder) = (server.client(), server.client());
    load(
        &mut client,
        "#!lua name=lib\nredis.register_function('up', function(keys) return redis.call('INCR', keys[1]) end)",
    );
    holder.say("BEGIN");
    holder.say("SET n 5");
    super::wait_until("the kernel has tried it again", || {
        back_to_kernel(&mut client);
        let reply = ask(&mut client, &["FCALL", "up", "1", "n"]);
        assert!(reply.text.starts_with(b"CONFLICT"), "{reply}");
        let up = shown(&mut client, "up");
        up.field("conflicts").and_then(Reply::number) > Some(0)
    });
    assert_eq!(holder.say("COMMIT"), "+OK\r\n");
    back_to_kernel(&mut client);
    assert_eq!(
        ask(&mut client, &["FCALL", "up", "1", "n"]).number(),
        Some(6)
    );
}

/// What a call asks too much of: its name, the part of the error, the key.
fn too_much() -> [(&'static str, &'static str, String); 2] {
    [
        ("many", "the transaction holds too many locks", "n".into()),
        (
            "one",
            "key is empty, or longer than 512 bytes",
            "n".repeat(600),
        ),
    ]
}

/// Limits of the engine are its Errors for functions and scripts, and nothing is left.
#[test]
fn limits_of_the_engine_are_named() {
    const MANY: &str = "for i = 1, 1200 do redis.call('SET', KEYS[1] .. i, 'x') end return 1";
    const ONE: &str = "redis.call('SET', 'n1', 'x') redis.call('SET', KEYS[1], 'x') return 1";
    let server = TestServer::start(&bpfdb::Options {
        max_locks: 1000,
        ..bpfdb::Options::default()
    });
    let mut client = server.client();
    let function = |name: &str, body: &str| {
        format!("redis.register_function('{name}', function(KEYS) {body} end)\n")
    };
    let text = format!(
        "#!lua name=lib\n{}{}",
        function("many", MANY),
        function("one", ONE)
    );
    load(&mut client, &text);
    for (name, expected, key) in too_much() {
        back_to_kernel(&mut client);
        let by_function = ask(&mut client, &["FCALL", name, "1", &key]);
        let text = if name == "many" { MANY } else { ONE };
        let by_script = ask(&mut client, &["EVAL", text, "1", &key]);
        for reply in [by_function, by_script] {
            assert!(reply.is_error(), "{name}: {reply}");
            assert!(reply.to_string().contains(expected), "{name}: {reply}");
        }
        assert_eq!(client.say("EXISTS n1 n2"), ":0\r\n");
    }
}

/// Errors of the engine that the kernel gave calls up for.
fn errors(client: &mut Client, name: &str) -> i64 {
    let shown = shown(client, name);
    shown
        .field("errors")
        .and_then(Reply::number)
        .expect("a number")
}

/// A call that needs more memory than there is leaves nothing, whoever finds out. With less to
/// remember the kernel answers again.
#[test]
fn a_call_without_memory_leaves_nothing() {
    const KEYS: usize = 100;
    const MEMORY: u64 = 32 << 20;
    let server = TestServer::start(&bpfdb::Options {
        memory_limit: MEMORY,
        ..bpfdb::Options::default()
    });
    let mut client = server.client();
    load(
        &mut client,
        &format!(
            "#!lua name=lib\nredis.register_function('fill', function(keys, args)
             for i = 1, {KEYS} do redis.call('SET', keys[1] .. ':' .. i, args[1]) end
             return 'filled' end)"
        ),
    );
    let value = "v".repeat(1000);
    let enough = MEMORY as usize / value.len() / KEYS + 1;
    let full = (0..enough).find_map(|number| {
        back_to_kernel(&mut client);
        let reply = ask(
            &mut client,
            &["FCALL", "fill", "1", &format!("k{number}"), &value],
        );
        reply.is_error().then(|| (number, reply.to_string()))
    });
    let (number, told) = full.expect("the memory is full some time");
    assert!(number > 0 && told.contains("OOM"), "call {number}: {told}");
    assert!(
        errors(&mut client, "fill") > 0,
        "the kernel has given it up"
    );
    let keys: Vec<String> = (1..=KEYS).map(|i| format!("k{number}:{i}")).collect();
    let words: Vec<&str> = std::iter::once("EXISTS")
        .chain(keys.iter().map(String::as_str))
        .collect();
    assert_eq!(ask(&mut client, &words).number(), Some(0));

    for i in 1..=KEYS {
        client.say(&format!("DEL k0:{i}"));
    }
    until_in_kernel(&mut client, "fill", 1, |client| {
        let reply = ask(client, &["FCALL", "fill", "1", "k0", &value]);
        assert_eq!(reply.text, b"filled", "{reply}");
    });
}

/// Commands on the key that has the functions, which a body puts together of two arguments.
const RESERVED: &[(&str, &str)] = &[
    ("get", "return redis.call('GET', args[1] .. args[2])"),
    (
        "exists",
        "return redis.call('EXISTS', 'a', args[1] .. args[2])",
    ),
    ("ttl", "return redis.call('TTL', args[1] .. args[2])"),
    ("mget", "return redis.call('MGET', 'a', args[1] .. args[2])"),
    (
        "set",
        "redis.call('SET', 'n1', 'x') return redis.call('SET', args[1] .. args[2], 'x')",
    ),
    (
        "del",
        "redis.call('SET', 'n1', 'x') return redis.call('DEL', args[1] .. args[2])",
    ),
    (
        "incr",
        "redis.call('SET', 'n1', 'x') return redis.call('INCR', args[1] .. args[2])",
    ),
    (
        "expire",
        "redis.call('SET', 'n1', 'x') return redis.call('EXPIRE', args[1] .. args[2], 9)",
    ),
    (
        "caught",
        "redis.call('SET', 'n1', 'x') return redis.pcall('SET', args[1] .. args[2], 'x')",
    ),
];

/// Keys of bpfdb itself are refused to what runs in the kernel as to everybody else.
#[test]
fn keys_of_bpfdb_itself_are_refused_to_compiled_bodies() {
    let server = server();
    let mut client = server.client();
    let functions = RESERVED.iter().map(|(name, body)| {
        format!("redis.register_function('{name}', function(keys, args) {body} end)\n")
    });
    let text = format!("#!lua name=lib\n{}", functions.collect::<String>());
    load(&mut client, &text);
    let before = client.say("FUNCTION LIST WITHCODE");
    let (first, second) = FUNCTIONS_KEY.split_at(3);
    for (name, _) in RESERVED {
        let all = shown(&mut client, name);
        assert!(is(&all, "path", "kernel"), "{name}: {all}");
        let words = [&b"FCALL"[..], name.as_bytes(), b"0", first, second];
        let mut reply = None;
        super::wait_until("the kernel gives the call up", || {
            back_to_kernel(&mut client);
            reply = Some(parsed(&client.ask(&words)));
            all_given_up(&mut client, name) > 0
        });
        let reply = reply.expect("it was called");
        let told = reply.to_string();
        assert!(
            reply.is_error() && told.contains("reserved for bpfdb"),
            "{name}: {told}"
        );
        // Of pcall the body went on.
        let left = if *name == "caught" {
            ":1\r\n"
        } else {
            ":0\r\n"
        };
        assert_eq!(client.say("EXISTS n1"), left, "{name}");
        client.say("DEL n1");
    }
    assert_eq!(client.say("FUNCTION LIST WITHCODE"), before);
}
