//! A server is killed at any moment, again and again, with clients of all kinds at work. Its
//! successor finds the data in the kernel, or, as after a loss of power, only what the directory
//! has.

mod collections;
mod rounds;

use crate::common;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_tests::settings::is_emulated;
use common::clients::{
    Beside, Client, Crash, Found, Key, Life, Lost, Reader, check, flush, settle_all,
};
use common::{PATIENCE, Served, alone};
use rounds::{After, Flush, Options, Random, Round, Start, each_kind};

/// Rounds of the long version.
const SOAK_ROUNDS: u64 = 1500;
/// Says how many there are on a machine on which that takes longer.
const COUNT: &str = "BPFDB_TEST_CRASHES";
/// Says for how many seconds there are more.
const SECONDS: &str = "BPFDB_TEST_CRASH_SECONDS";
/// After fewer not every kind of client and of crash must have had its turn.
const FEW: u64 = 25;
/// The short version may need its rounds so many times on a busy machine, until each kind of client
/// has come to its turn.
const TIMES: u64 = 10;
/// So long functions may take to come into the kernel.
const PROGRAMS: Duration = Duration::from_millis(500);
/// Half of the losses of power take at most this: the pause between groups, a flush or two, and the
/// threads of a machine that does much else.
const USUAL_LOSS: Duration = Duration::from_millis(300);

struct Loop {
    _folder: tempfile::TempDir,
    data: PathBuf,
    socket: PathBuf,
    clients: Vec<Client>,
    server: Served,
    beside: Option<Beside>,
    always: bool,
    /// Calls that the kernel ran, as far as they were counted: up to the middle of each life.
    calls_in_kernel: u64,
    /// Requests that clients were answered inside their own send(), of all lives alike.
    answered_in_send: u64,
    /// Steps that programs in the kernel committed while there was no server.
    without_server: u64,
    /// How often everything was deleted.
    flushed: u64,
    /// How long a start took last.
    start: Duration,
    /// Servers that were killed while they started.
    in_vain: u64,
    /// How old what was lost was, of each loss of power.
    losses: Vec<Duration>,
    told: String,
}

impl Loop {
    fn new() -> Self {
        alone();
        let folder = tempfile::tempdir().expect("a directory");
        let data = folder.path().join("data");
        let socket = folder.path().join("socket");
        let unix = socket.to_str().expect("text");
        let server = Served::start_in(&data, 0, &["--unixsocket", unix]);
        Self {
            _folder: folder,
            data,
            socket,
            clients: Client::all(|_, _, _| ()),
            server,
            beside: None,
            always: false,
            calls_in_kernel: 0,
            answered_in_send: 0,
            without_server: 0,
            flushed: 0,
            start: Duration::from_secs(1),
            in_vain: 0,
            losses: Vec::new(),
            told: String::new(),
        }
    }

    fn round(&mut self, number: u64, round: &Round) {
        let when = self.live(round);
        let steps: usize = self
            .clients
            .iter()
            .map(|client| client.history.acknowledgements())
            .sum();
        let always = self.always;
        let (lost, found) = self.come_back(when, round);
        if let Some(flush) = &round.flush {
            self.flush(flush);
        }
        if found == Found::Files {
            self.losses.push(lost.age);
        }
        let _ = writeln!(
            self.told,
            "{number}: {steps} acknowledged, always: {always}, {round:?}, found {found:?}: {lost:?}"
        );
    }

    /// The first life has no functions yet.
    fn await_programs(&self) {
        let begun = Instant::now();
        let has_some = |server: &Served| server.figure("bpfdb", "bpfdb_procedure_programs") > 0;
        while !has_some(&self.server) && begun.elapsed() < PROGRAMS {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Clients work, until the server is killed. The moment of that.
    fn live(&mut self, round: &Round) -> Instant {
        if self.beside.is_none() && round.shared {
            self.beside = Some(Beside::attach(self.server.port, &self.clients));
        }
        if round.programs {
            self.await_programs();
        }
        let over = AtomicBool::new(false);
        let life = Life {
            port: self.server.port,
            socket: &self.socket,
            beside: self.beside.as_ref(),
            always: self.always,
            over: &over,
        };
        let mut reader = Reader::new(&self.clients);
        let count = self.clients.len();
        let (clients, server) = (&mut self.clients, &mut self.server);
        let (calls_in_kernel, answered_in_send) =
            (&mut self.calls_in_kernel, &mut self.answered_in_send);
        let when = thread::scope(|scope| {
            for client in &mut *clients {
                scope.spawn(move || client.work(life));
            }
            scope.spawn(|| reader.work(life));
            let alive = Alive {
                server,
                over: &over,
            };
            let server = &*alive.server;
            thread::sleep(round.time / 2);
            if round.awaits_all && !is_emulated() {
                await_all(server, count);
            }
            *calls_in_kernel += server.figure("bpfdb", "bpfdb_procedure_calls");
            *answered_in_send += server.figure("bpfdb", "bpfdb_events_requests_local");
            if round.checkpoint {
                server.ask(&["BGSAVE"]);
            }
            thread::sleep(round.time / 2);
            // Before: on a busy machine a process takes long to end.
            let when = Instant::now();
            drop(alive);
            when
        });
        reader.tell(clients);
        when
    }

    fn come_back(&mut self, when: Instant, round: &Round) -> (Lost, Found) {
        let kept = !matches!(round.after, After::Directory);
        let come_back = self.start(when, kept, &round.next);
        if let After::QuietKernel(next) = &round.after {
            settle_all(&self.server, &mut self.clients);
            let when = Instant::now();
            self.server.kill();
            self.start(when, false, next);
        }
        come_back
    }

    /// Nothing is there when FLUSHALL was said to be durable.
    fn flush(&mut self, how: &Flush) {
        flush(&self.server, &mut self.clients);
        // What is embedded remembers steps that are no more.
        self.beside = None;
        let when = Instant::now();
        self.server.kill();
        self.start(when, how.kept, &how.next);
        self.flushed += 1;
    }

    /// The next server; what is there is what must be there.
    fn start(&mut self, when: Instant, kept: bool, start: &Start) -> (Lost, Found) {
        let committed = self.committed_beside();
        let fresh = self.start_in_vain(!kept, start);
        let begun = Instant::now();
        let options = self.options(start.options, fresh);
        self.server = Served::start_in(&self.data, self.server.port, &options);
        self.always = start.options.always;
        self.start = begun.elapsed();
        // Only now: its writers have gone on, be it in the engine that the server has left behind.
        if let Some(beside) = &self.beside {
            beside.rest(&mut self.clients);
        }
        self.without_server += self.committed_beside() - committed;
        if !kept {
            self.beside = None;
        }
        let found = match (kept, fresh) {
            (true, _) => Found::Kernel,
            (false, true) => Found::Files,
            // A server that was to begin anew was killed: early, so that all of before is there, or
            // when it had recovered.
            (false, false) => Found::Either,
        };
        let lost = check(&self.server, &mut self.clients, Crash { when, found });
        (lost, found)
    }

    /// Servers that are killed while they start: at any moment of that, or soon after. Must the next
    /// one begin with the directory alone?
    fn start_in_vain(&mut self, mut fresh: bool, start: &Start) -> bool {
        let begins_anew = fresh;
        for killed in &start.killed {
            let options = self.options(killed.options, fresh);
            let after = self.start.mul_f64(killed.after as f64 / 100.0);
            Served::start_and_kill(&self.data, self.server.port, &options, after);
            self.in_vain += 1;
            // As after another loss of power, or after the death of the process alone.
            fresh = begins_anew && killed.loses_power;
        }
        fresh
    }

    /// Of the next server.
    fn options(&self, options: Options, fresh: bool) -> Vec<&str> {
        let sync = ["everysec", "always"][usize::from(options.always)];
        let local = ["off", "auto"][usize::from(options.local)];
        let unix = self.socket.to_str().expect("text");
        let words = [
            // Connections that were given up a moment ago count, too, until the server has noticed.
            "--maxclients",
            "128",
            "--appendfsync",
            sync,
            "--local-clients",
            local,
            "--unixsocket",
            unix,
        ];
        let fresh = fresh.then_some("--fresh");
        words.into_iter().chain(fresh).collect()
    }

    /// Steps of the programs that share the engine.
    fn committed_beside(&self) -> u64 {
        let beside = self.beside.as_ref();
        beside.map_or(0, |beside| beside.committed(&self.clients))
    }
}

/// A server for which clients write. Dropped, also by a check that has failed, it is killed, and the clients end: the test waits
/// for them.
struct Alive<'a> {
    server: &'a mut Served,
    over: &'a AtomicBool,
}

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        self.server.kill();
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Waits until each client has written, the kernel has run calls, and has answered inside a send(). It does
/// not fail: clients go on until their server is killed.
fn await_all(server: &Served, clients: usize) {
    let has_written = |id: usize| {
        let names = Key::ALL.map(|key| key.of(&id));
        let words: Vec<&str> = ["EXISTS"]
            .into_iter()
            .chain(names.iter().map(String::as_str))
            .collect();
        server
            .ask(&words)
            .strip_prefix(':')
            .is_some_and(|count| count != "0")
    };
    let has_some = |name| server.figure("bpfdb", name) > 0;
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE
        && !((0..clients).all(has_written)
            && has_some("bpfdb_procedure_calls")
            && has_some("bpfdb_events_requests_local"))
    {
        thread::sleep(Duration::from_millis(20));
    }
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

impl Loop {
    /// Has everything happened that should?
    fn is_complete(&self) -> bool {
        let figures = [
            self.in_vain,
            self.flushed,
            self.answered_in_send,
            self.calls_in_kernel,
            self.without_server,
        ];
        self.clients.iter().all(|client| client.steps() > 0) && !figures.contains(&0)
    }

    fn describe(&self) {
        println!("{}", self.told);
        for client in &self.clients {
            println!("{}", client.describe());
        }
        println!("{} calls in the kernel", self.calls_in_kernel);
        println!("{} steps without a server", self.without_server);
        println!("{} answers inside send()", self.answered_in_send);
        println!("{} times FLUSHALL", self.flushed);
        println!("{} killed while they started", self.in_vain);
    }
}

fn crash_loop(seed: u64) {
    let most = variable(COUNT).unwrap_or(SOAK_ROUNDS);
    let time = variable(SECONDS).map_or(Duration::MAX, Duration::from_secs);
    let begun = Instant::now();
    let (mut all, mut random) = (Loop::new(), Random(seed));
    let mut rounds = 0;
    while rounds < most && begun.elapsed() < time {
        all.round(rounds, &random.round(rounds));
        rounds += 1;
    }
    all.describe();
    println!("{rounds} rounds with seed {seed}");
    assert!(all.is_complete() || rounds < FEW);
    all.losses.sort_unstable();
    let usual = all.losses.get(all.losses.len() / 2);
    assert!(
        usual.is_none_or(|&age| age <= USUAL_LOSS) || rounds < FEW,
        "{:?}",
        all.losses
    );
    all.server.stop();
}

/// Each kind of client, of crash and of start, in few rounds.
#[test]
fn nothing_that_was_promised_is_lost_when_the_server_is_killed() {
    let mut all = Loop::new();
    let rounds = each_kind();
    for time in 0..TIMES {
        for (number, round) in (time * rounds.len() as u64..).zip(&rounds) {
            all.round(number, round);
        }
        if all.is_complete() || is_emulated() {
            break;
        }
    }
    all.describe();
    assert!(all.is_complete() || is_emulated());
    all.server.stop();
}

#[test]
#[ignore = "long: make soak"]
fn soak_nothing_that_was_promised_is_lost_when_the_server_is_killed() {
    crash_loop(17);
}

#[test]
#[ignore = "long: make soak"]
fn soak_nothing_that_was_promised_is_lost_when_another_server_is_killed() {
    crash_loop(23);
}
