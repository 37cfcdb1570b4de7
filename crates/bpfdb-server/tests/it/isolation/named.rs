//! Each anomaly is looked for: clients run its transactions at the same time, and others look at
//! snapshots meanwhile.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb::{Engine, Session};
use bpfdb_procedures::inside::{Compiler, Library};

use crate::isolation::actors::{Acted, Actor, Called, InPieces, Inside, Role, Stepwise, Stop};
use crate::isolation::anomalies::{ANOMALIES, Anomaly, observer};
use crate::isolation::paths::{Path, Served};
use crate::isolation::{alone, volume};
use bpfdb_tests::server::kernel_answers;

pub(crate) const LIBRARY: &str = include_str!("anomalies.lua");
/// Of each client: all go on until all have done so many, also the faster ones.
const ROUNDS: usize = 20;
/// But no longer than this: a client that keeps locks from message to message may come off badly.
const LONGEST: Duration = Duration::from_millis(400);
/// How long an anomaly in pieces is looked for.
const SEARCH: Duration = Duration::from_secs(120);

type Actors<'a> = Vec<Box<dyn Actor + 'a>>;

/// What the transactions of one run came to.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    committed: u64,
    rolled_back: u64,
    conflicts: u64,
    looks: u64,
}

impl Sums {
    fn add(&mut self, other: Sums) {
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.conflicts += other.conflicts;
        self.looks += other.looks;
    }
}

struct Run<'a> {
    anomaly: &'a Anomaly,
    rounds: usize,
    scale: u32,
    /// Clients that have not done their rounds.
    busy: AtomicUsize,
    failed: AtomicBool,
}

impl Run<'_> {
    /// Does the anomaly show? `of_role` makes the clients of one role, `looking` those that look.
    fn go<'a>(
        anomaly: &Anomaly,
        scale: u32,
        engine: &Engine,
        of_role: impl Fn() -> Actors<'a>,
        looking: Actors<'a>,
    ) -> Result<Sums, String> {
        let mut session = engine.session().expect("a session");
        reset(&mut session, anomaly);
        let look = observer(anomaly.keys);
        let mut all: Vec<(Role, bool, Box<dyn Actor + 'a>)> = Vec::new();
        for role in anomaly.roles {
            all.extend(of_role().into_iter().map(|actor| (*role, false, actor)));
        }
        all.extend(looking.into_iter().map(|actor| (look, true, actor)));
        let run = Run {
            anomaly,
            rounds: volume(ROUNDS * scale as usize),
            scale,
            busy: AtomicUsize::new(all.len()),
            failed: AtomicBool::new(false),
        };
        let results: Vec<Result<Sums, String>> = thread::scope(|scope| {
            let run = &run;
            let play = |(role, looks, mut actor): (Role, bool, Box<dyn Actor + 'a>)| {
                scope.spawn(move || run.play(&role, looks, actor.as_mut()))
            };
            let threads: Vec<_> = all.into_iter().map(play).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().expect("no panic");
            threads.into_iter().map(join).collect()
        });
        let mut sums = Sums::default();
        for result in results {
            sums.add(result?);
        }
        let values = values(&mut session, anomaly);
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let holds = (anomaly.holds)(&values) && (anomaly.holds_at_end)(&values, sums.committed);
        match holds {
            true => Ok(sums),
            false => Err(format!("at the end {values:?}, after {sums:?}")),
        }
    }

    fn play(&self, role: &Role, looks: bool, actor: &mut dyn Actor) -> Result<Sums, String> {
        let (mut sums, begun) = (Sums::default(), Instant::now());
        let mut last_look = None;
        for round in 1.. {
            let told = actor.act(role).and_then(|acted| match acted {
                Acted::Told(told) if looks => {
                    sums.looks += 1;
                    self.judge_look(last_look.replace(told.clone()), &told)
                }
                Acted::Told(told) => {
                    sums.committed += 1;
                    well((role.is_well)(&told), role.function, &told)
                }
                Acted::Stopped(Stop::RollBack) => {
                    sums.rolled_back += 1;
                    Ok(())
                }
                Acted::Stopped(Stop::Conflict) if looks => Err("a snapshot was refused".into()),
                Acted::Stopped(Stop::Conflict) => {
                    sums.conflicts += 1;
                    Ok(())
                }
                Acted::Stopped(Stop::OutOfMemory) => Err("there is memory".into()),
            });
            if let Err(finding) = told {
                self.failed.store(true, Ordering::Relaxed);
                return Err(finding);
            }
            let left = match round == self.rounds {
                true => self.busy.fetch_sub(1, Ordering::Relaxed) - 1,
                false => self.busy.load(Ordering::Relaxed),
            };
            let over = left == 0 || begun.elapsed() > LONGEST * self.scale;
            if over || self.failed.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(sums)
    }

    /// What a looking client got, and what it got before.
    fn judge_look(&self, before: Option<String>, told: &str) -> Result<(), String> {
        let values = split(told);
        let follows = |before: String| {
            well(
                (self.anomaly.may_follow)(&split(&before), &values),
                "look",
                &format!("{before}, then {told}"),
            )
        };
        let is_whole = values.len() == self.anomaly.keys.len();
        well(is_whole && (self.anomaly.holds)(&values), "look", told)?;
        before.map_or(Ok(()), follows)
    }
}

/// The values of a look.
fn split(told: &str) -> Vec<&str> {
    told.trim_end_matches('|').split('|').collect()
}

fn well(is_well: bool, function: &str, told: &str) -> Result<(), String> {
    match is_well {
        true => Ok(()),
        false => Err(format!("{function} was told {told:?}")),
    }
}

fn reset(session: &mut Session, anomaly: &Anomaly) {
    for (key, value) in anomaly.keys.iter().zip(anomaly.start) {
        let done = match *value {
            "-" => session.delete(key.as_bytes()).map(drop),
            value => session.set(key.as_bytes(), value.as_bytes()),
        };
        done.expect("nobody holds it");
    }
}

fn values(session: &mut Session, anomaly: &Anomaly) -> Vec<String> {
    let value = |key: &&str| {
        let value = session.get(key.as_bytes()).expect("it is read");
        value.map_or("-".into(), |value| {
            String::from_utf8_lossy(&value).into_owned()
        })
    };
    anomaly.keys.iter().map(value).collect()
}

/// None of them shows. What all runs came to.
fn look_for_all<'a>(
    name: &str,
    engine: &Engine,
    scale: u32,
    of_role: impl Fn() -> Actors<'a>,
    looking: impl Fn() -> Actors<'a>,
) -> Sums {
    let mut all = Sums::default();
    for anomaly in ANOMALIES {
        let sums = Run::go(anomaly, scale, engine, &of_role, looking());
        let sums = sums.unwrap_or_else(|error| panic!("{name}, {}: {error}", anomaly.name));
        println!("{name}, {}: {sums:?}", anomaly.name);
        assert!(sums.committed > 0 && sums.looks > 0, "{sums:?}");
        all.add(sums);
    }
    assert!(all.rolled_back > 0, "{all:?}");
    all
}

fn library(engine: &Engine) -> Library {
    let compiler = Compiler::new(engine).expect("a template");
    let library = compiler.library(LIBRARY.as_bytes());
    library.unwrap_or_else(|error| panic!("{error}"))
}

fn boxed<'a>(actor: impl Actor + 'a) -> Box<dyn Actor + 'a> {
    Box::new(actor)
}

/// Procedures only: no client ever gets CONFLICT.
fn by_calls(path: Path, scale: u32) {
    let served = Served::shared(path);
    let _alone = alone();
    let before = served.figures();
    let name = format!("{path:?}");
    let call = || vec![boxed(Called(served.client()))];
    let sums = look_for_all(&name, served.engine(), scale, call, call);
    let calls = sums.committed + sums.rolled_back + sums.conflicts + sums.looks;
    served.check_path(&before, calls);
    served.check_nothing_held();
    assert_eq!(sums.conflicts, 0, "{sums:?}");
}

fn inside(scale: u32) {
    let _alone = alone();
    let engine = Engine::create(&bpfdb::Options::default()).expect("the engine starts");
    let library = library(&engine);
    let call = || {
        let session = engine.session().expect("a session");
        let library = library.clone();
        vec![boxed(Inside { library, session })]
    };
    look_for_all("inside", &engine, scale, call, call);
    let stats = engine.stats().expect("figures");
    assert_eq!((stats.locks, stats.transactions), (0, 0));
}

/// Each role is played by calls of the server, by one from inside, and step by step.
fn mixed(path: Path, scale: u32) {
    let served = Served::shared(path);
    let _alone = alone();
    let engine = served.engine();
    let library = library(engine);
    let inside = || Inside {
        library: library.clone(),
        session: engine.session().expect("a session"),
    };
    let of_role = || {
        vec![
            boxed(Called(served.client())),
            boxed(Called(served.daemon_client())),
            boxed(inside()),
            boxed(Stepwise(served.client())),
        ]
    };
    let looking = || vec![boxed(Called(served.client())), boxed(inside())];
    let before = served.figures();
    let name = format!("mixed, {path:?}");
    let sums = look_for_all(&name, engine, scale, of_role, looking);
    let after = served.figures();
    assert!(
        after.calls > before.calls || !kernel_answers(),
        "{before:?}, then {after:?}"
    );
    served.check_daemon(&before);
    assert!(sums.conflicts > 0, "BEGIN has met nobody: {sums:?}");
    served.check_nothing_held();
}

#[test]
fn no_anomaly_over_tcp() {
    by_calls(Path::Tcp, 1);
}

#[test]
fn no_anomaly_in_the_clients_send() {
    by_calls(Path::Send, 1);
}

#[test]
fn no_anomaly_by_the_daemon() {
    by_calls(Path::Daemon, 1);
}

#[test]
fn no_anomaly_from_inside() {
    inside(1);
}

#[test]
fn no_anomaly_beside_transactions_over_tcp() {
    mixed(Path::Tcp, 1);
}

#[test]
fn no_anomaly_beside_transactions_in_the_clients_send() {
    mixed(Path::Send, 1);
}

/// A test of the test: the same steps without BEGIN and COMMIT show each of them.
#[test]
fn every_anomaly_is_noticed_in_pieces() {
    let served = Served::shared(Path::Tcp);
    let _alone = alone();
    for anomaly in ANOMALIES {
        let begun = Instant::now();
        let mut runs = 0;
        let found = loop {
            let of_role = || vec![boxed(InPieces(served.client()))];
            let looking = vec![boxed(Called(served.client()))];
            let engine = served.engine();
            runs += 1;
            match Run::go(anomaly, 5, engine, of_role, looking) {
                Err(finding) => break finding,
                Ok(_) if begun.elapsed() < SEARCH => {}
                Ok(sums) => panic!("{} is not found: {sums:?}", anomaly.name),
            }
        };
        println!("{}, run {runs}: {found}", anomaly.name);
    }
}

#[test]
#[ignore = "takes minutes"]
fn soak_anomalies() {
    for path in [Path::Tcp, Path::Send, Path::Daemon] {
        by_calls(path, 50);
    }
    for path in [Path::Tcp, Path::Send] {
        mixed(path, 50);
    }
    inside(50);
}
