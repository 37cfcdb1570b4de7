//! The stress runs of `bpfdb-tests`, where each transaction is one call (stress.lua): counters lose
//! nothing, no client sees part of a value, keys come and go around others, a shortage of memory
//! damages nothing; and what is left behind (stress/lasting.rs).

mod lasting;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use bpfdb::Engine;
use bpfdb_procedures::inside::{Compiler, Library};
use bpfdb_tests::random::Random;
use bpfdb_tests::settings;

use crate::isolation::actors::{Acted, Called, Calls, Inside, Stop, Tally};
use crate::isolation::clients::seen;
use crate::isolation::paths::{Path, Served};
use crate::isolation::{SHORT, alone, seed, volume};
use bpfdb_tests::server::procedures::{ask, load};
use bpfdb_tests::server::{Client, Reply, TestServer};

pub(crate) const LIBRARY: &str = include_str!("stress.lua");

/// The callers, and the seed of what they choose.
struct Clients<'a> {
    all: Vec<Box<dyn Calls + 'a>>,
    seed: u64,
}

impl Clients<'_> {
    fn len(&self) -> usize {
        self.all.len()
    }
}

type Told = Result<Option<String>, String>;
/// What all calls came to, or what was found wrong.
type Run = Result<Tally, String>;

/// One of the callers.
struct Worker<'a> {
    number: usize,
    client: Box<dyn Calls + 'a>,
    random: Random,
    tally: Tally,
    /// Somebody has found something wrong.
    failed: &'a AtomicBool,
}

impl Worker<'_> {
    fn goes_on(&self) -> bool {
        !self.failed.load(Ordering::Relaxed)
    }

    /// A call that writes. `None`: it has left nothing.
    fn write(&mut self, function: &str, keys: &[&str], arguments: &[&str]) -> Told {
        let end = match self.random.below(32) {
            0 => "fails",
            1 => "1.5",
            _ => "1",
        };
        let told = self.call(function, keys, &[arguments, &[end]].concat())?;
        match told.is_some() && end == "fails" {
            true => Err(format!("{function} should have failed")),
            false => Ok(told),
        }
    }

    fn call(&mut self, function: &str, keys: &[&str], arguments: &[&str]) -> Told {
        let acted = self.client.call(function, keys, arguments)?;
        self.tally.note(&acted);
        match acted {
            Acted::Told(told) => Ok(Some(told)),
            Acted::Stopped(_) => Ok(None),
        }
    }

    /// The values of these keys, of one moment.
    fn look(&mut self, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>, String> {
        let told = self.call("values", keys, &[])?;
        let values = seen(told.ok_or("a snapshot was refused")?.as_bytes())?;
        match values.len() == keys.len() {
            true => Ok(values),
            false => Err(format!("{} values of {} keys", values.len(), keys.len())),
        }
    }
}

/// Runs all clients at a time. What each of them brings back, and what all calls came to.
fn in_parallel<'a, R: Send>(
    clients: Clients<'a>,
    work: impl Fn(&mut Worker<'_>) -> Result<R, String> + Sync,
) -> Result<(Vec<R>, Tally), String> {
    let Clients { all, seed } = clients;
    let failed = AtomicBool::new(false);
    thread::scope(|scope| {
        let spawn = |(number, client)| {
            let (work, failed) = (&work, &failed);
            scope.spawn(move || {
                let mut worker = Worker {
                    number,
                    client,
                    random: Random::new(seed + number as u64),
                    tally: Tally::default(),
                    failed,
                };
                let done = work(&mut worker);
                failed.fetch_or(done.is_err(), Ordering::Relaxed);
                done.map(|done| (done, worker.tally))
            })
        };
        let threads: Vec<_> = all.into_iter().enumerate().map(spawn).collect();
        let (mut all, mut total) = (Vec::new(), Tally::default());
        for thread in threads {
            let done = thread.join().expect("no panic");
            let (done, tally) = done.map_err(|error| format!("BPFDB_SEED={seed}: {error}"))?;
            total.add(tally);
            all.push(done);
        }
        Ok((all, total))
    })
}

fn delete(engine: &Engine, keys: &[String]) {
    let mut session = engine.session().expect("a session");
    for key in keys {
        session.delete(key.as_bytes()).expect("nobody holds it");
    }
}

// ---- Counters ------------------------------------------------------------------------

/// Each number is replied once, none is left out, and the last ones are there.
fn count(engine: &Engine, counters: usize, calls: usize, clients: Clients<'_>) -> Run {
    let keys: Vec<String> = (0..counters).map(|n| format!("counter {n}")).collect();
    let (told, tally) = in_parallel(clients, |worker| {
        let mut told: Vec<(usize, u64)> = Vec::new();
        for _ in 0..calls {
            if !worker.goes_on() {
                break;
            }
            let first = worker.random.below(counters);
            let mut chosen = vec![first];
            if counters > 1 {
                chosen.push((first + 1 + worker.random.below(counters - 1)) % counters);
            }
            let names: Vec<&str> = chosen.iter().map(|&n| keys[n].as_str()).collect();
            let Some(before) = worker.write("count", &names, &[])? else {
                continue;
            };
            let numbers = before.split_whitespace().map(str::parse);
            let numbers = numbers.collect::<Result<Vec<u64>, _>>();
            let numbers = numbers.map_err(|_| format!("told {before:?}"))?;
            told.extend(chosen.iter().copied().zip(numbers));
        }
        Ok(told)
    })?;
    let found = check_counters(engine, &keys, told.into_iter().flatten().collect());
    delete(engine, &keys);
    found.map(|()| tally)
}

fn check_counters(
    engine: &Engine,
    keys: &[String],
    mut told: Vec<(usize, u64)>,
) -> Result<(), String> {
    told.sort_unstable();
    let mut session = engine.session().expect("a session");
    for (n, key) in keys.iter().enumerate() {
        let of_key = told.iter().filter(|(counter, _)| *counter == n);
        let numbers: Vec<u64> = of_key.map(|(_, number)| *number).collect();
        if !numbers.iter().copied().eq(0..numbers.len() as u64) {
            return Err(format!("{key}: not each number was told once"));
        }
        let last = session.get(key.as_bytes()).expect("it is read");
        if last != Some(numbers.len().to_string().into_bytes()) {
            return Err(format!("{key}: {} calls, {last:?}", numbers.len()));
        }
    }
    Ok(())
}

// ---- Values in parts -----------------------------------------------------------------

/// A byte all over, which also encodes the length.
fn filling(random: &mut Random, longest: usize) -> String {
    let length = longest - random.below(longest / 2);
    char::from(b'a' + (length % 26) as u8)
        .to_string()
        .repeat(length)
}

fn check_whole(value: &[u8]) -> Result<(), String> {
    let letter = b'a' + (value.len() % 26) as u8;
    match value.iter().position(|byte| *byte != letter) {
        None => Ok(()),
        Some(at) => Err(format!("a value of {} bytes is torn at {at}", value.len())),
    }
}

/// Half of the clients write the same value under two keys; the others, and GET, see it whole, and
/// the same under both.
fn overwrite(engine: &Engine, longest: usize, calls: usize, clients: Clients<'_>) -> Run {
    let keys = ["torn 1", "torn 2 with a long name"].map(str::to_owned);
    let names = [keys[0].as_str(), &keys[1]];
    let writers = clients.len() / 2;
    let writing = AtomicUsize::new(writers);
    let read = |worker: &mut Worker<'_>, session: &mut bpfdb::Session| {
        let values = worker.look(&names)?;
        if values[0] != values[1] {
            return Err("the two differ".to_owned());
        }
        let alone = session.get(names[0].as_bytes());
        let alone = alone.map_err(|error| format!("GET: {error}"))?;
        let mut all = values.into_iter().chain([alone]).flatten();
        all.try_for_each(|value| check_whole(&value))
    };
    let run = in_parallel(clients, |worker| {
        if worker.number < writers {
            let mut left = calls;
            let done = loop {
                if left == 0 || !worker.goes_on() {
                    break Ok(());
                }
                let value = filling(&mut worker.random, longest);
                if let Err(error) = worker.write("overwrite", &names, &[&value]) {
                    break Err(error);
                }
                left -= 1;
            };
            writing.fetch_sub(1, Ordering::Relaxed);
            return done;
        }
        let mut session = engine.session().expect("a session");
        while writing.load(Ordering::Relaxed) > 0 && worker.goes_on() {
            read(worker, &mut session)?;
        }
        Ok(())
    });
    delete(engine, &keys);
    run.map(|(_, tally)| tally)
}

// ---- Keys that come and go -------------------------------------------------------------

/// Keys of a call.
const AT_ONCE: usize = 8;

/// Each client has keys of its own come and go, eight in a call, and knows of each whether it is
/// there; one in sixteen calls looks at some that stay. The index grows and shrinks meanwhile.
fn come_and_go(engine: &Engine, groups: usize, waves: usize, clients: Clients<'_>) -> Run {
    let staying: Vec<String> = (0..AT_ONCE).map(|n| format!("stays {n}")).collect();
    let mut session = engine.session().expect("a session");
    for key in &staying {
        let done = session.set(key.as_bytes(), key.as_bytes());
        done.expect("nobody holds it");
    }
    let staying_names: Vec<&str> = staying.iter().map(String::as_str).collect();
    let (_, tally) = in_parallel(clients, |worker| {
        for wave in 0..2 * waves {
            let expected = if wave % 2 == 0 { "s" } else { "d" };
            for group in 0..groups {
                if !worker.goes_on() {
                    return Ok(());
                }
                toggle(worker, group, &expected.repeat(AT_ONCE))?;
                if worker.random.one_in(16) {
                    let values = worker.look(&staying_names)?;
                    let all = staying.iter().zip(&values);
                    let are_there = all
                        .into_iter()
                        .all(|(key, value)| value.as_deref() == Some(key.as_bytes()));
                    if !are_there {
                        return Err(format!("what stays is {values:?}"));
                    }
                }
            }
        }
        Ok(())
    })?;
    for key in &staying {
        let value = session.get(key.as_bytes()).expect("it is read");
        assert_eq!(value.as_deref(), Some(key.as_bytes()));
    }
    delete(engine, &staying);
    Ok(tally)
}

/// Until it is done.
fn toggle(worker: &mut Worker<'_>, group: usize, expected: &str) -> Result<(), String> {
    let keys: Vec<String> = (0..AT_ONCE)
        .map(|n| match n % 2 {
            0 => format!("{}.{group}.{n}", worker.number),
            _ => format!("{} and some more letters {group}.{n}", worker.number),
        })
        .collect();
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    loop {
        match worker.write("toggle", &names, &[" has this"])? {
            Some(done) if done == expected => return Ok(()),
            Some(done) => return Err(format!("keys of {names:?}: {done}, not {expected}")),
            None => {}
        }
    }
}

// ---- A shortage of memory --------------------------------------------------------------

/// Each client overwrites and drops pairs of keys of its own, with values of all sizes, in less
/// memory than they need: what is refused leaves both as they were.
fn run_short(longest: usize, pairs: usize, calls: usize, clients: Clients<'_>) -> Run {
    let write_still = AtomicUsize::new(clients.len());
    let (_, tally) = in_parallel(clients, |worker| {
        let mut values: HashMap<usize, String> = HashMap::new();
        for _ in 0..calls {
            if !worker.goes_on() {
                break;
            }
            let pair = worker.random.below(pairs);
            let keys = [1, 2].map(|n| format!("{}, {pair}, {n}", worker.number));
            let names = [keys[0].as_str(), &keys[1]];
            let before = values.get(&pair).map(String::as_bytes);
            let found = worker.look(&names)?;
            if found.iter().any(|value| value.as_deref() != before) {
                return Err(format!("pair {pair} is not what was written there"));
            }
            if worker.random.one_in(8) {
                let told = worker.write("drop", &names, &[])?;
                let were = if values.contains_key(&pair) { "2" } else { "0" };
                match told {
                    Some(gone) if gone == were => drop(values.remove(&pair)),
                    Some(gone) => return Err(format!("{gone} were there, not {were}")),
                    None => {}
                }
            } else {
                let value = filling(&mut worker.random, longest);
                if worker.write("overwrite", &names, &[&value])?.is_some() {
                    values.insert(pair, value);
                }
            }
        }
        // What the first one drops would be memory for the others: nothing were short.
        write_still.fetch_sub(1, Ordering::Relaxed);
        while worker.goes_on() && write_still.load(Ordering::Relaxed) > 0 {
            thread::sleep(Duration::from_millis(1));
        }
        // With less to remember there is memory again.
        for pair in values.into_keys() {
            let keys = [1, 2].map(|n| format!("{}, {pair}, {n}", worker.number));
            let names = [keys[0].as_str(), &keys[1]];
            let mut tries = 0;
            while worker.call("drop", &names, &["1"])?.is_none() {
                tries += 1;
                if tries == 1000 {
                    return Err(format!("pair {pair} cannot be dropped"));
                }
            }
        }
        Ok(())
    })?;
    Ok(tally)
}

// ---- On all paths ----------------------------------------------------------------------

/// All but the shortage, with these clients.
fn run_all<'a>(
    engine: &Engine,
    scale: usize,
    clients: impl Fn() -> Vec<Box<dyn Calls + 'a>>,
) -> Tally {
    let seed = seed(scale);
    let clients = || Clients {
        all: clients(),
        seed,
    };
    let mut total = Tally::default();
    let mut note = |name: &str, run: Run| {
        let tally = run.unwrap_or_else(|error| panic!("{name}: {error}"));
        println!("{name}: {tally:?}");
        assert!(tally.committed > 0, "{tally:?}");
        total.add(tally);
    };
    for counters in [1, 5] {
        let calls = volume(50 * scale);
        let name = format!("{counters} counters");
        note(&name, count(engine, counters, calls, clients()));
    }
    for longest in [60, 1000, 3000] {
        let calls = volume(50 * scale);
        let name = format!("values to {longest} bytes");
        note(&name, overwrite(engine, longest, calls, clients()));
    }
    let groups = volume(50 * scale);
    note("come and go", come_and_go(engine, groups, 2, clients()));
    let calls = volume(300 * scale);
    note("growth", lasting::grow(engine, calls, clients()));
    let changes = volume(25 * scale);
    note("churn", lasting::churn(engine, changes, clients()));
    let calls = volume(150 * scale);
    note("snapshots", lasting::stand_still(engine, calls, clients()));
    assert!(total.rolled_back > 0, "{total:?}");
    total
}

fn by_calls(path: Path, scale: usize) {
    let served = Served::shared(path);
    let _alone = alone();
    let before = served.figures();
    let client = |_| Box::new(Called(served.client())) as Box<dyn Calls>;
    let total = run_all(served.engine(), scale, || (0..4).map(client).collect());
    served.check_path(&before, total.calls());
    served.check_nothing_held();
    assert_eq!((total.conflicts, total.out_of_memory), (0, 0), "{total:?}");
}

fn library(engine: &Engine) -> Library {
    let compiler = Compiler::new(engine).expect("a template");
    let library = compiler.library(LIBRARY.as_bytes());
    library.expect("it is compiled")
}

fn inside(engine: &Engine, library: &Library) -> Box<dyn Calls> {
    let session = engine.session().expect("a session");
    let library = library.clone();
    Box::new(Inside { library, session })
}

/// From inside, beside clients of a server.
fn from_inside(scale: usize) {
    let served = Served::shared(Path::Send);
    let _alone = alone();
    let library = library(served.engine());
    let inside = || inside(served.engine(), &library);
    let called = || Box::new(Called(served.client())) as Box<dyn Calls>;
    run_all(served.engine(), scale, || {
        vec![inside(), called(), inside(), called()]
    });
    served.check_nothing_held();
}

/// On a server of its own, by clients of it and from inside.
fn short(scale: usize) {
    const MEMORY: u64 = 32 << 20;
    let _alone = alone();
    let server = TestServer::start(&bpfdb::Options {
        memory_limit: MEMORY,
        ..bpfdb::Options::default()
    });
    load(&mut server.client(), LIBRARY);
    let library = library(&server.engine);
    // What fits into a call is short: the number of keys makes up for it.
    let longest: &[usize] = match scale {
        SHORT => &[3_000],
        _ => &[3_000, 2_000],
    };
    for &longest in longest {
        let all: Vec<Box<dyn Calls>> = vec![
            Box::new(Called(server.client())),
            Box::new(Called(server.client())),
            inside(&server.engine, &library),
        ];
        let clients = Clients {
            all,
            seed: seed(scale),
        };
        let pairs = MEMORY as usize * 3 / 2 / longest / clients.len();
        // Each pair has its turn some three times: by then seven of eight are there.
        let run = run_short(longest, pairs, volume(3 * pairs * scale), clients);
        let tally = run.unwrap_or_else(|error| panic!("to {longest} bytes: {error}"));
        println!("short of memory, values to {longest} bytes: {tally:?}");
        assert!(tally.committed > 0 && tally.rolled_back > 0, "{tally:?}");
        assert!(
            tally.out_of_memory > 0 || settings::is_emulated(),
            "{tally:?}"
        );
        let stats = server.engine.stats().expect("figures");
        assert_eq!((stats.locks, stats.transactions), (0, 0));
    }
}

#[test]
fn stress_over_tcp() {
    by_calls(Path::Tcp, SHORT);
}

#[test]
fn stress_in_the_clients_send() {
    by_calls(Path::Send, SHORT);
}

#[test]
fn stress_by_the_daemon() {
    by_calls(Path::Daemon, SHORT);
}

#[test]
fn stress_from_inside() {
    from_inside(SHORT);
}

#[test]
fn a_shortage_of_memory_damages_nothing() {
    short(SHORT);
}

/// Does what stress.lua does by commands, each by itself.
struct InPieces(Client);

impl InPieces {
    fn ask(&mut self, words: &[&str]) -> Reply {
        ask(&mut self.0, words)
    }
}

impl Calls for InPieces {
    fn call(&mut self, function: &str, keys: &[&str], arguments: &[&str]) -> Result<Acted, String> {
        // Nothing can be taken back.
        if arguments.last() == Some(&"fails") {
            return Ok(Acted::Stopped(Stop::RollBack));
        }
        let mut told = String::new();
        for key in keys {
            match function {
                "count" => {
                    let before = self.ask(&["GET", key]);
                    let number: u64 = match before.is_nil {
                        true => 0,
                        false => String::from_utf8_lossy(&before.text)
                            .parse()
                            .expect("digits"),
                    };
                    told += &format!("{number} ");
                    self.ask(&["SET", key, &(number + 1).to_string()]);
                }
                "overwrite" => drop(self.ask(&["SET", key, arguments[0]])),
                _ => {
                    let value = self.ask(&["GET", key]);
                    told += &match value.is_nil {
                        true => "-:".to_owned(),
                        false => format!(
                            "{}:{}",
                            value.text.len(),
                            String::from_utf8_lossy(&value.text)
                        ),
                    };
                }
            }
        }
        Ok(Acted::Told(told))
    }
}

/// A test of the test.
#[test]
fn stress_in_pieces_is_noticed() {
    let served = Served::shared(Path::Tcp);
    let _alone = alone();
    let clients = || {
        let client = |_| Box::new(InPieces(served.client())) as Box<dyn Calls>;
        Clients {
            all: (0..4).map(client).collect(),
            seed: seed(SHORT),
        }
    };
    let noticed = |name: &str, run: &dyn Fn() -> Run| {
        let found = (0..10).find_map(|_| run().err());
        println!(
            "{name}: {}",
            found.unwrap_or_else(|| panic!("{name}: nothing"))
        );
    };
    noticed("count", &|| count(served.engine(), 1, 200, clients()));
    noticed("overwrite", &|| {
        overwrite(served.engine(), 60, 200, clients())
    });
    noticed("snapshots", &|| {
        lasting::stand_still(served.engine(), 200, clients())
    });
}

#[test]
#[ignore = "takes minutes"]
fn soak_stress_of_procedures() {
    for path in [Path::Tcp, Path::Send, Path::Daemon] {
        by_calls(path, 200);
    }
    from_inside(200);
    short(10);
}
