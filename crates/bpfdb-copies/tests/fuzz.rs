//! Files that are changed at random, or are nothing but noise, are no harm to readers.

use std::fs;
use std::path::PathBuf;

use bpfdb_copies::{Choice, Nowhere, read};
use proptest::collection::vec;
use proptest::prelude::*;

/// Files of every form, some with all types of Redis; how they were made: tests/redis.rs.
fn corpus() -> Vec<(PathBuf, Vec<u8>)> {
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
}

#[test]
fn the_corpus_is_right_and_its_damage_is_found() {
    for (path, bytes) in corpus() {
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

/// Gives a file of Redis that was changed its checksum: none, so that all of it is parsed.
fn without_checksum(bytes: &mut [u8]) {
    if bytes.starts_with(b"REDIS") && bytes.len() > 17 {
        let end = bytes.len() - 8;
        bytes[end..].fill(0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Readers do not panic, do not end up elsewhere than at the end, take no memory for
    /// promises, and say of no file with a checksum that it is right if it was changed.
    #[test]
    fn changed_files_are_no_harm(
        file in any::<prop::sample::Index>(),
        changes in vec(change(), 1..4),
        unchecked in any::<bool>(),
    ) {
        let corpus = corpus();
        let (_, bytes) = &corpus[file.index(corpus.len())];
        let mut bad = bytes.clone();
        for change in changes {
            apply(change, &mut bad);
        }
        if unchecked {
            without_checksum(&mut bad);
        }
        let outcome = read(&bad[..], Choice::default(), &mut Nowhere);
        if let Ok((_, contents)) = outcome {
            prop_assert!(contents.is_unchecked || bad == *bytes);
        }
    }

    #[test]
    fn noise_behind_a_beginning_is_no_harm(form in 0_usize..3, noise in vec(any::<u8>(), 0..300)) {
        let begin: [&[u8]; 3] = [b"REDIS0011", b"BPFDBDMP\x01\0\0\0", b"{\"bpfdb-dump\":1"];
        let bytes = [begin[form], &noise[..]].concat();
        prop_assert!(read(&bytes[..], Choice::default(), &mut Nowhere).is_err());
    }
}
