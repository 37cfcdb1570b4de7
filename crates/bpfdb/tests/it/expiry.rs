//! Values that expire: invisible from their time on, on every path, and their
//! memory comes back.

use crate::common::{Lent, lent};

use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bpfdb::{Engine, Entry, Operation, Options, Status};

const START: u64 = 1_000_000;
/// Around every limit of the layout: inline with an expiry, inline without, slot.
const LENGTHS: [usize; 8] = [
    0,
    1,
    8,
    9,
    16,
    17,
    100,
    bpfdb::abi::BPFDB_VALUE_MAX as usize,
];

fn engine() -> Engine {
    let options = Options {
        memory_limit: 128 << 20,
        max_sessions: 64,
        ..Options::default()
    };
    Engine::create(&options).expect("the engine starts")
}

/// Its clock stands still at START.
fn stopped() -> Lent {
    lent(START)
}

fn value(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + length) as u8).collect()
}

fn entry(value: &[u8], expires_at: Option<u64>) -> Result<Option<Entry>, Status> {
    Ok(Some(Entry {
        value: value.to_vec(),
        expires_at,
    }))
}

#[test]
fn the_clock_is_that_of_unix() {
    let engine = lent(0);
    let mut session = engine.session().expect("session");
    let real = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.expect("after 1970").as_millis() as u64
    };
    // A time daemon that slews the clock may be 0.5 ms ahead of what is published.
    let (before, now) = (real(), engine.now_ms());
    assert!((before - 2..=real() + 2).contains(&now));

    // The programs' clock is the same: what expires in a moment is there, what
    // expired a moment ago is not.
    session
        .set_entry(b"over", b"v", Some(real() - 5))
        .expect("set");
    assert_eq!(session.get(b"over"), Ok(None));
    // The moment becomes longer until this thread is back within it.
    let seen = (0..10).any(|n| {
        let until = real() + (100 << n);
        session.set_entry(b"soon", b"v", Some(until)).expect("set");
        let mut seen = false;
        while session.get(b"soon").expect("get").is_some() {
            assert!(real() < until + 60_000, "it does not expire");
            seen = true;
            sleep(Duration::from_millis(1));
        }
        assert!(real() + 2 >= until, "expired too early");
        seen
    });
    assert!(seen, "it was never there");
}

/// CLOCK_TAI - UNIX time, seconds; sets it if there is a number. `None`: not permitted.
fn tai(set: Option<i32>) -> Option<i32> {
    // SAFETY: a timex of zeros asks for nothing; the pointer is to a timex.
    unsafe {
        let mut timex: libc::timex = std::mem::zeroed();
        if let Some(offset) = set {
            timex.modes = libc::ADJ_TAI;
            timex.constant = offset.into();
        }
        (libc::adjtimex(&raw mut timex) >= 0).then_some(timex.tai)
    }
}

/// As when a time daemon sets the kernel's leap seconds: of all clocks CLOCK_TAI jumps.
/// This test does it for a moment.
#[test]
fn a_jump_of_tai_ends_nothing() {
    struct Restore(i32);
    impl Drop for Restore {
        fn drop(&mut self) {
            assert!(tai(Some(self.0)).is_some(), "CLOCK_TAI is left wrong");
        }
    }
    const AHEAD: i32 = 100;
    let engine = lent(0);
    let mut session = engine.session().expect("session");
    session
        .set_entry(b"k", b"v", Some(engine.now_ms() + 30_000))
        .expect("set");

    let was = tai(None).expect("CLOCK_TAI can be read");
    if tai(Some(was + AHEAD)).is_none() {
        println!("not tested: CLOCK_TAI may not be set here");
        return;
    }
    let restore = Restore(was);
    assert_eq!(tai(None), Some(was + AHEAD));
    let found: Vec<_> = (0..100)
        .map(|_| {
            sleep(Duration::from_millis(1));
            session.get(b"k")
        })
        .collect();
    drop(restore);
    assert!(found.iter().all(|found| *found == Ok(Some(b"v".to_vec()))));
}

#[test]
fn a_value_is_there_until_its_time() {
    let engine = stopped();
    let mut session = engine.session().expect("session");

    for length in LENGTHS {
        let (key, bytes) = (value(3 + length % 40), value(length));
        let until = START + 10;
        engine.stop_clock(START);
        session.set_entry(&key, &bytes, Some(until)).expect("set");
        engine.stop_clock(until - 1);
        assert_eq!(session.entry(&key), entry(&bytes, Some(until)), "{length}");
        assert_eq!(session.get(&key), Ok(Some(bytes.clone())));
        engine.stop_clock(until);
        assert_eq!(session.entry(&key), Ok(None), "{length}");
        assert_eq!(session.delete(&key), Ok(false));

        session.set_entry(&key, &bytes, None).expect("set");
        assert_eq!(session.entry(&key), entry(&bytes, None));
        assert_eq!(session.delete(&key), Ok(true));
    }
    assert_eq!(engine.stats().expect("stats").expiring, 0);
}

#[test]
fn set_replaces_value_and_expiry_together() {
    let engine = stopped();
    let mut session = engine.session().expect("session");

    for old in LENGTHS {
        for new in LENGTHS {
            let (old, new) = (value(old), value(new));
            session.set_entry(b"k", &old, Some(START + 9)).expect("set");
            session.set_entry(b"k", &new, Some(START + 5)).expect("set");
            assert_eq!(session.entry(b"k"), entry(&new, Some(START + 5)));
            assert_eq!(engine.stats().expect("stats").expiring, 1);
            session.set(b"k", &old).expect("set");
            assert_eq!(session.entry(b"k"), entry(&old, None));
            assert_eq!(engine.stats().expect("stats").expiring, 0);
        }
    }
    session.delete(b"k").expect("delete");
    assert_eq!(engine.stats().expect("stats").slots_used(), 0);
}

#[test]
fn a_time_that_is_over_deletes() {
    let engine = stopped();
    let mut session = engine.session().expect("session");

    for over in [0, 1, START - 1, START] {
        session.set(b"k", b"old").expect("set");
        session
            .set_entry(b"k", &value(100), Some(over))
            .expect("set");
        assert_eq!(session.get(b"k"), Ok(None), "{over}");
        session.set_entry(b"never", b"v", Some(over)).expect("set");
    }
    session.begin().expect("begin");
    session.set(b"k", b"old").expect("set");
    session.set_entry(b"k", b"new", Some(START)).expect("set");
    assert_eq!(session.get(b"k"), Ok(None));
    session.commit().expect("commit");
    let stats = engine.stats().expect("stats");
    assert_eq!(
        (stats.records, stats.expiring, stats.slots_used()),
        (0, 0, 0)
    );
}

#[test]
fn expiry_is_transactional() {
    let engine = stopped();
    let mut writer = engine.session().expect("session");
    let mut reader = engine.session().expect("session");

    for length in LENGTHS {
        let (old, new) = (value(length), value(length / 2 + 5));
        writer.set(b"k", &old).expect("set");
        writer.begin().expect("begin");
        writer.set_entry(b"k", &new, Some(START + 9)).expect("set");
        assert_eq!(writer.entry(b"k"), entry(&new, Some(START + 9)));
        assert_eq!(reader.entry(b"k"), entry(&old, None));
        writer.rollback().expect("rollback");
        assert_eq!(writer.entry(b"k"), entry(&old, None));
        assert_eq!(engine.stats().expect("stats").expiring, 0);

        writer.begin().expect("begin");
        writer.set_entry(b"k", &new, Some(START + 9)).expect("set");
        writer
            .set_entry(b"k", &old, Some(START + 8))
            .expect("set again");
        writer.commit().expect("commit");
        assert_eq!(reader.entry(b"k"), entry(&old, Some(START + 8)));
    }
}

/// What a transaction has judged it judges so to its end.
#[test]
fn time_stands_still_in_a_transaction() {
    let engine = stopped();
    let mut writer = engine.session().expect("session");
    let mut snapshot = engine.session().expect("session");
    let mut transaction = engine.session().expect("session");
    let until = START + 10;
    let expired = || engine.stats().expect("stats").counters.records_expired;
    let before = expired();

    writer
        .set_entry(b"k", &value(12), Some(until))
        .expect("set");
    writer
        .set_entry(b"l", &value(30), Some(until))
        .expect("set");
    snapshot.begin_read_only().expect("begin");
    transaction.begin().expect("begin");
    assert_eq!(transaction.entry(b"k"), entry(&value(12), Some(until)));
    engine.stop_clock(until + 5);
    engine.sweep().expect("sweep");
    assert_eq!(writer.get(b"k"), Ok(None));
    assert_eq!(snapshot.entry(b"k"), entry(&value(12), Some(until)));
    assert_eq!(snapshot.entry(b"l"), entry(&value(30), Some(until)));
    assert_eq!(transaction.entry(b"k"), entry(&value(12), Some(until)));
    assert_eq!(transaction.entry(b"l"), entry(&value(30), Some(until)));
    assert_eq!(transaction.delete(b"l"), Ok(true));

    // The sweeper waits for both.
    transaction.rollback().expect("rollback");
    engine.sweep().expect("sweep");
    assert_eq!(snapshot.entry(b"l"), entry(&value(30), Some(until)));
    assert_eq!(engine.stats().expect("stats").records, 2);
    snapshot.commit().expect("commit");
    assert_eq!(snapshot.get(b"l"), Ok(None));
    engine.sweep().expect("sweep");
    let stats = engine.stats().expect("stats");
    assert_eq!(
        (stats.records, stats.expiring, stats.slots_used()),
        (0, 0, 0)
    );
    assert_eq!(expired(), before + 2);
}

/// A snapshot before the expired version sees the one before it.
#[test]
fn history_outlives_an_expired_version() {
    let engine = stopped();
    let mut writer = engine.session().expect("session");
    let mut old = engine.session().expect("session");
    let mut new = engine.session().expect("session");

    writer.set(b"k", &value(100)).expect("set");
    old.begin_read_only().expect("begin");
    writer
        .set_entry(b"k", &value(20), Some(START + 10))
        .expect("set");
    engine.stop_clock(START + 10);
    new.begin_read_only().expect("begin");
    engine.sweep().expect("sweep");
    assert_eq!(old.get(b"k"), Ok(Some(value(100))));
    assert_eq!(new.get(b"k"), Ok(None));
    old.commit().expect("commit");
    engine.sweep().expect("sweep");
    assert_eq!(new.get(b"k"), Ok(None));
    new.commit().expect("commit");
    engine.sweep().expect("sweep");
    let stats = engine.stats().expect("stats");
    assert_eq!(
        (stats.records, stats.expiring, stats.slots_used()),
        (0, 0, 0)
    );
}

#[test]
fn batches_carry_expiries() {
    let engine = stopped();
    let mut session = engine.session().expect("session");
    let operations = [
        Operation::SetEntry(b"a", b"with", Some(START + 1)),
        Operation::Set(b"b", b"without"),
        Operation::Get(b"a"),
        Operation::Get(b"b"),
        Operation::Get(b"c"),
    ];
    let batch = session.prepare(&operations, 100).expect("prepare");

    session.run(&batch).expect("run");
    assert_eq!(session.entry_of(&batch, 2), entry(b"with", Some(START + 1)));
    assert_eq!(session.entry_of(&batch, 3), entry(b"without", None));
    assert_eq!(session.entry_of(&batch, 4), Ok(None));
}

/// The timer in the kernel removes what is not touched, and nothing else.
#[test]
fn memory_comes_back_by_itself() {
    const KEYS: u32 = 50_000;
    let engine = engine();
    let mut session = engine.session().expect("session");
    let memory = |engine: &Engine| engine.stats().expect("stats").slots_used();
    let now = engine.now_ms();
    let until = now + 1_000;
    // Nothing expires before everything is there.
    engine.stop_clock(now);

    for i in 0..KEYS {
        let key = format!("a key that is not inline {i}");
        let (bytes, expires) = match i % 4 {
            0 => (value(4), Some(until)),
            1 => (value(100), Some(until + u64::from(i) / 100)),
            2 => (value(13), Some(until + 3_600_000)),
            _ => (value(13), None),
        };
        session
            .set_entry(key.as_bytes(), &bytes, expires)
            .expect("set");
    }
    let full = memory(&engine);
    engine.stop_clock(0);
    let start = Instant::now();
    loop {
        let stats = engine.stats().expect("stats");
        if stats.records == u64::from(KEYS) / 2 {
            break;
        }
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{} records are left",
            stats.records
        );
        sleep(Duration::from_millis(10));
    }
    let stats = engine.stats().expect("stats");
    assert_eq!(stats.counters.records_expired, u64::from(KEYS) / 2);
    assert_eq!(stats.expiring, u64::from(KEYS) / 4);
    // Half of the keys, and every long value with an expiry.
    assert_eq!(
        memory(&engine),
        full - u64::from(KEYS) / 2 - u64::from(KEYS) / 4
    );
    for i in 0..KEYS {
        let key = format!("a key that is not inline {i}");
        let there = session.get(key.as_bytes()).expect("get").is_some();
        assert_eq!(there, i % 4 >= 2, "key {i}");
    }
}

/// How long it takes until the timer has removed what expires all at once, and
/// what the rounds do to a client meanwhile.
#[test]
#[ignore = "takes a minute and a gigabyte"]
fn soak_four_million_expire_at_once() {
    const KEYS: u64 = 4_000_000;
    const BATCH: u64 = 1_000;
    let engine = Engine::create(&Options {
        memory_limit: 1 << 30,
        memory_ahead: 256 << 20,
        ..Options::default()
    })
    .expect("the engine starts");
    let mut session = engine.session().expect("session");
    let until = engine.now_ms() + 60_000;
    let start = Instant::now();

    for first in (0..KEYS).step_by(BATCH as usize) {
        let keys: Vec<[u8; 8]> = (first..first + BATCH).map(u64::to_ne_bytes).collect();
        // One in a hundred stays.
        let operation = |key: &[u8; 8]| -> Option<u64> {
            (!u64::from_ne_bytes(*key).is_multiple_of(100)).then_some(until)
        };
        let operations: Vec<Operation<'_>> = keys
            .iter()
            .map(|key| Operation::SetEntry(key, key, operation(key)))
            .collect();
        for outcome in session.batch(&operations, 16).expect("batch") {
            outcome.expect("set");
        }
    }
    println!("{KEYS} records set in {:?}", start.elapsed());
    sleep(Duration::from_millis(until.saturating_sub(engine.now_ms())));
    let (start, mut longest, mut gets) = (Instant::now(), Duration::ZERO, 0u64);
    while engine.stats().expect("stats").expiring > 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "they stay");
        for i in 0..1_000u64 {
            let before = Instant::now();
            let there = session.get(&i.to_ne_bytes()).expect("get").is_some();
            longest = longest.max(before.elapsed());
            assert_eq!(there, i % 100 == 0);
            gets += 1;
        }
    }
    println!(
        "all gone after {:?}; the longest of {gets} GETs took {longest:?}",
        start.elapsed()
    );
    assert_eq!(engine.stats().expect("stats").records, KEYS / 100);
}
