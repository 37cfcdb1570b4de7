//! How long a call may keep the processor, whatever it does: 2 ms, if nothing else uses it.

use std::time::{Duration, Instant};

use bpfdb::{Engine, Options, Status};
use bpfdb_procedures::inside::{Failure, Reply};

use super::{Alone, compiler, engine, failure, library, options};

const LIMIT: Duration = Duration::from_millis(2);
/// An emulated processor takes ten to twenty times as long.
const LIMIT_EMULATED: Duration = Duration::from_millis(60);
/// One of so many calls at least is not disturbed on a quiet machine.
const CALLS: usize = 20;
/// One of so many is not, whatever else the machine does: other tests run at the same time, perhaps
/// on the other half of the same core.
const MOST_CALLS: usize = 400;

fn limit() -> Duration {
    match std::env::var_os("BPFDB_TEST_EMULATED").is_some() {
        true => LIMIT_EMULATED,
        false => LIMIT,
    }
}

/// The body of a loop without an end, with many times the same statement.
fn endless(statement: &str, times: usize) -> String {
    let statements = vec![statement; times].join(" ");
    format!("local a, n = args[1] .. '', 0 while true do {statements} end")
}

fn shortest_time(body: &str) -> Duration {
    let mut alone = Alone::new(body);
    let argument = [b'1'; 500];
    let long = [b'2'; 13_000];
    let (x, y) = (
        [&[b'3'; 62][..], b"x"].concat(),
        [&[b'3'; 62][..], b"y"].concat(),
    );
    let words: [&[u8]; 7] = [
        &argument,
        b"9007199254740991",
        &long,
        &long,
        b"a short text it",
        &x,
        &y,
    ];
    shortest(|| {
        let begun = Instant::now();
        let outcome = alone.call(&[b"k"], &words);
        let time = begun.elapsed();
        let why = failure(outcome).to_string();
        assert!(why.contains("as long as it may"), "{why}: {body}");
        time
    })
}

/// The shortest time of some calls, and of more while all took too long.
fn shortest(mut call: impl FnMut() -> Duration) -> Duration {
    let mut shortest = Duration::MAX;
    for number in 0..MOST_CALLS {
        if number >= CALLS && shortest < limit() {
            break;
        }
        shortest = shortest.min(call());
    }
    shortest
}

#[test]
fn an_endless_call_ends_in_time() {
    let bodies = [
        ("nothing", endless("", 1)),
        ("sums", endless("n = n + 1", 1)),
        ("many sums", endless("n = n % 1000 + #keys", 200)),
        ("one status", endless("redis.status_reply(a)", 1)),
        ("many statuses", endless("redis.status_reply(a)", 500)),
        ("numbers of texts", endless("n = tonumber(args[2])", 500)),
        ("parts", endless("a = string.sub(a, 1, 400)", 500)),
        (
            "equal texts",
            endless("if args[3] == args[4] then n = 1 end", 300),
        ),
        (
            "unequal texts",
            endless("if args[1] < args[2] then n = 1 end", 300),
        ),
        (
            "short statuses",
            endless("redis.status_reply(args[5])", 500),
        ),
        (
            "short texts",
            endless("if args[6] < args[7] then n = 1 end", 300),
        ),
        (
            "equal short texts",
            endless("if args[6] == args[7] then n = 1 end", 300),
        ),
        ("reads", endless("redis.call('GET', keys[1])", 100)),
        ("writes", endless("redis.call('SET', keys[1], args[3])", 3)),
        (
            "a loop in a loop",
            endless("for i = 1, 100 do n = n % 1000 + i end", 50),
        ),
    ];
    for (what, body) in bodies {
        let time = shortest_time(&body);
        println!("{what}: {time:?}");
        assert!(time < limit(), "{what}: {time:?}");
    }
}

/// A body without a loop takes no fuel but for its commands: it is the clock that ends the attempts
/// at a locked key.
#[test]
fn a_call_that_meets_a_lock_ends_in_time() {
    let body = format!(
        "local n = 0 {} redis.call('SET', keys[1], n) return n",
        "n = tonumber(args[1]) ".repeat(1200)
    );
    let engine = engine();
    let library = library(&compiler(&engine), &[("f", &body)]);
    let mut holder = engine.session().expect("a session");
    holder.begin().expect("begun");
    holder.set(b"k", b"held").expect("locked");
    let mut session = engine.session().expect("a session");
    let time = shortest(|| {
        let begun = Instant::now();
        let outcome = library.call(&mut session, "f", &[b"k"], &[b"9007199254740991"]);
        let time = begun.elapsed();
        assert_eq!(failure(outcome), Failure::Engine(Status::Conflict));
        time
    });
    println!("a locked key: {time:?}");
    assert!(time < limit(), "{time:?}");
    holder.rollback().expect("rolled back");
    let outcome = library.call(&mut session, "f", &[b"k"], &[b"7"]);
    assert_eq!(outcome.expect("a reply"), Reply::Integer(7));
}

/// Two attempts have fuel, and each meets the lock; the third has not enough. Without the lock one
/// attempt would do: the call may be made again.
#[test]
fn who_has_run_out_of_fuel_for_conflicts_is_told_of_the_conflict() {
    let body = "for i = 1, 25000 do end redis.call('SET', keys[1], 'v') return 'done'";
    let engine = engine();
    let library = library(&compiler(&engine), &[("f", body)]);
    let mut holder = engine.session().expect("a session");
    holder.begin().expect("begun");
    holder.set(b"k", b"held").expect("locked");
    let mut session = engine.session().expect("a session");
    for _ in 0..CALLS {
        let outcome = library.call(&mut session, "f", &[b"k"], &[]);
        assert_eq!(failure(outcome), Failure::Engine(Status::Conflict));
    }
    holder.rollback().expect("rolled back");
    let outcome = library.call(&mut session, "f", &[b"k"], &[]);
    assert_eq!(outcome.expect("a reply"), Reply::Text(b"done".to_vec()));
}

/// What is written goes to memory, and not to the cache, if each key has its own; and once more to
/// the log.
#[test]
fn a_call_that_writes_many_large_values_ends_in_time() {
    for (log_ring, len) in [0, LOG_RING]
        .into_iter()
        .flat_map(|ring| [100, 1_000, 5_000, 13_000, 27_000].map(|len| (ring, len)))
    {
        let (count, time) = most_values(log_ring, len);
        let what = format!("{count} of {len} B, ring of {log_ring}");
        println!("{what}: {time:?}");
        assert!(time < limit(), "{what}: {time:?}");
        // Nobody is stopped early.
        assert!(count * len >= 2_500_000 || count >= 800, "{what}");
    }
}

/// Room for all of these calls: it is not read.
const LOG_RING: u32 = 256 << 20;
/// Fewer than a transaction may lock.
const KEYS: usize = 900;

/// With how many values of so many bytes a call comes to its end, and how long the shortest of those
/// takes.
fn most_values(log_ring: u32, len: usize) -> (usize, Duration) {
    let body = "for n = 1, tonumber(args[2]) do redis.call('SET', keys[1] .. n, args[1]) end";
    let options = Options {
        log_ring,
        ..options()
    };
    let engine = Engine::create(&options).expect("the engine starts");
    let mut alone = Alone::on(&engine, body);
    let value = vec![b'v'; len];
    let mut call = |count: usize| {
        let begun = Instant::now();
        let outcome = alone.call(&[b"k"], &[&value, count.to_string().as_bytes()]);
        (outcome, begun.elapsed())
    };
    let mut most = KEYS;
    while let (Err(error), _) = call(most) {
        let why = failure(Err(error)).to_string();
        assert!(why.contains("as long as it may"), "{why}: {most}");
        most -= 10;
    }
    let time = shortest(|| {
        let (outcome, time) = call(most);
        outcome.expect("as before");
        time
    });
    (most, time)
}
