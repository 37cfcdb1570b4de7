//! The records: keys of 16 bytes that look random, values that begin
//! with their key, so that a read can be checked.

use bpfdb::{Engine, Operation, Session};

pub(crate) const KEY_LEN: usize = 16;
pub(crate) type Key = [u8; KEY_LEN];

/// As `key_of` of bpf/bench/bench.bpf.c.
pub(crate) fn key_of(n: u32) -> Key {
    let mut a = (u64::from(n) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    a ^= a >> 31;
    let b = a.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mut key = [0; KEY_LEN];
    key[..8].copy_from_slice(&a.to_ne_bytes());
    key[8..].copy_from_slice(&b.to_ne_bytes());
    key
}

/// Requests of one batch of a load.
const LOAD_BATCH: u32 = 64;

/// Writes records 0 to `records`, each with a value of `length` bytes.
pub(crate) fn load(engine: &Engine, records: u32, length: usize) -> anyhow::Result<()> {
    let mut session = engine.session()?;
    let mut values = vec![vec![0u8; length]; LOAD_BATCH as usize];

    for first in (0..records).step_by(LOAD_BATCH as usize) {
        let keys: Vec<Key> = (first..records.min(first + LOAD_BATCH))
            .map(key_of)
            .collect();
        for (value, key) in values.iter_mut().zip(&keys) {
            value[..KEY_LEN].copy_from_slice(key);
        }
        load_batch(&mut session, &keys, &values)?;
    }
    Ok(())
}

fn load_batch(session: &mut Session, keys: &[Key], values: &[Vec<u8>]) -> anyhow::Result<()> {
    let operations: Vec<Operation> = keys
        .iter()
        .zip(values)
        .map(|(key, value)| Operation::Set(key, value))
        .collect();
    let outcomes = session.batch(&operations, 0)?;
    for ((outcome, key), value) in outcomes.into_iter().zip(keys).zip(values) {
        // By itself it waits for memory.
        if outcome.is_err() {
            session.set(key, value)?;
        }
    }
    Ok(())
}
