//! Values that are no strings: a new engine gets them from the log, from a checkpoint and from both.

use std::collections::BTreeMap;

use bpfdb::abi::BPFDB_VALUE_MAX;
use bpfdb::{Engine, ValueType};
use bpfdb_log::simulation::SimulatedDisk;

use crate::it::common::{self, quick, start};

const TIME: u64 = 4_000_000_000_000;

type Found = BTreeMap<Vec<u8>, (ValueType, u64, Option<u64>, Vec<u8>)>;

/// Type, length, expiry and bytes of each key.
fn contents(engine: &Engine) -> Found {
    let mut session = engine.session().expect("session");
    let (next, keys) = session.scan(0, 10_000).expect("scan");
    assert_eq!(next, 0, "all at once");
    let mut all = Found::new();
    for key in keys {
        let head = session.head(&key).expect("read").expect("nobody writes");
        let (kind, entry) = session.typed_entry(&key).expect("read").expect("there");
        assert_eq!((head.value_type, head.expires_at), (kind, entry.expires_at));
        all.insert(key, (kind, head.len, head.expires_at, entry.value));
    }
    all
}

/// Of all lengths: also those of large values.
const LENGTHS: [usize; 9] = [
    1,
    16,
    17,
    500,
    5_000,
    32_000,
    BPFDB_VALUE_MAX as usize,
    33 << 10,
    1 << 20,
];

/// Short ones, long ones (beyond what stands in the entries of a checkpoint's pass, too), with a
/// time and without, by themselves and in a transaction; some of them replace a string, and some
/// are replaced by one.
fn write(engine: &Engine, round: u64) {
    let mut session = engine.session().expect("session");
    for len in LENGTHS {
        for expires in [None, Some(TIME + round)] {
            let kind = match (len as u64 + round) % 3 {
                0 => ValueType::STRING,
                _ => ValueType::TEST,
            };
            let key = format!("{len} {}", expires.is_some());
            let value = vec![round as u8; len];
            session
                .set_typed(key.as_bytes(), kind, &value, expires)
                .unwrap_or_else(|status| panic!("{key}: {status:?}"));
        }
    }
    session.begin().expect("begin");
    for number in 0..20 {
        let key = format!("of a transaction {number}");
        let kind = [ValueType::STRING, ValueType::TEST][number % 2];
        session
            .set_typed(key.as_bytes(), kind, &[round as u8; 300], None)
            .expect("set");
    }
    // Large ones, of which one is shared.
    for (number, kind) in [ValueType::STRING, ValueType::TEST].into_iter().enumerate() {
        let key = format!("large, of a transaction {number}");
        session
            .set_typed(key.as_bytes(), kind, &[round as u8; 100_000], None)
            .expect("set");
        let shared = format!("shared {number}");
        let is_shared = session.share_large(key.as_bytes(), shared.as_bytes(), Some(TIME));
        assert_eq!(is_shared, Ok(true));
    }
    session.commit().expect("commit");
}

fn recovered(disk: &SimulatedDisk) -> Found {
    let engine = common::engine();
    let _durability = start(&engine, disk, quick());
    contents(&engine)
}

#[test]
fn they_are_recovered_with_their_types() {
    let disk = SimulatedDisk::new(17);
    let engine = common::engine();
    let durability = start(&engine, &disk, quick());
    write(&engine, 1);
    let written = contents(&engine);
    let is_large = |len: u64| len > u64::from(BPFDB_VALUE_MAX);
    let mut typed = written
        .values()
        .filter(|(kind, ..)| *kind == ValueType::TEST);
    assert!(typed.any(|(_, len, ..)| is_large(*len)));
    durability.close().expect("closed");
    assert!(recovered(&disk) == written, "from the log");

    let engine = common::engine();
    let durability = start(&engine, &disk, quick());
    let number = durability.checkpoint().expect("asked");
    durability.await_checkpoint(number).expect("made");
    durability.close().expect("closed");
    assert!(recovered(&disk) == written, "from the checkpoint");

    let engine = common::engine();
    let durability = start(&engine, &disk, quick());
    write(&engine, 2);
    let written = contents(&engine);
    durability.close().expect("closed");
    assert!(recovered(&disk) == written, "from both");
}
