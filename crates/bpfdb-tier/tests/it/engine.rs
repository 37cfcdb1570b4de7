//! An engine with more data than memory: every value is there, whoever reads it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bpfdb::{Demotion, Engine, Options, Status, ValueType};
use bpfdb_log::simulation::{Random, SimulatedDisk};
use bpfdb_tier::{NewValue, RunValues, RunWriter, Runs, Tier};

fn engine() -> Engine {
    Engine::create(&Options {
        memory_limit: 48 << 20,
        memory_ahead: 16 << 20,
        max_sessions: 8,
        ..Options::default()
    })
    .expect("an engine")
}

pub(crate) fn value_of(key: u64, version: u64) -> Vec<u8> {
    let mut random = Random::new(key * 1_000_003 + version);
    let len = 100 + random.below(2000) as usize;
    (0..len).map(|_| random.below(256) as u8).collect()
}

fn key_of(key: u64) -> Vec<u8> {
    format!("key:{key}").into_bytes()
}

/// An engine whose values this test itself makes cold.
pub(crate) struct ByHand {
    pub(crate) engine: Engine,
    pub(crate) demoter: bpfdb::Demoter,
    writer: RunWriter<SimulatedDisk>,
    disk: SimulatedDisk,
}

impl ByHand {
    pub(crate) fn new() -> Self {
        let engine = engine();
        let disk = SimulatedDisk::new(1);
        let runs = Arc::new(Runs::open(disk.clone(), engine.identity()).expect("runs"));
        let values = RunValues::new(Arc::clone(&runs), Arc::default());
        assert!(engine.set_cold_values(Arc::new(values)));
        Self {
            demoter: engine.demoter().expect("a demoter"),
            writer: RunWriter::new(runs, 1 << 20),
            engine,
            disk,
        }
    }

    /// Whether it is cold now.
    pub(crate) fn demote(&mut self, key: &[u8], value: &[u8], epoch: u64) -> bool {
        let new = NewValue {
            key: key.to_vec(),
            kind: 0,
            value: value.to_vec(),
            timestamp: epoch,
        };
        let uses = self.engine.run_uses();
        let places = self.writer.append(&[new], &uses).expect("written");
        let len = value.len() as u64;
        let (id, to) = (0, places[0]);
        let what = Demotion {
            key,
            id,
            epoch,
            len,
            to,
        };
        self.demoter.demote(&what).expect("an answer")
    }

    pub(crate) fn cold(&self) -> u64 {
        self.engine.run_uses().iter().map(|run| run.values).sum()
    }

    pub(crate) fn assert_all_comes_back(&mut self) {
        let begun = Instant::now();
        while self.cold() > 0 {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "{} are left",
                self.cold()
            );
            self.demoter.settle().expect("a grace period");
        }
    }
}

#[test]
fn a_value_goes_comes_back_and_is_the_same_version() {
    let mut by_hand = ByHand::new();
    let mut session = by_hand.engine.session().expect("a session");
    let value = value_of(1, 1);
    session
        .set_entry(b"a", &value, Some(4_000_000_000_000))
        .expect("set");
    let token = session.watch(b"a").expect("a token");
    let epoch = by_hand.demoter.settle().expect("an epoch");
    assert!(by_hand.demote(b"a", &value, epoch));
    assert_eq!(by_hand.cold(), 1);
    assert_eq!(session.value_len(b"a"), Ok(Some(value.len() as u64)));
    session.begin().expect("begun");
    let entry = session
        .entry_for_update(b"a")
        .expect("read")
        .expect("there");
    assert_eq!(
        (entry.value, entry.expires_at),
        (value.clone(), Some(4_000_000_000_000))
    );
    let now = session.watch(b"a").expect("a token");
    assert!(token.still_holds(&now), "{token:?} {now:?}");
    session.rollback().expect("rolled back");
    // Read without a transaction it comes back.
    assert_eq!(session.get(b"a"), Ok(Some(value.clone())));
    by_hand.assert_all_comes_back();
    session.begin().expect("begun");
    assert_eq!(session.get_for_update(b"a"), Ok(Some(value)));
    let now = session.watch(b"a").expect("a token");
    assert!(token.still_holds(&now));
    session.rollback().expect("rolled back");
}

#[test]
fn a_write_since_keeps_the_value_in_memory() {
    let mut by_hand = ByHand::new();
    let mut session = by_hand.engine.session().expect("a session");
    let (old, new) = (vec![1; 200], vec![2; 200]);
    session.set(b"a", &old).expect("set");
    let epoch = by_hand.demoter.settle().expect("an epoch");
    session.set(b"a", &new).expect("set");
    assert!(!by_hand.demote(b"a", &old, epoch));
    assert_eq!(session.get(b"a"), Ok(Some(new)));
    by_hand.assert_all_comes_back();
}

#[test]
fn a_locked_record_stays_in_memory() {
    let mut by_hand = ByHand::new();
    let mut session = by_hand.engine.session().expect("a session");
    let value = value_of(2, 1);
    session.set(b"a", &value).expect("set");
    let epoch = by_hand.demoter.settle().expect("an epoch");
    session.begin().expect("begun");
    assert_eq!(session.get(b"a"), Ok(Some(value.clone())));
    assert!(!by_hand.demote(b"a", &value, epoch));
    session.commit().expect("committed");
    assert!(by_hand.demote(b"a", &value, epoch));
}

#[test]
fn a_snapshot_sees_its_version_whether_that_is_cold_or_not() {
    let mut by_hand = ByHand::new();
    let mut session = by_hand.engine.session().expect("a session");
    let mut reader = by_hand.engine.session().expect("a session");
    let (old, new) = (value_of(3, 1), value_of(3, 2));
    session.set(b"a", &old).expect("set");
    reader.begin_read_only().expect("begun");
    assert_eq!(reader.get(b"a"), Ok(Some(old.clone())));
    let epoch = by_hand.demoter.settle().expect("an epoch");
    assert!(by_hand.demote(b"a", &old, epoch));
    assert_eq!(reader.get(b"a"), Ok(Some(old.clone())));
    // The cold version goes to the history.
    session.set(b"a", &new).expect("set");
    assert_eq!(reader.get(b"a"), Ok(Some(old.clone())));
    let epoch = by_hand.demoter.settle().expect("an epoch");
    assert!(by_hand.demote(b"a", &new, epoch));
    assert_eq!(reader.get(b"a"), Ok(Some(old)));
    assert_eq!(by_hand.cold(), 2);
    reader.commit().expect("committed");
    assert_eq!(session.get(b"a"), Ok(Some(new)));
    session.delete(b"a").expect("deleted");
    by_hand.engine.sweep().expect("swept");
    by_hand.assert_all_comes_back();
}

#[test]
fn a_value_that_is_damaged_or_gone_is_an_error_of_its_key() {
    let mut by_hand = ByHand::new();
    let mut session = by_hand.engine.session().expect("a session");
    let value = vec![7; 500];
    for key in [b"a", b"b"] {
        session.set(key, &value).expect("set");
    }
    let epoch = by_hand.demoter.settle().expect("an epoch");
    assert!(by_hand.demote(b"a", &value, epoch));
    by_hand.disk.flip(&bpfdb_tier::run_name(1), 4096 + 100, 1);
    assert_eq!(session.get(b"a"), Err(Status::TierCorrupt));
    assert_eq!(session.get(b"b"), Ok(Some(value.clone())));
    // What nobody reads does not matter.
    session.set(b"a", b"new").expect("set");
    assert_eq!(session.get(b"a"), Ok(Some(b"new".to_vec())));
}

#[test]
fn a_copy_of_a_cold_value_has_bytes_of_its_own() {
    let mut by_hand = ByHand::new();
    let mut session = by_hand.engine.session().expect("a session");
    let value = vec![9; 100_000];
    session.set(b"a", &value).expect("set");
    let epoch = by_hand.demoter.settle().expect("an epoch");
    let mut pass = by_hand.engine.checkpoint_pass().expect("a pass");
    pass.begin(epoch);
    let mut id = 0;
    while pass.step().expect("a step") {
        id = pass
            .others()
            .iter()
            .map(|other| other.id)
            .max()
            .unwrap_or(id);
    }
    let new = NewValue {
        key: b"a".to_vec(),
        kind: 0,
        value: value.clone(),
        timestamp: epoch,
    };
    let uses = by_hand.engine.run_uses();
    let to = by_hand.writer.append(&[new], &uses).expect("written")[0];
    let (key, len) = (&b"a"[..], value.len() as u64);
    assert!(
        by_hand
            .demoter
            .demote(&Demotion {
                key,
                id,
                epoch,
                len,
                to
            })
            .expect("an answer")
    );
    session.begin().expect("begun");
    assert_eq!(session.share_large(b"a", b"b", None), Ok(true));
    session.commit().expect("committed");
    assert_eq!(by_hand.cold(), 1);
    assert_eq!(session.get(b"b"), Ok(Some(value.clone())));
    assert_eq!(
        session.get_range(b"a", |_| 5..9),
        Ok(Some(value[5..9].to_vec()))
    );
}

#[test]
fn four_times_the_memory_is_read_back_right() {
    let engine = engine();
    let disk = SimulatedDisk::new(2);
    let options = bpfdb_tier::Options {
        memory: 12 << 20,
        run_size: 4 << 20,
        ..bpfdb_tier::Options::default()
    };
    let tier = Tier::start(&engine, disk, options).expect("a tier");
    let mut session = engine.session().expect("a session");
    const KEYS: u64 = 44_000;
    for key in 0..KEYS {
        let (name, value) = (key_of(key), value_of(key, 1));
        let mut set = || match key % 10 {
            3 => session.set_typed(&name, ValueType::HASH, &value, None),
            5 => session.set_entry(&name, &value, Some(4_000_000_000_000)),
            _ => session.set(&name, &value),
        };
        // A disk that is slower than this may take longer than an operation waits.
        let begun = Instant::now();
        while let Err(status) = set() {
            let is_pending = status == Status::MemoryPending;
            let in_time = begun.elapsed() < Duration::from_secs(60);
            assert!(
                is_pending && in_time,
                "key {key}: {status:?} {:?}",
                tier.figures()
            );
        }
    }
    let begun = Instant::now();
    while engine.memory_used_now() > 13 << 20 {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{:?}",
            tier.figures()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(
        tier.figures().found.bytes > 30 << 20,
        "{:?}",
        tier.figures()
    );
    // Some are written again, some go.
    for key in (0..KEYS).step_by(3) {
        session.set(&key_of(key), &value_of(key, 2)).expect("set");
    }
    for key in (1..KEYS).step_by(5) {
        session.delete(&key_of(key)).expect("deleted");
    }
    for key in 0..KEYS {
        let found = session.typed_entry(&key_of(key)).expect("read");
        let found = found.map(|(_, entry)| entry.value);
        let wanted = match key {
            key if key % 5 == 1 => None,
            key if key % 3 == 0 => Some(value_of(key, 2)),
            key => Some(value_of(key, 1)),
        };
        assert!(found == wanted, "key {key}");
    }
    let figures = tier.figures();
    assert_eq!(
        (figures.corrupt, figures.unavailable),
        (0, 0),
        "{figures:?}"
    );
    // With the values go the files.
    for key in 0..KEYS {
        session.delete(&key_of(key)).expect("deleted");
    }
    let begun = Instant::now();
    while tier.figures().found.runs > 1 {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{:?}",
            tier.figures()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(tier.figures().runs_removed > 0);
}

#[test]
fn what_is_left_of_a_run_moves_to_another() {
    let engine = engine();
    let options = bpfdb_tier::Options {
        memory: 1 << 20,
        run_size: 1 << 20,
        ..bpfdb_tier::Options::default()
    };
    let tier = Tier::start(&engine, SimulatedDisk::new(5), options).expect("a tier");
    let mut session = engine.session().expect("a session");
    const KEYS: u64 = 6000;
    for key in 0..KEYS {
        session.set(&key_of(key), &value_of(key, 1)).expect("set");
    }
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !is_so() {
            let in_time = begun.elapsed() < Duration::from_secs(60);
            assert!(in_time, "{what}: {:?}", tier.figures());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until("most values go", &|| tier.figures().found.values > KEYS / 2);
    // From now on there is memory.
    tier.set_memory(1 << 30);
    for key in (0..KEYS).filter(|key| key % 3 > 0) {
        session.set(&key_of(key), &value_of(key, 2)).expect("set");
    }
    until("the rest moves, and files go", &|| {
        let figures = tier.figures();
        let found = figures.found;
        let is_dense = found.file_bytes < 2 * found.bytes + (2 << 20);
        figures.moved > 0 && figures.runs_removed > 0 && is_dense
    });
    for key in 0..KEYS {
        let version = 1 + u64::from(key % 3 > 0);
        let found = session.get(&key_of(key)).expect("read");
        assert!(found == Some(value_of(key, version)), "key {key}");
    }
    assert!(tier.figures().read_bytes > 0);
}

#[test]
fn values_that_transactions_read_come_back() {
    let engine = engine();
    let options = bpfdb_tier::Options {
        memory: 0,
        run_size: 4 << 20,
        ..bpfdb_tier::Options::default()
    };
    let tier = Tier::start(&engine, SimulatedDisk::new(6), options).expect("a tier");
    let mut session = engine.session().expect("a session");
    const KEYS: u64 = 20;
    for key in 0..KEYS {
        session.set(&key_of(key), &value_of(key, 1)).expect("set");
    }
    let begun = Instant::now();
    let in_time = || begun.elapsed() < Duration::from_secs(60);
    while tier.figures().found.values < KEYS {
        assert!(in_time(), "{:?}", tier.figures());
        std::thread::sleep(Duration::from_millis(5));
    }
    // From now on there is memory.
    tier.set_memory(1 << 30);
    while tier.figures().found.values > 0 {
        assert!(in_time(), "{:?}", tier.figures());
        for key in 0..KEYS {
            session.begin_read_only().expect("begun");
            let found = session.get(&key_of(key)).expect("read");
            session.commit().expect("committed");
            assert!(found == Some(value_of(key, 1)), "key {key}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(tier.figures().promotions >= KEYS);
}

#[test]
fn a_full_disk_leaves_values_in_memory() {
    let engine = engine();
    let disk = SimulatedDisk::new(3);
    disk.set_capacity(0);
    let options = bpfdb_tier::Options {
        memory: 1 << 20,
        run_size: 4 << 20,
        ..bpfdb_tier::Options::default()
    };
    disk.set_capacity(64 << 10);
    let tier = Tier::start(&engine, disk.clone(), options).expect("a tier");
    let mut session = engine.session().expect("a session");
    for key in 0..4000 {
        session.set(&key_of(key), &value_of(key, 1)).expect("set");
    }
    let begun = Instant::now();
    while tier.figures().trouble.is_none() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{:?}",
            tier.figures()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    for key in 0..4000 {
        assert_eq!(session.get(&key_of(key)), Ok(Some(value_of(key, 1))));
    }
    disk.set_capacity(usize::MAX);
    while tier.figures().demotions == 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{:?}",
            tier.figures()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    for key in 0..4000 {
        assert_eq!(session.get(&key_of(key)), Ok(Some(value_of(key, 1))));
    }
}

#[test]
fn nothing_goes_and_nothing_is_promised_if_no_value_may_go() {
    let engine = engine();
    let mut session = engine.session().expect("a session");
    // What a server that was killed has left.
    let demoter = engine.demoter().expect("a demoter");
    let left = engine.pages_left();
    demoter.promise_memory(true);
    demoter.keep_pages();
    assert!(engine.pages_left() < left);
    let options = bpfdb_tier::Options {
        memory: bpfdb_tier::Options::NOTHING_GOES,
        run_size: 4 << 20,
        ..bpfdb_tier::Options::default()
    };
    let tier = Tier::start(&engine, SimulatedDisk::new(4), options).expect("a tier");
    assert_eq!(engine.pages_left(), left);
    let refused = (0..100_000).find_map(|key| {
        let set = session.set(&key_of(key), &[7; 1000]);
        set.err()
    });
    assert_eq!(refused, Some(Status::OutOfMemory));
    // Some rounds of its thread.
    std::thread::sleep(Duration::from_millis(200));
    let figures = tier.figures();
    assert_eq!(
        (figures.demotions, figures.trouble),
        (0, None),
        "no value went"
    );
}
