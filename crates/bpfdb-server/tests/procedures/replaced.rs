//! Libraries that change while they are called.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::common::{AtEnd, Client, TestServer, wait_until};
use super::{WithSocket, ask, daemon_calls, kernel_calls, load};

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

/// Replaced, deleted and flushed by one client, called by others: what the calls said and what
/// is there at the end is the same, and after each reply to the change only the new version
/// runs.
#[test]
fn sums_of_both_versions_are_exact() {
    let with_socket = WithSocket::start();
    let server = &with_socket.server;
    let (over, sum) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut client = server.client();
    load(&mut client, &version(AMOUNTS[0]));
    thread::scope(|scope| {
        let end = AtEnd::of(&over);
        for number in 0..4 {
            let (over, sum) = (&over, &sum);
            let client = match number % 2 {
                0 => server.client(),
                _ => with_socket.unix_client(),
            };
            scope.spawn(move || call_until(client, &format!("own{number}"), over, sum));
        }
        let until = Instant::now() + Duration::from_secs(6);
        let mut changes = 0;
        while Instant::now() < until {
            change(&mut client, changes);
            let amount = AMOUNTS[changes % 2];
            expect_only(server, u64::from(amount));
            changes += 1;
        }
        assert!(changes > 5, "{changes}");
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

fn change(client: &mut super::Client, number: usize) {
    if number % 3 == 1 {
        let reply = client.say("FUNCTION DELETE lib");
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

/// The change has been acknowledged: nobody's call adds anything else from here on, neither
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
