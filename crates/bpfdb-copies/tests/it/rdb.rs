//! Files of Redis that are written by hand: what older versions wrote, and what is refused.

use crate::it::common;

use std::collections::BTreeMap;

use bpfdb::{Database, ValueType};
use bpfdb_copies::{Choice, Contents, Error, LongKey, Nowhere, read};
use bpfdb_values::run;
use common::{Collected, collect, collect_typed};

fn outcome(bytes: &[u8]) -> Result<Contents, Error> {
    read(bytes, Choice::default(), &mut Nowhere).map(|(_, contents)| contents)
}

/// A file by hand: without a checksum.
fn by_hand(version: &str, content: &[u8]) -> Vec<u8> {
    [b"REDIS", version.as_bytes(), content, b"\xff", &[0; 8]].concat()
}

#[test]
fn what_older_versions_write() {
    // Seconds, and a version without any checksum.
    let old = b"REDIS0003\xfe\0\xfd\xff\xff\xff\x7f\0\x01a\x01b\xff";
    let (read, contents) = collect(old).expect("right");
    let time = u64::from(i32::MAX.unsigned_abs()) * 1000;
    assert_eq!(
        read,
        BTreeMap::from([(b"a".to_vec(), (b"b".to_vec(), Some(time)))])
    );
    assert!(contents.is_unchecked);
    // A zipmap, numbers as text, a list, a set and a hash as they were.
    let score = |score: f64| run::sortable(score).to_le_bytes().to_vec();
    let text = |text: &str| text.as_bytes().to_vec();
    let none = Vec::new;
    let values = [
        (
            &b"\x09\x01a\x07\x01\x01f\x01\0v\xff"[..],
            ValueType::HASH,
            vec![(text("f"), text("v"))],
        ),
        (
            b"\x03\x01a\x02\x01x\x031.5\x01y\xfe",
            ValueType::SORTED_SET,
            vec![(text("x"), score(1.5)), (text("y"), score(f64::INFINITY))],
        ),
        (
            b"\x01\x01a\x02\x01x\xc0\x07",
            ValueType::LIST,
            vec![(text("x"), none()), (text("7"), none())],
        ),
        (
            b"\x02\x01a\x01\x01x",
            ValueType::SET,
            vec![(text("x"), none())],
        ),
        (
            b"\x04\x01a\x01\x01x\x01y",
            ValueType::HASH,
            vec![(text("x"), text("y"))],
        ),
    ];
    for (value, kind, wanted) in values {
        let (read, contents) = collect_typed(&by_hand("0009", value)).expect("right");
        let (found, run, time) = &read[&b"a"[..]];
        assert_eq!((*found, common::entries(run), *time), (kind, wanted, None));
        assert_eq!(contents.keys, 1);
    }
    // A module of later times.
    let values: [&[u8]; 2] = [
        b"\x07\x01m\x81\x01\x02\x03\x04\x05\x06\x07\x08\x01\x05\x02\x05\x03\0\0\0\0\x04\0\0\0\0\0\0\0\0\x05\x02hi\0",
        b"\xf7\x81\x01\x02\x03\x04\x05\x06\x07\x08\x02\x02\x05\x02hi\0",
    ];
    for value in values {
        let content = [value, b"\0\x01s\x01t"].concat();
        let contents = outcome(&by_hand("0009", &content)).expect("right");
        assert_eq!(contents.keys, 1, "{}", value.escape_ascii());
    }
}

/// What precedes a key of another type, or database, is not that of the next one.
#[test]
fn an_expiry_is_that_of_the_next_key_only() {
    let time = b"\xfc\0\0\0\0\0\x01\0\0";
    let list = b"\x01\x01l\x01\x01x";
    let content = [
        &time[..],
        list,
        b"\0\x01a\x01b",
        time,
        b"\0\x01c\x01d",
        b"\0\x01e\x01f",
        b"\xfe\x02",
        time,
        b"\0\x01x\x01y",
        b"\xfe\0",
        b"\0\x01g\x01h",
    ]
    .concat();
    let (read, contents) = collect(&by_hand("0010", &content)).expect("right");
    let expiring = read.iter().filter(|(_, (_, time))| time.is_some());
    let second = Database::new(2).expect("there").stored(b"x");
    assert!(expiring.map(|(key, _)| &key[..]).eq([&*second, b"c", b"l"]));
    assert_eq!((contents.keys, contents.other_databases), (6, 0));
}

/// Valkey from 9.0 on has a mark of its own, and the numbers of its types are its own from 22 on.
#[test]
fn a_file_of_valkey() {
    let with =
        |version: &[u8], content: &[u8]| [b"VALKEY", version, content, b"\xff", &[0; 8]].concat();
    let content = [
        // Slots that were being moved: a name, and two ranges.
        &b"\xf3\x01j\x02\0\x05\x07\x09"[..],
        b"\xf4\x01\x02\0",
        // A hash of two fields with times.
        b"\x16\x01h\x02\x01f\x01v\xff\xff\xff\xff\xff\xff\xff\xff\x01g\x01w\0\0\0\0\0\x01\0\0",
        b"\0\x01a\x01b",
    ]
    .concat();
    let (read, contents) = collect(&with(b"080", &content)).expect("right");
    assert!(read.keys().eq([b"a"]), "{read:?}");
    let name = "hash with fields that expire";
    assert_eq!((contents.keys, contents.other_types[name]), (1, 1));
    assert_eq!(contents.first_other, Some(("h".into(), name)));
    // None of its fields has a time.
    let content = b"\x16\x01h\x01\x01f\x01v\xff\xff\xff\xff\xff\xff\xff\xff";
    let (read, _) = collect_typed(&with(b"080", content)).expect("right");
    let (kind, run, _) = &read[&b"h"[..]];
    assert_eq!(
        (*kind, common::entries(run)),
        (ValueType::HASH, vec![(b"f".to_vec(), b"v".to_vec())])
    );
    for (version, is_foreign) in [
        (&b"081"[..], true),
        (b"011", true),
        (b"000", false),
        (b"8 0", false),
    ] {
        let error = outcome(&with(version, b"")).expect_err("not known");
        assert_eq!(
            matches!(error, Error::Foreign { .. }),
            is_foreign,
            "{error}"
        );
    }
    // What is Redis's only, and what is Valkey's only.
    outcome(&with(b"080", b"\x17\x01h\x01x")).expect_err("a type of Redis");
    outcome(&by_hand("0012", b"\xf3\x01j\0")).expect_err("an opcode of Valkey");
}

#[test]
fn what_is_not_for_us() {
    for (content, offset) in [
        (&b"\x06\x01m\x01"[..], 12),
        // A key that is too long.
        (&[&b"\0\x42\x01"[..], &[b'k'; 513], b"\x01a"].concat(), 10),
        // A value of a gigabyte.
        (b"\0\x01k\x80\x40\0\0\0", 12),
    ] {
        match outcome(&by_hand("0010", content)) {
            Err(Error::Foreign { offset: at, .. }) => assert_eq!(at, offset),
            other => panic!("{}: {other:?}", content.escape_ascii()),
        }
    }
    for version in ["0013", "9999"] {
        assert!(matches!(
            outcome(&by_hand(version, b"")),
            Err(Error::Foreign { .. })
        ));
    }
    for version in ["0000", "-001", "+010", "001a"] {
        assert!(matches!(
            outcome(&by_hand(version, b"")),
            Err(Error::Damaged { .. })
        ));
    }
    let long = [&b"\x01\x42\x01"[..], &[b'k'; 513], b"\x01\x01a"].concat();
    let outcome_of_long = outcome(&by_hand("0010", &long));
    assert!(matches!(
        outcome_of_long,
        Err(Error::Foreign { offset: 10, .. })
    ));
    // Long keys of other types and databases are in no other's way.
    let long = [
        &b"\x07\x42\x01"[..],
        &[b'k'; 513],
        b"\x81\x01\x02\x03\x04\x05\x06\x07\x08\0\xfe\x10\0\0\x01a",
    ]
    .concat();
    let contents = outcome(&by_hand("0010", &long)).expect("right");
    assert_eq!((contents.keys, contents.other_databases), (0, 1));
}

/// A key that there is no room for, of any type, is as if it were not in the file; what precedes it is not the next one's.
#[test]
fn long_keys_are_left_out_when_asked() {
    let long = |number: u8, len: u16, value: &[u8]| {
        let [high, low] = len.to_be_bytes();
        let mut name = vec![b'k'; len.into()];
        name[0] = 0;
        [&[number, 0x40 | high, low], &name[..], value].concat()
    };
    let time = b"\xfc\0\0\0\0\0\x01\0\0";
    let content = [
        &long(0, 512, b"\x01v")[..],
        time,
        &long(0, 513, b"\x01v"),
        &long(1, 514, b"\x01\x01x"),
        b"\0\x01a\x01b\xfe\x03",
        &long(0, 504, b"\x01v"),
        &long(4, 505, b"\x01\x01f\x01v"),
    ]
    .concat();
    let bytes = by_hand("0010", &content);
    let choice = Choice {
        skip_long_keys: true,
        ..Choice::default()
    };
    let mut collected = Collected::default();
    let (_, contents) = read(&bytes[..], choice, &mut collected).expect("right");
    let names: Vec<usize> = collected.whole().into_keys().map(|key| key.len()).collect();
    assert_eq!(names, [512, 512, 1], "with the prefix of the database");
    assert_eq!((contents.keys, contents.expiring), (3, 0));
    let told: Vec<String> = contents.first_long.iter().map(LongKey::to_string).collect();
    let beginning = format!("\\x00{}", "k".repeat(63));
    let wanted = [(513, 0), (514, 0), (505, 3)]
        .map(|(len, database)| format!("\"{beginning}…\", {len} bytes, in database {database}"));
    assert_eq!((contents.long_keys, told), (3, wanted.to_vec()));
    // A caller that does not ask for it has none left out.
    assert!(matches!(
        outcome(&bytes),
        Err(Error::Foreign { offset: 536, .. })
    ));
}

#[test]
fn the_empty_key_is_a_key() {
    let (read, contents) = collect(&by_hand("0010", b"\0\0\x01v\xfe\x02\0\0\x01w")).expect("right");
    let stored = |number| {
        Database::new(number)
            .expect("there")
            .stored(b"")
            .into_owned()
    };
    let wanted = [
        (stored(0), (b"v".to_vec(), None)),
        (stored(2), (b"w".to_vec(), None)),
    ];
    assert_eq!(read, BTreeMap::from(wanted));
    assert_eq!((contents.keys, contents.reserved), (2, 0));
}

/// Hashes of Redis 7.4 and later, in each form that has times of fields.
#[test]
fn hashes_with_times_of_fields() {
    let first = [1_u8, 0, 0, 0, 0, 0, 0, 0];
    let listpack = |time: u8| {
        [
            &b"\x0f\x0f\0\0\0\x03\0\x81f\x02\x81v\x02"[..],
            &[time],
            b"\x01\xff",
        ]
        .concat()
    };
    let fields = |time: u8| [&[1, time][..], b"\x01f\x01v"].concat();
    for time in [0, 5] {
        for (number, value) in [
            (22, fields(time)),
            (23, listpack(time)),
            (24, [&first[..], &fields(time)].concat()),
            (25, [&first[..], &listpack(time)].concat()),
        ] {
            let content = [&[number][..], b"\x01h", &value].concat();
            let (read, contents) = collect_typed(&by_hand("0012", &content)).expect("right");
            if time == 0 {
                let (kind, run, _) = &read[&b"h"[..]];
                assert_eq!((*kind, common::entries(run).len()), (ValueType::HASH, 1));
            } else {
                assert!(read.is_empty());
                let name = "hash with fields that expire";
                assert_eq!(
                    contents.other_types,
                    BTreeMap::from([(name, 1)]),
                    "{number}"
                );
            }
        }
    }
}

/// A collection that is damaged is damage of the file, and one without entries is no key.
#[test]
fn collections_that_are_not_right() {
    for value in [
        &b"\x02\x01a\x02\x01x\x01x"[..],
        b"\x09\x01a\x03\x01\x01\xff",
        b"\x0a\x01a\x03abc",
        b"\x0b\x01a\x08\x03\0\0\0\0\0\0\0",
        b"\x12\x01a\x01\x03\x01x",
        b"\x05\x01a\x01\x01x\0\0\0\0\0\0\xf8\x7f",
        b"\x19\x01h\0\0\0\0\0\0\0\0\x0a\x0a\0\0\0\x01\0\x81f\x02\xff",
    ] {
        let outcome = outcome(&by_hand("0012", value));
        assert!(
            matches!(outcome, Err(Error::Damaged { .. })),
            "{}: {outcome:?}",
            value.escape_ascii()
        );
    }
    let empty = b"\x01\x01a\0\x0b\x01b\x08\x02\0\0\0\0\0\0\0\0\x01s\x01t";
    let (read, _) = collect_typed(&by_hand("0012", empty)).expect("right");
    assert!(read.keys().eq([b"s"]), "{read:?}");
}

/// A client of Redis may name a string as bpfdb names what is its own.
#[test]
fn a_string_is_nothing_of_our_own() {
    let name = bpfdb::FUNCTIONS_KEY;
    let content = [&[0, name.len() as u8], name, b"\x05value\0\x01a\x01b"].concat();
    let (read, contents) = collect(&by_hand("0010", &content)).expect("right");
    assert!(read.keys().eq([b"a"]), "{read:?}");
    assert_eq!((contents.keys, contents.reserved), (1, 1));
    assert!(contents.other_types.is_empty());
}

/// Libraries of no length are as many as libraries of some.
#[test]
fn libraries_are_bounded() {
    let empty = b"\xf5\0".repeat(1_000_000);
    match outcome(&by_hand("0010", &empty)) {
        Err(Error::Foreign { offset, .. }) => assert!(offset < 600_000, "{offset}"),
        other => panic!("{other:?}"),
    }
}
