//! Access words, the hand that samples victims, and EVICT: docs/decisions/0032-eviction.md.

use crate::common;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Mutex;

use bpfdb::{
    Access, Database, Emptier, Emptying, Engine, Hand, InVain, Keyspace, Options, Sample, Session,
    Shortage, Status, Tracking, Victim,
};

const ALL: Sample = Sample {
    count: 100,
    expiring_only: false,
    pages: 16,
};

/// With little memory, for a test that fills it.
fn small_engine() -> Engine {
    let engine = Engine::create(&Options {
        memory_limit: 64 << 20,
        ..Options::default()
    })
    .expect("the engine starts");
    engine.set_access_tracking(Tracking::Lru).expect("set");
    engine
}

fn engine() -> common::Lent {
    let engine = common::lent(0);
    engine.set_access_tracking(Tracking::Lru).expect("set");
    engine
}

/// All that one round of the hand meets.
fn round(session: &mut Session, sample: &Sample) -> Vec<Victim> {
    let (mut hand, mut all) = (Hand::default(), Vec::new());
    loop {
        let sampled = session.sample_victims(&mut hand, sample).expect("sampled");
        all.extend(sampled.victims);
        if sampled.round_ended {
            return all;
        }
    }
}

fn keys(victims: &[Victim]) -> BTreeSet<Vec<u8>> {
    victims.iter().map(|victim| victim.key.clone()).collect()
}

fn key(number: usize) -> Vec<u8> {
    // Short ones, and those that lie in a slot.
    let width = 4 + number % 40;
    format!("{number:0width$}").into_bytes()
}

fn is_idle(access: Option<Access>) -> bool {
    matches!(access, Some(Access::Idle(_)))
}

#[test]
fn a_round_meets_every_record_once() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    let names: BTreeSet<_> = (0..5000).map(key).collect();
    for name in &names {
        session.set(name, b"value").expect("set");
    }
    session.delete(&key(7)).expect("deleted");
    let found = round(&mut session, &ALL);
    assert_eq!(found.len(), names.len() - 1);
    let mut expected = names;
    expected.remove(&key(7));
    assert_eq!(keys(&found), expected);
    assert!(found.iter().all(|victim| victim.len == 5));
}

#[test]
fn keys_of_databases_are_met_and_no_others() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    let ninth = Database::new(9)
        .expect("there is one")
        .stored(b"k")
        .into_owned();
    let page = Keyspace::PAGES.key(b"k");
    let own = Keyspace::OWN.key(b"k");
    for name in [&b"k"[..], &ninth, &page, &own] {
        session.set(name, b"1").expect("set");
    }
    let expected = BTreeSet::from([b"k".to_vec(), ninth]);
    assert_eq!(keys(&round(&mut session, &ALL)), expected);
}

#[test]
fn only_those_with_an_expiry() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    let later = engine.now_ms() + 1_000_000;
    session.set(b"stays", b"1").expect("set");
    session
        .set_entry(b"expires", b"1", Some(later))
        .expect("set");
    let expiring = Sample {
        expiring_only: true,
        ..ALL
    };
    let found = round(&mut session, &expiring);
    assert_eq!(keys(&found), BTreeSet::from([b"expires".to_vec()]));
    assert_eq!(found[0].expires_at, Some(later));
    // Sampled, and then it is to stay.
    session.set_entry(b"expires", b"1", None).expect("set");
    let evicted = session.evict(&found).expect("evicted");
    assert_eq!((evicted.records, evicted.spared), (0, 1));
    assert!(session.get(b"expires").expect("read").is_some());
}

#[test]
fn what_changed_since_it_was_sampled_stays() {
    let engine = engine();
    let evicted_ever = || engine.stats().expect("stats").counters.records_evicted;
    let before = evicted_ever();
    let (mut session, mut other) = (
        engine.session().expect("session"),
        engine.session().expect("session"),
    );
    for name in [
        &b"same"[..],
        b"written",
        b"read",
        b"gone",
        b"locked",
        b"shared",
    ] {
        session.set(name, b"1").expect("set");
    }
    let found = round(&mut session, &ALL);
    assert_eq!(found.len(), 6);
    // So that a use is at another time.
    std::thread::sleep(std::time::Duration::from_millis(60));
    session.set(b"written", b"1").expect("set");
    session.get(b"read").expect("read");
    session.delete(b"gone").expect("deleted");
    other.begin().expect("begun");
    other.set(b"locked", b"2").expect("set");
    other.get(b"shared").expect("read");
    let evicted = session.evict(&found).expect("evicted");
    assert_eq!((evicted.records, evicted.spared), (1, 5));
    assert_eq!(session.get(b"same"), Ok(None));
    for name in [&b"written"[..], b"read", b"locked", b"shared"] {
        assert!(session.get(name).expect("read").is_some());
    }
    // Nor are those met that are locked.
    let met = keys(&round(&mut session, &ALL));
    assert_eq!(met, BTreeSet::from([b"written".to_vec(), b"read".to_vec()]));
    other.commit().expect("committed");
    assert_eq!(evicted_ever(), before + 1);
}

#[test]
fn a_snapshot_sees_what_was_evicted() {
    let engine = engine();
    let (mut session, mut reader) = (
        engine.session().expect("session"),
        engine.session().expect("session"),
    );
    session.set(b"k", b"1").expect("set");
    reader.begin_read_only().expect("begun");
    let found = round(&mut session, &ALL);
    assert_eq!(session.evict(&found).expect("evicted").records, 1);
    assert_eq!(session.get(b"k"), Ok(None));
    assert_eq!(reader.get(b"k"), Ok(Some(b"1".to_vec())));
    reader.commit().expect("ended");
}

#[test]
fn every_way_notes_an_access() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    let idle = |session: &mut Session| match session.access_of(b"k") {
        Ok(Some(Access::Idle(idle))) => idle.as_millis(),
        other => panic!("{other:?}"),
    };
    session.set(b"k", b"1").expect("set");
    assert!(idle(&mut session) < 1000);
    let ways: [fn(&mut Session); 6] = [
        |session| drop(session.get(b"k")),
        |session| drop(session.head(b"k")),
        |session| session.set(b"k", b"2").expect("set"),
        |session| {
            session.begin().expect("begun");
            session.get(b"k").expect("read");
            session.commit().expect("committed");
        },
        |session| {
            session.begin().expect("begun");
            session.set(b"k", b"3").expect("set");
            session.commit().expect("committed");
        },
        |session| {
            session.begin_read_only().expect("begun");
            session.get(b"k").expect("read");
            session.commit().expect("committed");
        },
    ];
    for (number, way) in ways.into_iter().enumerate() {
        let old = Access::Idle(std::time::Duration::from_secs(100));
        session.set_access(b"k", old).expect("set");
        let before = idle(&mut session);
        assert!(before >= 99_900, "{number}: {before}");
        session.tracked(false, way);
        let before = idle(&mut session);
        // Who writes with a snapshot in between may lose it, but none was running.
        assert!(before >= 99_900, "{number}: {before}");
        way(&mut session);
        let after = idle(&mut session);
        assert!(after < 50_000, "{number}: {after}");
    }
}

#[test]
fn older_versions_take_the_place_of_the_word_and_give_it_back() {
    let engine = engine();
    let (mut session, mut reader) = (
        engine.session().expect("session"),
        engine.session().expect("session"),
    );
    session.set(b"k", b"1").expect("set");
    reader.begin_read_only().expect("begun");
    session.set(b"k", b"2").expect("set");
    // There is a link now, which no access may spoil.
    for _ in 0..10 {
        session.get(b"k").expect("read");
        assert_eq!(reader.get(b"k"), Ok(Some(b"1".to_vec())));
    }
    assert_eq!(session.access_of(b"k"), Ok(Some(Access::Unknown)));
    reader.commit().expect("ended");
    engine.sweep().expect("sweep");
    assert_eq!(session.get(b"k"), Ok(Some(b"2".to_vec())));
    assert!(is_idle(session.access_of(b"k").expect("read")));
}

#[test]
fn words_move_with_their_records() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    for number in 0..500 {
        session.set(&key(number), b"1").expect("set");
        let old = Access::Idle(std::time::Duration::from_secs(1000));
        session.set_access(&key(number), old).expect("set");
    }
    // The page is split some times.
    for number in 500..20_000 {
        session.set(&key(number), b"1").expect("set");
    }
    for number in 0..500 {
        match session.access_of(&key(number)) {
            Ok(Some(Access::Idle(idle))) => assert!(idle.as_secs() >= 999, "{number}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn nothing_is_noted_unless_it_is_wanted() {
    let engine = engine();
    engine.set_access_tracking(Tracking::Off).expect("set");
    let mut session = engine.session().expect("session");
    session.set(b"k", b"1").expect("set");
    session.get(b"k").expect("read");
    assert_eq!(session.access_of(b"k"), Ok(Some(Access::Unknown)));
    assert_eq!(session.access_of(b"none"), Ok(None));
    engine
        .set_access_tracking(Tracking::Lfu {
            log_factor: 0,
            decay_minutes: 1,
        })
        .expect("set");
    session.get(b"k").expect("read");
    assert_eq!(
        session.access_of(b"k"),
        Ok(Some(Access::Frequency(Access::FREQUENCY_FIRST)))
    );
    session.get(b"k").expect("read");
    assert_eq!(session.access_of(b"k"), Ok(Some(Access::Frequency(6))));
}

/// Sets keys until one is refused: how many there are, and by what. What passes is no refusal: memory is
/// still being added, by a thread that may be late, or a page of the index is being given back.
fn fill(session: &mut Session, from: usize, len: usize) -> (usize, Status) {
    let value = vec![7; len];
    let mut number = from;
    loop {
        match session.set(format!("key:{number}").as_bytes(), &value) {
            Ok(()) => number += 1,
            Err(Status::MemoryPending) => {
                session.engine().ask_for_memory();
                std::thread::yield_now();
            }
            Err(status) => return (number, status),
        }
    }
}

/// How many pages came free, and how many records went.
fn make_pages(session: &mut Session, emptying: &Emptying, in_vain: &mut InVain) -> (u64, usize) {
    make_permitted(session, emptying, in_vain, &Cell::new(usize::MAX))
}

/// The same with so many permits, which it takes.
fn make_permitted(
    session: &mut Session,
    emptying: &Emptying,
    in_vain: &mut InVain,
    permits: &Cell<usize>,
) -> (u64, usize) {
    let (lock, mut gone) = (Mutex::new(()), 0);
    let mut emptier = Emptier {
        rank: &mut |_| 0,
        gone: &mut |_| gone += 1,
        permit: &|| {
            permits.set(permits.get().checked_sub(1)?);
            lock.lock().ok()
        },
        in_vain,
    };
    let made = session.make_pages(emptying, &mut emptier);
    (made.expect("emptied"), gone)
}

/// How long memory that was given up may take to come back.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

#[test]
fn pages_are_emptied_for_other_sizes() {
    let engine = small_engine();
    let mut session = engine.session().expect("session");
    session.never_wait();
    let (full, status) = fill(&mut session, 0, 200);
    assert_eq!(status, Status::OutOfMemory);
    let (other, status) = fill(&mut session, full, 3000);
    assert_eq!((other, status), (full, Status::OutOfMemory));

    let emptying = Emptying {
        pages: 8,
        looks: 16,
        expiring_only: false,
    };
    let (made, evicted) = make_pages(&mut session, &emptying, &mut InVain::default());
    assert_eq!(made, 8);
    // Of slots a page has some 250 values; of two pages of the index more or fewer must go.
    assert!((1..3000).contains(&evicted), "{evicted}");
    // Of eight pages twenty values of 3,000 bytes find a place in each, but for those that the index takes for
    // their keys. A page comes back after a grace period: OUT_OF_MEMORY is said before.
    let index_pages = || engine.stats().expect("stats").index_pages as usize;
    let (begun, before) = (std::time::Instant::now(), index_pages());
    let mut other = full;
    let room = |values: usize| values + 20 * index_pages().saturating_sub(before);
    while room(other - full) < 100 && begun.elapsed() < PATIENCE {
        (other, _) = fill(&mut session, other, 3000);
    }
    let values = other - full;
    assert!(room(values) >= 100 && values < 200, "{values}");
    // And what is of the old size finds its slots again: none of their pages is still closed. Of a new key
    // there may be no room near its home in the index.
    let deleted = (0..100).filter(|number| {
        let key = format!("key:{}", full - 1 - number);
        session.delete(key.as_bytes()).expect("deleted")
    });
    let deleted = deleted.count();
    let is_set = |number: &i32| {
        session
            .set(format!("new:{number}").as_bytes(), &[7; 200])
            .is_ok()
    };
    let found = (0..100).filter(is_set).count();
    println!("{deleted} deleted, {found} found");
    assert!(found > deleted * 3 / 4, "{deleted} deleted, {found} found");
}

/// Records that must stay do, and nothing goes for a page that has some.
#[test]
fn pages_with_what_must_stay_are_left() {
    let engine = small_engine();
    let mut session = engine.session().expect("session");
    let mut holder = engine.session().expect("session");
    session.never_wait();
    let far = engine.now_ms() + 10_000_000;
    let mut count = 0;
    let status = loop {
        let key = format!("key:{count}");
        let outcome = match count % 100 {
            0 => session.set(key.as_bytes(), &[7; 200]),
            _ => session.set_entry(key.as_bytes(), &[7; 200], Some(far)),
        };
        match outcome {
            Ok(()) => count += 1,
            Err(Status::MemoryPending) => engine.ask_for_memory(),
            Err(status) => break status,
        }
    };
    assert_eq!(status, Status::OutOfMemory);
    holder.begin().expect("begun");
    assert!(holder.get(b"key:1").expect("read").is_some());
    let emptying = Emptying {
        pages: 8,
        looks: 64,
        expiring_only: true,
    };
    let mut in_vain = InVain::default();
    for _ in 0..20 {
        let (made, gone) = make_pages(&mut session, &emptying, &mut in_vain);
        assert!(made > 0 || gone == 0, "{gone} have gone");
    }
    for number in (0..count).step_by(100) {
        let key = format!("key:{number}");
        assert!(
            session.get(key.as_bytes()).expect("read").is_some(),
            "{key}"
        );
    }
    assert!(session.get(b"key:1").expect("read").is_some());
    holder.commit().expect("committed");
}

/// Pages of slots with one record each that must stay are the cheapest of all, and cannot be made free: then
/// pages of the index are, and these are not looked at each time.
#[test]
fn pages_that_must_stay_do_not_hide_others() {
    const STAY_EACH: usize = 50;
    let engine = small_engine();
    let mut session = engine.session().expect("session");
    session.never_wait();
    let value = [7; 1000];
    for number in 0..20_000 {
        let key = format!("long:{number}");
        let set = |session: &mut Session| session.set(key.as_bytes(), &value);
        while set(&mut session) == Err(Status::MemoryPending) {
            std::thread::yield_now();
        }
    }
    let stays = |number: &usize| number.is_multiple_of(STAY_EACH);
    for number in (0..20_000).filter(|number| !stays(number)) {
        let key = format!("long:{number}");
        assert!(session.delete(key.as_bytes()).expect("deleted"));
    }
    let far = engine.now_ms() + 10_000_000;
    let mut number = 0;
    loop {
        match session.set_entry(format!("s{number}").as_bytes(), b"1", Some(far)) {
            Ok(()) => number += 1,
            Err(Status::MemoryPending) => engine.ask_for_memory(),
            Err(_) => break,
        }
    }
    let emptying = Emptying {
        pages: 4,
        looks: 8,
        expiring_only: true,
    };
    let mut in_vain = InVain::default();
    for call in 0..5 {
        let (made, gone) = make_pages(&mut session, &emptying, &mut in_vain);
        assert!(made > 0, "call {call}: {gone} have gone");
    }
    for number in (0..20_000).filter(stays) {
        let key = format!("long:{number}");
        assert!(session.get(key.as_bytes()).expect("read").is_some());
    }
}

#[test]
fn no_more_goes_than_is_permitted() {
    const PERMITS: usize = 8;
    let engine = small_engine();
    let mut session = engine.session().expect("session");
    session.never_wait();
    fill(&mut session, 0, 20);
    let emptying = Emptying {
        pages: 64,
        looks: 128,
        expiring_only: false,
    };
    for permits in [0, PERMITS] {
        let left = Cell::new(permits);
        let in_vain = &mut InVain::default();
        let (_, gone) = make_permitted(&mut session, &emptying, in_vain, &left);
        assert_eq!(left.get(), 0);
        assert!(gone <= 256 * permits, "{gone} have gone");
        assert!(permits == 0 || gone > 0);
    }
}

/// A snapshot that was in the way of a writer keeps nothing, though its session has not ended.
#[test]
fn a_revoked_snapshot_is_not_the_oldest() {
    let engine = small_engine();
    let (mut session, mut reader) = (
        engine.session().expect("session"),
        engine.session().expect("session"),
    );
    assert_eq!(engine.oldest_snapshot(), None);
    session.never_wait();
    session.set(b"k", b"1").expect("set");
    reader.begin_read_only().expect("begun");
    assert!(engine.oldest_snapshot().is_some());
    session.set(b"k", b"2").expect("set");
    engine.set_snapshot_max_age(std::time::Duration::from_millis(1));
    let begun = std::time::Instant::now();
    let mut from = 0;
    while engine.oldest_snapshot().is_some() && begun.elapsed() < PATIENCE {
        (from, _) = fill(&mut session, from, 3000);
    }
    assert_eq!(engine.oldest_snapshot(), None);
    let mut other = engine.session().expect("session");
    other.begin_read_only().expect("begun");
    assert!(engine.oldest_snapshot().is_some());
    other.commit().expect("ended");
    assert_eq!(engine.oldest_snapshot(), None);
    assert!(reader.get(b"k").is_err());
}

#[test]
fn a_shortage_may_pass() {
    let engine = small_engine();
    let mut session = engine.session().expect("session");
    session.never_wait();
    let (_, status) = fill(&mut session, 0, 200);
    assert_eq!(status, Status::OutOfMemory);
    engine.set_shortage(Shortage::Passes).expect("set");
    assert_eq!(session.set(b"k", &[1; 3000]), Err(Status::MemoryPending));
    // It fails a transaction, unless that is patient.
    session.begin().expect("begun");
    assert_eq!(session.set(b"k", &[1; 3000]), Err(Status::MemoryPending));
    assert_eq!(session.set(b"k", b"1"), Err(Status::WrongState));
    session.rollback().expect("ended");
    session.begin().expect("begun");
    session.be_patient();
    assert_eq!(session.set(b"k", &[1; 3000]), Err(Status::MemoryPending));
    session.set(b"key:1", b"1").expect("set");
    session.commit().expect("committed");
    engine.set_shortage(Shortage::Hopeless).expect("set");
    assert_eq!(session.set(b"k", &[1; 3000]), Err(Status::OutOfMemory));
}
