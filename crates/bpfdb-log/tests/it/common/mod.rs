//! What several tests need: recovery of a whole log, and commits that say what they are.
#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each test uses a part"
)]

pub(crate) mod bounded;
pub(crate) mod checkpoint_files;
pub(crate) mod checkpoints_made;
pub(crate) mod directories;
pub(crate) mod files;
pub(crate) mod fixture;

use bpfdb_log::record::{Entry, Part, Value, encode_commit, encode_part};
use bpfdb_log::{
    BLOCK, Batch, Disk, LogEnd, LogError, LogWriter, Options, RecoveredCommit, Recovery, Start,
    ValueType,
};

/// The rest of a disk that is only read: what changes it.
macro_rules! only_read {
    () => {
        fn create(&self, _: &str) -> std::io::Result<Self::File> {
            unreachable!("it is only read")
        }

        fn open_for_writing(&self, _: &str) -> std::io::Result<Option<Self::File>> {
            unreachable!("it is only read")
        }

        fn rename(&self, _: &str, _: &str) -> std::io::Result<()> {
            unreachable!("it is only read")
        }

        fn remove(&self, _: &str) -> std::io::Result<()> {
            unreachable!("it is only read")
        }

        fn make_folder(&self, _: &str) -> std::io::Result<()> {
            unreachable!("it is only read")
        }

        fn flush_folder(&self, _: &str) -> std::io::Result<()> {
            unreachable!("it is only read")
        }

        fn random(&self) -> std::io::Result<[u8; 16]> {
            unreachable!("it is only read")
        }
    };
}
pub(crate) use only_read;

/// Small files, so that a test sees many of them.
pub(crate) fn options(segment_blocks: u64, batch_blocks: u64) -> Options {
    Options {
        segment_size: segment_blocks * BLOCK as u64,
        batch_size: batch_blocks * BLOCK as u64,
        spares: 2,
    }
}

/// All commits that count after `after`, and the end, which must be that of a reader of nothing
/// else.
pub(crate) fn recover<D: Disk>(
    disk: &D,
    after: u64,
) -> Result<(Vec<RecoveredCommit>, LogEnd), LogError> {
    let (commits, end) = recover_all(disk, after)?;
    check_end(&end, &Recovery::end_of(disk.clone())?);
    Ok((commits, end))
}

/// All commits that count after `after`, and the end.
pub(crate) fn recover_all<D: Disk>(
    disk: &D,
    after: u64,
) -> Result<(Vec<RecoveredCommit>, LogEnd), LogError> {
    let mut recovery = Recovery::new(disk.clone(), after)?;
    let commits = recovery.by_ref().collect::<Result<Vec<_>, _>>()?;
    Ok((commits, recovery.finish()?))
}

/// Whoever reads only the end of the log finds that it ends in the same place.
fn check_end(all: &LogEnd, end_only: &LogEnd) {
    assert!(end_only.greatest_timestamp <= all.greatest_timestamp);
    assert!(end_only.record_bytes >= all.record_bytes);
    let known = LogEnd {
        greatest_timestamp: all.greatest_timestamp,
        record_bytes: all.record_bytes,
        dropped: all.dropped,
        ..end_only.clone()
    };
    assert_eq!(&known, all);
}

/// Opens the log behind its end.
pub(crate) fn reopen<D: Disk>(
    disk: &D,
    start: Start,
    options: Options,
) -> Result<LogWriter<D>, LogError> {
    let (_, end) = recover(disk, 0)?;
    LogWriter::open(disk.clone(), &end, start, 0, options)
}

/// The record of a commit that sets `key` to `value`.
pub(crate) fn set(timestamp: u64, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    let entry = Entry {
        key,
        value: Value::Inline(value),
        expires: None,
    };
    encode_commit(timestamp, &[entry], &mut record);
    record
}

/// The records of a commit that sets `key` to a large value, its parts first.
pub(crate) fn set_large(timestamp: u64, key: &[u8], id: u64, value: &[u8], part: usize) -> Vec<u8> {
    let mut records = Vec::new();
    for (n, bytes) in value.chunks(part).enumerate() {
        let offset = (n * part) as u64;
        encode_part(&Part { id, offset, bytes }, &mut records);
    }
    let entry = Entry {
        key,
        value: Value::Large {
            kind: ValueType::STRING,
            id,
            len: value.len() as u64,
        },
        expires: Some(timestamp),
    };
    encode_commit(timestamp, &[entry], &mut records);
    records
}

/// Number of records in `bytes`.
pub(crate) fn count(bytes: &[u8]) -> u32 {
    bpfdb_log::record::Records::new(bytes).count() as u32
}

/// The seeds of a test: BPFDB_SEED is one of them, BPFDB_SEEDS says how many there are.
pub(crate) fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name| {
        let text = std::env::var(name).ok()?;
        Some(
            text.parse()
                .expect("BPFDB_SEED and BPFDB_SEEDS are numbers"),
        )
    };
    match number("BPFDB_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("BPFDB_SEEDS").unwrap_or(count),
    }
}

/// Keys and values that a commit wrote, large values with their bytes.
pub(crate) type Writes = Vec<(Vec<u8>, Vec<u8>)>;

/// What a commit wrote.
pub(crate) fn contents<D: Disk>(disk: &D, commit: &RecoveredCommit) -> Writes {
    let mut large = commit.large_values.iter();
    let mut value = |value: Value<'_>| match value {
        Value::Deleted => b"deleted".to_vec(),
        Value::Inline(bytes) | Value::Typed(_, bytes) => bytes.to_vec(),
        Value::Large { .. } => {
            let mut bytes = Vec::new();
            let value = large.next().expect("each large value has its place");
            value.read(disk, |part| bytes.extend(part)).unwrap();
            bytes
        }
    };
    let entries = commit.entries().map(Result::unwrap);
    entries
        .map(|entry| (entry.key.to_vec(), value(entry.value)))
        .collect()
}

/// Appends a group, with a wall clock.
pub(crate) fn append_at<D: Disk>(
    writer: &mut LogWriter<D>,
    epoch: u64,
    wall: u64,
    records: &[u8],
) -> Result<(), LogError> {
    writer
        .append(Batch {
            epoch,
            positions: &[epoch],
            wall,
            records,
            record_count: count(records),
        })
        .map(drop)
}

/// A real directory for one test.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::Builder::new()
        .prefix("bpfdb-log-test-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .tempdir()
        .unwrap()
}
