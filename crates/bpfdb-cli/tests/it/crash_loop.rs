//! A server is killed at any moment, again and again, with clients of all kinds at work. Its
//! successor finds the data in the kernel, or, as after a loss of power, only what the directory
//! has.

use crate::common;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::clients::{Beside, Client, Crash, Found, Life, Lost, Reader, check, flush, settle_all};
use common::{Served, alone};

/// Rounds of the short version, in each of the two loops, which share the processors: a round takes
/// two or three seconds of one, most of them for loading and unloading the programs.
const ROUNDS: u64 = 75;
/// Of the long one.
const SOAK_ROUNDS: u64 = 1500;
/// Says how many there are on a machine on which that takes longer.
const COUNT: &str = "BPFDB_TEST_CRASHES";
/// Says for how many seconds there are more.
const SECONDS: &str = "BPFDB_TEST_CRASH_SECONDS";
/// So long functions may take to come into the kernel.
const PROGRAMS: Duration = Duration::from_millis(500);
/// One of so many rounds has a checkpoint at its end, so that some are killed in the middle of it.
const CHECKPOINT: u64 = 3;
/// One of so many lives is longer than commits may take to the disk: what is older must be there then.
const LONG: u64 = 8;
/// Half of the losses of power take at most this: the pause between groups, a flush or two, and the
/// threads of a machine that does much else.
const USUAL_LOSS: Duration = Duration::from_millis(300);
/// One of so many engines is shared by others, who take a while to begin.
const SHARED: u64 = 2;
/// One of so many starts is killed before the server serves, or soon after that; again and again.
const IN_VAIN: u64 = 3;
/// After one of so many crashes somebody deletes everything, and the server is killed at once.
const FLUSH: u64 = 8;

/// What the server that comes after a crash finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// The data in the kernel: as after the death of the process alone.
    Kernel,
    /// The same; it is killed once more when everything is on the disk, though nobody wrote
    /// anything, and then there is the directory alone.
    QuietKernel,
    /// The directory alone: as after a loss of power.
    Directory,
}

struct Loop {
    _folder: tempfile::TempDir,
    data: PathBuf,
    socket: PathBuf,
    random: u64,
    clients: Vec<Client>,
    server: Served,
    beside: Option<Beside>,
    engines: u64,
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
    fn new(seed: u64) -> Self {
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
            random: seed,
            clients: Client::all(|_, _, _| ()),
            server,
            beside: None,
            engines: 0,
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

    fn random(&mut self, bound: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.random >> 33) % bound
    }

    fn round(&mut self, number: u64) {
        let time = Duration::from_millis(match self.random(LONG) {
            0 => 1500 + self.random(1000),
            _ => 20 + self.random(200),
        });
        let when = self.live(time, number.is_multiple_of(CHECKPOINT));
        let steps: usize = self
            .clients
            .iter()
            .map(|client| client.history.acknowledgements())
            .sum();
        let after = match self.random(8) {
            0 => After::QuietKernel,
            1..4 => After::Kernel,
            _ => After::Directory,
        };
        let always = self.always;
        let (lost, found) = self.come_back(when, after);
        if self.random(FLUSH) == 0 {
            self.flush();
        }
        if found == Found::Files {
            self.losses.push(lost.age);
        }
        let _ = writeln!(
            self.told,
            "{number}: {steps} acknowledged in {time:?}, always: {always}, then {after:?}, found \
             {found:?}: {lost:?}"
        );
    }

    /// In some lives functions are in the kernel from the beginning; else they come there while they
    /// are called. The first life has none.
    fn await_programs(&mut self) {
        let begun = Instant::now();
        let has_some = |server: &Served| server.figure("bpfdb", "bpfdb_procedure_programs") > 0;
        if self.random(2) == 0 {
            return;
        }
        while !has_some(&self.server) && begun.elapsed() < PROGRAMS {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Clients work, until the server is killed. The moment of that.
    fn live(&mut self, time: Duration, checkpoint: bool) -> Instant {
        if self.beside.is_none() && self.engines.is_multiple_of(SHARED) {
            self.beside = Some(Beside::attach(self.server.port, &self.clients));
        }
        self.await_programs();
        let over = AtomicBool::new(false);
        let life = Life {
            port: self.server.port,
            socket: &self.socket,
            beside: self.beside.as_ref(),
            always: self.always,
            over: &over,
        };
        let mut reader = Reader::new(&self.clients);
        let (clients, server) = (&mut self.clients, &mut self.server);
        let (calls_in_kernel, answered_in_send) =
            (&mut self.calls_in_kernel, &mut self.answered_in_send);
        let when = thread::scope(|scope| {
            for client in &mut *clients {
                scope.spawn(move || client.work(life));
            }
            scope.spawn(|| reader.work(life));
            thread::sleep(time / 2);
            *calls_in_kernel += server.figure("bpfdb", "bpfdb_procedure_calls");
            *answered_in_send += server.figure("bpfdb", "bpfdb_events_requests_local");
            if checkpoint {
                server.ask(&["BGSAVE"]);
            }
            thread::sleep(time / 2);
            // Before: on a busy machine a process takes long to end.
            let when = Instant::now();
            server.kill();
            over.store(true, Ordering::Relaxed);
            when
        });
        reader.tell(clients);
        when
    }

    fn come_back(&mut self, when: Instant, after: After) -> (Lost, Found) {
        let come_back = self.start(when, after != After::Directory);
        if after == After::QuietKernel {
            settle_all(&self.server, &mut self.clients);
            let when = Instant::now();
            self.server.kill();
            self.start(when, false);
        }
        come_back
    }

    /// Nothing is there when FLUSHALL was said to be durable.
    fn flush(&mut self) {
        flush(&self.server, &mut self.clients);
        // What is embedded remembers steps that are no more.
        self.beside = None;
        let when = Instant::now();
        self.server.kill();
        let kept = self.random(2) == 0;
        self.start(when, kept);
        self.flushed += 1;
    }

    /// The next server; what is there is what must be there.
    fn start(&mut self, when: Instant, kept: bool) -> (Lost, Found) {
        let committed = self.committed_beside();
        let fresh = self.start_in_vain(!kept);
        let begun = Instant::now();
        let options = self.options(fresh);
        self.server = Served::start_in(&self.data, self.server.port, &as_str(&options));
        self.start = begun.elapsed();
        // Only now: its writers have gone on, be it in the engine that the server has left behind.
        if let Some(beside) = &self.beside {
            beside.rest(&mut self.clients);
        }
        self.without_server += self.committed_beside() - committed;
        if !kept {
            self.beside = None;
            self.engines += 1;
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
    fn start_in_vain(&mut self, mut fresh: bool) -> bool {
        let begins_anew = fresh;
        while self.random(IN_VAIN) == 0 {
            let options = self.options(fresh);
            let longest = self.start.as_millis() as u64 * 5 / 4;
            let after = Duration::from_millis(self.random(longest));
            Served::start_and_kill(&self.data, self.server.port, &as_str(&options), after);
            self.in_vain += 1;
            // As after another loss of power, or after the death of the process alone.
            fresh = begins_anew && self.random(2) == 0;
        }
        fresh
    }

    /// Of the next server.
    fn options(&mut self, fresh: bool) -> Vec<String> {
        self.always = self.random(3) == 0;
        let sync = ["everysec", "always"][usize::from(self.always)];
        let local = ["auto", "off"][self.random(2) as usize];
        let unix = self.socket.to_str().expect("text");
        let options = [
            "--appendfsync",
            sync,
            "--local-clients",
            local,
            "--unixsocket",
            unix,
        ];
        let fresh = fresh.then_some("--fresh");
        options
            .into_iter()
            .chain(fresh)
            .map(str::to_owned)
            .collect()
    }

    /// Steps of the programs that share the engine.
    fn committed_beside(&self) -> u64 {
        let beside = self.beside.as_ref();
        beside.map_or(0, |beside| beside.committed(&self.clients))
    }
}

fn as_str(options: &[String]) -> Vec<&str> {
    options.iter().map(String::as_str).collect()
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

fn crash_loop(seed: u64, most: u64) {
    let most = variable(COUNT).unwrap_or(most);
    let time = variable(SECONDS).map_or(Duration::MAX, Duration::from_secs);
    let begun = Instant::now();
    let mut all = Loop::new(seed);
    let mut rounds = 0;
    while rounds < most && begun.elapsed() < time {
        all.round(rounds);
        rounds += 1;
    }
    println!("{}", all.told);
    println!("{rounds} rounds with seed {seed}");
    for client in &all.clients {
        println!("{}", client.describe());
        assert!(client.steps() > 0 || rounds < ROUNDS / 3);
    }
    println!("{} steps without a server", all.without_server);
    println!("{} answers inside send()", all.answered_in_send);
    println!("{} times FLUSHALL", all.flushed);
    println!("{} killed while they started", all.in_vain);
    assert!(all.in_vain > 0 || rounds < ROUNDS / 3);
    assert!(all.flushed > 0 || rounds < ROUNDS / 3);
    assert!(all.answered_in_send > 0 || rounds < ROUNDS / 3);
    assert!(all.calls_in_kernel > 0 && all.without_server > 0 || rounds < ROUNDS / 3);
    all.losses.sort_unstable();
    let usual = all.losses.get(all.losses.len() / 2);
    assert!(
        usual.is_none_or(|&age| age <= USUAL_LOSS) || rounds < ROUNDS / 3,
        "{:?}",
        all.losses
    );
    all.server.stop();
}

#[test]
fn nothing_that_was_promised_is_lost_when_the_server_is_killed() {
    crash_loop(7, ROUNDS);
}

/// The same with other moments, beside it.
#[test]
fn nothing_that_was_promised_is_lost_when_another_server_is_killed() {
    crash_loop(11, ROUNDS);
}

#[test]
#[ignore = "long: make soak"]
fn soak_nothing_that_was_promised_is_lost_when_the_server_is_killed() {
    crash_loop(17, SOAK_ROUNDS);
}

#[test]
#[ignore = "long: make soak"]
fn soak_nothing_that_was_promised_is_lost_when_another_server_is_killed() {
    crash_loop(23, SOAK_ROUNDS);
}
