//! The rings of the log: what commits leave there, as the log's writer sees it.

use crate::common;

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use libbpf_rs::query::{MapInfoIter, ProgInfoIter, ProgInfoQueryOptions};

use bpfdb::{Engine, Log, LogValue, Options, Session, Status};

const RING: u32 = 1 << 20;

/// A commit as it was logged: each key with its new value, `None` if it was deleted, and
/// when that expires.
type Writes = Vec<(Vec<u8>, Option<Vec<u8>>, u64)>;

#[derive(Debug)]
struct Commit {
    stamp: u64,
    writes: Writes,
}

fn engine(ring: u32) -> (Engine, Log) {
    let options = Options {
        log_ring: ring,
        ..common::options()
    };
    let engine = Engine::create(&options).expect("the engine starts");
    let log = engine.log().expect("the rings").expect("there is a log");
    (engine, log)
}

/// Takes out what is sealed, of a ring in order, up to what is reserved now.
#[derive(Debug)]
struct Drain {
    positions: Vec<u64>,
    voids: usize,
}

impl Drain {
    fn new(log: &Log) -> Self {
        Self {
            positions: vec![0; log.rings()],
            voids: 0,
        }
    }

    /// All that was committed up to the epoch that this closes, and perhaps more.
    fn take(&mut self, log: &Log) -> (u64, Vec<Commit>) {
        let epoch = log.close_epoch();
        let mut commits = Vec::new();
        for ring in 0..log.rings() {
            let end = log.reserved(ring);
            while self.positions[ring] < end {
                let position = self.positions[ring];
                let Some(sealed) = log.sealed(ring, position) else {
                    thread::yield_now();
                    continue;
                };
                match sealed.stamp {
                    Some(stamp) => commits.push(Commit {
                        stamp,
                        writes: writes(log, ring, position, sealed.bytes),
                    }),
                    None => self.voids += 1,
                }
                self.positions[ring] += sealed.bytes;
            }
            assert_eq!(self.positions[ring], end, "records fill what was reserved");
            log.give_up(ring, end);
        }
        (epoch, commits)
    }
}

fn writes(log: &Log, ring: usize, position: u64, bytes: u64) -> Writes {
    log.writes(ring, position, bytes)
        .map(|write| {
            let value = match write.value {
                LogValue::Deleted => None,
                LogValue::Invalid(form) => panic!("form {form:#x}"),
                LogValue::Bytes(bytes) | LogValue::Typed(_, bytes) => Some(bytes.to_vec()),
                LogValue::Large(_, large) => {
                    let mut value = Vec::new();
                    while log
                        .read_large(&large, value.len() as u64, &mut value)
                        .expect("read")
                        > 0
                    {}
                    assert_eq!(value.len() as u64, large.bytes);
                    for _ in 0..2 {
                        log.release(&large).expect("once, whatever is said twice");
                    }
                    Some(value)
                }
            };
            (write.key.to_vec(), value, write.expires)
        })
        .collect()
}

fn one(log: &Log, drain: &mut Drain) -> Writes {
    let (epoch, mut commits) = drain.take(log);
    assert_eq!(commits.len(), 1, "{commits:?}");
    let commit = commits.remove(0);
    assert!(commit.stamp <= epoch);
    commit.writes
}

#[test]
fn every_write_is_in_the_log() {
    let (engine, log) = engine(RING);
    let mut session = engine.session().expect("session");
    let mut drain = Drain::new(&log);
    let long_key = vec![b'k'; 300];
    for key in [
        &b"a"[..],
        b"exactly16bytes..",
        b"seventeen bytes..",
        &long_key,
    ] {
        for len in [0, 1, 8, 9, 15, 16, 17, 100, 4_097, 32_768] {
            let value: Vec<u8> = (0..len).map(|byte| byte as u8).collect();
            session.set(key, &value).expect("set");
            let expected = vec![(key.to_vec(), Some(value.clone()), 0)];
            assert_eq!(one(&log, &mut drain), expected, "{len} bytes");
            let at = 4_000_000_000_000;
            session.set_entry(key, &value, Some(at)).expect("set");
            assert_eq!(
                one(&log, &mut drain),
                vec![(key.to_vec(), Some(value), at)],
                "{len} bytes that expire"
            );
        }
        assert!(session.delete(key).expect("delete"));
        assert_eq!(one(&log, &mut drain), vec![(key.to_vec(), None, 0)]);
    }
}

/// Pages and slots in use, when what has no holder has been given back.
fn in_use(engine: &Engine) -> (u64, u64) {
    let look = || {
        engine.sweep().expect("sweep");
        let stats = engine.stats().expect("stats");
        (stats.slots_used(), stats.memory_used())
    };
    let mut before = look();
    loop {
        thread::sleep(Duration::from_millis(30));
        let now = look();
        if now == before {
            return now;
        }
        before = now;
    }
}

#[test]
fn large_values_are_held_until_they_are_written() {
    let (engine, log) = engine(RING);
    let mut session = engine.session().expect("session");
    let mut drain = Drain::new(&log);
    let empty = in_use(&engine).0;
    // Keys of all lengths, so that references lie at the end of the ring too.
    for round in 0..400_usize {
        let key = vec![b'k'; 1 + round * 37 % 512];
        let value: Vec<u8> = (0..40_000 + round * 1_000)
            .map(|byte| (byte * round) as u8)
            .collect();
        session.set(&key, &value).expect("set");
        assert!(session.delete(&key).expect("delete"));
        // Filler, so that the ring goes round.
        session.set(b"filler", &vec![1; 4_000]).expect("set");
        assert!(session.delete(b"filler").expect("delete"));
        let (_, commits) = drain.take(&log);
        let written = commits.iter().flat_map(|commit| &commit.writes);
        let found: Vec<_> = written.filter(|write| write.0 == key).collect();
        assert_eq!(found.len(), 2);
        assert!(found[0].1.as_ref() == Some(&value), "round {round}");
    }
    assert_eq!(in_use(&engine).0, empty, "nothing is held any more");

    // What no commit took is void, and holds nothing.
    session.never_wait();
    session.begin().expect("begin");
    session.set(b"rolled back", &vec![2; 100_000]).expect("set");
    session.rollback().expect("rollback");
    let mut other = engine.session().expect("session");
    other.begin().expect("begin");
    other.get_for_update(b"locked").expect("get");
    let refused = session.set(b"locked", &vec![2; 100_000]);
    assert_eq!(refused, Err(Status::Conflict));
    other.rollback().expect("rollback");
    assert_eq!(in_use(&engine).0, empty);
    assert!(drain.take(&log).1.is_empty() && drain.voids > 0);
}

/// Whoever writes the log gives a value up a second time, as after a crash: what a record has of it
/// stays.
#[test]
fn a_value_that_is_given_up_twice_is_still_the_records() {
    let (engine, log) = engine(RING);
    let mut session = engine.session().expect("session");
    let mut drain = Drain::new(&log);
    let empty = in_use(&engine).0;
    let value = |byte: u8| vec![byte; 100_000];
    session.set(b"kept", &value(1)).expect("set");
    // This says it twice of each.
    assert_eq!(drain.take(&log).1.len(), 1);
    assert!(in_use(&engine).0 > empty);
    // Whatever is free, this takes.
    for number in 2..10 {
        session.set(&[number], &value(number)).expect("set");
        drain.take(&log);
    }
    assert!(session.get(b"kept").expect("get") == Some(value(1)));
    for number in 2..10 {
        assert!(session.delete(&[number]).expect("delete"));
    }
    assert!(session.delete(b"kept").expect("delete"));
    drain.take(&log);
    assert_eq!(in_use(&engine).0, empty);
}

/// Instructions of a program that writes, as the kernel has them, and how many of these name the rings.
fn instructions(engine: &Engine) -> (usize, usize) {
    let object = common::load(engine, "rewrite");
    let writer = object
        .progs()
        .find(|program| program.name() == "rewrite_for");
    let writer = writer.expect("the program");
    let id = libbpf_rs::Program::id_from_fd(writer.as_fd()).expect("id");
    let options = ProgInfoQueryOptions::default().include_xlated_prog_insns(true);
    let mut all = ProgInfoIter::with_query_opts(options.include_map_ids(true));
    let info = all.find(|info| info.id == id).expect("it is loaded");
    let rings = MapInfoIter::default()
        .find(|map| info.map_ids.contains(&map.id) && map.name == "log_rings")
        .expect("the object has the map");
    // Of 8 bytes each; a map is named in the first of two, by a number that is its identifier here.
    let names_rings = |instruction: &&[u8]| {
        let is_load = instruction[0] == 0x18 && matches!(instruction[1] >> 4, 1 | 2);
        is_load && instruction[4..8] == rings.id.to_le_bytes()
    };
    let code = info.xlated_prog_insns;
    let instructions = || code.chunks_exact(8);
    (
        instructions().count(),
        instructions().filter(names_rings).count(),
    )
}

/// That there is none is a constant when programs are loaded: the kernel drops what writes the log.
#[test]
fn an_engine_without_a_log_has_none_of_its_code() {
    let with = instructions(&engine(RING).0);
    let without = instructions(&common::engine());
    assert!(with.1 > 0, "{with:?}: it writes to the rings");
    assert_eq!(without.1, 0, "{without:?}");
    assert!(
        without.0 < with.0,
        "{without:?} instructions, with a log {with:?}"
    );
}

#[test]
fn what_writes_nothing_leaves_nothing() {
    let (engine, log) = engine(RING);
    let mut session = engine.session().expect("session");
    let mut drain = Drain::new(&log);
    assert!(!session.delete(b"nothing").expect("delete"));
    session.get(b"nothing").expect("get");
    session.begin().expect("begin");
    session.get(b"nothing").expect("get");
    session.commit().expect("commit");
    session.begin().expect("begin");
    session.set(b"a", b"1").expect("set");
    session.rollback().expect("rollback");
    // A value whose time is over already deletes what is not there.
    session.set_entry(b"a", b"1", Some(1)).expect("set");
    assert!(drain.take(&log).1.is_empty());
    assert!(drain.voids > 0, "the DELETE had reserved");
}

#[test]
fn a_transaction_is_one_record() {
    let (engine, log) = engine(RING);
    let mut session = engine.session().expect("session");
    let mut drain = Drain::new(&log);
    session.set(b"gone", b"x").expect("set");
    one(&log, &mut drain);
    session.begin().expect("begin");
    let mut expected = BTreeMap::new();
    for number in 0..900_u32 {
        let key = format!("key{number:0width$}", width = number as usize % 40).into_bytes();
        let value = vec![number as u8; number as usize % 200];
        session.set(&key, b"replaced below").expect("set");
        session.set(&key, &value).expect("set");
        expected.insert(key, Some(value));
    }
    session.get_for_update(b"only locked").expect("get");
    assert!(session.delete(b"gone").expect("delete"));
    expected.insert(b"gone".to_vec(), None);
    session.commit().expect("commit");
    let found: BTreeMap<_, _> = one(&log, &mut drain)
        .into_iter()
        .map(|(key, value, _)| (key, value))
        .collect();
    assert_eq!(found, expected);
}

/// Of a hot key each write has a timestamp of its own, in the order of the writes, also when
/// the key was deleted and its record removed in between.
#[test]
fn timestamps_of_a_key_grow() {
    let (engine, log) = engine(RING);
    let mut session = engine.session().expect("session");
    let mut drain = Drain::new(&log);
    let mut last = 0;
    for round in 0..500_u32 {
        match round % 5 {
            0 | 1 => session.set(b"hot", &round.to_ne_bytes()).expect("set"),
            2 => assert!(session.delete(b"hot").expect("delete")),
            3 => {
                session.begin().expect("begin");
                session.set(b"hot", b"by a transaction").expect("set");
                session.commit().expect("commit");
            }
            _ => {
                session.begin().expect("begin");
                session.delete(b"hot").expect("delete");
                session.commit().expect("commit");
            }
        }
        let before = last;
        for ring in 0..log.rings() {
            let end = log.reserved(ring);
            let mut position = drain.positions[ring];
            while position < end {
                let sealed = log.sealed(ring, position).expect("nobody writes");
                if let Some(stamp) = sealed.stamp {
                    assert!(stamp > last, "round {round}: {stamp} after {last}");
                    last = stamp;
                }
                position += sealed.bytes;
            }
            drain.positions[ring] = end;
            log.give_up(ring, end);
        }
        assert!(last > before, "round {round} is logged");
    }
}

#[test]
fn a_full_ring_refuses_and_recovers() {
    // Each processor has a ring.
    common::stay_on_a_processor();
    let (engine, log) = engine(RING);
    let mut session = engine.session().expect("session");
    session.never_wait();
    let mut drain = Drain::new(&log);
    let value = vec![7; 10_000];
    let mut written = 0;
    let refused = loop {
        match session.set(b"k", &value) {
            Ok(()) => written += 1,
            Err(status) => break status,
        }
    };
    assert_eq!(refused, Status::LogFull);
    assert!(written >= RING as usize / 10_100, "{written}");
    while session.set(b"k", b"").is_ok() {}
    assert_eq!(session.delete(b"k"), Err(Status::LogFull));
    session.begin().expect("begin");
    session.set(b"t", b"1").expect("pending needs no room");
    assert_eq!(session.commit(), Err(Status::LogFull));
    assert_eq!(session.get(b"t"), Ok(None), "it was rolled back");
    assert_eq!(session.get(b"k"), Ok(Some(Vec::new())));

    let (_, commits) = drain.take(&log);
    assert!(commits.len() >= written);
    session.set(b"k", b"again").expect("there is room");
    assert_eq!(one(&log, &mut drain)[0].1.as_deref(), Some(&b"again"[..]));
}

/// Invariant 5 of decision 18. What lies in a ring from the round before, heads of records among it,
/// and what clients write there, is at no position a record: neither before it is reserved, nor
/// within a record.
#[test]
fn no_head_is_taken_for_one_of_another_position() {
    common::stay_on_a_processor();
    let (engine, log) = engine(RING);
    let mut session = engine.session().expect("session");
    let mut drain = Drain::new(&log);
    let mut heads = 0;
    for round in 0..1_200_u32 {
        // Numbers that look like heads: of each length, with every tag that a byte makes.
        let forged: Vec<u8> = (0..400_u32)
            .flat_map(|n| {
                (u64::from(n % 64) | u64::from(round) << 56 | u64::from(n) << 40).to_le_bytes()
            })
            .collect();
        session.set(b"k", &forged).expect("set");
        for ring in 0..log.rings() {
            let (begin, end) = (drain.positions[ring], log.reserved(ring));
            let mut next = begin;
            for position in (begin..end + u64::from(RING) / 64).step_by(16) {
                let sealed = log.sealed(ring, position);
                if position == next && position < end {
                    next += sealed.expect("it is sealed").bytes;
                    heads += 1;
                } else {
                    assert_eq!(
                        sealed, None,
                        "round {round}, {position} of {begin} to {end}"
                    );
                }
            }
        }
        drain.take(&log);
    }
    assert!(
        drain
            .positions
            .iter()
            .any(|&position| position > 3 * u64::from(RING))
    );
    assert!(heads >= 1_200, "{heads}");
}

#[test]
fn a_transaction_larger_than_its_share_is_refused() {
    let (engine, log) = engine(RING);
    let mut session = engine.session().expect("session");
    let value = vec![7; 30_000];
    session.begin().expect("begin");
    let mut refused = Ok(());
    for number in 0..20_u32 {
        // Replacing what is pending takes no further room.
        session.set(b"same", &value).expect("set");
        refused = session.set(&number.to_ne_bytes(), &value);
        if refused.is_err() {
            assert!(number >= 12, "half of the ring fits: {number}");
            break;
        }
    }
    assert_eq!(refused, Err(Status::TxnTooLarge));
    assert_eq!(session.commit(), Err(Status::RolledBack));
    assert!(Drain::new(&log).take(&log).1.is_empty());
}

/// The value of the SET that is refused is given up once, and not again by the rollback: else two
/// records got its place.
#[test]
fn what_a_transaction_that_is_too_large_had_is_given_back_once() {
    let (engine, log) = engine(RING);
    let mut session = engine.session().expect("session");
    let mut drain = Drain::new(&log);
    let later = engine.now_ms() + 3_600_000;
    for (len, expires) in [
        (30_000, None),
        (200, None),
        (30_000, Some(later)),
        (40_000, None),
        (40_000, Some(later)),
    ] {
        for ends_with_commit in [false, true] {
            let before = in_use(&engine).0;
            session.begin().expect("begin");
            let mut set = |number: u32, len| {
                let key = [number.to_be_bytes().as_slice(), &[b'k'; 500]].concat();
                session.set_entry(&key, &vec![number as u8; len], expires)
            };
            (0..8).for_each(|number| set(number, 30_000).expect("set"));
            let refused = (8..).find_map(|number| set(number, len).err());
            assert_eq!(refused, Some(Status::TxnTooLarge));
            match ends_with_commit {
                true => assert_eq!(session.commit(), Err(Status::RolledBack)),
                false => session.rollback().expect("rollback"),
            }
            assert_eq!(in_use(&engine).0, before, "{len} {expires:?}");
            assert_eq!(engine.stats().expect("stats").expiring, 0);

            // Nobody gets the place of another.
            let keys = || (0..100_u8).map(|number| ([number, b'x'], vec![number; len]));
            for (key, value) in keys() {
                session.set(&key, &value).expect("set");
                drain.take(&log);
            }
            for (key, value) in keys() {
                assert!(session.get(&key) == Ok(Some(value)), "{key:?} of {len}");
            }
            for (key, _) in keys() {
                session.delete(&key).expect("delete");
                drain.take(&log);
            }
        }
    }
}

#[test]
fn what_recovery_writes_is_not_logged_again() {
    let (engine, log) = engine(RING);
    let mut session = engine.session().expect("session");
    session.write_unlogged();
    session.set(b"a", b"1").expect("set");
    session.begin().expect("begin");
    session.set(b"b", b"2").expect("set");
    session.commit().expect("commit");
    assert!(Drain::new(&log).take(&log).1.is_empty());
    let index = session.index();
    drop(session);
    let mut next = engine.session().expect("session");
    assert_eq!(next.index(), index, "the same session, opened again");
    next.set(b"c", b"3").expect("set");
    assert_eq!(Drain::new(&log).take(&log).1.len(), 1);
}

/// A random operation of one of the sessions that work at the same time.
fn work(session: &mut Session, random: &mut impl FnMut(u32) -> u32) -> Result<(), Status> {
    let key = |random: &mut dyn FnMut(u32) -> u32| {
        let number = random(40);
        let width = if number.is_multiple_of(7) { 60 } else { 3 };
        format!("{number:0width$}").into_bytes()
    };
    let value = vec![random(256) as u8; random(80) as usize];
    match random(10) {
        0..5 => session.set(&key(random), &value),
        5 | 6 => session.delete(&key(random)).map(drop),
        7 => {
            session.begin_read_only()?;
            session.get(&key(random)).ok();
            session.commit()
        }
        _ => {
            session.begin()?;
            let outcome = (0..random(6)).try_for_each(|_| match random(3) {
                0 => session.delete(&key(random)).map(drop),
                1 => session.get_for_update(&key(random)).map(drop),
                _ => session.set(&key(random), &value),
            });
            match outcome {
                Ok(()) => session.commit(),
                Err(_) => session.rollback(),
            }
        }
    }
}

/// The invariants of decision 18 together: sessions write at the same time, the log is taken
/// out meanwhile, and what it says, by timestamps, is what the engine has in the end.
#[test]
fn replay_gives_what_the_engine_has() {
    let (engine, log) = engine(RING);
    let stop = AtomicBool::new(false);
    let mut drain = Drain::new(&log);
    let mut commits: Vec<Commit> = Vec::new();
    let mut epochs = 0;
    thread::scope(|scope| {
        for seed in 1..=3_u64 {
            let (engine, stop) = (&engine, &stop);
            scope.spawn(move || {
                let mut session = engine.session().expect("session");
                let mut state = seed;
                let mut random = move |bound: u32| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(99);
                    ((state >> 33) as u32) % bound
                };
                while !stop.load(Ordering::Relaxed) {
                    match work(&mut session, &mut random) {
                        Ok(()) | Err(Status::Conflict | Status::LogFull | Status::LogClosed) => {}
                        Err(other) => panic!("{other:?}"),
                    }
                }
            });
        }
        let mut closed = 0;
        let end = std::time::Instant::now() + Duration::from_secs(4);
        while std::time::Instant::now() < end {
            let (epoch, taken) = drain.take(&log);
            for commit in &taken {
                assert!(commit.stamp > closed, "missed when {closed} was closed");
            }
            closed = epoch;
            epochs += 1;
            commits.extend(taken);
        }
        stop.store(true, Ordering::Relaxed);
    });
    commits.extend(drain.take(&log).1);
    assert!(
        commits.len() > 10_000 && epochs > 100,
        "{} {epochs}",
        commits.len()
    );

    commits.sort_by_key(|commit| commit.stamp);
    let mut replayed = BTreeMap::new();
    let mut last = BTreeMap::new();
    for commit in &commits {
        for (key, value, _) in &commit.writes {
            let before = last.insert(key.clone(), commit.stamp);
            assert!(
                before < Some(commit.stamp),
                "two writes of a key with one timestamp"
            );
            match value {
                Some(value) => replayed.insert(key.clone(), value.clone()),
                None => replayed.remove(key),
            };
        }
    }
    let mut session = engine.session().expect("session");
    let mut found = BTreeMap::new();
    let mut cursor = 0;
    loop {
        let (next, keys) = session.scan(cursor, 100).expect("scan");
        for key in keys {
            let value = session.get(&key).expect("get").expect("nobody writes");
            found.insert(key, value);
        }
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    let differ: Vec<_> = found
        .keys()
        .chain(replayed.keys())
        .filter(|key| found.get(*key) != replayed.get(*key))
        .collect();
    assert!(differ.is_empty(), "{differ:?}");
}
