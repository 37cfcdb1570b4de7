//! Random programs, compiled, interpreted, and in Redis: replies, data, times.

use bpfdb_server::settings::Settings;
use bpfdb_tests::settings::is_emulated;

use super::common::{Client, Lent, Redis, Reply, TestServer};
use super::{all_kernel_calls, ask, daemon, load, server};
use bpfdb_tests::programs;

/// Functions of one library, which are one program. FUNCTION LOAD has half a second for them, in which
/// an emulated machine cannot run the text of so many.
pub(super) fn each() -> u64 {
    if is_emulated() { 5 } else { 25 }
}

/// Of so many programs, those for which there is time: an emulated machine needs half an hour for all.
/// (What its verifier says of ten thousand `make vm-programs` shows.)
pub(super) fn in_time(programs: u64) -> u64 {
    if is_emulated() {
        programs / 4
    } else {
        programs
    }
}

pub(super) fn library(first: u64) -> String {
    programs::library(first..first + each())
}

/// What a program is called with: its number, and which of its calls this is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub seed: u64,
    pub round: u64,
}

impl Case {
    /// Rounds that follow each other differ in every choice that is made by this.
    fn choice(self) -> u64 {
        self.seed + 5 * self.round
    }

    /// Fewer arguments on purpose, and some that are no numbers.
    pub(super) fn arguments(self) -> Vec<&'static str> {
        let third = ["9", "zz", "1e3", ""][(self.choice() / 4 % 4) as usize];
        let first = ["3", "-0", "9007199254740992", "100000000000000"];
        let mut all = vec![first[(self.choice() / 8 % 4) as usize], "7", third, "12"];
        all.truncate([4, 3, 4, 2, 4, 1, 0][(self.choice() % 7) as usize]);
        all
    }

    fn key(self) -> &'static str {
        ["8", "abc", "", "9007199254740991"][(self.choice() % 4) as usize]
    }

    pub(super) fn words(self) -> Vec<String> {
        let name = format!("f{}", self.seed);
        let mut words: Vec<String> = ["FCALL", &name, "3", "k1", "k2", "k3"]
            .map(Into::into)
            .into();
        words.extend(self.arguments().into_iter().map(String::from));
        words
    }

    /// What a failed comparison says.
    pub(super) fn told(self) -> String {
        format!("{:?} for\n{}", self.words(), programs::body(self.seed))
    }
}

/// Keys as they are before each call; some are no numbers, one is not there. By commands that the
/// kernel answers: after one of the daemon's, it might have the connection when the call comes.
pub(super) fn prepare(client: &mut Client, case: Case) {
    client.say("DEL k1 k2 k3 9");
    client.say("SET k1 5");
    ask(client, &["SET", "k2", case.key(), "EX", "1000"]);
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

/// A text may run for half a second, here as in Redis. On an emulated machine that may be over
/// because others had the processor.
fn load_in_time(client: &mut Client, text: &str) {
    let tries = if is_emulated() { 10 } else { 1 };
    let mut loads = (0..tries).map(|_| ask(client, &["FUNCTION", "LOAD", "REPLACE", text]));
    let reply = loads.find(|reply| !reply.to_string().contains("FUNCTION LOAD timeout"));
    let reply = reply.expect("a text that is loaded in time");
    assert!(!reply.is_error(), "{reply}");
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
            load_in_time(client, text);
        }
    }

    /// The reply, and what it leaves: data and times.
    fn call(&mut self, case: Case) -> [Outcome; 3] {
        let words = case.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        [&mut self.compiled, &mut self.interpreted, &mut self.redis].map(|client| {
            prepare(client, case);
            let reply = ask(client, &words);
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
    /// By Lua or by a command, not by the program.
    fn is_raised(&self) -> bool {
        self.reply.is_error() && !self.reply.text.starts_with(b"MY oops")
    }

    fn is_that_of(&self, other: &Self) -> bool {
        self.reply == other.reply
            && self.data == other.data
            && times_agree(&self.times, &other.times)
    }
}

/// One call on all sides. An error of Lua leaves in Redis what was written before it.
fn compare(sides: &mut Sides, case: Case) {
    let [compiled, interpreted, redis] = sides.call(case);
    assert!(
        compiled.is_that_of(&interpreted),
        "{compiled:?}, interpreted {interpreted:?}: {}",
        case.told()
    );
    let same = match redis.is_raised() {
        true => compiled.reply == redis.reply,
        false => compiled.is_that_of(&redis),
    };
    assert!(same, "{compiled:?}, Redis {redis:?}: {}", case.told());
}

/// A server that compiles nothing.
fn interpreter() -> Lent {
    let settings = Settings {
        compile_procedures: false,
        ..Settings::default()
    };
    TestServer::lent(&bpfdb::Options::default(), settings)
}

/// The calls that the kernel answered, of so many of each program. `by_daemon`: to none of them
/// directly.
fn run(libraries: std::ops::Range<u64>, rounds: u64, by_daemon: bool) -> i64 {
    let (ours, interpreter, redis) = (server(), interpreter(), Redis::start());
    let mut sides = Sides {
        compiled: match by_daemon {
            true => ours.unix_client(),
            false => ours.client(),
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
            for round in 0..rounds {
                compare(&mut sides, Case { seed, round });
            }
        }
        in_kernel += all_kernel_calls(&mut sides.compiled);
    }
    assert_eq!(all_kernel_calls(&mut sides.interpreted), 0);
    in_kernel
}

#[test]
fn random_programs_mean_the_same() {
    let libraries = in_time(60) / each();
    let in_kernel = run(0..libraries, 1, false);
    let calls = (libraries * each()) as i64;
    // The others had no meaning there, and were given up, or came right after such a one.
    println!("the kernel answered {in_kernel} of {calls} calls");
    assert!(in_kernel * 4 > calls, "{in_kernel} of {calls}");
}

/// Called by a client whose requests the kernel does not see.
#[test]
fn random_programs_mean_the_same_to_clients_of_the_daemon() {
    let (first, libraries) = (10_200 / each(), in_time(30) / each());
    let in_kernel = run(first..first + libraries, 1, true);
    // Those that have made it warm not counted.
    let calls = (libraries * each()) as i64;
    println!("the kernel answered {in_kernel} of {calls} calls, or a few more");
    assert!(in_kernel * 5 > calls * 2, "{in_kernel} of {calls}");
}

#[test]
#[ignore = "ten thousand programs take minutes"]
fn soak_random_programs() {
    const LIBRARIES: u64 = 408;
    const ROUNDS: u64 = 3;
    for by_daemon in [false, true] {
        let in_kernel = run(4..4 + LIBRARIES, ROUNDS, by_daemon);
        let calls = (LIBRARIES * each() * ROUNDS) as i64;
        println!("the kernel answered {in_kernel} of {calls} calls");
        assert!(in_kernel * 4 > calls, "{in_kernel} of {calls}");
    }
}
