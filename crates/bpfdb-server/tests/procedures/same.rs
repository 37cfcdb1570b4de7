//! Random programs beside Redis: replies, data, times.

use super::common::{Client, Redis, Reply};
use super::programs;
use super::{WithSocket, all_kernel_calls, ask, daemon, load};

/// Functions of one library, which are one program.
pub(super) const EACH: u64 = 25;

pub(super) fn library(first: u64) -> String {
    let functions: String = (first..first + EACH)
        .map(|seed| {
            let body = programs::body(seed);
            format!("redis.register_function('f{seed}', function(KEYS, ARGV)\n{body}end)\n")
        })
        .collect();
    format!("#!lua name=lib\n{functions}")
}

/// Keys as they are before each call; some are no numbers, one is not there. By commands that the
/// kernel answers: after one of the daemon's, it might have the connection when the call comes.
pub(super) fn prepare(client: &mut Client, seed: u64) {
    let second = ["8", "abc", "", "9007199254740991"][(seed % 4) as usize];
    client.say("DEL k1 k2 k3 9");
    client.say("SET k1 5");
    ask(client, &["SET", "k2", second, "EX", "1000"]);
}

/// Values and times, which may have gone on by a second.
fn state(client: &mut Client) -> (Reply, Vec<Option<i64>>) {
    let values = ask(client, &["MGET", "k1", "k2", "k3", "9"]);
    let times = ["k1", "k2", "k3"].map(|key| ask(client, &["TTL", key]).number());
    (values, times.to_vec())
}

fn times_agree(ours: &[Option<i64>], theirs: &[Option<i64>]) -> bool {
    ours.iter().zip(theirs).all(|pair| match pair {
        (Some(a), Some(b)) => (a - b).abs() <= 1 && (a.signum() == b.signum()),
        _ => false,
    })
}

/// One call on both sides. What is an error of Lua has another text here and there, and leaves
/// something in Redis.
fn compare(clients: &mut [Client; 2], seed: u64) {
    let third = ["9", "zz", "1e3", ""][(seed / 4 % 4) as usize];
    let name = format!("f{seed}");
    let mut words = vec!["FCALL", &name, "3", "k1", "k2", "k3", "3", "7", third, "12"];
    // Fewer arguments on purpose.
    words.truncate(10 - (seed % 3) as usize);
    let replies = clients.each_mut().map(|client| {
        prepare(client, seed);
        ask(client, &words)
    });
    let told = || format!("{} for\n{}", words.join(" "), programs::body(seed));
    let [ours, theirs] = &replies;
    let is_raised = |reply: &Reply| reply.is_error() && !reply.text.starts_with(b"MY oops");
    if is_raised(theirs) {
        assert!(is_raised(ours), "{ours}, {theirs}: {}", told());
        return;
    }
    assert_eq!(ours, theirs, "{}", told());
    let [ours, theirs] = clients.each_mut().map(state);
    assert_eq!(ours.0, theirs.0, "data after {}", told());
    assert!(
        times_agree(&ours.1, &theirs.1),
        "{:?}, {:?}: {}",
        ours.1,
        theirs.1,
        told()
    );
}

/// The calls that the kernel answered. `by_daemon`: to none of them directly.
fn run(libraries: std::ops::Range<u64>, by_daemon: bool) -> i64 {
    let (ours, redis) = (WithSocket::start(), Redis::start());
    let own = match by_daemon {
        true => ours.unix_client(),
        false => ours.server.client(),
    };
    let mut clients = [own, Client::connect(redis.address)];
    let mut in_kernel = 0;
    for number in libraries {
        let first = number * EACH;
        let text = format!("{}{}", library(first), daemon::WARM);
        load(&mut clients[0], &text);
        if by_daemon {
            daemon::warm(&mut clients[0], "warm", &["FCALL", "warm", "0"]);
        }
        let reply = ask(&mut clients[1], &["FUNCTION", "LOAD", "REPLACE", &text]);
        assert!(!reply.is_error(), "{reply}");
        for seed in first..first + EACH {
            compare(&mut clients, seed);
        }
        in_kernel += all_kernel_calls(&mut clients[0]);
    }
    in_kernel
}

#[test]
fn random_programs_mean_the_same() {
    let libraries = 8;
    let in_kernel = run(0..libraries, false);
    let calls = (libraries * EACH) as i64;
    // The others had no meaning there, and were given up, or came right after such a one.
    println!("the kernel answered {in_kernel} of {calls} calls");
    assert!(in_kernel * 4 > calls, "{in_kernel} of {calls}");
}

/// Called by a client whose requests the kernel does not see.
#[test]
fn random_programs_mean_the_same_to_clients_of_the_daemon() {
    let libraries = 4;
    let in_kernel = run(408..408 + libraries, true);
    // Those that have made it warm not counted.
    let calls = (libraries * EACH) as i64;
    println!("the kernel answered {in_kernel} of {calls} calls, or a few more");
    assert!(in_kernel * 5 > calls * 2, "{in_kernel} of {calls}");
}

#[test]
#[ignore = "ten thousand programs take minutes"]
fn soak_random_programs() {
    for by_daemon in [false, true] {
        let in_kernel = run(8..408, by_daemon);
        println!("the kernel answered {in_kernel} of {} calls", 400 * EACH);
    }
}
