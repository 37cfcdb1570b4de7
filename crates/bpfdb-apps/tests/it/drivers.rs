//! Every application, on bpfdb and on Redis: compiled, interpreted, and the original.

use bpfdb_tests::server as common;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bpfdb_apps::application::{self, Application, Outcome, Usage};
use bpfdb_apps::client::{Address, Client};
use bpfdb_apps::procedures::{ENGINE_ERROR, procedures, wait_for_kernel};
use bpfdb_apps::random::Distribution;
use bpfdb_apps::rate_limiter::{Bucket, Window};
use bpfdb_apps::smallbank::SmallBank;
use bpfdb_apps::tatp::Tatp;
use bpfdb_apps::voter::{self, Voter};
use bpfdb_apps::{idempotency, lock};
use bpfdb_server::settings::{LocalClients, Settings};
use bpfdb_tests::namespace;

use common::lent::plain;
use common::{AtEnd, Redis, TestServer, cgroup};

const CLIENTS: usize = 8;
const CALLS: usize = 4000;
/// Of applications whose clients wait for each other.
const CALLS_IN_TURN: usize = 800;
const PIPELINE: usize = 16;
/// Of the calls, on a busy machine.
const IN_KERNEL_PERCENT: u64 = 50;

struct Target {
    address: Address,
    /// Functions run in the kernel.
    compiles: bool,
}

impl Target {
    fn client(&self) -> Client {
        Client::connect(&self.address).expect("a connection")
    }

    fn load(&self, library: &str) {
        let mut client = self.client();
        client.load_library(library).expect("a library");
        if self.compiles {
            wait_for_kernel(&mut client).expect("functions in the kernel");
        }
    }

    /// Loads, runs and checks an application.
    fn run<A: Application>(&self, app: &A, pipeline: usize) -> Outcome {
        self.run_as(app.library(), |usage| {
            let usage = Usage { pipeline, ..usage };
            application::run(app, &self.address, &usage)
        })
    }

    fn run_as(&self, library: &str, run: impl FnOnce(Usage) -> anyhow::Result<Outcome>) -> Outcome {
        self.load(library);
        let before = self.answered();
        let outcome = run(Usage {
            clients: CLIENTS,
            calls: CALLS,
            pipeline: 1,
            seed: 1,
        });
        let outcome = outcome.unwrap_or_else(|error| panic!("{error:#}"));
        if self.compiles {
            self.check_path(&outcome, &before);
        }
        outcome
    }

    /// Calls that the kernel answered.
    fn answered(&self) -> BTreeMap<String, u64> {
        if !self.compiles {
            return BTreeMap::new();
        }
        let all = procedures(&mut self.client()).expect("procedures");
        all.into_iter()
            .map(|(name, one)| (name, one.calls))
            .collect()
    }

    /// The kernel answered the calls, all but those that met others too often: one that is interrupted
    /// with a lock keeps it. The calls behind such a one in a pipeline are the daemon's, too.
    fn check_path(&self, outcome: &Outcome, before: &BTreeMap<String, u64>) {
        let all = procedures(&mut self.client()).expect("procedures");
        let mut wrong = String::new();
        for (&function, &calls) in &outcome.calls {
            let one = &all[function];
            let answered = one.calls - before[function];
            let by_others = |reason: &String| reason == ENGINE_ERROR;
            let is_right = one.path == "kernel"
                && answered * 100 >= calls * IN_KERNEL_PERCENT
                && one.given_up.keys().all(by_others);
            if !is_right {
                let _ = writeln!(wrong, "{calls} calls of {function}: {one:?}");
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
    }
}

fn all(target: &Target) {
    let uniform = Voter::new(voter::CONTESTANTS, 1000, 4, Distribution::Uniform);
    let votes = target.run(&uniform, PIPELINE);
    for end in ["accepted", "no such contestant", "over the limit"] {
        assert!(votes.end(end) > 0, "{votes:?}");
    }

    let bank = target.run(&SmallBank::new(200, 2000), PIPELINE);
    for end in ["done", "overdrawn", "refused"] {
        assert!(bank.end(end) > 0, "{bank:?}");
    }
    assert_eq!(bank.calls.len(), 6);

    let tatp = target.run(&Tatp::new(100), PIPELINE);
    assert_eq!(tatp.calls.len(), 7);
    assert!(tatp.end("no such row") > 0, "{tatp:?}");

    for limited in [
        target.run(&Window::new(2, 20, 100), 1),
        target.run(&Bucket::new(2, 20, 5), 1),
    ] {
        let through = limited.end("let through");
        assert!(through > 0 && limited.end("limited") > 0, "{limited:?}");
    }

    let in_turn = |usage| Usage {
        calls: CALLS_IN_TURN,
        ..usage
    };
    let held = target.run_as(lock::LIBRARY, |usage| {
        lock::run(&target.address, &in_turn(usage), 2)
    });
    assert_eq!(held.end("held"), CALLS_IN_TURN as u64);
    assert_eq!(held.calls.len(), 3);

    let once = target.run_as(idempotency::LIBRARY, |usage| {
        idempotency::run(&target.address, &usage, 300)
    });
    for end in ["new", "done", "finished", "given up"] {
        assert!(once.end(end) > 0, "{once:?}");
    }
}

#[test]
fn in_the_kernel() {
    let server = plain();
    all(&Target {
        address: Address::Tcp(server.address),
        compiles: true,
    });
}

#[test]
fn in_the_interpreter() {
    // The one way to the daemon that the kernel has no part in, besides.
    let socket = namespace::files().folder.join("bpfdb.sock");
    let settings = Settings {
        compile_procedures: false,
        unix_socket: Some(socket.clone()),
        ..Settings::default()
    };
    let _server = TestServer::start_with(&bpfdb::Options::default(), settings);
    let target = Target {
        address: Address::Unix(socket),
        compiles: false,
    };
    all(&target);
    let answered = procedures(&mut target.client()).expect("procedures");
    let in_kernel: u64 = answered.values().map(|one| one.calls).sum();
    assert_eq!(in_kernel, 0);
}

#[test]
fn on_redis() {
    let redis = Redis::start();
    all(&Target {
        address: Address::Tcp(redis.address),
        compiles: false,
    });
}

/// The program that runs one of them: on an empty server only, unless it may empty it.
#[test]
fn by_the_program() {
    let server = plain();
    let port = server.address.port().to_string();
    let run = |name: &str, more: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_bpfdb-apps"));
        let output = program
            .args([name, "--port", &port, "--calls", "2000"])
            .args(more)
            .output();
        let output = output.expect("it runs");
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8_lossy(&text).into_owned(),
        )
    };
    for name in [
        "voter",
        "smallbank",
        "tatp",
        "window",
        "bucket",
        "lock",
        "idempotency",
    ] {
        let (is_right, text) = run(name, &["--flush"]);
        assert!(is_right && text.contains("the data is right"), "{text}");
    }
    assert!(run("voter", &[]).0);
    let (is_right, text) = run("voter", &[]);
    assert!(!is_right && text.contains("use an empty one"), "{text}");
}

/// All votes are for one contestant: every transaction writes the same record.
#[test]
fn all_clients_on_one_record() {
    let server = plain();
    let target = Target {
        address: Address::Tcp(server.address),
        compiles: true,
    };
    let votes = target.run(
        &Voter::new(1, 1_000_000, 10, Distribution::Uniform),
        PIPELINE,
    );
    assert!(votes.end("accepted") > CALLS as u64 * 9 / 10, "{votes:?}");

    // And by one phone.
    target.client().ask(&["FLUSHALL"]).expect("flushed");
    let limit = CALLS as u32 / 2;
    let app = Voter::new(1, 1, limit, Distribution::Uniform);
    let votes = target.run(&app, PIPELINE);
    assert_eq!(votes.end("accepted"), u64::from(limit));
}

/// Something else takes the time of every processor.
fn beside_busy_loops<R>(work: impl FnOnce() -> R) -> R {
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        let _at_end = AtEnd::of(&end);
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while !end.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        work()
    })
}

/// A server whose clients are answered through TCP, and one whose clients are answered in their
/// send().
fn through_tcp_and_in_send(mut run: impl FnMut(&Target)) {
    for local_clients in [LocalClients::Off, LocalClients::In(cgroup::own())] {
        let settings = Settings {
            local_clients,
            ..Settings::default()
        };
        let server = TestServer::start_as_told(&bpfdb::Options::default(), settings);
        run(&Target {
            address: Address::Tcp(server.address),
            compiles: true,
        });
    }
}

/// Whoever meets the lock of a call that has lost its processor waits, in the kernel and then in
/// the daemon: no client gets CONFLICT, which would end the run.
#[test]
fn hot_records_on_busy_processors() {
    through_tcp_and_in_send(|target| {
        for pipeline in [1, PIPELINE] {
            let app = Voter::new(1, 1_000_000, 10, Distribution::Uniform);
            let votes = beside_busy_loops(|| target.run(&app, pipeline));
            assert!(votes.end("accepted") > CALLS as u64 * 9 / 10, "{votes:?}");
            // Calls that lock several records, to read some of them and to write others.
            let app = SmallBank::new(4, 1_000_000);
            let bank = beside_busy_loops(|| target.run(&app, pipeline));
            assert!(bank.end("done") > CALLS as u64 / 2, "{bank:?}");
            target.client().ask(&["FLUSHALL"]).expect("flushed");
        }
    });
}

/// The same for clients of the daemon, which has the kernel run their calls.
#[test]
fn a_hot_record_on_busy_processors_by_way_of_the_daemon() {
    let server = plain();
    let target = Target {
        address: Address::Unix(server.socket.clone()),
        compiles: true,
    };
    let app = Voter::new(1, 1_000_000, 10, Distribution::Uniform);
    // Each is compiled once more for the daemon, when that has met some calls.
    target.load(app.library());
    common::wait_until("the daemon has the kernel run it", || {
        let usage = Usage {
            clients: 1,
            calls: 100,
            pipeline: 1,
            seed: 1,
        };
        application::run(&app, &target.address, &usage).expect("votes");
        let mut client = target.client();
        client.ask(&["FLUSHALL"]).expect("flushed");
        procedures(&mut client).expect("procedures")[voter::FUNCTION].calls > 0
    });
    for pipeline in [1, PIPELINE] {
        let votes = beside_busy_loops(|| target.run(&app, pipeline));
        assert!(votes.end("accepted") > CALLS as u64 * 9 / 10, "{votes:?}");
        target.client().ask(&["FLUSHALL"]).expect("flushed");
    }
}

/// The same for calls that wait for longer, because many clients want a processor.
#[test]
#[ignore = "minutes: make soak"]
fn soak_more_clients_than_processors() {
    for seed in 1..=10 {
        through_tcp_and_in_send(|target| {
            let app = SmallBank::new(400, 1_000_000);
            let usage = Usage {
                clients: 50,
                calls: 4_000_000,
                pipeline: PIPELINE,
                seed,
            };
            let run = |_| application::run(&app, &target.address, &usage);
            let bank = target.run_as(app.library(), run);
            assert!(bank.end("done") > usage.calls as u64 / 2, "{bank:?}");
        });
    }
}
