//! Libraries that change while they are called.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb::FUNCTIONS_KEY;
use bpfdb_tests::settings::is_emulated;

use super::common::{AtEnd, Client, TestServer, request, wait_until};
use super::{ask, daemon, daemon_calls, is, kernel_calls, load, parsed, server};

fn version(amount: u32) -> String {
    format!(
        "#!lua name=lib\nredis.register_function('add', function(keys) \
         redis.call('INCRBY', keys[1], {amount}) return redis.call('INCRBY', keys[2], {amount}) end)"
    )
}

const AMOUNTS: [u32; 2] = [1, 1000];

/// Who calls it until it is over: how much its calls have added by what they replied.
fn call_until(mut client: Client, key: &str, over: &AtomicBool, sum: &AtomicU64) {
    let mut last = 0;
    while !over.load(Ordering::Relaxed) {
        let reply = ask(&mut client, &["FCALL", "add", "2", "all", key]);
        if reply.is_error() {
            let told = reply.to_string();
            let is_expected = ["CONFLICT", "not found"]
                .iter()
                .any(|word| told.contains(word));
            assert!(is_expected, "{told}");
            continue;
        }
        let now = reply.number().expect("a number") as u64;
        let added = now - last;
        assert!(
            AMOUNTS.iter().any(|&one| u64::from(one) == added),
            "{added}"
        );
        last = now;
        sum.fetch_add(added, Ordering::Relaxed);
    }
}

/// Replaced, deleted and flushed by one client, called by others for so long: what the calls said and what
/// is there at the end is the same, and after each reply to the change only the new version
/// runs.
fn sums_are_exact(time: Duration) {
    let server = server();
    let (over, sum) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut client = server.client();
    load(&mut client, &version(AMOUNTS[0]));
    thread::scope(|scope| {
        let end = AtEnd::of(&over);
        for number in 0..4 {
            let (over, sum) = (&over, &sum);
            let client = match number % 2 {
                0 => server.client(),
                _ => server.unix_client(),
            };
            scope.spawn(move || call_until(client, &format!("own{number}"), over, sum));
        }
        let until = Instant::now() + time;
        let mut changes = 0;
        while Instant::now() < until || changes <= 5 {
            change(&mut client, changes);
            let amount = AMOUNTS[changes % 2];
            expect_only(&server, u64::from(amount));
            changes += 1;
        }
        // The last version is called in both ways.
        wait_until("the daemon has it run in the kernel", || {
            let by_daemon = daemon_calls(&mut client, "add");
            by_daemon > 0 && kernel_calls(&mut client, "add") > by_daemon
        });
        drop(end);
    });
    let all = ask(&mut client, &["GET", "all"])
        .number()
        .expect("a number") as u64;
    let probes = ask(&mut client, &["GET", "probe"])
        .number()
        .expect("a number") as u64;
    assert_eq!(all, sum.load(Ordering::Relaxed) + probes);
}

#[test]
fn sums_of_both_versions_are_exact() {
    sums_are_exact(Duration::from_secs(2));
}

#[test]
#[ignore = "takes minutes"]
fn soak_sums_of_both_versions_are_exact() {
    sums_are_exact(Duration::from_secs(120));
}

/// Who is refused has taken nothing out of the kernel.
#[test]
fn what_changes_nothing_is_no_change() {
    let server = server();
    let mut client = server.client();
    client.say("FUNCTION FLUSH");
    load(&mut client, &version(1));
    let dump = parsed(&client.ask(&[b"FUNCTION", b"DUMP"])).text;
    for _ in 0..20 {
        for words in [
            &[&b"FUNCTION"[..], b"DELETE", b"nosuch"][..],
            &[b"FUNCTION", b"RESTORE", &dump],
            &[b"FUNCTION", b"LOAD", version(1).as_bytes()],
        ] {
            let reply = parsed(&client.ask(words));
            assert!(reply.is_error(), "{reply}");
            assert!(is(&super::shown(&mut client, "add"), "path", "kernel"));
        }
    }
}

const LONG_LIBRARIES: usize = 3;
/// More of them would not have room in one program.
const LONG_FUNCTIONS: usize = 16;

/// A library whose program takes some tenths of a second to make.
fn long_library(number: usize) -> String {
    let body = "redis.call('INCRBY', keys[1], 1) ".repeat(60);
    let functions: String = (0..LONG_FUNCTIONS)
        .map(|n| format!("redis.register_function('long{number}_{n}', function(keys) {body} end) "))
        .collect();
    format!("#!lua name=long{number}\n{functions}")
}

/// Functions whose program is there are the kernel's, though those of others are being made; and
/// the daemon's clients are answered meanwhile.
#[test]
fn nobody_waits_for_a_library_that_compiles_long() {
    let server = server();
    let mut client = server.client();
    load(&mut client, &version(1));
    for number in 0..LONG_LIBRARIES {
        let reply = ask(&mut client, &["FUNCTION", "LOAD", &long_library(number)]);
        assert!(!reply.is_error(), "{reply}");
    }
    let mut others_compile = false;
    // Replies of the daemon. If its thread compiled, there were a few for each library.
    let mut meanwhile = 0;
    wait_until("the short one is the kernel's again", || {
        let all = ask(&mut client, &["PROCEDURES"]).items;
        others_compile = all.iter().any(|one| is(one, "path", "compiling"));
        meanwhile += usize::from(others_compile);
        let short = all.iter().find(|one| is(one, "name", "add"));
        short.is_some_and(|one| is(one, "path", "kernel"))
    });
    assert!(others_compile, "the others were there before");
    wait_until("all are the kernel's", || {
        let all = ask(&mut client, &["PROCEDURES"]).items;
        meanwhile += usize::from(all.iter().any(|one| is(one, "path", "compiling")));
        let of_kernel = all.iter().filter(|one| is(one, "path", "kernel"));
        of_kernel.count() == LONG_LIBRARIES * LONG_FUNCTIONS + 1
    });
    assert!(meanwhile > 4 * LONG_LIBRARIES, "{meanwhile} replies");
}

const GONE_LIBRARIES: usize = 12;

/// Until `done`, how long that took.
fn time_until(what: &str, done: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    wait_until(what, done);
    begun.elapsed()
}

/// Nobody waits for the programs of libraries that are not there any more.
#[test]
fn what_is_gone_is_not_compiled() {
    let server = server();
    let mut client = server.client();
    let is_kernels = |client: &mut Client, name: &str| {
        let all = ask(client, &["PROCEDURES"]).items;
        let found = all.iter().find(|one| is(one, "name", name));
        found.is_some_and(|one| is(one, "path", "kernel"))
    };
    ask(&mut client, &["FUNCTION", "LOAD", &long_library(0)]);
    let one = time_until("one is the kernel's", || is_kernels(&mut client, "long0_0"));
    for number in 1..=GONE_LIBRARIES {
        ask(&mut client, &["FUNCTION", "LOAD", &long_library(number)]);
    }
    assert_eq!(client.say("FUNCTION FLUSH"), "+OK\r\n");
    load(&mut client, &version(1));
    let after = time_until("a library of later is the kernel's", || {
        is_kernels(&mut client, "add")
    });
    // Those that were compiled while the others came, the one that is being compiled, and this one.
    assert!(
        after < one * (GONE_LIBRARIES as u32) / 2,
        "{after:?}, and {one:?} for each that is gone"
    );
}

fn change(client: &mut super::Client, number: usize) {
    let gone = match number % 4 {
        1 => Some("FUNCTION DELETE lib"),
        3 => Some("FUNCTION FLUSH"),
        _ => None,
    };
    if let Some(command) = gone {
        let reply = client.say(command);
        assert!(reply == "+OK\r\n" || reply.contains("CONFLICT"), "{reply}");
    }
    let text = version(AMOUNTS[number % 2]);
    loop {
        let reply = ask(client, &["FUNCTION", "LOAD", "REPLACE", &text]);
        if !reply.is_error() {
            break;
        }
        assert!(reply.text.starts_with(b"CONFLICT"), "{reply}");
    }
}

/// The change has been acknowledged: no call adds anything else from here on, neither
/// before it is compiled again nor after.
fn expect_only(server: &TestServer, amount: u64) {
    let mut client = server.client();
    let until = Instant::now() + Duration::from_millis(700);
    let mut last = None;
    while Instant::now() < until {
        let reply = ask(&mut client, &["FCALL", "add", "2", "all", "probe"]);
        if reply.is_error() {
            assert!(reply.text.starts_with(b"CONFLICT"), "{reply}");
            continue;
        }
        let now = reply.number().expect("a number") as u64;
        if let Some(last) = last {
            assert_eq!(now - last, amount);
        }
        last = Some(now);
    }
}

/// A function that says which version it is, and in which order calls have committed.
fn numbered(version: &str) -> String {
    format!(
        "#!lua name=lib\nredis.register_function('version', function(keys) \
         redis.call('INCR', keys[1]) return {{redis.call('INCR', 'order'), '{version}'}} end)"
    )
}

const CALL: [&str; 4] = ["FCALL", "version", "1", "k"];

/// Another process writes the libraries, as `bpfdb restore` does. Soon no call is of what was
/// there before, on either way, nor of what is not there any more.
#[test]
fn what_another_process_writes_takes_over() {
    let server = server();
    let mut clients = [server.client(), server.unix_client()];
    // The daemon has its connection anyway.
    let mut asking = server.unix_client();
    load(&mut asking, &numbered("new"));
    let dump = ask(&mut asking, &["FUNCTION", "DUMP"]).text;
    load(&mut asking, &numbered("old"));
    daemon::warm(&mut clients[1], "version", &CALL);
    wait_until("the kernel answers", || {
        ask(&mut clients[0], &CALL);
        let by_daemon = daemon_calls(&mut asking, "version");
        kernel_calls(&mut asking, "version") > by_daemon
    });

    let mut session = server.engine.session().expect("a session");
    session.set(FUNCTIONS_KEY, &dump).expect("written");
    for client in &mut clients {
        let is_new = |client: &mut Client| ask(client, &CALL).items[1].text == b"new";
        wait_until("the new one is called", || is_new(client));
        assert!((0..100).all(|_| is_new(client)));
    }
    wait_until("the new one is compiled", || {
        clients
            .iter_mut()
            .for_each(|client| drop(ask(client, &CALL)));
        kernel_calls(&mut asking, "version") > 0
    });
    session.delete(FUNCTIONS_KEY).expect("deleted");
    for client in &mut clients {
        let is_gone = |client: &mut Client| ask(client, &CALL).is_error();
        wait_until("it is not there any more", || is_gone(client));
        assert!((0..100).all(|_| is_gone(client)));
    }
}

/// A call waits for a lock while its function is replaced, and another client calls the new one:
/// then it is of the new one, too.
#[test]
fn a_call_that_waits_is_of_what_is_there_then() {
    let server = server();
    let [mut holder, mut waiting, mut third] = [(); 3].map(|()| server.client());
    load(&mut third, &numbered("old"));
    // On a busy machine the script may take much longer than by itself.
    let set = ["CONFIG", "SET", "busy-reply-threshold", "60000"];
    assert!(!ask(&mut third, &set).is_error());
    // A third of a second and more: so long it has the lock. An emulated machine takes ten to twenty times
    // as long.
    let rounds = if is_emulated() { "5e6" } else { "15e6" };
    let loops = "redis.call('SET', KEYS[1], 1) \
                 for i = 1, tonumber(ARGV[1]) do KEYS[2] = i end return 1";
    let call = ["EVAL", loops, "1", "k", rounds];
    holder.send(&request(&call.map(str::as_bytes)));
    thread::sleep(Duration::from_millis(150));
    waiting.send(&request(&CALL.map(str::as_bytes)));
    thread::sleep(Duration::from_millis(50));
    let loaded = ask(
        &mut third,
        &["FUNCTION", "LOAD", "REPLACE", &numbered("new")],
    );
    assert!(!loaded.is_error(), "{loaded}");
    let other = ask(&mut third, &["FCALL", "version", "1", "other"]);
    assert_eq!(other.items[1].text, b"new", "{other}");

    let held = parsed(&holder.reply());
    assert_eq!(held.number(), Some(1), "{held}");
    let waited = parsed(&waiting.reply());
    let order = |reply: &super::Reply| reply.items[0].number().expect("a number");
    assert!(
        order(&waited) > order(&other),
        "the lock was free too early"
    );
    assert_eq!(waited.items[1].text, b"new", "{waited}");
}
