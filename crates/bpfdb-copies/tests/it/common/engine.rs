//! Engines, and copies of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bpfdb::Engine;
use bpfdb_copies::{Error, Existing, Format, Loaded, Options, Snapshot, VerifiedCopy, dump_to};

use super::{Collected, Value};

pub fn engine() -> Engine {
    Engine::create(&bpfdb::Options {
        memory_limit: 512 << 20,
        ..bpfdb::Options::default()
    })
    .expect("an engine")
}

pub fn set_all(engine: &Engine, data: &BTreeMap<Vec<u8>, Value>) {
    let mut session = engine.session().expect("a session");
    for (key, (value, expires_at)) in data {
        session.set_entry(key, value, *expires_at).expect("set");
    }
}

/// Everything, as a snapshot gives it.
pub fn all(engine: &Engine) -> BTreeMap<Vec<u8>, Value> {
    let mut collected = Collected::default();
    let snapshot = Snapshot::take(engine).expect("a snapshot");
    let keys = snapshot
        .copy_to(&mut collected, &mut |_| Ok(()))
        .expect("a copy");
    let data = collected.whole();
    assert_eq!(keys, data.len() as u64);
    data
}

pub fn dumped(engine: &Engine, form: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    let snapshot = Snapshot::take(engine).expect("a snapshot");
    dump_to(snapshot, form, &mut bytes, &mut |_| Ok(())).expect("a copy");
    bytes
}

pub fn load(engine: &Engine, path: &Path, existing: Existing) -> Result<Loaded, Error> {
    let options = Options {
        existing,
        ..Options::default()
    };
    VerifiedCopy::open(path, options)?.load(engine, &mut |_| Ok(()))
}

/// A file with these bytes, as long as the folder is there.
pub fn file(bytes: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("copy");
    fs::write(&path, bytes).expect("written");
    (folder, path)
}

/// So many keys from `first` on.
pub fn keys(first: u32, count: u32) -> BTreeMap<Vec<u8>, Value> {
    let names = (first..first + count).map(|n| n.to_string().into_bytes());
    names.map(|name| (name.clone(), (name, None))).collect()
}
