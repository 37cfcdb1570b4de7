//! Random programs, compiled, interpreted, and in Redis: replies, data, times.

use bpfdb_server::settings::Settings;
use bpfdb_tests::settings::is_emulated;

use super::common::{Client, Redis, Reply, TestServer};
use super::programs;
use super::{WithSocket, all_kernel_calls, ask, daemon, load};

/// Functions of one library, which are one program. FUNCTION LOAD has half a second for them, in which
/// an emulated machine cannot run the text of so many.
pub(super) fn each() -> u64 {
    if is_emulated() { 5 } else { 25 }
}

pub(super) fn library(first: u64) -> String {
    let functions: String = (first..first + each())
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

/// The sides of a comparison.
struct Sides {
    /// Whose calls the kernel answers, if it can.
    compiled: Client,
    /// Whose calls the interpreter answers.
    interpreted: Client,
    redis: Client,
}

impl Sides {
    fn load(&mut self, text: &str) {
        load(&mut self.compiled, text);
        let all = ask(&mut self.compiled, &["PROCEDURES"]).to_string();
        for reason in ["has no room", "too many ways"] {
            assert!(!all.contains(reason), "{all}");
        }
        for client in [&mut self.interpreted, &mut self.redis] {
            let reply = ask(client, &["FUNCTION", "LOAD", "REPLACE", text]);
            assert!(!reply.is_error(), "{reply}");
        }
    }

    /// The reply, and what it leaves: data and times.
    fn call(&mut self, seed: u64, words: &[&str]) -> [Outcome; 3] {
        [&mut self.compiled, &mut self.interpreted, &mut self.redis].map(|client| {
            prepare(client, seed);
            let reply = ask(client, words);
            let (data, times) = state(client);
            Outcome { reply, data, times }
        })
    }
}

#[derive(Debug)]
struct Outcome {
    reply: Reply,
    data: Reply,
    times: Vec<Option<i64>>,
}

impl Outcome {
    fn is_raised(&self) -> bool {
        self.reply.is_error() && !self.reply.text.starts_with(b"MY oops")
    }

    fn is_that_of(&self, other: &Self) -> bool {
        self.reply == other.reply
            && self.data == other.data
            && times_agree(&self.times, &other.times)
    }
}

/// One call on all sides. What is an error of Lua has another text in Redis, and leaves something
/// there.
fn compare(sides: &mut Sides, seed: u64) {
    let third = ["9", "zz", "1e3", ""][(seed / 4 % 4) as usize];
    let name = format!("f{seed}");
    let mut words = vec!["FCALL", &name, "3", "k1", "k2", "k3", "3", "7", third, "12"];
    // Fewer arguments on purpose.
    words.truncate(10 - (seed % 3) as usize);
    let [compiled, interpreted, redis] = sides.call(seed, &words);
    let told = || format!("{} for\n{}", words.join(" "), programs::body(seed));
    assert!(
        compiled.is_that_of(&interpreted),
        "{compiled:?}, interpreted {interpreted:?}: {}",
        told()
    );
    let same = match redis.is_raised() {
        true => compiled.is_raised(),
        false => compiled.is_that_of(&redis),
    };
    assert!(same, "{compiled:?}, Redis {redis:?}: {}", told());
}

/// A server that compiles nothing.
fn interpreter() -> TestServer {
    let settings = Settings {
        compile_procedures: false,
        ..Settings::default()
    };
    TestServer::start_with(&bpfdb::Options::default(), settings)
}

/// The calls that the kernel answered. `by_daemon`: to none of them directly.
fn run(libraries: std::ops::Range<u64>, by_daemon: bool) -> i64 {
    let (ours, interpreter, redis) = (WithSocket::start(), interpreter(), Redis::start());
    let mut sides = Sides {
        compiled: match by_daemon {
            true => ours.unix_client(),
            false => ours.server.client(),
        },
        interpreted: interpreter.client(),
        redis: Client::connect(redis.address),
    };
    let mut in_kernel = 0;
    for number in libraries {
        let first = number * each();
        sides.load(&format!("{}{}", library(first), daemon::WARM));
        if by_daemon {
            daemon::warm(&mut sides.compiled, "warm", &["FCALL", "warm", "0"]);
        }
        for seed in first..first + each() {
            compare(&mut sides, seed);
        }
        in_kernel += all_kernel_calls(&mut sides.compiled);
    }
    assert_eq!(all_kernel_calls(&mut sides.interpreted), 0);
    in_kernel
}

#[test]
fn random_programs_mean_the_same() {
    let libraries = 200 / each();
    let in_kernel = run(0..libraries, false);
    let calls = (libraries * each()) as i64;
    // The others had no meaning there, and were given up, or came right after such a one.
    println!("the kernel answered {in_kernel} of {calls} calls");
    assert!(in_kernel * 4 > calls, "{in_kernel} of {calls}");
}

/// Called by a client whose requests the kernel does not see.
#[test]
fn random_programs_mean_the_same_to_clients_of_the_daemon() {
    let (first, libraries) = (10_200 / each(), 100 / each());
    let in_kernel = run(first..first + libraries, true);
    // Those that have made it warm not counted.
    let calls = (libraries * each()) as i64;
    println!("the kernel answered {in_kernel} of {calls} calls, or a few more");
    assert!(in_kernel * 5 > calls * 2, "{in_kernel} of {calls}");
}

#[test]
#[ignore = "ten thousand programs take minutes"]
fn soak_random_programs() {
    for by_daemon in [false, true] {
        let in_kernel = run(8..408, by_daemon);
        let calls = (400 * each()) as i64;
        println!("the kernel answered {in_kernel} of {calls} calls");
        assert!(in_kernel * 5 > calls, "{in_kernel} of {calls}");
    }
}
