//! The three forms, without an engine: what is written is read, and what is not whole is found.

use crate::it::common;

use std::collections::BTreeMap;

use bpfdb_copies::{Choice, Error, Format, read};
use common::seal::seal;
use common::{FORMS, HEADER, Value, boundaries, collect, noise, written};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

/// Of clients, and of files of Redis: they have signed numbers.
const LAST_TIME: u64 = i64::MAX as u64;

/// A little of everything.
fn small() -> BTreeMap<Vec<u8>, Value> {
    let mut data = BTreeMap::new();
    data.insert(b"a".to_vec(), (b"1".to_vec(), None));
    data.insert(b"empty".to_vec(), (Vec::new(), Some(4_000_000_000_000)));
    data.insert(vec![0xff, 0], (vec![0x80, 0xc3, b'\n'], None));
    data.insert(
        b"text".to_vec(),
        (b"some text that is longer".to_vec(), Some(1)),
    );
    data
}

/// Files of the first version of each form, which are read for ever: what they have stands here.
/// They are never written anew.
#[test]
fn files_of_released_versions_say_what_they_always_said() {
    let text = |key: &str, value: &str, time| {
        let (key, value) = (key.as_bytes().to_vec(), value.as_bytes().to_vec());
        (key, (value, time))
    };
    let expected: BTreeMap<Vec<u8>, Value> = [
        text("first", "1", None),
        text("last", "2", Some(4_000_000_000_000)),
        text("number", "-70000", Some(1)),
        (vec![0xff, 0xfe], (b"compress me ".repeat(20), None)),
    ]
    .into();
    let files: [&[u8]; 3] = [
        include_bytes!("../fixtures/dump-1.jsonl"),
        include_bytes!("../fixtures/dump-1.bpfdb"),
        include_bytes!("../fixtures/rdb-10.rdb"),
    ];
    for (form, bytes) in FORMS.into_iter().zip(files) {
        let (found, contents) = collect(bytes).unwrap_or_else(|error| panic!("{form:?}: {error}"));
        assert_eq!(found, expected, "{form:?}");
        assert_eq!((contents.keys, contents.expiring), (4, 2), "{form:?}");
    }
}

#[test]
fn boundaries_come_back() {
    let data = boundaries();
    for form in FORMS {
        for part in [usize::MAX, 1000] {
            let bytes = written(form, &data, part);
            let (read, contents) = collect(&bytes).expect("right");
            assert!(read == data, "{form:?}");
            assert_eq!(contents.keys, data.len() as u64);
            let lens = data.values().map(|(value, _)| value.len() as u64);
            assert_eq!(contents.bytes, lens.sum::<u64>());
            let expiring = data.values().filter(|(_, time)| time.is_some());
            assert_eq!(contents.expiring, expiring.count() as u64);
            assert_eq!(contents.time, Some(HEADER.time));
            assert!(!contents.is_unchecked);
        }
    }
}

/// The longest line is that of bytes that are all written as six.
#[test]
fn no_line_is_longer_than_the_format_says() {
    let name = vec![1; 512];
    for len in [262_144, 262_145, 800_000] {
        let data = BTreeMap::from([(name.clone(), (vec![2; len], Some(LAST_TIME)))]);
        let bytes = written(Format::Jsonl, &data, usize::MAX);
        let longest = bytes
            .split_inclusive(|&byte| byte == b'\n')
            .map(<[u8]>::len)
            .max();
        assert!(
            (1_572_864..=1_581_056).contains(&longest.expect("lines")),
            "{longest:?}"
        );
        assert!(collect(&bytes).expect("right").0 == data);
    }
}

/// PEXPIRETIME would say of it that it never expires, and a file of Redis that it is over.
#[test]
fn a_time_that_no_client_can_be_told_is_refused() {
    for (time, is_right) in [(LAST_TIME, true), (LAST_TIME + 1, false), (u64::MAX, false)] {
        for form in [Format::Jsonl, Format::Binary] {
            for len in [1, 300_000] {
                let data = BTreeMap::from([(b"k".to_vec(), (vec![b'v'; len], Some(time)))]);
                let outcome = collect(&written(form, &data, usize::MAX));
                match outcome {
                    Ok((read, _)) => assert!(is_right && read == data, "{form:?}, {time}"),
                    Err(error) => {
                        let is_damage = matches!(error, Error::Damaged { .. });
                        assert!(!is_right && is_damage, "{form:?}, {time}: {error}");
                    }
                }
            }
        }
    }
}

#[test]
fn nothing_at_all_is_a_copy_too() {
    for form in FORMS {
        let bytes = written(form, &BTreeMap::new(), 1);
        let (read, contents) = collect(&bytes).expect("right");
        assert!(read.is_empty());
        assert_eq!(contents.keys, 0);
    }
}

/// Of every length but the whole.
#[test]
fn a_cut_is_found_wherever_it_is() {
    for form in FORMS {
        let bytes = written(form, &small(), usize::MAX);
        for len in 0..bytes.len() {
            match collect(&bytes[..len]) {
                Err(Error::Cut { offset }) => assert!(offset <= len as u64),
                Err(Error::Unknown) => assert!(len < 20, "{form:?} cut at {len}"),
                other => panic!("{form:?} cut at {len}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_bit_that_flips_is_found_wherever_it_is() {
    for form in FORMS {
        let bytes = written(form, &small(), usize::MAX);
        for bit in 0..8 * bytes.len() {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let outcome = collect(&bad);
            assert!(outcome.is_err(), "{form:?}, bit {bit}: {outcome:?}");
        }
    }
}

/// Where a file is damaged the message names a place that is not behind it, and near it
/// where the form can tell.
#[test]
fn damage_is_named_with_its_place() {
    let data = BTreeMap::from_iter((0..200_u8).map(|i| (vec![b'k', i], (noise(65536, 9), None))));
    for form in [Format::Jsonl, Format::Binary] {
        let bytes = written(form, &data, usize::MAX);
        let place = bytes.len() / 2;
        let mut bad = bytes;
        bad[place] ^= 1;
        match collect(&bad) {
            Err(Error::Damaged { offset, .. }) => {
                let near = (place as u64).saturating_sub(5 << 19)..=place as u64;
                assert!(near.contains(&offset), "{form:?}: {offset}, not {place}");
            }
            other => panic!("{form:?}: {:?}", other.map(drop)),
        }
    }
}

/// A later form says which one it is; a reader that does not know it must not guess what it has.
#[test]
fn another_version_is_told_apart() {
    let mut jsonl = written(Format::Jsonl, &small(), usize::MAX);
    let mut binary = written(Format::Binary, &small(), usize::MAX);
    let mut rdb = written(Format::Rdb, &small(), usize::MAX);
    let version = jsonl.iter().position(|&byte| byte == b'2').expect("2");
    jsonl[version] = b'3';
    binary[8] = 3;
    rdb[5..9].copy_from_slice(b"0099");
    for mut bytes in [jsonl, binary, rdb] {
        for is_sealed in [false, true] {
            if is_sealed {
                seal(&mut bytes);
            }
            let outcome = collect(&bytes);
            let told = outcome.as_ref().map_err(ToString::to_string);
            assert!(matches!(outcome, Err(Error::Foreign { .. })), "{told:?}");
        }
    }
}

#[test]
fn what_follows_the_end_is_found() {
    for form in FORMS {
        let mut bytes = written(form, &small(), usize::MAX);
        let end = bytes.len() as u64;
        bytes.push(b'\n');
        match collect(&bytes) {
            Err(Error::Damaged { offset, .. }) => assert_eq!(offset, end),
            other => panic!("{form:?}: {other:?}"),
        }
    }
}

/// A block, or a line, that is whole but of another copy, or missing, or there twice.
#[test]
fn pieces_do_not_change_places() {
    let data = BTreeMap::from_iter((0..60_u8).map(|i| (vec![b'k', i], (noise(65536, 9), None))));
    let binary = written(Format::Binary, &data, usize::MAX);
    let block = 8 + (1 << 20);
    let (first, second) = (64..64 + block, 64 + block..64 + 2 * block);
    let without = [&binary[..first.start], &binary[second.start..]].concat();
    let twice = [&binary[..first.end], &binary[first.start..]].concat();
    let mut swapped = binary.clone();
    swapped[first.clone()].copy_from_slice(&binary[second.clone()]);
    swapped[second].copy_from_slice(&binary[first]);
    for bad in [without, twice, swapped] {
        assert!(matches!(collect(&bad), Err(Error::Damaged { .. })));
    }

    let text = written(Format::Jsonl, &small(), usize::MAX);
    let lines: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b'\n').collect();
    for missing in 1..lines.len() {
        let mut rest = lines.clone();
        rest.remove(missing);
        assert!(collect(&rest.concat()).is_err(), "without line {missing}");
    }
    let mut swapped = lines;
    swapped.swap(1, 2);
    assert!(collect(&swapped.concat()).is_err());
}

/// Whatever form it came from: the same keys.
#[test]
fn forms_turn_into_each_other() {
    let data = boundaries();
    let mut bytes = written(Format::Jsonl, &data, usize::MAX);
    for form in [Format::Rdb, Format::Binary, Format::Jsonl] {
        let mut other = Vec::new();
        let mut writer = form.writer(&mut other, &HEADER).expect("a writer");
        read(&bytes[..], Choice::default(), &mut *writer).expect("right");
        writer.finish().expect("written");
        bytes = other;
    }
    assert!(collect(&bytes).expect("right").0 == data);
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => vec(any::<u8>(), 0..40),
        2 => any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        2 => "\\PC{0,40}".prop_map(String::into_bytes),
        1 => (0_usize..300_000, any::<u64>()).prop_map(|(len, seed)| noise(len, seed)),
    ]
}

fn data() -> impl Strategy<Value = BTreeMap<Vec<u8>, Value>> {
    let expires_at = proptest::option::of(1..=u64::try_from(i64::MAX).expect("positive"));
    btree_map(vec(any::<u8>(), 1..=40), (value(), expires_at), 0..20)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_written_comes_back(data in data(), part in 1_usize..100_000) {
        for form in FORMS {
            let bytes = written(form, &data, part);
            prop_assert!(collect(&bytes).expect("right").0 == data);
        }
    }
}
