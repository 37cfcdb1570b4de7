//! Files that are changed at random, or are nothing but noise, are no harm to readers.

use crate::it::common;

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use bpfdb::ValueType;
use bpfdb_copies::{Choice, Format, Key, Nowhere, Result, Sink, read};
use common::seal::seal;
use common::written_in_order;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestCaseResult, TestRng, TestRunner};

/// Files of every form, some with all types of Redis; how they were made: tests/it/redis.rs.
static CORPUS: LazyLock<Vec<(PathBuf, Vec<u8>)>> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");
    let files = fs::read_dir(folder).expect("a corpus").map(|file| {
        let path = file.expect("a file").path();
        let bytes = fs::read(&path).expect("read");
        (path, bytes)
    });
    let mut files: Vec<_> = files.collect();
    files.sort();
    assert!(files.len() >= 8, "the corpus is there");
    files
});

#[test]
fn the_corpus_is_right_and_its_damage_is_found() {
    for (path, bytes) in &*CORPUS {
        let outcome = read(&bytes[..], Choice::default(), &mut Nowhere);
        let (_, contents) = outcome.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if contents.is_unchecked {
            continue;
        }
        for place in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[place] ^= 1 << (place % 8);
            assert!(
                read(&bad[..], Choice::default(), &mut Nowhere).is_err(),
                "{}, byte {place}",
                path.display()
            );
            assert!(read(&bytes[..place], Choice::default(), &mut Nowhere).is_err());
        }
    }
}

/// What happens to the bytes of a file.
#[derive(Clone, Debug)]
enum Change {
    Set(usize, u8),
    Cut(usize),
    Insert(usize, Vec<u8>),
    Copy(usize, usize, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let place = any::<u16>().prop_map(usize::from);
    prop_oneof![
        (place.clone(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        place.clone().prop_map(Change::Cut),
        (place.clone(), vec(any::<u8>(), 1..20)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (place.clone(), place, 1_usize..50).prop_map(|(from, to, len)| Change::Copy(from, to, len)),
    ]
}

fn apply(change: Change, bytes: &mut Vec<u8>) {
    let len = bytes.len();
    if len == 0 {
        return;
    }
    match change {
        Change::Set(at, byte) => bytes[at % len] = byte,
        Change::Cut(at) => bytes.truncate(at % len),
        Change::Insert(at, new) => drop(bytes.splice(at % len..at % len, new)),
        Change::Copy(from, to, count) => {
            let from = from % len;
            let piece = bytes[from..(from + count).min(len)].to_vec();
            drop(bytes.splice(to % len..to % len, piece));
        }
    }
}

/// A key, the type and the bytes of its value, and when that expires.
type Entry = (Vec<u8>, ValueType, Vec<u8>, Option<u64>);

/// What a reader gives, in its order: what was changed may have a key twice.
#[derive(Debug, Default)]
struct Entries {
    all: Vec<Entry>,
    left: u64,
}

impl Sink for Entries {
    fn key(&mut self, key: &Key<'_>) -> Result<()> {
        assert_eq!(self.left, 0, "the value before is whole");
        assert!((1..=512).contains(&key.name.len()));
        assert!(key.expires_at.is_none_or(|time| time <= i64::MAX as u64));
        self.left = key.len;
        let name = key.name.to_vec();
        (self.all).push((name, key.kind, Vec::new(), key.expires_at));
        Ok(())
    }

    fn part(&mut self, bytes: &[u8]) -> Result<()> {
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.expect("no more than it said");
        let (_, _, value, _) = self.all.last_mut().expect("a key");
        value.extend_from_slice(bytes);
        Ok(())
    }
}

/// All entries, if the copy is right.
fn entries(bytes: &[u8]) -> Result<Vec<Entry>> {
    let mut entries = Entries::default();
    let (_, contents) = read(bytes, Choice::default(), &mut entries)?;
    assert_eq!(entries.left, 0, "the last value is whole");
    let functions = u64::from(contents.functions > 0);
    assert_eq!(contents.keys + functions, entries.all.len() as u64);
    Ok(entries.all)
}

/// What can be seen of a value, of which a run may remember more.
type Seen = (Vec<u8>, ValueType, Vec<(Vec<u8>, Vec<u8>)>, Option<u64>);

fn contents_of(entries: &[Entry]) -> Vec<Seen> {
    let seen = entries.iter().map(|(name, kind, value, expires_at)| {
        let value = match *kind {
            ValueType::STRING => vec![(value.clone(), Vec::new())],
            ValueType::STREAM => words(value),
            _ => common::entries(value),
        };
        (name.clone(), *kind, value, *expires_at)
    });
    seen.collect()
}

/// What is seen of a stream: the blocks that its entries are in may be others.
fn words(stream: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    bpfdb_values::stream::words::each(stream, |word| {
        all.push((word.to_vec(), Vec::new()));
        Ok::<_, bpfdb_values::run::Malformed>(())
    })
    .expect("a stream");
    all
}

/// A copy of entries.
fn copy(form: Format, entries: &[Entry]) -> Vec<u8> {
    let entries = entries.iter();
    let entries = entries.map(|(name, kind, value, time)| (&name[..], *kind, &value[..], *time));
    written_in_order(form, entries, usize::MAX)
}

/// A file of the corpus, and the same changed.
fn changed(file: prop::sample::Index, changes: Vec<Change>) -> (Vec<u8>, Vec<u8>) {
    let (_, bytes) = file.get(&CORPUS[..]);
    let mut bad = bytes.clone();
    for change in changes {
        apply(change, &mut bad);
    }
    (bytes.clone(), bad)
}

/// Whether the checksums of changed copies are made right often enough for what stands behind
/// them to be read: else no test of them says anything.
#[test]
fn sealed_copies_are_read() {
    for form in [Format::Jsonl, Format::Binary] {
        let old = vec![(
            b"key".to_vec(),
            ValueType::STRING,
            b"small".to_vec(),
            Some(7),
        )];
        let mut bytes = copy(form, &old);
        let place = bytes.windows(5).position(|piece| piece == b"small");
        bytes[place.expect("the value")] = b'S';
        assert!(entries(&bytes).is_err(), "{form:?}");
        seal(&mut bytes);
        let new = vec![(
            b"key".to_vec(),
            ValueType::STRING,
            b"Small".to_vec(),
            Some(7),
        )];
        assert_eq!(entries(&bytes).expect("right"), new, "{form:?}");
    }
}

/// How many random files there are of each kind, and where they come from.
#[derive(Clone, Copy)]
enum Cases {
    /// The same in every run.
    Fixed(u32),
    Random(u32),
}

impl Cases {
    fn run<S: Strategy>(self, strategy: &S, test: impl Fn(S::Value) -> TestCaseResult) {
        let (Self::Fixed(cases) | Self::Random(cases)) = self;
        let config = ProptestConfig {
            cases,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let mut runner = match self {
            Self::Fixed(_) => {
                let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
                TestRunner::new_with_rng(config, random)
            }
            Self::Random(_) => TestRunner::new(config),
        };
        let outcome = runner.run(strategy, test);
        outcome.unwrap_or_else(|error| panic!("{error}"));
    }
}

const SHORT: Cases = Cases::Fixed(300);
const LONG: Cases = Cases::Random(20_000);

fn file_and_changes() -> impl Strategy<Value = (prop::sample::Index, Vec<Change>)> {
    (any::<prop::sample::Index>(), vec(change(), 1..4))
}

/// Readers do not panic, do not end up elsewhere than at the end, take no memory for
/// promises, and say of no file with a checksum that it is right if it was changed.
fn changed_files(cases: Cases) {
    cases.run(&file_and_changes(), |(file, changes)| {
        let (bytes, bad) = changed(file, changes);
        let outcome = read(&bad[..], Choice::default(), &mut Nowhere);
        if let Ok((_, contents)) = outcome {
            prop_assert!(contents.is_unchecked || bad == bytes);
        }
        Ok(())
    });
}

/// A made-up file may have any checksum. What is read of it is within the limits,
/// and every form keeps it.
fn changed_files_with_right_checksums(cases: Cases) {
    cases.run(&file_and_changes(), |(file, changes)| {
        let (_, mut bad) = changed(file, changes);
        seal(&mut bad);
        if let Ok(read) = entries(&bad) {
            for form in [Format::Jsonl, Format::Binary] {
                let again = entries(&copy(form, &read)).expect("right");
                prop_assert_eq!(contents_of(&again), contents_of(&read));
            }
        }
        Ok(())
    });
}

fn noise_behind_a_beginning(cases: Cases) {
    let form_and_noise = (0_usize..3, vec(any::<u8>(), 0..300));
    cases.run(&form_and_noise, |(form, noise)| {
        let begin: [&[u8]; 3] = [b"REDIS0011", b"BPFDBDMP\x02\0\0\0", b"{\"bpfdb-dump\":2"];
        let mut bytes = [begin[form], &noise[..]].concat();
        prop_assert!(read(&bytes[..], Choice::default(), &mut Nowhere).is_err());
        seal(&mut bytes);
        drop(entries(&bytes));
        Ok(())
    });
}

/// The same where only blocks of noise are between a right beginning and a right end.
fn blocks_of_noise(cases: Cases) {
    let noise_and_keys = (vec(any::<u8>(), 1..300), 0_u64..4);
    cases.run(&noise_and_keys, |(noise, keys)| {
        let len = (noise.len() as u32).to_le_bytes();
        let last = (1_u32 << 31 | 16).to_le_bytes();
        let totals = [keys.to_le_bytes(), 0_u64.to_le_bytes()].concat();
        let header = &copy(Format::Binary, &[])[..64];
        let mut bytes = [header, &[0; 4], &len, &noise, &[0; 4], &last, &totals].concat();
        seal(&mut bytes);
        drop(entries(&bytes));
        Ok(())
    });
}

#[test]
fn changed_files_are_no_harm() {
    changed_files(SHORT);
}

#[test]
fn changed_files_with_right_checksums_are_no_harm() {
    changed_files_with_right_checksums(SHORT);
}

#[test]
fn noise_behind_a_beginning_is_no_harm() {
    noise_behind_a_beginning(SHORT);
}

#[test]
fn blocks_of_noise_are_no_harm() {
    blocks_of_noise(SHORT);
}

#[test]
#[ignore = "long: make soak"]
fn soak_files_at_random_are_no_harm() {
    changed_files(LONG);
    changed_files_with_right_checksums(LONG);
    noise_behind_a_beginning(LONG);
    blocks_of_noise(LONG);
}
